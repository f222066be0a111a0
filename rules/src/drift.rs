//! Differences between live and desired rules, chain by chain. Empty if a plan ([`crate::plan`]) is empty, or only replaces rules
//! with our equivalents.

use crate::{
    Chain, ChainName, ListedRule, Match, Negatable, Ownership, PortRange, Protocol, Rule, State, Table,
    Target, plan,
};
use similar::{Algorithm, ChangeTag, capture_diff_slices};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainDrift {
    pub table: Table,
    pub chain: Chain,
    pub lines: Vec<Compared>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferingPart {
    pub name: String,
    pub lines: Vec<Compared<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared<T = ListedRule> {
    pub side: Side,
    pub line: T,
    pub reason: Option<Reason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Both,
    Live,
    Desired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Missing,
    Extra,
    Moved,
    Changed,
    /// A foreign rule before ours that may decide a packet's verdict.
    ForeignBefore,
}

impl<T> Compared<T> {
    pub fn with_line<U>(&self, line: U) -> Compared<U> {
        Compared { side: self.side, line, reason: self.reason }
    }
}

impl Side {
    pub fn sign(self) -> char {
        match self {
            Self::Both => ' ',
            Self::Live => '-',
            Self::Desired => '+',
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Live => "from",
            Self::Desired => "to",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Moved => "moved",
            Self::Changed => "changed",
            Self::ForeignBefore => "foreign rule first",
        })
    }
}

pub fn drift(live: &State, desired: &State, owner: &Ownership) -> Vec<ChainDrift> {
    let mut found = Vec::new();
    for table in Table::LISTED {
        let chains: BTreeSet<&Chain> =
            live.chains(table).chain(desired.chains(table)).map(|(chain, _)| chain).collect();
        found.extend(chains.into_iter().filter_map(|chain| chain_drift(live, desired, table, chain, owner)));
    }
    found
}

fn chain_drift(
    live: &State,
    desired: &State,
    table: Table,
    chain: &Chain,
    owner: &Ownership,
) -> Option<ChainDrift> {
    let there = live.lines(table, chain);
    let lines = if owner.owns_chain(chain) {
        let exists = |state: &State| state.chain(table, chain).is_some();
        let wanted_lines = desired.lines(table, chain);
        let same = there == wanted_lines || is_the_same_unpacked(there, wanted_lines);
        if exists(live) == exists(desired) && same {
            return None;
        }
        compare(there, wanted_lines)
    } else {
        let lines = desired.lines(table, chain);
        let serves = |there: &ListedRule, line: &ListedRule| {
            there.serves_as(line) || is_enough(there, line, desired, table)
        };
        let ours: Vec<&ListedRule> = there.iter().filter(|line| line.belongs_to(owner)).collect();
        let foreign = plan::foreign_before(there, owner);
        let all_serve =
            ours.len() == lines.len() && ours.iter().zip(lines).all(|(ours, line)| serves(ours, line));
        if all_serve && foreign.is_none() {
            return None;
        }
        let reported =
            |there: &ListedRule| lines.iter().find(|line| serves(there, line)).unwrap_or(there).clone();
        let ours: Vec<ListedRule> = ours.into_iter().map(reported).collect();
        let foreign = foreign.map(|line| Compared {
            side: Side::Both,
            line: line.clone(),
            reason: Some(Reason::ForeignBefore),
        });
        foreign.into_iter().chain(compare(&ours, lines)).collect()
    };
    Some(ChainDrift { table, chain: chain.clone(), lines })
}

/// True for a TCP-only jump (upstream's until 1.20) to chains that affect only TCP.
fn is_enough(there: &ListedRule, desired: &ListedRule, state: &State, table: Table) -> bool {
    const TCP: Match = Match::Protocol(Protocol::Tcp);
    let (ListedRule::Typed(there), ListedRule::Typed(desired)) = (there, desired) else { return false };
    let Target::Jump(chain) = &desired.target else { return false };
    let rest = there.matches.iter().filter(|m| **m != TCP);
    there.target == desired.target
        && there.matches.contains(&TCP)
        && rest.eq(&desired.matches)
        && decides_about_tcp_only(state, table, chain)
}

fn decides_about_tcp_only(state: &State, table: Table, chain: &ChainName) -> bool {
    state.lines(table, &Chain::User(chain.clone())).iter().all(|line| match line {
        ListedRule::Typed(rule) => match &rule.target {
            Target::Return => true,
            _ if rule.matches.contains(&Match::Protocol(Protocol::Tcp)) => true,
            Target::Jump(next) => decides_about_tcp_only(state, table, next),
            _ => false,
        },
        ListedRule::Inherited(_) | ListedRule::Foreign(_) => false,
    })
}

pub fn compare<T: Clone + Ord>(live: &[T], desired: &[T]) -> Vec<Compared<T>> {
    let (mut numbers, mut lines) = (BTreeMap::new(), Vec::new());
    let mut number = |line| {
        *numbers.entry(line).or_insert_with(|| {
            lines.push(line);
            lines.len() - 1
        })
    };
    let live: Vec<usize> = live.iter().map(&mut number).collect();
    let desired: Vec<usize> = desired.iter().map(&mut number).collect();
    let compared = compare_numbers(&live, &desired).into_iter();
    compared.map(|compared| compared.with_line(lines[compared.line].clone())).collect()
}

/// The part of [`compare`] that is not generic, to compile only once.
fn compare_numbers(live: &[usize], desired: &[usize]) -> Vec<Compared<usize>> {
    let mut surplus: BTreeMap<usize, isize> = BTreeMap::new();
    live.iter().for_each(|line| *surplus.entry(*line).or_default() += 1);
    desired.iter().for_each(|line| *surplus.entry(*line).or_default() -= 1);
    let stays = |line: usize| surplus.get(&line) == Some(&0);
    let mut lines = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, live, desired) {
        let replaces = op.tag() == similar::DiffTag::Replace;
        for change in op.iter_changes(live, desired) {
            let line = change.value();
            let (side, plain) = match change.tag() {
                ChangeTag::Equal => (Side::Both, None),
                ChangeTag::Delete => (Side::Live, Some(Reason::Extra)),
                ChangeTag::Insert => (Side::Desired, Some(Reason::Missing)),
            };
            let reason = plain.map(|plain| match replaces {
                _ if stays(line) => Reason::Moved,
                true => Reason::Changed,
                false => plain,
            });
            lines.push(Compared { side, line, reason });
        }
    }
    lines
}

