//! `kill -9` at random moments: the next run arrives, wherever the last one was stopped.
//!
//! The states form a walk: the desired state of one round is the live state of the next. Every pair of old and
//! desired state comes up, the same one twice included.

use crate::support::rows::rows;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::apply::stage::{FULL, REDIRECT, call};
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::program::{PATH, binary};
use crate::support::random::Random;
use crate::support::scope;
use crate::support::setting::Variant;

/// What a round may want; no flags: nothing of ours.
const WANTED: [&[&str]; 3] = [&[], REDIRECT, FULL];

rows! {
    legacy_arrives_after_our_process_was_killed: check(Variant::Legacy, Victim::Process);
    legacy_arrives_after_the_process_group_was_killed: check(Variant::Legacy, Victim::Group);
    nft_arrives_after_our_process_was_killed: check(Variant::Nft, Victim::Process);
    nft_arrives_after_the_process_group_was_killed: check(Variant::Nft, Victim::Group);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// Our process alone: a program that it has started runs on.
    Process,
    /// Our process and all that it has started.
    Group,
}

fn check(variant: Variant, victim: Victim) {
    let namespace = Namespace::new();
    let seed = scope::seed();
    let mut random = Random::new(seed);
    let moments: Vec<u32> = (0..1000).collect();
    let longest = longest(&namespace, variant);
    let mut faults = Vec::new();
    for round in 0..scope::runs(50, 6) {
        let desired = random.of(&WANTED);
        let arguments = arguments(variant, desired);
        let delay = longest.mul_f64(f64::from(random.of(&moments)) / 1000.0);
        let killed = kill(&namespace, &arguments, victim, delay);
        run(&namespace, &arguments)
            .with(0, &format!("{variant:?}, the run after the kill in round {round}, seed {seed}"));
        if let Some(fault) = fault(&namespace, variant, desired) {
            faults.push(format!(
                "round {round}, killed after {delay:?} ({killed}), wanted {desired:?}: {fault}"
            ));
            succeed(&namespace, &arguments);
        }
    }
    assert!(faults.is_empty(), "{variant:?} {victim:?}, seed {seed}:\n{}", faults.join("\n"));
}

fn arguments<'a>(variant: Variant, desired: &[&'a str]) -> Vec<&'a str> {
    if desired.is_empty() { vec!["clean"] } else { call("apply", variant, desired) }
}

/// The time of a change, which bounds the moments to choose from.
fn longest(namespace: &Namespace, variant: Variant) -> Duration {
    succeed(namespace, &arguments(variant, FULL));
    succeed(namespace, &["clean"]);
    let start = Instant::now();
    succeed(namespace, &arguments(variant, FULL));
    start.elapsed()
}

/// What is wrong after a run that says it has done its job.
fn fault(namespace: &Namespace, variant: Variant, desired: &[&str]) -> Option<String> {
    if desired.is_empty() {
        // With interception off nothing of ours is desired, in whatever variant.
        let nothing = ["check", "--pod-ips", "10.77.0.2,fd77::2", "--dual-stack", "-m", "NONE"];
        let ended = run(namespace, &nothing);
        return (ended.code != Some(0)).then_some(ended.stdout + &ended.stderr);
    }
    let ended = run(namespace, &call("check", variant, desired));
    (ended.code != Some(0)).then_some(ended.stdout + &ended.stderr)
}

/// Starts a run and kills it after a while; false if it was done before.
fn kill(namespace: &Namespace, arguments: &[&str], victim: Victim, delay: Duration) -> bool {
    let mut command = binary(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = namespace.run(|| command.spawn()).expect("the binary starts");
    thread::sleep(delay);
    // Until it is waited for, its number is nobody else's.
    match victim {
        Victim::Process => child.kill().expect("our child can be killed"),
        Victim::Group => {
            let group = format!("-{}", child.id());
            let ended = Command::new("kill").env("PATH", PATH).args(["-KILL", "--", &group]).status();
            ended.expect("kill starts");
        }
    }
    child.wait().expect("our child can be waited for").code().is_none()
}
