//! Single changes to the rules: `diff` reports each; the drop-in refuses, or repairs if allowed. The rule model's laws cover
//! drift of arbitrary rules; these tests cover rules listed by programs.

use crate::apply::stage::{FULL, VARIANTS, call, same, state};
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::scope;
use crate::support::setting::{Family, Variant};

/// A table, commands on it, and the reason that `diff` reports. `SECOND` is the second rule of `ISTIO_OUTPUT`.
const TAMPERED: [(&str, &str, &str); 11] = [
    ("mangle", "-D PREROUTING 1", "missing"),
    ("nat", "-F ISTIO_OUTPUT", "missing"),
    ("mangle", "-D ISTIO_INBOUND 2", "missing"),
    ("mangle", "-F ISTIO_TPROXY", "missing"),
    ("raw", "-D OUTPUT 1", "missing"),
    ("nat", "-I ISTIO_OUTPUT 3 SECOND", "extra"),
    ("nat", ":ISTIO_STRAY - [0:0]\n-A ISTIO_STRAY -j RETURN", "extra"),
    ("nat", ":ISTIO_STRAY - [0:0]", "ISTIO_STRAY"),
    ("mangle", "-R ISTIO_DIVERT 1 -p tcp -j RETURN", "changed"),
    ("nat", "-R ISTIO_OUTPUT 1 -p tcp -j RETURN", "changed"),
    ("nat", "-D ISTIO_OUTPUT 2\n-I ISTIO_OUTPUT 3 SECOND", "moved"),
];

/// `ip` commands, and the reason that `diff` reports.
const MISROUTED: [(&str, &str); 7] = [
    ("-4 rule del fwmark 1337 lookup 133", "missing"),
    ("-6 rule del fwmark 1337 lookup 133", "missing"),
    ("-4 route flush table 133", "missing"),
    ("-6 route flush table 133", "missing"),
    ("addr del ::6/128 dev lo", "missing"),
    ("rule add fwmark 1337 lookup 133 pref 99 protocol 137", "extra"),
    ("route add local default dev lo table 134 proto 137", "extra"),
];

#[test]
fn each_changed_rule_is_named_and_repaired() {
    for variant in VARIANTS {
        let scene = Scene::new(variant);
        for family in Family::BOTH {
            for (table, commands, reason) in scope::of(TAMPERED.to_vec(), 4) {
                let second = scene.rule(family, table, "ISTIO_OUTPUT", 2);
                let script = format!("*{table}\n{}\nCOMMIT\n", commands.replace("SECOND", &second));
                let tamper = |namespace: &Namespace| namespace.restore(variant, family, &script);
                scene.tampered(&format!("{family:?} {script}"), reason, tamper);
            }
        }
        for (line, reason) in MISROUTED {
            let words: Vec<&str> = line.split(' ').collect();
            scene.tampered(line, reason, |namespace| drop(namespace.stdout("ip", &words)));
        }
        let other = VARIANTS.into_iter().find(|other| *other != variant).expect("there are two");
        let ours = "*nat\n:ISTIO_OUTPUT - [0:0]\n-A OUTPUT -j ISTIO_OUTPUT\nCOMMIT\n";
        scene.tampered("rules in the other variant", "@@", |namespace| {
            namespace.restore(other, Family::V4, ours);
        });
    }
}

