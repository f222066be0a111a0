//! Pods with one family or two, and machines that lack what IPv6 needs.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use crate::apply::stage::{FULL, REDIRECT, VARIANTS, call, same, state};
use crate::support::address::Place::{Pod as ThePod, Service};
use crate::support::case::Caller::{App, Outside};
use crate::support::case::Landing::{Inbound, Outbound};
use crate::support::case::check;
use crate::support::folder::Folder;
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::pod::Pod;
use crate::support::program::{PATH, binary};
use crate::support::scope;
use crate::support::setting::{Family, Mode, Setting, Variant};
use crate::support::traffic::Protocol::Tcp;

const CAPTURE: [&str; 4] = ["-b", "*", "-i", "*"];

#[test]
fn disabled_and_not_wanted() {
    for variant in VARIANTS {
        for flags in [&["--pod-ips", "10.77.0.2"][..], &["--pod-ips", "10.77.0.2", "--dual-stack"]] {
            let namespace = without_ipv6();
            let before = state(&namespace);
            let flags = [flags, &CAPTURE, &["-m", "TPROXY"]].concat();
            for _ in 0..2 {
                succeed(&namespace, &call("apply", variant, &flags));
            }
            run(&namespace, &call("diff", variant, &flags)).with(0, "check without IPv6");
            assert!(!state(&namespace).contains("ip6tables"), "rules of IPv6 were set");
            succeed(&namespace, &["clean"]);
            same(&before, &state(&namespace), "clean without IPv6");
        }
    }
}

/// The flags say that the pod has IPv6 and the kernel says that it has not: rules are set, routing that the
/// kernel would refuse is not, and every command agrees that this is as desired.
#[test]
fn disabled_and_yet_wanted() {
    for variant in VARIANTS {
        let namespace = without_ipv6();
        let before = state(&namespace);
        for old in [&[][..], REDIRECT] {
            if !old.is_empty() {
                succeed(&namespace, &call("apply", variant, old));
            }
            let printed = succeed(&namespace, &call("apply", variant, FULL)).stderr;
            assert!(printed.contains("IPv6 is disabled"), "{printed}");
            run(&namespace, &call("diff", variant, FULL)).with(0, "check with IPv6 disabled");
            let after = state(&namespace);
            assert!(after.contains("ip6tables"), "{after}");
            succeed(&namespace, &call("istio-iptables", variant, FULL));
            same(&after, &state(&namespace), "the second run");
        }
        succeed(&namespace, &["clean"]);
        same(&before, &state(&namespace), "clean with IPv6 disabled");
    }
}

/// A setting that can't be read does not mean that IPv6 is switched off. One that may only be written stands for it.
#[test]
fn a_setting_that_can_not_be_read_disables_nothing() {
    let namespace = Namespace::new();
    let arguments = call("apply", Variant::Nft, FULL);
    let setting = "mount --bind /proc/sys/net/ipv4/route/flush /proc/sys/net/ipv6/conf/lo/disable_ipv6";
    let script = format!("{setting} && ! cat /proc/sys/net/ipv6/conf/lo/disable_ipv6 2>&1 && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh", crate::support::program::BINARY]).args(arguments);
    let printed = namespace.outcome(command.env_clear().env("PATH", PATH)).with(0, "apply").stderr;
    assert!(!printed.contains("IPv6 is disabled"), "{printed}");
    run(&namespace, &call("diff", Variant::Nft, FULL)).with(0, "all of it is there");
}

#[test]
fn disabled_afterwards() {
    for variant in VARIANTS {
        let namespace = Namespace::new();
        succeed(&namespace, &call("apply", variant, FULL));
        namespace.set("ipv6/conf/all/disable_ipv6", "1");
        succeed(&namespace, &call("apply", variant, REDIRECT));
        run(&namespace, &call("diff", variant, REDIRECT)).with(0, "IPv4 alone");
        succeed(&namespace, &["clean"]);
        let left = state(&namespace);
        assert!(!left.contains("ISTIO") && !left.contains("1337") && !left.contains("133"), "{left}");
    }
}

