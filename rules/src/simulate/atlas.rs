//! Partitions packet sets by the endings of walks: a walk splits wherever a condition splits its packets.

use super::facts::Asked;
use super::set::{By, Packet, PacketSet, Routing, Way};
use super::trace::{At, Ending, Outcome, Step, Verdict};
use super::view::{View, ViewRule, statements};
use super::walk::{SetWalk, Walker};
use crate::{ConnState, RuleSet, Statement, field::Field};
use std::collections::BTreeSet;

/// Remaining budget in rules met; bounds queries about long lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    left: Option<usize>,
}

impl Work {
    pub fn new(max: usize) -> Self {
        Self { left: Some(max) }
    }

    pub fn spend(&mut self, units: usize) -> Option<()> {
        self.left = self.left.and_then(|left| left.checked_sub(units));
        self.left.map(|_| ())
    }

    /// True if the budget was ever exceeded, so the result is incomplete.
    pub fn is_spent(&self) -> bool {
        self.left.is_none()
    }

    pub fn left(&self) -> usize {
        self.left.unwrap_or_default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    pub packets: PacketSet,
    pub ending: Ending,
    /// Rules that the packets match, or may match.
    pub rules: Vec<At>,
}

/// Disjoint regions of packet sets.
#[derive(Clone, Debug, Default)]
pub struct Atlas {
    pub regions: Vec<Region>,
    /// Packets not walked because the budget was spent.
    pub open: Vec<PacketSet>,
}

impl Atlas {
    pub fn of(
        view: &View,
        routing: &Routing,
        sets: impl IntoIterator<Item = PacketSet>,
        work: &mut Work,
    ) -> Self {
        let (walker, mut atlas) = (Walker { view, routing, is_single: false }, Self::default());
        let sets = sets.into_iter().filter(|set| !set.is_empty());
        let mut walks: Vec<SetWalk> = sets.map(SetWalk::of).collect();
        walks.reverse();
        while let Some(mut walk) = walks.pop() {
            if work.is_spent() {
                atlas.open.push(walk.set);
                continue;
            }
            let before = walk.steps;
            let ended = walker.run(&mut walk);
            let _ = work.spend(walk.steps - before);
            match ended {
                Ok(ending) => {
                    let rules = walk.met.iter().map(|step| step.at).collect();
                    atlas.regions.push(Region { packets: walk.set, ending, rules });
                }
                Err(divider) => {
                    // The rule's own packets come first, to keep regions in rule order.
                    let mut others = walk.clone();
                    walk.set.narrow(&divider.by, divider.is_positive);
                    others.set.narrow(&divider.by, !divider.is_positive);
                    walks.push(others);
                    walks.push(walk);
                }
            }
        }
        atlas
    }

    pub fn is_complete(&self) -> bool {
        self.open.is_empty()
    }

    fn met(&self) -> BTreeSet<At> {
        self.regions.iter().flat_map(|region| &region.rules).copied().collect()
    }
}

/// Returns a packet's outcome. The verdict is unknown if another chain order or missing rules could change it.
pub fn walk(view: &View, routing: &Routing, packet: &Packet) -> Outcome {
    trace(view, routing, packet).0
}

pub fn trace(view: &View, routing: &Routing, packet: &Packet) -> (Outcome, Vec<Step>) {
    let mut walk = SetWalk::of(PacketSet::one(packet));
    let ending = Walker { view, routing, is_single: true }.run(&mut walk);
    // No condition splits a single packet.
    let ending = ending.unwrap_or_else(|_| walk.ending(Some((Verdict::Unknown, None))));
    (ending.of(packet), walk.met)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreached<'a> {
    pub rule: &'a Statement,
    pub by: &'a Statement,
}

pub fn unreached<'a>(rules: &'a RuleSet, work: &mut Work) -> Vec<Unreached<'a>> {
    let (view, routing) = (View::of_rules(rules), Routing::default());
    let ways = [Way::Outbound, Way::Inbound { local: true }, Way::Inbound { local: false }];
    let of_way = |way| ConnState::ALL.map(|state| PacketSet::all(rules.family, way, state));
    let all: Vec<PacketSet> = ways.into_iter().flat_map(of_way).collect();
    let atlas = Atlas::of(&view, &routing, all.clone(), work);
    let unknown = atlas.regions.iter().filter(|region| region.ending.verdict == Verdict::Unknown);
    let (met, statements) = (atlas.met(), statements(rules));
    let mut found = Vec::new();
    for (chain, content) in view.chains().iter().enumerate() {
        for (at, rule) in content.rules.iter().enumerate() {
            if met.contains(&At { chain, rule: at }) || !rule.has_effect() {
                continue;
            }
            // After an unknown rule, packets may go on.
            let may_go_on = |region: &Region| asked_of(rule, region.packets.clone(), is_lasting).is_some();
            if unknown.clone().any(may_go_on) {
                continue;
            }
            let own = all.iter().filter_map(|set| asked_of(rule, set.clone(), |_| true));
            let own = Atlas::of(&view, &routing, own, work).met();
            let ends = |before: &usize| content.rules[*before].may_end();
            let by = (0..at).rev().filter(ends).find(|rule| own.contains(&At { chain, rule: *rule }));
            if work.is_spent() {
                return Vec::new();
            }
            found.extend(by.map(|by| Unreached { rule: statements[chain][at], by: statements[chain][by] }));
        }
    }
    found
}

