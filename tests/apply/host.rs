//! The machine's own network namespace, where nothing is set unless somebody insists.

use crate::apply::stage::{FULL, REDIRECT, call, same, state};
use crate::support::mounts::{mount, unshare_mounts};
use crate::support::namespace::Namespace;
use crate::support::program::{Outcome, PATH, Run, binary};
use crate::support::setting::Variant;
use std::fs;
use std::process::Command;

/// Tests keep out of it: another one gets the parameter that only the first one has, in a mount namespace of the
/// scene's own.
#[test]
fn the_machines_own_namespace_is_refused() {
    let namespace = Namespace::new();
    let before = state(&namespace);
    namespace.run(|| {
        unshare_mounts();
        mount(&["-t", "tmpfs", "tmpfs", "/proc/sys/net/core"]);
        fs::write("/proc/sys/net/core/netdev_max_backlog", "1000\n").expect("the parameter is put there");
        for arguments in [call("apply", Variant::Nft, REDIRECT), call("apply", Variant::Legacy, FULL)] {
            let printed = binary(&arguments).outcome().with(1, "apply in the machine's own namespace").stderr;
            assert!(
                printed.contains("--network-namespace") && printed.contains("--allow-host-namespace"),
                "{printed}"
            );
            same(&before, &state(&namespace), "refused, and yet something changed");
        }
        // A preview touches nothing, so there is nothing to refuse; neither is there in looking.
        binary(&[&["apply", "--dry-run"], REDIRECT].concat()).outcome().with(0, "a preview");
        binary(&call("diff", Variant::Nft, REDIRECT)).outcome().with(3, "diff");
        binary(&["clean"]).outcome().with(0, "clean");
        // The drop-in warns, as people rely on it; apply does it where somebody insists.
        let printed =
            binary(&call("istio-iptables", Variant::Nft, REDIRECT)).outcome().with(0, "the drop-in").stderr;
        assert!(printed.contains("the machine's own network namespace"), "{printed}");
        binary(&call("apply", Variant::Nft, &[REDIRECT, &["--allow-host-namespace"]].concat()))
            .outcome()
            .with(0, "insisting");
    });
}

/// Where nothing tells, it may be.
#[test]
fn what_may_be_the_machines_own_namespace_is_refused() {
    let namespace = Namespace::new();
    let before = state(&namespace);
    let run = |arguments: &[&str]| -> Outcome {
        let mut command = Command::new("unshare");
        let binary = crate::support::program::BINARY;
        command.args(["--mount", "sh", "-c", "umount -l /proc && exec \"$@\"", "sh", binary]);
        namespace.outcome(command.args(arguments).env_clear().env("PATH", PATH))
    };
    let printed = run(&call("apply", Variant::Native, REDIRECT)).with(1, "apply without /proc").stderr;
    assert!(
        printed.contains("/proc is needed to know") && printed.contains("--allow-host-namespace"),
        "{printed}"
    );
    same(&before, &state(&namespace), "refused, and yet something changed");
    let printed = run(&["status", "--kernel"]).stdout;
    assert!(printed.contains("without /proc the kind of the network namespace is unknown"), "{printed}");
    let printed = run(&call("istio-iptables", Variant::Native, REDIRECT)).with(0, "the drop-in").stderr;
    assert!(printed.contains("may be the machine's own network namespace"), "{printed}");
    run(&["clean"]).with(0, "clean");
    run(&call("apply", Variant::Native, &[REDIRECT, &["--allow-host-namespace"]].concat()))
        .with(0, "insisting");
}
