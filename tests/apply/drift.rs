//! Tampering with one thing at a time: `check` names it, the drop-in refuses, `apply` repairs.
//!
//! The scenarios are those of the catalogue beside the rule model. Every rule, chain and jump is a victim in turn, or a
//! sample of them; every policy rule, route and address always is.

use crate::support::catalogue::Case;
use crate::support::scope;

use crate::apply::stage::{VARIANTS, call, same, state, tables};
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::program::binary;
use crate::support::setting::{Family, Variant};

/// Scenarios with all three tables, both families, several owners, a virtual machine, exclusions.
const SCENARIOS: [&str; 5] = [
    "dns-tproxy",
    "tproxy-dual-stack",
    "vm-interfaces-cidr-list",
    "outbound-cidr-exclusions",
    "several-proxy-users",
];

#[test]
fn each_thing_that_is_tampered_with_is_named_and_repaired() {
    for scenario in scope::of(SCENARIOS.to_vec(), 1) {
        VARIANTS.into_iter().for_each(|variant| Scene::new(variant, scenario).play());
    }
}

/// Policy rules that are there twice, and rules of ours in the variant that is not in use.
#[test]
fn surplus_is_named_and_removed() {
    for variant in VARIANTS {
        let mut scene = Scene::new(variant, "tproxy-dual-stack");
        let rule = "rule add fwmark 1337 lookup 133 pref 99 protocol 137";
        scene.tampered(rule, "extra", |namespace| namespace.ip(rule));
        let route = "route add local default dev lo table 134 proto 137";
        scene.tampered(route, "extra", |namespace| namespace.ip(route));
        let other = VARIANTS.into_iter().find(|other| *other != variant).expect("there are two");
        scene.tampered("a chain of ours in the other variant", "---", |namespace| {
            namespace.restore(
                other,
                Family::V4,
                "*nat\n:ISTIO_OUTPUT - [0:0]\n-A OUTPUT -j ISTIO_OUTPUT\nCOMMIT\n",
            );
        });
    }
}

/// A rule of ours where it stands.
#[derive(Clone, Debug)]
struct Victim {
    family: Family,
    table: String,
    chain: String,
    /// From 1.
    number: usize,
    /// What follows the chain's name.
    text: String,
    /// The rule behind it in the same chain.
    next: Option<String>,
}

struct Scene {
    variant: Variant,
    name: &'static str,
    flags: Vec<String>,
    namespace: Namespace,
    desired: String,
    /// How often something was tampered with.
    round: usize,
}

impl Scene {
    fn new(variant: Variant, name: &'static str) -> Self {
        let namespace = Namespace::new();
        let flags = flags(name);
        let mut scene = Self { variant, name, flags, namespace, desired: String::new(), round: 0 };
        succeed(&scene.namespace, &scene.call("apply"));
        scene.desired = state(&scene.namespace);
        scene
    }

    fn call<'a>(&'a self, command: &'a str) -> Vec<&'a str> {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        call(command, self.variant, &flags)
    }

    fn play(mut self) {
        let victims = self.victims();
        assert!(victims.len() > 10, "{}: {victims:?}", self.name);
        for victim in scope::of(victims.iter().collect(), 2) {
            self.rule(victim);
        }
        self.chains(&victims);
        self.foreign_rules(&victims);
        self.routing();
        succeed(&self.namespace, &["clean"]);
        let left = state(&self.namespace);
        assert!(!left.contains("ISTIO") && !left.contains("sidecar-init") && !left.contains("133"), "{left}");
    }

    /// Every rule that is there: all are ours.
    fn victims(&self) -> Vec<Victim> {
        let mut victims: Vec<Victim> = Vec::new();
        for family in Family::BOTH {
            let saved = self.namespace.stdout(&self.variant.program(family, "-save"), &[]);
            for (table, lines) in tables(&saved) {
                for line in lines.iter().filter_map(|line| line.strip_prefix("-A ")) {
                    let (chain, text) = line.split_once(' ').expect("a rule has words");
                    let number = match victims.last_mut() {
                        Some(last)
                            if (&last.table, &last.chain, last.family)
                                == (&table, &chain.to_owned(), family) =>
                        {
                            last.next = Some(text.to_owned());
                            last.number + 1
                        }
                        _ => 1,
                    };
                    let (table, chain, text) = (table.clone(), chain.to_owned(), text.to_owned());
                    victims.push(Victim { family, table, chain, number, text, next: None });
                }
            }
        }
        victims
    }