/// A foreign rule before the mesh's rules is drift, unless it only counts; a later one is not.
#[test]
fn foreign_rules_in_first_place_are_drift() {
    let accept = "-p tcp -m tcp --dport 9 -j ACCEPT";
    for variant in VARIANTS {
        let scene = Scene::new(variant);
        let check = |code: i32, what: &str| {
            run(&scene.namespace, &[scene.call("diff"), vec!["--rules"]].concat()).with(code, what).stdout
        };
        for (family, (table, chain)) in Family::BOTH.into_iter().flat_map(|family| {
            [("nat", "OUTPUT"), ("mangle", "PREROUTING"), ("raw", "OUTPUT")].map(|place| (family, place))
        }) {
            let put = |command: &str| {
                let script = format!("*{table}\n{command}\nCOMMIT\n");
                scene.namespace.restore(variant, family, &script);
            };
            let what = format!("{variant:?} {family:?} {table} {chain}");
            put(&format!("-A {chain} {accept}"));
            let with_foreign = state(&scene.namespace);
            check(0, &format!("{what}, behind"));
            succeed(&scene.namespace, &scene.call("apply"));
            same(&with_foreign, &state(&scene.namespace), &format!("{what}, behind"));
            put(&format!("-D {chain} {accept}"));
            // A foreign rule in first place stays, and apply moves the mesh's rules before it.
            put(&format!("-I {chain} 1 {accept}"));
            let printed = check(3, &format!("{what}, before"));
            assert!(printed.contains("foreign rule first") && printed.contains("--dport 9"), "{printed}");
            succeed(&scene.namespace, &scene.call("apply"));
            same(&with_foreign, &state(&scene.namespace), &format!("{what}, before"));
            put(&format!("-D {chain} {accept}"));
            put(&format!("-I {chain} 1 -p tcp -m tcp --dport 9"));
            check(0, &format!("{what}, only counts"));
            put(&format!("-D {chain} -p tcp -m tcp --dport 9"));
            scene.restored(&what);
        }
    }
}

struct Scene {
    variant: Variant,
    namespace: Namespace,
    desired: String,
}

impl Scene {
    /// A namespace with all three tables of both families, policy rules, routes and the address.
    fn new(variant: Variant) -> Self {
        let mut scene = Self { variant, namespace: Namespace::new(), desired: String::new() };
        succeed(&scene.namespace, &scene.call("apply"));
        scene.desired = state(&scene.namespace);
        scene
    }

    fn call(&self, command: &'static str) -> Vec<&str> {
        call(command, self.variant, FULL)
    }

    /// Rule `number`, from 1, without its chain's name; empty if the chain lacks it.
    fn rule(&self, family: Family, table: &str, chain: &str, number: usize) -> String {
        let saved = self.namespace.stdout(&self.variant.program(family, "-save"), &["-t", table]);
        let start = format!("-A {chain} ");
        let rule = saved.lines().filter_map(|line| line.strip_prefix(&start)).nth(number - 1);
        rule.unwrap_or_default().to_owned()
    }

    fn tampered(&self, what: &str, reason: &str, tamper: impl FnOnce(&Namespace)) {
        let what = format!("{:?}: {what}", self.variant);
        tamper(&self.namespace);
        let drifted = state(&self.namespace);
        assert_ne!(self.desired, drifted, "{what} changed nothing");
        let call = [self.call("diff"), vec!["--rules"]].concat();
        let printed = run(&self.namespace, &call).with(3, &what).stdout;
        assert!(printed.contains(reason), "{what}: {reason} is not in:\n{printed}");
        let refused = run(&self.namespace, &self.call("istio-iptables")).with(1, &what).stderr;
        same_changes(&printed, &refused);
        same(&drifted, &state(&self.namespace), &format!("{what}: refused, and yet something changed"));
        succeed(&self.namespace, &[self.call("istio-iptables"), vec!["--reconcile"]].concat());
        self.restored(&what);
    }

    fn restored(&self, what: &str) {
        run(&self.namespace, &self.call("diff")).with(0, &format!("{what}: after the repair"));
        same(&self.desired, &state(&self.namespace), &format!("{what} was not repaired"));
    }
}

/// Checks that `diff` and the drop-in's refusal name the same verdicts in the same direction, and the same reason.
fn same_changes(diff: &str, refusal: &str) {
    let is_change = |line: &&str| line.contains(" -> ") && !line.starts_with("Rules differ");
    let changes: Vec<&str> = diff.lines().filter(is_change).collect();
    let also = diff
        .lines()
        .find_map(|line| line.strip_prefix("Rules differ: "))
        .expect("a line with the differences");
    let expected = changes.iter().map(|line| format!("  {line}\n")).collect::<String>();
    let report = format!("--reconcile replaces them\n{expected}  also: {also}\n");
    assert!(refusal.ends_with(&report), "{report}\n{refusal}");
}
