//! Background load for every core while programs are measured, as on a node that starts many pods.

use super::Outcome;
use std::{
    env, fmt,
    process::{Child, Command, Stdio},
    thread,
};

pub(super) struct Load(Vec<Child>);

pub(super) fn start() -> Outcome<Load> {
    let cores = match env::var("BENCH_LOAD").as_deref() {
        Err(_) | Ok("" | "0") => 0,
        Ok("1") => thread::available_parallelism()?.get(),
        Ok(other) => return Err(format!("BENCH_LOAD {other:?} is not 0 or 1").into()),
    };
    let mut load = Load(Vec::new());
    for _ in 0..cores {
        // The kernel kills it with this process.
        let mut busy = Command::new("setpriv");
        busy.args(["--pdeathsig", "KILL", "sha256sum", "/dev/zero"]);
        busy.stdin(Stdio::null()).stdout(Stdio::null());
        load.0.push(busy.spawn().map_err(|error| format!("setpriv: {error}"))?);
    }
    Ok(load)
}

impl Drop for Load {
    fn drop(&mut self) {
        for busy in &mut self.0 {
            let _ = busy.kill();
            let _ = busy.wait();
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            0 => Ok(()),
            busy => write!(f, ", {busy} of them busy with something else"),
        }
    }
}