    /// Deletes, doubles and swaps one rule.
    fn rule(&mut self, victim: &Victim) {
        let Victim { chain, number, text, next, .. } = victim;
        let after = number + 1;
        self.script(victim, &format!("-D {chain} {number}"), "missing");
        self.script(victim, &format!("-I {chain} {after} {text}"), "extra");
        if !is_base(chain) {
            let stranger = match victim.family {
                Family::V4 => "-s 203.0.113.9/32 -j RETURN",
                Family::V6 => "-s 2001:db8::9/128 -j RETURN",
            };
            self.script(victim, &format!("-R {chain} {number} {stranger}"), "changed");
        }
        if next.as_ref().is_some_and(|next| next != text) {
            self.script(victim, &format!("-D {chain} {number}\n-I {chain} {after} {text}"), "moved");
        }
    }

    /// Empties each chain of ours, and puts one there that nobody wants.
    fn chains(&mut self, victims: &[Victim]) {
        let firsts = victims.iter().filter(|victim| !is_base(&victim.chain) && victim.number == 1);
        for victim in scope::of(firsts.collect(), 2) {
            self.script(victim, &format!("-F {}", victim.chain), "missing");
        }
        let first = &victims[0];
        self.script(first, ":ISTIO_STRAY - [0:0]\n-A ISTIO_STRAY -j RETURN", "extra");
        self.script(first, ":ISTIO_STRAY - [0:0]", "ISTIO_STRAY");
    }

    /// A foreign rule before ours is drift, one behind ours is not.
    fn foreign_rules(&mut self, victims: &[Victim]) {
        let accept = "-p tcp -m tcp --dport 9 -j ACCEPT";
        let lasts = victims.iter().filter(|victim| is_base(&victim.chain) && victim.next.is_none());
        for victim in scope::of(lasts.collect(), 2) {
            let Victim { chain, .. } = victim;
            let what = format!("{victim:?}, a foreign rule");
            self.put(victim, &format!("-A {chain} {accept}"));
            let with_foreign = state(&self.namespace);
            run(&self.namespace, &self.call("check")).with(0, &format!("{what} behind"));
            succeed(&self.namespace, &self.call("apply"));
            same(&with_foreign, &state(&self.namespace), &format!("{what} behind"));
            self.put(victim, &format!("-D {chain} {accept}"));
            // One before ours stays, and ours go before it: just where it was a moment ago.
            self.put(victim, &format!("-I {chain} 1 {accept}"));
            let printed = run(&self.namespace, &self.call("check")).with(3, &format!("{what} before")).stdout;
            assert!(
                printed.contains("foreign rule first") && printed.contains("--dport 9"),
                "{what}: {printed}"
            );
            succeed(&self.namespace, &self.call("apply"));
            same(&with_foreign, &state(&self.namespace), &format!("{what} before"));
            self.put(victim, &format!("-D {chain} {accept}"));
            // One that only counts or marks is nobody's business, and neither is one that is not first.
            self.put(victim, &format!("-I {chain} 1 -p tcp -m tcp --dport 9"));
            run(&self.namespace, &self.call("check")).with(0, &format!("{what} that only counts"));
            self.put(victim, &format!("-D {chain} -p tcp -m tcp --dport 9"));
            self.restored(&what);
        }
    }

