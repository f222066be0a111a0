//! A restore program that fails at every step in turn. Scripts precede the real programs on `PATH`. A script counts its calls; at
//! the failing call it passes the first tables of its input to the real program and reports a failure, as iptables does when a
//! later table is refused. Some fail after the last table: the caller cannot distinguish that from other failures.

use crate::support::rows::rows;
use crate::support::scope;
use std::fs;

use crate::apply::stage::{FULL, REDIRECT, VARIANTS, call, same, state};
use crate::support::folder::Folder;
use crate::support::namespace::{Namespace, succeed};
use crate::support::program::{Outcome, PATH, binary};
use crate::support::setting::{Family, Variant};

/// Counts calls in `calls`; `at`, `tables` and `says` define when and how a call fails.
const SCRIPT: &str = r#"#!/bin/sh
cd "$FAULT" || exit 9
input=$(cat)
# One that is prepared and not needed.
[ -n "$input" ] || exit 0
calls=$(($(cat calls) + 1))
echo "$calls" > calls
for real in /usr/sbin /sbin /usr/local/sbin /usr/bin; do
  [ -x "$real/${0##*/}" ] && break
done
if [ "$calls" -ne "$FAULT_AT" ]; then
  echo "$input" | exec "$real/${0##*/}" "$@"
  exit
fi
if [ "$FAULT_TABLES" -gt 0 ]; then
  echo "$input" | awk -v tables="$FAULT_TABLES" 'n < tables; /^COMMIT/ { n++ }' | "$real/${0##*/}" "$@" || exit 9
fi
echo "${0##*/}: $FAULT_SAYS" >&2
exit 1
"#;

#[derive(Clone, Copy, Debug)]
struct Fault {
    at: usize,
    tables: usize,
    says: &'static str,
}

/// An old state and a desired one, each a variant and flags; without flags, no rules.
type Change = (Variant, &'static [&'static str], Variant, &'static [&'static str]);

/// Tables of a family, plus one.
const TABLES: usize = 4;

rows! {
    legacy_from_nothing: every_step((Variant::Legacy, &[], Variant::Legacy, FULL));
    legacy_to_more: every_step((Variant::Legacy, REDIRECT, Variant::Legacy, FULL));
    legacy_to_less: every_step((Variant::Legacy, FULL, Variant::Legacy, REDIRECT));
    legacy_again: every_step((Variant::Legacy, FULL, Variant::Legacy, FULL));
    /// iptables (nft) rules are removed without a program.
    legacy_to_nothing: every_step((Variant::Legacy, FULL, Variant::Legacy, &[]));
    legacy_to_nft: every_step((Variant::Legacy, FULL, Variant::Nft, FULL));
    nft_from_nothing: every_step((Variant::Nft, &[], Variant::Nft, FULL));
    nft_to_more: every_step((Variant::Nft, REDIRECT, Variant::Nft, FULL));
    nft_to_less: every_step((Variant::Nft, FULL, Variant::Nft, REDIRECT));
    nft_again: every_step((Variant::Nft, FULL, Variant::Nft, FULL));
    nft_to_legacy: every_step((Variant::Nft, FULL, Variant::Legacy, FULL));
}

fn every_step(change: Change) {
    let scene = Scene::new("faults", change);
    // A run without a fault counts the calls.
    scene.run(Fault { at: 0, tables: 0, says: "" }).with(0, "a run without a fault");
    let calls = scene.calls();
    assert!(calls > 0, "{change:?} calls no restore program");
    let faults = (1..=calls).flat_map(|at| (0..=TABLES).map(move |tables| (at, tables))).collect();
    for (at, tables) in scope::of(faults, 2) {
        scene.fails(Fault { at, tables, says: "line 1 failed" });
    }
}

/// nf_tables refuses a commit after a concurrent one; the tool retries.
#[test]
fn conflict_is_retried() {
    let change = (Variant::Nft, REDIRECT, Variant::Nft, FULL);
    let scene = Scene::new("faults-conflict", change);
    for tables in scope::of((0..=TABLES).collect(), 2) {
        scene.to_old();
        let says = "line 9: RULE_INSERT failed (Resource temporarily unavailable)";
        scene.run(Fault { at: 1, tables, says }).with(0, "a conflict that passes");
        same(&scene.new, &state(&scene.namespace), "after a conflict");
    }
}

struct Scene {
    change: Change,
    namespace: Namespace,
    folder: Folder,
    old: String,
    new: String,
}

impl Scene {
    fn new(name: &str, change: Change) -> Self {
        let folder = Folder::new(name);
        for variant in VARIANTS {
            for family in Family::BOTH {
                let program = folder.join(variant.program(family, "-restore"));
                crate::support::program::script(&program, SCRIPT);
            }
        }
        let mut scene =
            Self { change, namespace: Namespace::new(), folder, old: String::new(), new: String::new() };
        succeed(&scene.namespace, &scene.desired());
        scene.new = state(&scene.namespace);
        scene.to_old();
        scene.old = state(&scene.namespace);
        scene
    }

    fn to_old(&self) {
        let (variant, flags, ..) = self.change;
        match flags.is_empty() {
            true => succeed(&self.namespace, &["clean"]),
            false => succeed(&self.namespace, &call("apply", variant, flags)),
        };
    }

    fn desired(&self) -> Vec<&'static str> {
        let (.., variant, flags) = self.change;
        if flags.is_empty() { vec!["clean"] } else { call("apply", variant, flags) }
    }

    fn fails(&self, fault: Fault) {
        self.to_old();
        let what = format!("{:?} {fault:?}", self.change);
        let printed = self.run(fault).with(1, &what).stderr;
        assert!(printed.contains("rolled back"), "{what}: {printed}");
        same(&self.old, &state(&self.namespace), &format!("{what} left neither state\n{printed}"));
        self.arrives(&what);
    }

    fn arrives(&self, what: &str) {
        succeed(&self.namespace, &self.desired());
        same(&self.new, &state(&self.namespace), &format!("the run after {what}"));
    }

    fn run(&self, fault: Fault) -> Outcome {
        fs::write(self.folder.join("calls"), "0").expect("the counter is written");
        let arguments = self.desired();
        let (old, old_flags, new, flags) = self.change;
        // An identical run changes nothing, so it is forced.
        let forced: &[&str] = if (old, old_flags) == (new, flags) { &["--force-apply"] } else { &[] };
        let mut command = binary(&[&arguments[..], forced].concat());
        command
            .env("PATH", format!("{}:{PATH}", self.folder.display()))
            .env("FAULT", &*self.folder)
            .env("FAULT_AT", fault.at.to_string())
            .env("FAULT_TABLES", fault.tables.to_string())
            .env("FAULT_SAYS", fault.says);
        self.namespace.outcome(&mut command)
    }

    fn calls(&self) -> usize {
        let text = fs::read_to_string(self.folder.join("calls")).expect("the counter");
        text.trim().parse().expect("a number")
    }
}
