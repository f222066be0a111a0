//! Rules arranged for walking: chains by index, jumps resolved. A view is made from a rule set, with provenance, or from
//! listings, without provenance, and can hold a namespace's rules.

use super::{facts::Asked, trace::At};
use crate::field::{Condition, Field, Interval, Intervals, family_number};
use crate::nft::{Base, Kind, LiveRule, LiveTable, base_of};
use crate::{
    Action, Chain, ChainName, Family, Hits, Hook, ListedCondition, ListedRule, Listing, Origin, Policy,
    RuleSet, Statement, Table, Target,
};
use std::collections::{BTreeMap, BTreeSet};
use std::{borrow::Cow, ops::Range};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRule {
    /// Listed text; `None` for a rule set's rules.
    pub text: Option<String>,
    pub conditions: Vec<ListedCondition>,
    pub(super) asked: Vec<Asked>,
    /// Actions before `action`; none ends the walk.
    pub(super) first: Vec<Action>,
    pub action: Action,
    pub comment: String,
    pub origin: Option<Origin>,
    /// The target's chain; `None` if it does not exist.
    pub leads_to: Option<usize>,
    /// `None` if the listing has no counters.
    pub hits: Option<Hits>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewChain {
    /// The table as displayed: `nat`, or `inet filter`.
    pub table: Cow<'static, str>,
    pub chain: String,
    pub base: Option<Base>,
    /// Meaningful only in a base chain.
    pub policy: Policy,
    pub rules: Vec<ViewRule>,
    pub(super) runs: Vec<RuleRun>,
    /// True if only one of its rules affects packets. The rule that leads here is then reported as decisive.
    pub(super) has_single_effect: bool,
    pub(super) is_nftables: bool,
}

/// Base chains by hook, in kernel order. Within a group, the unknown order of registration decides.
pub(super) type ChainGroups = [Vec<Vec<usize>>; Hook::ALL.len()];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    family: Family,
    chains: Vec<ViewChain>,
    pub(super) groups: ChainGroups,
    /// True if a rule requires the kernel to track connections of the family; `None` if unknown. Cached: every walk needs it.
    pub(super) tracks: Option<bool>,
    gap: Option<String>,
}

/// Statements of a rule set by chain and rule, in the order of [`View::of_rules`].
pub fn statements(rules: &RuleSet) -> Vec<Vec<&Statement>> {
    Table::ALL.into_iter().flat_map(|table| rules.chains(table).into_values()).collect()
}

impl ViewRule {
    fn of(conditions: Vec<ListedCondition>, action: Action) -> Self {
        Self {
            text: None,
            asked: conditions.iter().map(Asked::of).collect(),
            conditions,
            first: Vec::new(),
            action,
            comment: String::new(),
            origin: None,
            leads_to: None,
            hits: None,
        }
    }

    fn new(line: &ListedRule, text: Option<String>, origin: Option<Origin>) -> Self {
        Self { text, origin, ..Self::of(line.conditions(), line.action()) }
    }

    fn of_nftables(rule: LiveRule) -> Self {
        let LiveRule { text, conditions, first, action, comment, hits } = rule;
        Self { text: Some(text), first, comment, hits, ..Self::of(conditions, action) }
    }

    pub fn does(&self, such: impl Fn(&Action) -> bool) -> bool {
        self.first.iter().chain([&self.action]).any(such)
    }

    pub(super) fn has_effect(&self) -> bool {
        self.does(|action| !action.surely_continues() || action.sets_tos())
    }

    pub(super) fn may_end(&self) -> bool {
        match &self.action {
            Action::Target(target) => target.decides() || target.chain().is_some(),
            Action::Notrack | Action::UnknownMark(_) | Action::UnknownZone(_) | Action::Continue(_) => false,
            _ => true,
        }
    }
}

impl ViewChain {
    pub(super) fn is(&self, kind: Kind) -> bool {
        self.base.is_some_and(|base| base.kind == kind)
    }

    fn of_iptables(label: Option<&str>, table: Table, chain: &Chain, rules: Vec<ViewRule>) -> Self {
        let title = match label {
            Some(label) => format!("{table} ({label})").into(),
            None => table.name().into(),
        };
        Self { table: title, chain: chain.to_string(), base: base_of(table, chain), rules, ..Self::default() }
    }
}

