//! Every rule removed, changed, or swapped with the next: a probe fails exactly when a walk through the remaining rules ends
//! differently, or when connections break in a way that a walk of the first packet cannot show.

use crate::diagnose::verify::oracle::{changed, expectations};
use crate::diagnose::verify::pod::{DEFAULT, DNS, Pod, Scenario, TPROXY};
use crate::support::{rows::rows, scope};
use diagnose::probe::Call;

struct Mutation {
    what: String,
    text: String,
}

/// Replacements; the first that matches changes a rule.
const CHANGES: [(&str, &str); 9] = [
    ("--to-ports 15", "--to-ports 16"),
    ("--on-port 15", "--on-port 16"),
    ("redirect to :15", "redirect to :16"),
    ("tproxy to :15", "tproxy to :16"),
    ("-owner 1337", "-owner 4242"),
    ("skuid 1337", "skuid 4242"),
    ("skgid 1337", "skgid 4242"),
    ("dport 150", "dport 160"),
    ("127.0.0.6", "127.0.0.7"),
];

fn is_rule(line: &str) -> bool {
    let native = line.starts_with("\t\t")
        && !["type ", "flags ", "elements ", "auto-merge"].iter().any(|word| line.trim().starts_with(word))
        && !line.ends_with(',');
    line.starts_with("-A ") || native
}

/// The chain of a rule, if its line names it.
fn chain(line: &str) -> Option<&str> {
    line.split(' ').nth(1).filter(|_| line.starts_with("-A "))
}

/// `removed_only`: only removals, for IPv6 rules, which resemble the IPv4 rules.
fn mutations(listing: &str, removed_only: bool) -> Vec<Mutation> {
    let lines: Vec<&str> = listing.lines().collect();
    let with = |what: &str, at: usize, lines: Vec<&str>| Mutation {
        what: format!("{what}: {}", listing.lines().nth(at).unwrap_or_default().trim()),
        text: lines.join("\n") + "\n",
    };
    let mut made = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_rule(line)) {
        let mut without = lines.clone();
        without.remove(at);
        made.push(with("removed", at, without));
        if removed_only {
            continue;
        }
        if let Some((from, to)) = CHANGES.iter().find(|(from, _)| line.contains(from)) {
            let another = line.replacen(from, to, 1);
            let mut changed = lines.clone();
            changed[at] = &another;
            made.push(with("changed", at, changed));
        }
        let next = lines.get(at + 1).filter(|next| is_rule(next) && chain(next) == chain(line));
        if next.is_some_and(|next| next != line) {
            let mut swapped = lines.clone();
            swapped.swap(at, at + 1);
            made.push(with("exchanged with the next", at, swapped));
        }
    }
    made
}

/// A backend's programs that list and restore its rules, for each family.
fn programs(backend: &str) -> Vec<[String; 2]> {
    match backend.strip_prefix("iptables-") {
        Some(variant) => ["iptables", "ip6tables"]
            .map(|stem| ["save", "restore"].map(|verb| format!("{stem}-{variant}-{verb}")))
            .into(),
        None => vec![["nft".to_owned(), "nft".to_owned()]],
    }
}

fn list(pod: &Pod, [save, _]: &[String; 2]) -> String {
    let arguments: &[&str] = if save == "nft" { &["--stateless", "list", "ruleset"] } else { &[] };
    pod.inside.stdout(save, arguments)
}

fn restore(pod: &Pod, [_, restore]: &[String; 2], text: &str) {
    match restore.as_str() {
        "nft" => pod.inside.load(&format!("flush ruleset\n{text}")),
        _ => drop(pod.inside.fed(restore, &[], text)),
    }
}

/// Failures that a first packet's walk cannot show: a lost answer, or a connection that gets stuck.
fn is_broken_later(call: &serde_json::Value) -> bool {
    call["seen"]["end"] == "unanswered" || call["seen"]["end"] == "nowhere"
}

fn check(pod: &Pod, calls: &[Call], what: &str) -> (bool, bool) {
    let found = pod.probe(&["--probe-timeout", "2s"]);
    let changed = changed(pod, calls);
    if !changed.is_empty() {
        assert_eq!(found.code, Some(3), "{what}: {changed:?}\n{:#?}", found.calls);
    } else if found.code != Some(0) {
        let all = found.with_outcome("wrong").into_iter().all(is_broken_later);
        assert!(all && found.code == Some(3), "{what}: no change, but\n{}", found.wrong());
    }
    assert!(found.with_outcome("untried").is_empty(), "{what}: {:#?}", found.with_outcome("untried"));
    (!changed.is_empty(), found.code == Some(3))
}

fn mutate(scenario: Scenario, backend: &str) {
    let pod = Pod::with(scenario, backend);
    let calls = expectations(&pod);
    pod.probe(&[]).all_right(backend);
    assert_eq!(changed(&pod, &calls), Vec::<String>::new(), "{backend}: the walk agrees with the flags");
    let (mut made, mut tried, mut caught, mut unseen) = (0, 0, 0, Vec::new());
    for programs in programs(backend) {
        let whole = list(&pod, &programs);
        let mutations = mutations(&whole, programs[0].starts_with("ip6"));
        made += mutations.len();
        for Mutation { what, text } in scope::of(mutations, 10) {
            restore(&pod, &programs, &text);
            let (_, failed) = check(&pod, &calls, &format!("{backend}, {what}"));
            tried += 1;
            caught += usize::from(failed);
            if !failed {
                unseen.push(what);
            }
        }
        restore(&pod, &programs, &whole);
    }
    pod.probe(&[]).all_right(backend);
    assert!(
        made > 20 && caught * if scope::all() { 4 } else { 8 } > tried,
        "{backend}: only {caught} of {tried} detected, missed {unseen:#?}"
    );
}

rows! {
    the_default_by_nftables: mutate(DEFAULT, "nftables");
    the_default_by_iptables_nft: mutate(DEFAULT, "iptables-nft");
    #[ignore = "a second iptables variant"]
    the_default_by_iptables_legacy: mutate(DEFAULT, "iptables-legacy");
    dns_by_nftables: mutate(DNS, "nftables");
    dns_by_iptables_nft: mutate(DNS, "iptables-nft");
    #[ignore = "a second iptables variant"]
    dns_by_iptables_legacy: mutate(DNS, "iptables-legacy");
    tproxy_by_nftables: mutate(TPROXY, "nftables");
    tproxy_by_iptables_nft: mutate(TPROXY, "iptables-nft");
    #[ignore = "a second iptables variant"]
    tproxy_by_iptables_legacy: mutate(TPROXY, "iptables-legacy");
}