/// True if single-port rules are equivalent to desired rules with port lists. In a run (consecutive rules with a port condition),
/// a packet meets only its own port's rules: two runs are equivalent if they have the same rules for every port.
pub fn is_the_same_unpacked(there: &[ListedRule], desired: &[ListedRule]) -> bool {
    let takes_list = |line: &ListedRule| {
        let is_list = |m: &Match| matches!(m, Match::DestinationPorts(Negatable::Is(_)));
        matches!(line, ListedRule::Typed(rule) if rule.matches.iter().any(is_list))
    };
    desired.iter().any(takes_list) && !there.iter().any(takes_list) && parts(there).eq(parts(desired))
}

#[derive(PartialEq, Eq)]
enum Part<'a> {
    Others(&'a [ListedRule]),
    /// First port of each range, with the rules for that range, in order, without their port conditions.
    Run(Vec<(u32, Vec<Rule>)>),
}

fn parts(lines: &[ListedRule]) -> impl Iterator<Item = Part<'_>> {
    lines.chunk_by(|one, next| for_ports(one).is_some() == for_ports(next).is_some()).map(|lines| {
        let run: Vec<(&[PortRange], Rule)> = lines.iter().filter_map(for_ports).collect();
        if run.is_empty() { Part::Others(lines) } else { Part::Run(by_port(&run)) }
    })
}

