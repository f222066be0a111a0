//! `check` holds a pod against what was asked for, rule by rule in their order, and its policy rule and route in each family.
//! Istio's agent compares chains without the order of their rules, so that one behind the wrong one passes for right.

use crate::support::namespace::Namespace;
use crate::support::program::{Run, binary};
use crate::support::setting::{Family, Variant};

/// Where rules stand: enough for what sends no packet.
struct Place {
    pod: Namespace,
    variant: Variant,
}

impl Place {
    fn new(variant: Variant) -> Place {
        let place = Place { pod: Namespace::new(), variant };
        place.run(&["apply"], 0);
        place
    }

    /// Runs the binary, which has to end with this code, and returns all that it says.
    fn run(&self, words: &[&str], code: i32) -> String {
        let path = self.pod.path();
        let place = ["--network-namespace", &path, "--mesh", "ambient", "--backend", self.variant.backend()];
        let output = binary(words).args(place).outcome();
        output.with(code, &format!("{} {words:?}", self.variant.name())).text()
    }

    /// Drift that is told by the first texts and not by the others, and gone after the next `apply`.
    fn drifts(&self, texts: &[&str], others: &[&str]) {
        let printed = self.run(&["check"], 3);
        let (variant, missing) = (self.variant.name(), texts.iter().find(|text| !printed.contains(**text)));
        assert_eq!(missing, None, "{variant}: {printed}");
        assert_eq!(others.iter().find(|text| printed.contains(**text)), None, "{variant}: {printed}");
        self.run(&["apply"], 0);
        self.run(&["check"], 0);
    }

    /// Puts the rule that lets ztunnel's connections to the application pass behind the rule that captures all else.
    fn move_rule(&self, family: Family) {
        if self.variant == Variant::Native {
            let chain = ["inet", "sidecar_init_ambient", "nat_ISTIO_OUTPUT"];
            let listing =
                self.pod.stdout("nft", &[&["--stateless", "-a", "list", "chain"], &chain[..]].concat());
            let rule = listing.lines().find(|line| line.contains("0x00000111")).expect("such a rule");
            let (rule, handle) = rule.trim().split_once(" # handle ").expect("a handle");
            let chain = chain.join(" ");
            self.pod
                .stdout("nft", &[&format!("delete rule {chain} handle {handle}; add rule {chain} {rule}")]);
            return;
        }
        let rule = ["ISTIO_OUTPUT", "-p", "tcp", "-m", "mark", "--mark", "0x111/0xfff", "-j", "ACCEPT"];
        for verb in ["-D", "-A"] {
            let program = self.variant.program(family, "");
            self.pod.stdout(&program, &[&["-w", "-t", "nat", verb], &rule[..]].concat());
        }
    }
}

#[test]
fn a_rule_that_has_moved_is_found_and_put_back() {
    for &variant in Variant::tried() {
        let place = Place::new(variant);
        for family in Family::BOTH {
            place.move_rule(family);
            place.drifts(&["moved"], &["missing", "policy rule"]);
        }
    }
}

#[test]
fn a_policy_rule_and_a_route_are_missed_in_each_family() {
    for &variant in Variant::tried() {
        let place = Place::new(variant);
        // Texts of IPv4 are no part of those of IPv6.
        let families = [("-4", "", "-6 "), ("-6", "-6 ", "")];
        for (ip, own, other) in families {
            let rule = |family: &str| format!("policy rule {family}fwmark 0x111/0xfff lookup 100 pref 32764");
            let route = |family: &str| format!("route {family}local default dev lo table 100");
            place.pod.stdout("ip", &[ip, "rule", "del", "pref", "32764"]);
            place.drifts(&[&rule(own)], &[&rule(other), &route(own), &route(other)]);
            place.pod.stdout("ip", &[ip, "route", "flush", "table", "100"]);
            place.drifts(&[&route(own)], &[&route(other), &rule(own), &rule(other)]);
        }
    }
}

#[test]
fn what_was_said_otherwise_is_drift() {
    let place = Place::new(Variant::Native);
    for flags in [
        &["--ingress"][..],
        &["--dns-capture=false"],
        &["--ipv6=false"],
        &["--reroute-virtual-interfaces=vm0"],
        &["--probe-address=10.0.0.1"],
    ] {
        place.run(&[&["check"], flags].concat(), 3);
    }
    place.run(&["check"], 0);
}
