//! Pods with one or two families, and machines that lack IPv6 parts.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::apply::stage::{FULL, REDIRECT, VARIANTS, call, same, state};
use crate::support::address::Place::{Pod as ThePod, Service};
use crate::support::case::Caller::{App, Outside};
use crate::support::case::Landing::{Inbound, Outbound};
use crate::support::case::check;
use crate::support::folder::Folder;
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::pod::Pod;
use crate::support::program::binary;
use crate::support::scope;
use crate::support::setting::{Family, Mode, Setting, Variant};
use crate::support::traffic::Protocol::Tcp;
use mesh::istio::OWNERSHIP;
use rules::routing::Object;
use sidecar_init::sys::{route::NamespaceRouting, route_lookup};

const CAPTURE: [&str; 4] = ["-b", "*", "-i", "*"];

/// The kernel makes an address local a moment after acknowledging it.
#[test]
fn an_added_address_is_local() {
    let address = OWNERSHIP.address.expect("::6");
    for round in 0..scope::runs(1_000, 100) {
        let route = Namespace::new().run(|| {
            let mut routing = NamespaceRouting::open(OWNERSHIP).expect("a socket");
            routing.add(Object::Address(address)).expect("lo has IPv6");
            route_lookup::to(address.into()).expect("a route")
        });
        assert!(route.is_local, "round {round}: {route:?}");
    }
}

#[test]
fn disabled_and_not_requested() {
    for variant in VARIANTS {
        for flags in [&["--pod-ips", "10.77.0.2"][..], &["--pod-ips", "10.77.0.2", "--dual-stack"]] {
            let namespace = without_ipv6();
            let before = state(&namespace);
            let flags = [flags, &CAPTURE, &["-m", "TPROXY"]].concat();
            for _ in 0..2 {
                succeed(&namespace, &call("apply", variant, &flags));
            }
            run(&namespace, &call("diff", variant, &flags)).with(0, "check without IPv6");
            assert!(!state(&namespace).contains("ip6tables"), "IPv6 rules were set");
            succeed(&namespace, &["clean"]);
            same(&before, &state(&namespace), "clean without IPv6");
        }
    }
}

/// The flags declare IPv6, but the kernel has it disabled: rules are set, routing that the kernel would refuse is not, and every
/// command accepts this.
#[test]
fn disabled_but_requested() {
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
        same(&before, &state(&namespace), "a failed run changed the state");
        run(&["clean"]).with(0, "clean with IPv4 alone");
        let left = state(&namespace);
        assert!(!left.contains("ISTIO"), "{left}");
    }
}

/// Without iptables, the owner of existing rules is unknown: no command may report success.
#[test]
fn no_programs_at_all() {
    let empty = Folder::new("ipv6-nothing");
    for variant in VARIANTS {
        let namespace = Namespace::new();
        succeed(&namespace, &call("apply", variant, REDIRECT));
        let before = state(&namespace);
        for command in [&["clean"][..], &[&["apply"], REDIRECT].concat(), &[&["diff"], REDIRECT].concat()] {
            let mut call = binary(command);
            let printed =
                namespace.outcome(call.env("PATH", &*empty)).with(1, "tables that can't be read").stderr;
            assert!(printed.contains("install it and run this again"), "{command:?}: {printed}");
            same(&before, &state(&namespace), "a failed run changed the state");
        }
    }
}

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
    run(&pod.inside, &call("diff", setting.variant, &flags)).with(0, "check by the NICs");
    check(&pod, &[(App, Tcp, Service, 9080, Outbound), (Outside, Tcp, ThePod, 8080, Inbound)]);
    let expected = !only || setting.family == Family::V6;
    assert_eq!(state(&pod.inside).contains("ip6tables"), expected, "{setting} {only}");
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