#[test]
fn no_programs_for_ipv6() {
    for variant in VARIANTS {
        let path = ipv4_programs(variant);
        let namespace = Namespace::new();
        let run = |arguments: &[&str]| {
            let mut command = binary(arguments);
            namespace.outcome(command.env("PATH", &*path))
        };
        for _ in 0..2 {
            run(&call("apply", variant, REDIRECT)).with(0, "IPv4 alone");
        }
        run(&call("diff", variant, REDIRECT)).with(0, "IPv4 alone");
        let before = state(&namespace);
        let printed = run(&call("apply", variant, FULL)).with(1, "both families").stderr;
        let program = variant.program(Family::V6, "-restore");
        assert!(printed.contains(&program), "{program} is not named: {printed}");
        same(&before, &state(&namespace), "a failed run changed something");
        run(&["clean"]).with(0, "clean with IPv4 alone");
        let left = state(&namespace);
        assert!(!left.contains("ISTIO"), "{left}");
    }
}

/// Rules are set natively, unless iptables is asked for.
#[test]
fn no_programs_at_all() {
    let namespace = Namespace::new();
    let empty = Folder::new("ipv6-nothing");
    let run = |arguments: &[&str]| {
        let mut command = binary(arguments);
        namespace.outcome(command.env("PATH", &*empty))
    };
    let before = state(&namespace);
    let insisting = [&["apply", "--backend", "iptables"], REDIRECT].concat();
    let printed = run(&insisting).with(1, "apply by iptables without programs").stderr;
    assert!(printed.contains("not on PATH") && printed.contains("install iptables"), "{printed}");
    same(&before, &state(&namespace), "a failed run changed something");
    for (command, says) in [("apply", "nftables"), ("istio-iptables", "nftables is used")] {
        let printed = run(&[&[command], REDIRECT].concat()).with(0, "without programs").stderr;
        assert!(printed.contains(says), "{command}: {printed}");
        run(&["clean"]).with(0, "clean without programs");
        same(&before, &state(&namespace), "clean left something");
    }
    // Where iptables has set rules, nobody can say whether they are ours: none may say that all is well.
    for variant in VARIANTS {
        let namespace = Namespace::new();
        succeed(&namespace, &call("apply", variant, REDIRECT));
        let before = state(&namespace);
        for command in [&["clean"][..], &[&["apply"], REDIRECT].concat(), &[&["diff"], REDIRECT].concat()] {
            let mut call = binary(command);
            let printed =
                namespace.outcome(call.env("PATH", &*empty)).with(1, "tables that can't be read").stderr;
            assert!(printed.contains("install iptables and run this again"), "{command:?}: {printed}");
            same(&before, &state(&namespace), "a failed run changed something");
        }
    }
}

/// The NICs tell: nothing is declared.
#[test]
fn pods_of_each_kind() {
    let modes = [Mode::Redirect, Mode::Tproxy];
    let kinds = VARIANTS.into_iter().flat_map(|variant| modes.map(|mode| (variant, mode)));
    let families = Family::BOTH.into_iter().flat_map(|first| [true, false].map(|only| (first, only)));
    let all = kinds.flat_map(|kind| families.clone().map(move |family| (kind, family)));
    for ((variant, mode), (family, only)) in scope::of(all.collect(), 6) {
        pod(Setting { variant, family, mode }, only);
    }
}

/// `only`: the pod has no address of the other family.
fn pod(setting: Setting, only: bool) {
    let pod = Pod::new(setting);
    if only {
        let nics = match setting.family {
            Family::V4 => "addr del fd77::2/64 dev eth0\naddr del fd78::2/64 dev net1",
            Family::V6 => "addr del 10.77.0.2/24 dev eth0\naddr del 10.78.0.2/24 dev net1",
        };
        pod.inside.ip(nics);
    }
    let both: &[&str] = if only { &[] } else { &["--dual-stack"] };
    let flags = [&CAPTURE[..], both, &["-m", setting.mode.name(), "-u", "1337", "-g", "1337"]].concat();
    for _ in 0..2 {
        succeed(&pod.inside, &call("apply", setting.variant, &flags));
    }
    run(&pod.inside, &call("diff", setting.variant, &flags)).with(0, "check with what the NICs tell");
    check(&pod, &[(App, Tcp, Service, 9080, Outbound), (Outside, Tcp, ThePod, 8080, Inbound)]);
    let expected = !only || setting.family == Family::V6;
    assert_eq!(state(&pod.inside).contains("ip6tables"), expected, "{setting} {only}");
}

