//! One mesh's rules in the kernel, set by another program or the tool, while another mesh is requested.

use crate::support::engine::kernel;
use crate::support::namespace::Namespace;
use crate::support::{scope, setting};
use crate::takeover::meshes::{Goal, options};
use mesh::{Mesh, OWNERS};
use rules::{Family, routing::Object};
use sidecar_init::{
    backend::{BackendName, Variant},
    engine::{self, Options},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// Another program with `iptables-restore`.
    Program(Variant),
    Us(BackendName),
}

pub(crate) const NFT: BackendName = BackendName::Iptables(Variant::Nft);
pub(crate) const LEGACY: BackendName = BackendName::Iptables(Variant::Legacy);
pub(crate) const NATIVE: BackendName = BackendName::Nftables;

/// Sets a mesh's goal, beside any existing rules.
pub(crate) fn set(namespace: &Namespace, goal: Goal, by: By) {
    match by {
        By::Program(variant) => {
            for (family, of) in Family::BOTH.into_iter().zip(setting::Family::BOTH) {
                let variant = match variant {
                    Variant::Legacy => setting::Variant::Legacy,
                    Variant::Nft => setting::Variant::Nft,
                };
                namespace.restore(variant, of, &goal.text(family));
            }
            for words in goal.capture().facts().routing.into_iter().filter_map(without_protocol) {
                let words: Vec<&str> = words.split(' ').collect();
                namespace.stdout("ip", &words);
            }
        }
        By::Us(backend) => {
            let alone = Options { known_owners: &[], ..options(backend) };
            let desired = goal.desired(goal.owner());
            namespace
                .run(|| engine::apply(&mut kernel(goal.owner()), &desired, &alone))
                .unwrap_or_else(|error| panic!("{goal:?} {by:?}: {error}"));
        }
    }
}

/// `ip` arguments for an object without a protocol that marks its owner. An address has no owner's mark: it would belong to any
/// mesh that requests one.
fn without_protocol(object: Object) -> Option<String> {
    let family = if object.family() == Family::V4 { "-4" } else { "-6" };
    match object {
        Object::Address(_) => None,
        Object::Route { table, .. } => Some(format!("{family} route add local default dev lo table {table}")),
        Object::Rule { mark, table, preference, .. } => {
            let place = preference.map(|place| format!(" pref {place}")).unwrap_or_default();
            Some(format!("{family} rule add fwmark {mark} lookup {table}{place}"))
        }
    }
}

pub(crate) fn everything(namespace: &Namespace) -> String {
    let mut text = String::new();
    for program in ["legacy", "nft"].iter().flat_map(|variant| ["", "6"].map(|family| (family, variant))) {
        let program = &format!("ip{}tables-{}-save", program.0, program.1);
        let saved = namespace.stdout(program, &[]);
        let lines = saved.lines().filter(|line| !line.starts_with('#'));
        // Tables without rules may exist or not.
        let lines = lines.filter(|line| line.starts_with("-A") || line.contains(" - ["));
        text.extend(lines.map(|line| line.split(" [").next().unwrap_or(line).to_owned() + "\n"));
    }
    // In other families, the targets that `nft` can name depend on the order of their tables.
    text += &namespace.stdout("nft", &["-s", "list", "ruleset", "inet"]);
    for family in ["-4", "-6"] {
        let questions = "rule list\nroute show table all\naddr show dev lo\n";
        let output = namespace.output("ip", &[family, "-batch", "-"], questions);
        assert!(output.succeeded(), "{output:?}");
        let printed = output.stdout;
        let of_rules = |line: &&str| !line.contains(" dev ") || line.contains("default dev lo");
        text.extend(printed.lines().filter(of_rules).map(|line| format!("{line}\n")));
    }
    text
}

/// Lines with rules and routing. Existence and order of iptables' tables and base chains are irrelevant, and so are the kernel's
/// policy rule preferences.
pub(crate) fn own_lines(text: &str) -> Vec<String> {
    let says = |line: &&str| {
        let frames = line.is_empty() || line.contains("hook ") || line.ends_with('{') || *line == "}";
        // Provenance of a table.
        let is_note = line.contains("comment \"sidecar-init ");
        !frames && !is_note && !line.starts_with("# Warning")
    };
    let unplaced = |line: &str| match line.split_once(':') {
        Some((place, rule)) if place.parse::<u32>().is_ok() => rule.to_owned(),
        _ => line.to_owned(),
    };
    let mut lines: Vec<String> = text.lines().map(str::trim).filter(says).map(unplaced).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn cleaning_one_leaves_the_other() {
    const BESIDE: [(By, By); 4] = [
        (By::Us(NFT), By::Program(Variant::Nft)),
        (By::Us(NATIVE), By::Us(NFT)),
        (By::Us(LEGACY), By::Us(NATIVE)),
        (By::Us(NATIVE), By::Us(NATIVE)),
    ];
    let empty = own_lines(&everything(&Namespace::new()));
    // Two meshes with equal chain names can't share a table.
    let alike = |one: Goal, other: Goal| {
        [one, other].iter().all(|goal| goal.mesh != Mesh::Linkerd && goal.mesh != Mesh::Kuma)
    };
    for (index, (one, other)) in scope::of(Goal::pairs().enumerate().collect(), 4) {
        let ways = BESIDE.into_iter().cycle().skip(index % 2).step_by(2).take(2);
        for (by, beside) in ways.filter(|(by, _)| *by != By::Us(NFT) || !alike(one, other)) {
            let (namespace, fresh) = (Namespace::new(), Namespace::new());
            set(&fresh, other, beside);
            set(&namespace, other, beside);
            set(&namespace, one, by);
            namespace.run(|| engine::clean(&mut kernel(one.owner()), one.owner(), OWNERS)).expect("removed");
            let (found, desired) = (everything(&namespace), everything(&fresh));
            assert_eq!(own_lines(&found), own_lines(&desired), "{one:?} {by:?} beside {other:?} {beside:?}");
            set(&namespace, one, by);
            let all = one.owner().union(OWNERS);
            namespace.run(|| engine::clean(&mut kernel(all), all, OWNERS)).expect("removed");
            let left = own_lines(&everything(&namespace));
            assert_eq!(left, empty, "{one:?} {by:?} beside {other:?} {beside:?}");
        }
    }
}
