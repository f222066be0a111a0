//! The drop-in for linkerd's `proxy-init`: the same rules as upstream's commands make, the same words, and what it does
//! better.
//!
//! `LINKERD_PAIRS` sets how many random configurations are tried (default 300), `LINKERD_SEED` where the random numbers
//! start. Needs what the kernel tests need; never skips.

use crate::support::namespace;

mod life;
mod refused;
mod same;
mod simulated;
mod upstream;

use namespace::Namespace;
use std::process::Command;

/// How a call of the binary ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ended {
    /// Fails unless the exit code is this one.
    #[track_caller]
    fn with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        self
    }
}

/// Calls the binary, as the user who tests, in a namespace or wherever we are.
fn call(pod: Option<&Namespace>, words: &[&str]) -> Ended {
    let run =
        || Command::new(env!("CARGO_BIN_EXE_sidecar-init")).args(words).output().expect("the binary runs");
    let output = match pod {
        Some(pod) => pod.run(run),
        None => run(),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// What a program lists of `nat`, without comments of its own and counts.
fn listed(pod: &Namespace, program: &str) -> Vec<String> {
    let text = pod.stdout(&format!("{program}-save"), &["-t", "nat"]);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(" [").next().unwrap_or_default().to_owned()).collect()
}