impl View {
    pub fn empty(family: Family) -> Self {
        Self { family, chains: Vec::new(), groups: ChainGroups::default(), tracks: Some(false), gap: None }
    }

    /// Records why rules may be missing: every verdict becomes unknown.
    #[must_use]
    pub fn with_gap(self, gap: Option<String>) -> Self {
        Self { gap, ..self }
    }

    /// Clause that explains why rules may be missing; `None` if all are known.
    pub fn gap(&self) -> Option<&str> {
        self.gap.as_deref()
    }

    pub fn of_listing(listing: Listing) -> Self {
        let mut view = Self::empty(listing.family);
        view.add_listing(listing, None);
        // The namespace's other rules are unknown, but usually make the kernel track connections.
        view.tracks = Some(true);
        view
    }

    /// `label` distinguishes its tables from others of the same name.
    pub fn add_listing(&mut self, listing: Listing, label: Option<&str>) {
        self.add(listing.chains.into_iter().map(|((table, chain), content)| {
            let rules = content.rules.into_iter().map(|listed| ViewRule {
                hits: listed.hits,
                ..ViewRule::new(&listed.line, Some(listed.text), None)
            });
            let chain = ViewChain::of_iptables(label, table, &chain, rules.collect());
            ViewChain { policy: content.policy, ..chain }
        }));
    }

    pub fn add_nftables(&mut self, table: LiveTable) {
        if table.family.is_some_and(|family| family != self.family) {
            return;
        }
        self.add(table.chains.into_iter().map(|chain| ViewChain {
            table: table.name.clone().into(),
            chain: chain.name,
            base: chain.base.map(|(base, _)| base),
            policy: chain.base.map_or(Policy::Accept, |(_, policy)| policy),
            rules: chain.rules.into_iter().map(ViewRule::of_nftables).collect(),
            is_nftables: true,
            ..ViewChain::default()
        }));
    }

    pub fn of_rules(rules: &RuleSet) -> Self {
        let mut view = Self::empty(rules.family);
        view.add(Table::ALL.into_iter().flat_map(|table| {
            rules.chains(table).into_iter().map(move |(chain, statements)| {
                let rule = |s: &Statement| ViewRule::new(&ListedRule::Typed(s.rule.clone()), None, s.origin);
                ViewChain::of_iptables(None, table, &chain, statements.into_iter().map(rule).collect())
            })
        }));
        view
    }