    /// Removes policy rules, routes and the address.
    fn routing(&mut self) {
        for (mark, verb) in [
            ("fwmark 0x539 lookup 133", "rule del fwmark 1337 lookup 133"),
            ("local default dev lo table 133", "route flush table 133"),
        ] {
            for family in ["-4", "-6"] {
                if self.desired.contains(&format!("ip {family}")) && self.section(family, verb).contains(mark)
                {
                    let words: Vec<&str> = [family].into_iter().chain(verb.split(' ')).collect();
                    self.tampered(&words.join(" "), "missing", |namespace| {
                        namespace.stdout("ip", &words);
                    });
                }
            }
        }
        if self.desired.contains("inet6 ::6/128") {
            self.tampered("addr del ::6", "missing", |namespace| namespace.ip("addr del ::6/128 dev lo"));
        }
    }

    /// The part of the desired state that a command on rules or routes of a family is about.
    fn section(&self, family: &str, verb: &str) -> &str {
        let kind = verb.split(' ').next().unwrap_or_default();
        let head = format!("ip {family} {kind}");
        let rest = self.desired.split_once(&head).map_or("", |(_, rest)| rest);
        rest.split("\nip ").next().unwrap_or_default()
    }

    /// Tampers by a script of commands on the victim's table.
    fn script(&mut self, victim: &Victim, commands: &str, reason: &str) {
        let (variant, family, table) = (self.variant, victim.family, victim.table.clone());
        let what = format!("{family:?} {table}: {commands}");
        self.tampered(&what, reason, |namespace| {
            namespace.restore(variant, family, &format!("*{table}\n{commands}\nCOMMIT\n"));
        });
    }

    fn put(&self, victim: &Victim, command: &str) {
        self.namespace.restore(
            self.variant,
            victim.family,
            &format!("*{}\n{command}\nCOMMIT\n", victim.table),
        );
    }

    /// Tampers, then sees to it that each command says and does what it should.
    fn tampered(&mut self, what: &str, reason: &str, tamper: impl FnOnce(&Namespace)) {
        let what = format!("{:?} {}: {what}", self.variant, self.name);
        tamper(&self.namespace);
        let drifted = state(&self.namespace);
        assert_ne!(self.desired, drifted, "{what} changed nothing");
        let printed = run(&self.namespace, &self.call("check")).with(3, &what).stdout;
        assert!(printed.contains(reason), "{what}: {reason} is not what it said:\n{printed}");
        let refused = run(&self.namespace, &self.call("istio-iptables")).with(1, &what).stderr;
        let (head, differences) = printed.split_once("\n\n").expect("what differs in short comes first");
        assert!(head.contains("\nRules differ: "), "{what}: {head}");
        assert!(refused.contains(differences.trim()), "{what}: the difference is not in {refused}");
        same(&drifted, &state(&self.namespace), &format!("{what}: refused, and yet something changed"));
        self.round += 1;
        let repair = if self.round.is_multiple_of(2) {
            self.call("apply")
        } else {
            [self.call("istio-iptables"), vec!["--reconcile"]].concat()
        };
        succeed(&self.namespace, &repair);
        self.restored(&what);
    }

    fn restored(&self, what: &str) {
        run(&self.namespace, &self.call("check")).with(0, &format!("{what}: after the repair"));
        same(&self.desired, &state(&self.namespace), &format!("{what} was not repaired"));
    }
}

fn is_base(chain: &str) -> bool {
    matches!(chain, "PREROUTING" | "OUTPUT")
}

/// The flags of a scenario of the catalogue.
fn flags(name: &str) -> Vec<String> {
    Case::named(name).flags()
}

/// The environment counts for `check` as it does for the command that set the rules.
#[test]
fn variables_mean_the_same_in_every_command() {
    let namespace = Namespace::new();
    let with = |arguments: &[&str]| {
        let mut command = binary(arguments);
        command.env("ISTIO_OUTBOUND_OWNER_GROUPS", "5001,5002").env("DROP_INVALID", "true");
        namespace.outcome(&mut command)
    };
    let facts = ["--pod-ips", "10.77.0.2", "-i", "*", "-b", "*"];
    with(&[&["istio-iptables"][..], &facts].concat()).with(0, "the drop-in");
    with(&[&["check"][..], &facts].concat()).with(0, "check with the same variables");
    run(&namespace, &[&["check"][..], &facts].concat()).with(3, "check without them");
}
