//! Many pods at once, each within an init container's smallest limits. `prlimit` and `nice` set the limits instead of a cgroup:
//! where these tests run, cgroup version 2 lacks the CPU and memory controllers. Each run gets an address space of 10 MiB, less
//! than 10 MiB of memory, and the lowest priority; all start before the test waits for any.

use crate::apply::native::musl;
use crate::apply::native::support::FACTS;
use crate::support::namespace::Namespace;
use crate::support::program::Outcome;
use std::process::{Child, Command, Stdio};

const FLAGS: [&str; 11] =
    ["--dual-stack", "-u", "1337", "-g", "1337", "-i", "*", "-b", "*", "-o", "80,443,8000-9000"];
/// 10 MiB.
const ADDRESS_SPACE: &str = "--as=10485760";

fn start(namespace: &Namespace, verb: &str) -> Child {
    let mut command = Command::new("nice");
    command.args(["-n", "19", "prlimit", ADDRESS_SPACE, "--"]).arg(musl::binary());
    command.args([verb, "--native-nftables"]).args(FACTS).args(FLAGS);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    namespace.run(|| command.spawn()).expect("nice and prlimit are installed")
}

#[test]
#[ignore = "builds the static binary"]
fn many_namespaces_at_once_within_limits() {
    let namespaces: Vec<Namespace> = (0..200).map(|_| Namespace::new()).collect();
    for verb in ["apply", "diff"] {
        let running: Vec<Child> = namespaces.iter().map(|namespace| start(namespace, verb)).collect();
        for (index, child) in running.into_iter().enumerate() {
            let ended = Outcome::from(child.wait_with_output().expect("the run ends"));
            ended.with(0, &format!("{verb} in namespace {index}"));
        }
    }
}
