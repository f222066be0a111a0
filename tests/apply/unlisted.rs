//! Legacy tables where the kernel's list of them can't be read: by a user who is not root, and without `/proc`. What
//! can't be read is not absent.

use crate::apply::stage::{REDIRECT, VARIANTS, call, same, state};
use crate::support::folder::Folder;
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::program::{BINARY, Outcome, PATH, as_user, binary, folder_with};
use crate::support::setting::Variant;
use std::process::Command;

const OTHER: &[&str] =
    &["--pod-ips", "10.77.0.2", "-u", "1338", "-g", "1338", "-i", "10.0.0.0/8", "-b", "80"];

/// The ways not to see the list, and true where the user may open the raw socket of iptables' own programs.
const BLIND: [(Blind, bool); 3] = [(Blind::Proxy, false), (Blind::ProxyRaw, true), (Blind::NoProc, true)];

#[derive(Clone, Copy, Debug)]
enum Blind {
    /// The user and the capability of an image that holds nothing but the binary.
    Proxy,
    /// The same with what iptables-legacy needs.
    ProxyRaw,
    /// Root, where nothing is mounted on `/proc`.
    NoProc,
}

/// Runs a copy of the binary that every user can reach.
fn blindly(copy: &Folder, namespace: &Namespace, blind: Blind, path: &str, arguments: &[&str]) -> Outcome {
    let (path, program) = (format!("PATH={path}"), copy.file("sidecar-init"));
    let words = [&["env", "-i", &path, &program], arguments].concat();
    let mut command = match blind {
        Blind::Proxy => as_user(1337, ",+net_admin", &words),
        Blind::ProxyRaw => as_user(1337, ",+net_admin,+net_raw", &words),
        Blind::NoProc => {
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", "umount -l /proc && exec \"$@\"", "sh"]).args(words);
            command
        }
    };
    namespace.outcome(command.env_clear().env("PATH", PATH))
}

fn native(name: &str) -> Vec<&str> {
    call(name, Variant::Native, REDIRECT)
}

/// Without programs, nothing can be said of the rules or done about them.
#[test]
fn legacy_rules_are_not_absent_where_their_list_cannot_be_read() {
    let copy = folder_with(BINARY, "alone");
    let namespace = Namespace::new();
    succeed(&namespace, &call("apply", Variant::Legacy, OTHER));
    let before = state(&namespace);
    for (blind, _) in BLIND {
        for arguments in [&["clean"][..], &native("diff"), &native("istio-iptables")] {
            let printed = blindly(&copy, &namespace, blind, "/nowhere", arguments);
            let printed = printed.with(1, &format!("{blind:?} {arguments:?}"));
            assert!(printed.stderr.contains("install iptables"), "{blind:?}: {}", printed.stderr);
            same(&before, &state(&namespace), &format!("{blind:?} {arguments:?}"));
        }
    }
}

/// With them, the rules are read table by table, which takes no list.
#[test]
fn programs_read_the_tables_that_nobody_lists() {
    let copy = folder_with(BINARY, "programs");
    for (blind, may_read) in BLIND {
        let namespace = Namespace::new();
        succeed(&namespace, &call("apply", Variant::Legacy, OTHER));
        let check = blindly(&copy, &namespace, blind, PATH, &call("diff", Variant::Legacy, OTHER));
        check.with(if may_read { 0 } else { 1 }, &format!("{blind:?}: check"));
        let check = blindly(&copy, &namespace, blind, PATH, &native("diff"));
        let check = check.with(if may_read { 3 } else { 1 }, &format!("{blind:?}: check of others"));
        if may_read {
            assert!(
                check.stdout.contains("backend iptables-legacy -> nftables"),
                "{blind:?}: {}",
                check.stdout
            );
            let clean: &[&str] = match blind {
                // The lock of iptables is root's.
                Blind::Proxy | Blind::ProxyRaw => {
                    let refused =
                        blindly(&copy, &namespace, blind, PATH, &["clean"]).with(1, "without the lock");
                    assert!(refused.stderr.contains("can't open its lock file"), "{}", refused.stderr);
                    &["clean", "--cni-mode"]
                }
                Blind::NoProc => &["clean"],
            };
            blindly(&copy, &namespace, blind, PATH, clean).with(0, &format!("{blind:?}: clean"));
            assert!(!state(&namespace).contains("ISTIO"), "{blind:?}");
        }
    }
}

/// Empty tables, as asking may have made them, keep nobody from anything.
#[test]
fn where_no_rules_are_nobody_needs_programs() {
    let copy = folder_with(BINARY, "none");
    for (blind, _) in BLIND {
        let namespace = Namespace::new();
        let alone = |arguments: &[&str]| {
            blindly(&copy, &namespace, blind, "/nowhere", arguments)
                .with(0, &format!("{blind:?} {arguments:?}"))
        };
        alone(&["clean"]);
        alone(&native("istio-iptables"));
        alone(&native("diff"));
        // Root sees the list, with the tables that asking has made.
        let check = namespace.outcome(binary(&native("diff")).env("PATH", "/nowhere"));
        check.with(0, &format!("{blind:?}: check by root"));
        alone(&["clean"]);
        for variant in VARIANTS {
            run(&namespace, &call("diff", variant, REDIRECT)).with(3, "nothing is there");
        }
    }
}

/// A policy is no rule, but it drops.
#[test]
fn a_policy_is_seen_as_well() {
    let copy = folder_with(BINARY, "policy");
    for (blind, may_read) in BLIND {
        let namespace = Namespace::new();
        namespace.stdout("iptables-legacy", &["-w", "-P", "OUTPUT", "DROP"]);
        let printed = blindly(
            &copy,
            &namespace,
            blind,
            PATH,
            &["explain", "--live", "--pod-ips", "10.77.0.2", "10.0.0.5:443"],
        );
        let printed = printed.with(if may_read { 0 } else { 1 }, &format!("{blind:?}"));
        assert!(!may_read || printed.stdout.to_lowercase().contains("drop"), "{blind:?}: {}", printed.stdout);
    }
}