fn for_ports(line: &ListedRule) -> Option<(&[PortRange], Rule)> {
    let ListedRule::Typed(rule) = line else { return None };
    let mut ports = None;
    let mut rest = Rule { matches: Vec::new(), target: rule.target.clone() };
    for m in &rule.matches {
        let ranges = match m {
            Match::DestinationPort(Negatable::Is(range)) => std::slice::from_ref(range),
            Match::DestinationPorts(Negatable::Is(set)) => set.ranges(),
            other => {
                rest.matches.push(other.clone());
                continue;
            }
        };
        // Two port conditions must both hold, unlike a list.
        if ports.replace(ranges).is_some() {
            return None;
        }
    }
    ports.map(|ports| (ports, rest))
}

fn by_port(run: &[(&[PortRange], Rule)]) -> Vec<(u32, Vec<Rule>)> {
    // Rules that start or stop matching at each port; matching rules carry over to the next port.
    let mut changes: BTreeMap<u32, Vec<(usize, i32)>> = BTreeMap::new();
    for (index, (ranges, _)) in run.iter().enumerate() {
        for range in *ranges {
            changes.entry(range.first().number().into()).or_default().push((index, 1));
            changes.entry(u32::from(range.last().number()) + 1).or_default().push((index, -1));
        }
    }
    let mut taking: BTreeMap<usize, i32> = BTreeMap::new();
    let mut by_port: Vec<(u32, Vec<Rule>)> = Vec::new();
    for (port, changes) in changes {
        changes.into_iter().for_each(|(index, step)| *taking.entry(index).or_default() += step);
        taking.retain(|_, ranges| *ranges > 0);
        let mut rules: Vec<Rule> = taking.keys().map(|index| run[*index].1.clone()).collect();
        // Equal rules may overlap.
        rules.dedup();
        if by_port.last().is_none_or(|(_, before)| *before != rules) {
            by_port.push((port, rules));
        }
    }
    by_port
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::tests::OWNER;
    use crate::{Family, State, Table, parse};

    fn check(live: &str, desired: &str, expected: &[&str]) {
        let state = |rules: &str| {
            let chains =
                ":PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:ISTIO_OUTPUT - [0:0]\n:ISTIO_A - [0:0]\n";
            parse::save(&format!("*nat\n{chains}{rules}COMMIT\n"), Family::V4, &OWNER).expect("valid")
        };
        let lines = drift(&state(live), &state(desired), &OWNER).into_iter().flat_map(|chain| chain.lines);
        let reported = lines.filter_map(|Compared { side, reason, .. }| {
            reason.map(|reason| format!("{}{reason}", side.sign()).trim_start().to_owned())
        });
        assert_eq!(reported.collect::<Vec<_>>(), expected, "{live}");
    }

    #[test]
    fn a_jump_for_tcp_is_enough_where_its_chains_decide_about_tcp_only() {
        let (all, tcp) = ("-A OUTPUT -j ISTIO_OUTPUT\n", "-A OUTPUT -p tcp -j ISTIO_OUTPUT\n");
        for (chains, is_enough) in [
            ("", true),
            ("-A ISTIO_OUTPUT -d 10.0.0.1/32 -j RETURN\n", true),
            ("-A ISTIO_OUTPUT -p tcp -j ACCEPT\n", true),
            ("-A ISTIO_OUTPUT -p udp -j ACCEPT\n", false),
            ("-A ISTIO_OUTPUT -j LOG\n", false),
            ("-A ISTIO_OUTPUT -j ISTIO_A\n-A ISTIO_A -p tcp -j ACCEPT\n", true),
            ("-A ISTIO_OUTPUT -j ISTIO_A\n-A ISTIO_A -j ACCEPT\n", false),
        ] {
            let expected: &[&str] = if is_enough { &[] } else { &["-changed", "+changed"] };
            check(&format!("{tcp}{chains}"), &format!("{all}{chains}"), expected);
            check(&format!("{all}{chains}"), &format!("{all}{chains}"), &[]);
        }
        for other in [
            "-A OUTPUT -p udp -j ISTIO_OUTPUT\n",
            "-A OUTPUT -o eth0 -p tcp -j ISTIO_OUTPUT\n",
            "-A OUTPUT -o eth0 -j ISTIO_OUTPUT\n",
            "-A OUTPUT -p tcp -j ISTIO_A\n",
        ] {
            check(other, all, &["-changed", "+changed"]);
        }
        check(all, tcp, &["-changed", "+changed"]);
        check(tcp, "", &["-extra"]);
    }

    #[test]
    fn every_kind_of_drift_has_its_reason() {
        let (a, b, c) = (
            "-A ISTIO_OUTPUT -d 10.0.0.1/32 -j RETURN\n",
            "-A ISTIO_OUTPUT -d 10.0.0.2/32 -j RETURN\n",
            "-A ISTIO_OUTPUT -d 10.0.0.3/32 -j RETURN\n",
        );
        let (jump, accept, log) =
            ("-A OUTPUT -j ISTIO_OUTPUT\n", "-A OUTPUT -p tcp -j ACCEPT\n", "-A OUTPUT -j LOG\n");
        let all = |parts: &[&str]| parts.concat();
        check(&all(&[a, b]), &all(&[a, b]), &[]);
        check(&all(&[a]), &all(&[a, b]), &["+missing"]);
        check(&all(&[a, b]), &all(&[b]), &["-extra"]);
        check(&all(&[a, a, b]), &all(&[a, b]), &["-extra"]);
        check(&all(&[b, a]), &all(&[a, b]), &["+moved", "-moved"]);
        check(&all(&[a, c]), &all(&[a, b]), &["-changed", "+changed"]);
        check(&all(&[jump, accept]), jump, &[]);
        check(&all(&[log, jump]), jump, &[]);
        check(&all(&[accept, jump]), jump, &["foreign rule first"]);
        check(accept, jump, &["+missing"]);
    }

    fn lines(text: &str) -> Vec<ListedRule> {
        let text = text.replace("-A ", "-A X ");
        let rules = parse::restore(&format!("*nat\n{text}COMMIT\n"), Family::V4).expect("valid");
        State::of(&rules).lines(Table::Nat, &"X".parse().expect("a name")).to_vec()
    }

    fn check_unpacked(there: &str, desired: &str, same: bool) {
        assert_eq!(is_the_same_unpacked(&lines(there), &lines(desired)), same, "{there}\n{desired}");
    }

    #[test]
    fn lists_and_rules_for_one_port_each_are_compared_by_port() {
        let one = |port: &str| format!("-A -p tcp --dport {port} -j RETURN\n");
        let list = |ports: &str| format!("-A -p tcp -m multiport --dports {ports} -j RETURN\n");
        let rest = "-A -p tcp -j DROP\n";
        let singles = [one("80"), one("82"), one("81"), rest.to_owned()].concat();
        check_unpacked(&singles, &format!("{}{rest}", list("80:82")), true);
        check_unpacked(&singles, &format!("{}{}{rest}", list("80,82"), list("81")), true);
        check_unpacked(&singles, &format!("{}{rest}", list("80:83")), false);
        check_unpacked(&singles, &format!("{}{rest}", list("80,82")), false);
        check_unpacked(&singles, &format!("{rest}{}", list("80:82")), false);
        check_unpacked(&singles, &format!("{rest}{rest}{}", list("80:82")), false);
        check_unpacked(&singles, &singles, false);
        check_unpacked(&list("80,81"), &list("80:81"), false);
        let jump = |ports: &str| ports.replace("RETURN", "OTHER");
        let by_port = [one("80"), jump(&one("80")), one("82"), jump(&one("82"))].concat();
        check_unpacked(&by_port, &format!("{}{}", list("80,82"), jump(&list("80,82"))), true);
        check_unpacked(&by_port, &format!("{}{}", jump(&list("80,82")), list("80,82")), false);
        check_unpacked(&[one("80"), one("80")].concat(), &list("80"), true);
    }
}