    fn add(&mut self, chains: impl Iterator<Item = ViewChain>) {
        let start = self.chains.len();
        self.chains.extend(chains);
        let named = self.chains.iter().map(|content| (content.table.clone(), content.chain.clone()));
        let places: BTreeMap<(Cow<'static, str>, String), usize> = named.zip(0..).skip(start).collect();
        for chain in &mut self.chains[start..] {
            chain.runs = RuleRun::of(&chain.rules);
            chain.has_single_effect =
                chain.rules.iter().filter(|rule| !rule.action.surely_continues()).count() == 1;
            for rule in &mut chain.rules {
                let place = |name: &str| places.get(&(chain.table.clone(), name.to_owned())).copied();
                let name = match &rule.action {
                    Action::Call { chain, .. } => Some(chain.as_str()),
                    action => action.chain().map(ChainName::as_str),
                };
                rule.leads_to = name.and_then(place);
            }
        }
        self.groups = Hook::ALL.map(|hook| self.groups_of(hook));
        let rules = self.chains.iter().flat_map(|chain| &chain.rules);
        self.tracks = rules.map(|rule| self.tracking(rule)).fold(Some(false), either);
    }

    #[must_use]
    pub fn only(&self, keeps: impl Fn(At) -> bool) -> Self {
        let of_chain = |(chain, content): (usize, &ViewChain)| {
            let rules = content.rules.iter().enumerate();
            let kept = rules.filter(|(rule, _)| keeps(At { chain, rule: *rule }));
            let rules: Vec<ViewRule> = kept.map(|(_, rule)| rule.clone()).collect();
            (!rules.is_empty() || content.rules.is_empty()).then(|| ViewChain {
                table: content.table.clone(),
                chain: content.chain.clone(),
                base: content.base,
                rules,
                is_nftables: content.is_nftables,
                ..ViewChain::default()
            })
        };
        let mut only = Self::empty(self.family);
        only.add(self.chains.iter().enumerate().filter_map(of_chain));
        Self { tracks: self.tracks, ..only }
    }

    #[must_use]
    pub fn with_origins(mut self, origins: impl IntoIterator<Item = (At, Origin)>) -> Self {
        for (at, origin) in origins {
            self.chains[at.chain].rules[at.rule].origin = Some(origin);
        }
        self
    }

    pub fn family(&self) -> Family {
        self.family
    }

    pub fn chains(&self) -> &[ViewChain] {
        &self.chains
    }

    /// `None` for a chain's policy.
    pub fn rule(&self, at: At) -> Option<&ViewRule> {
        self.chains.get(at.chain)?.rules.get(at.rule)
    }

    pub(super) fn returns(&self, at: At) -> bool {
        let action = self.rule(at).map(|rule| &rule.action);
        !matches!(action, Some(Action::Goto(_) | Action::Call { returns: false, .. }))
    }

    /// The rule to report for the effect of `at`: its caller, if its chain has no other effect.
    pub(super) fn decider(&self, at: At, caller: Option<At>) -> At {
        let leads = |caller: &At| self.chains[at.chain].has_single_effect && self.returns(*caller);
        caller.filter(leads).unwrap_or(at)
    }

    /// Base chains for destination NAT that the kernel may call before `ours` or, without ours, before iptables' chains.
    pub fn nat_before(&self, ours: impl Fn(&ViewChain) -> bool) -> Vec<usize> {
        let of_hook = |hook: Hook| {
            let chains = self.groups[hook as usize].iter().flatten().copied();
            chains.filter(|chain| self.chains[*chain].is(Kind::Nat)).collect::<Vec<usize>>()
        };
        let hooks = [Hook::Prerouting, Hook::Output].map(of_hook);
        let is_ours = |chain: &usize| ours(&self.chains[*chain]);
        let any_ours = hooks.iter().flatten().any(is_ours);
        let before = hooks.iter().flat_map(|chains| {
            let own = chains.iter().copied().find(is_ours).and_then(|chain| self.rank_of(chain));
            let limit = if any_ours { own } else { Some(IPTABLES_DNAT_RANK) };
            let comes_first = move |chain: &usize| limit.is_some() && self.rank_of(*chain) <= limit;
            chains.iter().copied().filter(move |chain| !is_ours(chain) && comes_first(chain))
        });
        before.collect()
    }

    pub fn find(&self, chain: usize, is_it: &dyn Fn(&ViewRule) -> bool) -> Option<At> {
        let mut seen = vec![chain];
        let mut next = 0;
        while let Some(&chain) = seen.get(next) {
            next += 1;
            for (rule, content) in self.chains[chain].rules.iter().enumerate() {
                if is_it(content) {
                    return Some(At { chain, rule });
                }
                seen.extend(content.leads_to.filter(|chain| !seen.contains(chain)));
            }
        }
        None
    }

    pub(super) fn may_drop(&self, chain: usize) -> bool {
        let drops = |action: &Action| {
            matches!(action, Action::Target(Target::Drop) | Action::Reject | Action::Unknown(_))
        };
        self.chains[chain].policy == Policy::Drop || self.find(chain, &|rule| rule.does(drops)).is_some()
    }

    pub(super) fn may_mark(&self, chain: usize) -> bool {
        let marks = |action: &Action| match action {
            Action::Target(target) => target.writes().mark || target.writes().connmark,
            other => matches!(other, Action::UnknownMark(_)),
        };
        self.find(chain, &|rule| rule.does(marks)).is_some()
    }

    /// True if the rule makes the kernel track connections of the family (`nf_ct_netns_get`); `None` if unknown.
    fn tracking(&self, rule: &ViewRule) -> Option<bool> {
        let of_condition = |condition: &ListedCondition| match condition {
            ListedCondition::Unknown(_) => None,
            known => Some(matches!(known.field(), Some(Field::ConnState | Field::Connmark(_)))),
        };
        let of_action = |action: &Action| match action {
            // In an `inet` table, only the address's family (`nft_nat_init`).
            Action::Destination { .. } => Some(self.is_of_family(rule)),
            Action::Source(program) if program == "nat" => Some(self.is_of_family(rule)),
            Action::Source(_) | Action::RedirectSamePort | Action::UnknownZone(_) => Some(true),
            Action::Target(target) => Some(target.tracks_connections()),
            Action::Unknown(_) | Action::UnknownMark(_) => None,
            // Neither nf_tables nor iptables registers conntrack here (`nft_notrack_ops`, `xt_ct_tg_check`).
            Action::Notrack => Some(false),
            Action::Goto(_) | Action::Call { .. } | Action::Continue(_) | Action::Reject => Some(false),
        };
        let conditions = rule.conditions.iter().map(of_condition);
        let all = conditions.chain(rule.first.iter().chain([&rule.action]).map(of_action));
        all.fold(Some(false), either)
    }

    fn groups_of(&self, hook: Hook) -> Vec<Vec<usize>> {
        let is_called = |chain: &usize| {
            let content = &self.chains[*chain];
            // A chain without rules has no effect in any order.
            let counts = !content.rules.is_empty() || content.policy == Policy::Drop;
            counts && content.base.is_some_and(|base| base.hook == hook)
        };
        let mut chains: Vec<usize> = (0..self.chains.len()).filter(is_called).collect();
        chains.sort_by_key(|chain| self.rank_of(*chain));
        let place = |chain: &usize| self.rank_of(*chain).map(|(place, _)| place);
        let is_nat = |chain: &usize| self.chains[*chain].is(Kind::Nat);
        let places = chains.chunk_by(|one, other| place(one) == place(other));
        let groups = places.flat_map(|at| match at.iter().all(is_nat) {
            true => at.chunk_by(|one, other| self.rank_of(*one) == self.rank_of(*other)).collect::<Vec<_>>(),
            false => vec![at],
        });
        groups.map(<[usize]>::to_vec).collect()
    }

    pub(super) fn rank_of(&self, chain: usize) -> Option<(i32, i32)> {
        self.chains[chain].base.map(rank)
    }

    /// Number of leading rules in each chain that the family's packets may reach, judging by family conditions alone.
    pub fn reach(&self) -> Vec<usize> {
        let mut reach = vec![0; self.chains.len()];
        let mut open: Vec<usize> =
            (0..self.chains.len()).filter(|chain| self.chains[*chain].base.is_some()).collect();
        while let Some(chain) = open.pop() {
            let rules = &self.chains[chain].rules;
            if reach[chain] > 0 || rules.is_empty() {
                continue;
            }
            let end = rules.iter().position(|rule| self.ends_family(rule));
            reach[chain] = end.map_or(rules.len(), |end| end + 1);
            let taken = rules[..reach[chain]].iter().filter(|rule| self.is_of_family(rule));
            open.extend(taken.filter_map(|rule| rule.leads_to));
        }
        reach
    }

    pub fn is_of_family(&self, rule: &ViewRule) -> bool {
        rule.conditions.iter().all(|condition| match condition {
            ListedCondition::Nft(condition) if condition.field == Field::Family => self.is_family(condition),
            ListedCondition::Nft(condition) => condition.field.family().is_none_or(|of| of == self.family),
            _ => true,
        })
    }

    fn is_family(&self, condition: &Condition) -> bool {
        condition.holds(family_number(self.family).into())
    }

    fn ends_family(&self, rule: &ViewRule) -> bool {
        let takes_all = rule.conditions.iter().all(|condition| match condition {
            ListedCondition::Nft(condition) => condition.field == Field::Family && self.is_family(condition),
            ListedCondition::Always(_) => true,
            _ => false,
        });
        takes_all && matches!(rule.action, Action::Target(Target::Return | Target::Accept | Target::Drop))
    }
}

/// Three-valued disjunction: `None` if the result depends on an unknown operand.
fn either(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        (None, _) | (_, None) => None,
    }
}

