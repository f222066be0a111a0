//! The plugin in container runtimes: Debian's podman and containerd call it, and real connections show its effect. Other tests
//! cover the plugin's input. These show that runtimes pass the expected input, that containers are captured without capabilities,
//! and that removed containers leave nothing. Each runtime runs on a separate stage and changes nothing on the machine.
//! `scripts/setup --all` installs the runtimes. Without them or without root, tests fail; they never skip.

mod cri;
mod image;
mod network;
mod stage;
mod traffic;
mod verbs;

mod containerd;
mod init;
mod podman;

use std::{env, path::Path};

fn need(programs: &[&str]) {
    let path = env::var_os("PATH").unwrap_or_default();
    for program in programs {
        let found = env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file());
        assert!(found, "{program} is not on the PATH: run scripts/setup --all");
    }
}
