//! A network namespace that was just made, without an address: commands of our own work there, the drop-in does not.

use crate::support::program::{BINARY, Outcome, Run};
use std::process::Command;

/// The last of these commands, separated by lines, in a new namespace.
fn last_of(commands: &str) -> Outcome {
    let script = format!("set -e; alias sidecar-init='{BINARY}'\n{commands}");
    Command::new("unshare").args(["--net", "sh", "-c", &script]).outcome()
}

const SET: &str = "sidecar-init apply -b '*' -i '*'";

#[test]
fn apply_captures_ipv4_and_warns_of_ipv6() {
    for (before, found) in [
        ("", "there is no address at all"),
        (
            "ip link set lo up; ip -6 addr del ::1/128 dev lo 2>/dev/null || true\n",
            "every address is loopback",
        ),
    ] {
        let ended = last_of(&format!("{before}{SET}"));
        let printed = format!("the pod has no address yet ({found}): IPv4 is captured, IPv6 is not");
        assert!(ended.code == Some(0) && ended.stderr.contains(&printed), "{ended:?}");
        let ended = last_of(&format!("{before}{SET} --dual-stack"));
        let printed = format!("({found}): IPv4 and IPv6 are captured (--dual-stack)");
        assert!(ended.code == Some(0) && ended.stderr.contains(&printed), "{ended:?}");
        let ended = last_of(&format!("{before}{SET} 2>/dev/null\nsidecar-init status"));
        let printed = "Outbound and inbound traffic is captured over IPv4, by nftables.\n";
        assert!(ended.code == Some(1) && ended.stdout.starts_with(printed), "{ended:?}");
        let ended = last_of(&format!("{before}sidecar-init istio-iptables -b '*' -i '*'"));
        let printed = format!("no valid local IP address found: {found};");
        assert!(ended.code == Some(2) && ended.stderr.contains(&printed), "{ended:?}");
    }
    let declared = last_of(&format!("{SET} --pod-ips 127.0.0.1"));
    assert!(
        declared.code == Some(2) && declared.stderr.contains("every address is loopback"),
        "{declared:?}"
    );
}

/// There was nothing that a command could have changed which only looks.
#[test]
fn only_commands_that_change_something_say_that_nothing_was_changed() {
    for (command, changes) in [
        ("apply", true),
        ("clean", true),
        ("istio-iptables", true),
        ("linkerd-init", true),
        ("kuma-init install transparent-proxy", true),
        ("cni install", true),
        ("cni uninstall", true),
        ("cni repair", true),
        ("ambient-host", true),
        ("diff", false),
        ("explain", false),
        ("lint", false),
        ("render", false),
        ("status", false),
        ("verify", false),
        ("trace", false),
        ("sandbox", false),
    ] {
        let ended = last_of(&format!("sidecar-init {command} --bogus"));
        assert!(ended.stderr.contains("in the input"), "{command}: {ended:?}");
        assert_eq!(ended.stderr.contains("nothing was changed"), changes, "{command}: {ended:?}");
    }
}