const NF_IP_PRI_NAT_DST: i32 = -100;
const NF_IP_PRI_NAT_SRC: i32 = 100;

const IPTABLES_DNAT_RANK: (i32, i32) = (NF_IP_PRI_NAT_DST, NF_IP_PRI_NAT_DST);

/// Priority of the kernel's call, then of the chain within that call. All NAT chains are called at one priority
/// (`nf_nat_register_fn`); their order relative to other chains of that priority can't be read.
fn rank(base: Base) -> (i32, i32) {
    let Base { kind, hook, priority } = base;
    match (kind, hook) {
        (Kind::Nat, Hook::Prerouting | Hook::Output | Hook::Forward) => (NF_IP_PRI_NAT_DST, priority),
        (Kind::Nat, Hook::Input | Hook::Postrouting) => (NF_IP_PRI_NAT_SRC, priority),
        (Kind::Filter | Kind::Route, _) => (priority, i32::MAX),
    }
}

/// Long run of rules on the same fields, such as thousands of networks; small sets skip non-matching rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleRun {
    pub(super) rules: Range<usize>,
    pub(super) fields: Vec<RunField>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunField {
    pub(super) field: Field,
    /// Ranges sorted by first value, each with its rule and the greatest value so far.
    ranges: Vec<(Interval, usize, u128)>,
}