fn asked_of(rule: &ViewRule, mut set: PacketSet, on: impl Fn(Field) -> bool) -> Option<PacketSet> {
    for asked in &rule.asked {
        if let Asked::Field { condition, .. } = asked
            && on(condition.field)
        {
            set.narrow(&By::Values(condition.field, condition.values.clone()), !condition.negated);
        }
    }
    (!set.is_empty()).then_some(set)
}

/// True if no rule and no hook changes the field.
fn is_lasting(field: Field) -> bool {
    matches!(field, Field::Protocol | Field::Source(_) | Field::SourcePort)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Family, parse};

    fn check(rules: &str, expected: &[(usize, usize)]) {
        let text = format!("*nat\n{rules}-A R -p tcp -j REDIRECT --to-ports 1\nCOMMIT\n");
        check_text(&text, expected);
    }

    fn check_text(text: &str, expected: &[(usize, usize)]) {
        let rules = parse::restore(text, Family::V4).expect("rules");
        let place = |desired: &Statement| {
            rules.statements.iter().position(|one| std::ptr::eq(one, desired)).expect("of the set") + 1
        };
        let found: Vec<(usize, usize)> = unreached(&rules, &mut Work::new(100_000))
            .iter()
            .map(|found| (place(found.rule), place(found.by)))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn a_rule_behind_wider_ones_is_not_reached() {
        check("-A OUTPUT -d 10.0.0.0/8 -j RETURN\n-A OUTPUT -p tcp -d 10.1.0.0/16 -j R\n", &[(2, 1)]);
        check("-A OUTPUT -d 10.1.0.0/16 -j RETURN\n-A OUTPUT -d 10.0.0.0/8 -j R\n", &[]);
        check("-A OUTPUT -p tcp --dport 80 -j R\n-A OUTPUT -p tcp --dport 80 -j RETURN\n", &[(2, 1)]);
        check("-A OUTPUT -p tcp --dport 1:99 -j RETURN\n-A OUTPUT -p tcp --dport 80 -j RETURN\n", &[(2, 1)]);
        // The first two together cover the third.
        check(
            "-A OUTPUT -p tcp --dport 1:49 -j RETURN\n-A OUTPUT -p tcp --dport 50:99 -j RETURN\n\
             -A OUTPUT -p tcp --dport 40:60 -j R\n-A OUTPUT -p udp -j R\n",
            &[(3, 2)],
        );
    }

    #[test]
    fn jump_takes_only_packets_that_its_chain_ends() {
        check("-A OUTPUT -j R\n-A OUTPUT -p tcp -j RETURN\n", &[(2, 1)]);
        check("-A OUTPUT -j R\n-A OUTPUT -j RETURN\n", &[]);
        check(
            "-A OUTPUT -m owner ! --uid-owner 1 -j RETURN\n-A OUTPUT -m owner --uid-owner 2 -j R\n-A PREROUTING -j R\n",
            &[(2, 1)],
        );
    }

    #[test]
    fn a_rule_behind_one_that_sets_its_mark_is_reached() {
        let marks = |between: &str, expected: &[(usize, usize)]| {
            check_text(
                &format!(
                    "*mangle\n-A S -j MARK --set-mark 1\n-A OUTPUT -m mark --mark 1 -j RETURN\n{between}\
                     -A OUTPUT -m mark --mark 1 -j DROP\n-A PREROUTING -j S\nCOMMIT\n"
                ),
                expected,
            );
        };
        marks("-A OUTPUT -p tcp -j MARK --set-mark 1\n", &[]);
        marks("-A OUTPUT -p tcp -j S\n", &[]);
        marks("-A OUTPUT -j CONNMARK --restore-mark\n", &[]);
        marks("-A OUTPUT -j CONNMARK --save-mark\n", &[(4, 2)]);
        marks("-A OUTPUT -j DOCKER_OUTPUT\n", &[]);
        marks("-A OUTPUT -j LOG --log-prefix a --log-level 7\n", &[(4, 2)]);
    }

    #[test]
    fn the_work_grows_with_the_rules_and_not_with_their_pairs() {
        let work = |networks: usize| {
            let rule = |at: usize| {
                format!("-A PREROUTING -i eth{} -d 10.{}.{}.0/24 -j R\n", at % 20, at / 20 % 250, at / 5000)
            };
            let lines: String = (0..20 * networks).map(rule).collect();
            let text = format!("*nat\n{lines}-A R -p tcp -j REDIRECT --to-ports 1\nCOMMIT\n");
            let rules = parse::restore(&text, Family::V4).expect("rules");
            let mut work = Work::new(10_000_000);
            assert_eq!(unreached(&rules, &mut work), []);
            10_000_000 - work.left()
        };
        let (few, many) = (work(100), work(300));
        assert!(many <= 4 * few, "{few} and {many}");
    }
}
