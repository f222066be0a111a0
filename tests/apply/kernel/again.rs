//! A second identical run finds everything in place and changes nothing.

use crate::support::address::Place::{Pod, Service};
use crate::support::case::Caller::{App, Outside};
use crate::support::case::Landing::{Inbound, Outbound};
use crate::support::case::check;
use crate::support::configurations::RESOLVERS;
use crate::support::pod;
use crate::support::setting::{Setting, Variant, in_every_setting};
use crate::support::traffic::Protocol::Tcp;

in_every_setting! {
    rules_counters_routes_and_addresses_stay,
}

const FLAGS: [&str; 12] = [
    "-i",
    "*",
    "-x",
    "10.98.0.0/16,fd98::/16",
    "-b",
    "*",
    "-d",
    "15090,15021,15020",
    "--redirect-dns",
    "--dns-servers",
    RESOLVERS,
    "--drop-invalid",
];

/// Rules that had been replaced by equal ones would count from zero.
fn rules_counters_routes_and_addresses_stay(setting: Setting) {
    let pod = pod::Pod::with(setting, &FLAGS);
    check(&pod, &[(App, Tcp, Service, 9080, Outbound)]);
    let before = (state(&pod), redirect_counter(&pod));
    let counter = &before.1;
    assert!(!counter.starts_with("[0:0]") && !counter.contains("packets 0"), "{setting}: {counter}");
    pod.apply(&FLAGS);
    let after = (state(&pod), redirect_counter(&pod));
    assert_eq!(before, after, "{setting}: the second run changed something");
    check(&pod, &[(App, Tcp, Service, 9080, Outbound), (Outside, Tcp, Pod, 8080, Inbound)]);
}

/// All that the binary may touch.
fn state(pod: &pod::Pod) -> String {
    let shown = [
        &["-4", "rule", "show"][..],
        &["-6", "rule", "show"],
        &["-4", "route", "show", "table", "all"],
        &["-6", "route", "show", "table", "all"],
        &["-o", "addr", "show", "dev", "lo"],
    ];
    shown
        .iter()
        .map(|arguments| pod.inside.stdout("ip", arguments))
        .fold(pod.rules(), |all, part| all + &part)
}

/// The line of the rule that sends outbound traffic to the proxy, with its packet and byte counts.
fn redirect_counter(pod: &pod::Pod) -> String {
    let (nat, rule) = match pod.setting.variant {
        Variant::Native => {
            let chain = ["list", "chain", "inet", "sidecar_init", "nat_ISTIO_REDIRECT"];
            (pod.inside.stdout("nft", &chain), "redirect to")
        }
        variant @ (Variant::Legacy | Variant::Nft) => {
            let save = variant.program(pod.setting.family, "-save");
            (pod.inside.stdout(&save, &["-c", "-t", "nat"]), "-A ISTIO_REDIRECT ")
        }
    };
    let line = nat.lines().find(|line| line.contains(rule)).unwrap_or_else(|| {
        panic!("{}: nothing is sent to the proxy\n{nat}", pod.setting);
    });
    line.to_owned()
}