/// Shorter runs are walked rule by rule; so is every run for a set with more ranges or matching rules.
const FEW: usize = 32;

impl RuleRun {
    pub(super) fn of(rules: &[ViewRule]) -> Vec<Self> {
        let mut start = 0;
        let mut runs = Vec::new();
        for run in rules.chunk_by(|one, next| fields(one).eq(fields(next))) {
            let rules = start..start + run.len();
            start = rules.end;
            if run.len() > FEW {
                let fields =
                    fields(&run[0]).filter_map(|field| RunField::of(field, run, rules.start)).collect();
                runs.push(Self { rules, fields });
            }
        }
        runs
    }
}

impl RunField {
    fn of(field: Field, run: &[ViewRule], start: usize) -> Option<Self> {
        let values = run.iter().filter_map(|rule| asked(rule).find(|(own, _)| *own == field));
        let values: Vec<&Intervals> = values.map(|(_, values)| values).collect();
        if values.iter().collect::<BTreeSet<_>>().len() * FEW < run.len() {
            return None;
        }
        let of_rule = |(at, values): (usize, &'_ Intervals)| {
            values.ranges().iter().map(|range| (*range, at, 0)).collect::<Vec<_>>()
        };
        let mut ranges: Vec<(Interval, usize, u128)> = (start..).zip(values).flat_map(of_rule).collect();
        ranges.sort();
        let mut greatest = 0;
        for (range, _, up_to) in &mut ranges {
            greatest = range.last.max(greatest);
            *up_to = greatest;
        }
        Some(Self { field, ranges })
    }

    /// The first rule at or after `from` that packets with these values may match; `end` if none.
    pub(super) fn next(&self, from: usize, end: usize, values: &Intervals) -> usize {
        if values.ranges().len() > FEW {
            return from;
        }
        let mut next = end;
        for wanted in values.ranges() {
            let end = self.ranges.partition_point(|(range, ..)| range.first <= wanted.last);
            let inner = end - self.ranges[..end].partition_point(|(range, ..)| range.first < wanted.first);
            if inner > FEW {
                return from;
            }
            let before = self.ranges[..end].iter().rev().take_while(|(.., up_to)| *up_to >= wanted.first);
            let meeting = before.filter(|(range, at, _)| range.last >= wanted.first && *at >= from);
            next = meeting.map(|(_, at, _)| *at).fold(next, usize::min);
        }
        next
    }
}

fn fields(rule: &ViewRule) -> impl Iterator<Item = Field> {
    asked(rule).map(|(field, _)| field)
}

fn asked(rule: &ViewRule) -> impl Iterator<Item = (Field, &Intervals)> {
    rule.asked.iter().filter_map(|asked| match asked {
        Asked::Field { condition, .. } if !condition.negated => Some((condition.field, &condition.values)),
        _ => None,
    })
}
