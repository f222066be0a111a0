//! The plugin behind container runtimes: Debian's podman and containerd call it, and real connections show what it did.
//!
//! What the plugin makes of its input is tested elsewhere. Here is shown that runtimes say what it expects, that their
//! containers are captured without a capability of their own, and that nothing is left when they are gone. Each runtime
//! runs on a stage of its own and touches nothing of the machine.
//!
//! `scripts/setup --all` installs the runtimes. Where one is missing, or root's rights are, tests fail; they never
//! skip.

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
