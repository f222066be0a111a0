//! Rules for many ports: one for each port, as some programs write them, against a few that each take a list.
//!
//! Of consecutive rules with a condition on the port (a run), a packet meets those of its own port only, in their order.
//! Two runs do the same if they have the same rules for every port.

use crate::{ListedRule, Match, Negatable, PortRange, Rule};
use std::collections::BTreeMap;

/// True if rules for one port each do the same as desired ones that take lists: `false` for chains in which either side
/// is written in another way.
pub fn is_the_same_unpacked(there: &[ListedRule], desired: &[ListedRule]) -> bool {
    let takes_list = |line: &ListedRule| {
        let is_list = |m: &Match| matches!(m, Match::DestinationPorts(Negatable::Is(_)));
        matches!(line, ListedRule::Typed(rule) if rule.matches.iter().any(is_list))
    };
    desired.iter().any(takes_list) && !there.iter().any(takes_list) && parts(there) == parts(desired)
}

#[derive(PartialEq, Eq)]
enum Part<'a> {
    ListedRule(&'a ListedRule),
    /// From each of these ports up to the next one: the rules in order, without their condition on the port.
    Run(Vec<(u32, Vec<Rule>)>),
}

fn parts(lines: &[ListedRule]) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut run: Vec<(&[PortRange], Rule)> = Vec::new();
    for line in lines {
        match for_ports(line) {
            Some(rule) => run.push(rule),
            None => {
                parts.extend(close(&mut run));
                parts.push(Part::ListedRule(line));
            }
        }
    }
    parts.extend(close(&mut run));
    parts
}

/// The ports of a rule with a condition on ports, and the rule without it.
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
        // Of two conditions on ports, both have to hold.
        if ports.replace(ranges).is_some() {
            return None;
        }
    }
    ports.map(|ports| (ports, rest))
}

fn close(run: &mut Vec<(&[PortRange], Rule)>) -> Option<Part<'static>> {
    if run.is_empty() {
        return None;
    }
    // At each port, the rules that begin and end to take it: those that take it are kept from one to the next.
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
        // Of a port that was named twice.
        rules.dedup();
        if by_port.last().is_none_or(|(_, before)| *before != rules) {
            by_port.push((port, rules));
        }
    }
    run.clear();
    Some(Part::Run(by_port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Family, State, Table, parse};

    fn lines(text: &str) -> Vec<ListedRule> {
        let text = text.replace("-A ", "-A X ");
        let rules = parse::restore(&format!("*nat\n{text}COMMIT\n"), Family::V4).expect("valid");
        State::of(&rules).lines(Table::Nat, &"X".parse().expect("a name")).to_vec()
    }

    fn check(there: &str, desired: &str, same: bool) {
        assert_eq!(is_the_same_unpacked(&lines(there), &lines(desired)), same, "{there}\n{desired}");
    }

    #[test]
    fn lists_and_rules_for_one_port_each_are_compared_by_port() {
        let one = |port: &str| format!("-A -p tcp --dport {port} -j RETURN\n");
        let list = |ports: &str| format!("-A -p tcp -m multiport --dports {ports} -j RETURN\n");
        let rest = "-A -p tcp -j DROP\n";
        let singles = [one("80"), one("82"), one("81"), rest.to_owned()].concat();
        check(&singles, &format!("{}{rest}", list("80:82")), true);
        check(&singles, &format!("{}{}{rest}", list("80,82"), list("81")), true);
        check(&singles, &format!("{}{rest}", list("80:83")), false);
        check(&singles, &format!("{}{rest}", list("80,82")), false);
        check(&singles, &format!("{rest}{}", list("80:82")), false);
        check(&singles, &format!("{rest}{rest}{}", list("80:82")), false);
        // What is written as we write it is compared word by word.
        check(&singles, &singles, false);
        check(&list("80,81"), &list("80:81"), false);
        // Several rules a port, port by port or rule by rule.
        let jump = |ports: &str| ports.replace("RETURN", "OTHER");
        let by_port = [one("80"), jump(&one("80")), one("82"), jump(&one("82"))].concat();
        check(&by_port, &format!("{}{}", list("80,82"), jump(&list("80,82"))), true);
        check(&by_port, &format!("{}{}", jump(&list("80,82")), list("80,82")), false);
        // A port may be named twice.
        check(&[one("80"), one("80")].concat(), &list("80"), true);
    }
}
