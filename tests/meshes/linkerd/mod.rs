//! The drop-in for linkerd's `proxy-init`: the same rules as upstream's commands. `LINKERD_PAIRS` is the number of random
//! configurations (300), `LINKERD_SEED` the seed. Needs the programs of the kernel tests; never skips.

use crate::support::namespace;
use crate::support::program::{BINARY, Outcome, Run};

mod same;
mod upstream;

use namespace::Namespace;
use std::process::Command;

fn call(pod: Option<&Namespace>, words: &[&str]) -> Outcome {
    let mut command = Command::new(BINARY);
    command.args(words);
    match pod {
        Some(pod) => pod.outcome(&mut command),
        None => command.outcome(),
    }
}

/// A program's listing of `nat`, without its own comments and counters.
fn listed(pod: &Namespace, program: &str) -> Vec<String> {
    let text = pod.stdout(&format!("{program}-save"), &["-t", "nat"]);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(" [").next().unwrap_or_default().to_owned()).collect()
}