/// Trying packets for warnings may take longer than setting rules, and until those are there the pod is open.
#[test]
fn warnings_come_once_the_rules_are_in_place() {
    let namespace = Namespace::new();
    namespace.eth0("10.77.0.2/24");
    let path = namespace.path();
    for command in [&["apply"][..], &["cni", "repair", "--netns", &path]] {
        let flags = [&CAPTURE[..], &["-u", "0", "--pod-ips", "10.77.0.2"]].concat();
        let ended = run(&namespace, &[command, &flags].concat()).with(0, command[0]);
        let at = |text| ended.stderr.find(text).unwrap_or_else(|| panic!("no {text:?}: {}", ended.stderr));
        assert!(at("rules are in place") < at("WARN lint: "), "{}", ended.stderr);
        run(&namespace, &["clean"]).with(0, "clean");
    }
}

#[test]
fn ipv6_that_is_there_and_not_captured_is_told() {
    let namespace = Namespace::new();
    namespace.eth0("10.77.0.2/24");
    namespace.ip("addr add fe80::7/64 dev eth0 nodad\naddr add ::6/128 dev lo nodad");
    let says = "IPv6 is not captured in this pod: ";
    let whole = format!("{says}its first address is not IPv6, though it has fd77::2 on eth0");
    let path = namespace.path();
    let inside = ["lint", "--network-namespace", &path];
    let declared = ["--pod-ips", "10.77.0.2"];
    let commands: [&[&str]; 2] = [&["apply"], &inside];
    let report = |given: &[&str], expected: Option<&str>, remedy: &str| {
        for command in commands {
            let ended = run(&namespace, &[command, &CAPTURE, given].concat()).with(0, command[0]);
            let printed = ended.stderr + if command == ["apply"] { "" } else { &ended.stdout };
            assert_eq!(printed.contains(says), expected.is_some(), "{command:?} {given:?}: {printed}");
            assert!(printed.contains(expected.unwrap_or_default()), "{command:?} {given:?}: {printed}");
            assert!(printed.contains(remedy), "{command:?} {given:?}: {printed}");
        }
        run(&namespace, &["clean"]).with(1, "::6 may be anybody's");
    };
    // Link-local, and that of the proxy.
    report(&[], None, "");
    report(&declared, None, "");
    namespace.ip("addr add fd77::2/64 dev eth0 nodad");
    report(&[], Some(&whole), "give --dual-stack");
    report(&declared, Some(&whole), "name it in --pod-ips, and give --dual-stack");
    let none = "none of its declared addresses is IPv6, though it has fd77::2 on eth0";
    report(&[&declared[..], &["--dual-stack"]].concat(), Some(none), "name it in --pod-ips");
    report(&["--dual-stack"], None, "");
    report(&["--pod-ips", "10.77.0.2,fd77::2", "--dual-stack"], None, "");
    // Flags are looked at where their author works; a preview asks for nothing that is declared.
    for arguments in
        [&["lint"][..], &["apply", "--dry-run"], &["lint", "--dry-run", "--network-namespace", &path]]
    {
        let ended = succeed(&namespace, &[arguments, &CAPTURE, &declared].concat());
        assert!(!ended.stderr.contains(says) && !ended.stdout.contains(says), "{arguments:?}: {ended:?}");
    }
    // For programs, where there is room for warnings.
    let printed = succeed(&namespace, &[&inside[..], &CAPTURE, &["--format", "json"]].concat()).stdout;
    let printed: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let found = printed["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|finding| finding["text"] == whole.as_str())
        .expect("a finding");
    assert!(found["subject"].is_string() && found["remedy"] == "give --dual-stack", "{found}");
}

fn without_ipv6() -> Namespace {
    let namespace = Namespace::new();
    for scope in ["all", "default", "lo"] {
        namespace.set(&format!("ipv6/conf/{scope}/disable_ipv6"), "1");
    }
    namespace
}

fn ipv4_programs(variant: Variant) -> Folder {
    let folder = Folder::new(&format!("ipv6-{}", variant.name()));
    for action in ["", "-save", "-restore"] {
        let name = variant.program(Family::V4, action);
        let real = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin"]
            .map(|place| PathBuf::from(place).join(&name));
        let real =
            real.iter().find(|path| path.exists()).unwrap_or_else(|| panic!("{name} is not installed"));
        symlink(real, folder.join(&name)).expect("a link can be made");
    }
    folder
}
