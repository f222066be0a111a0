//! Recognition of live rules: their mesh, their *reason*, and their *meaning*: the effect on packets at that point. Comments
//! carry the reasons in our nf_tables tables, and in iptables where a mesh's rules have such comments. For other rules, the form
//! gives the meaning and so the reason, unless the mesh has a special case (`Recognition`).

mod form;
pub mod summary;

use crate::RuleReason;
use crate::mesh::Mesh;
use crate::reason::{Cause, Meaning};
use crate::settings::Setting;
use rules::Proof;
use rules::field::{Condition, Field};
use rules::simulate::{At, View, ViewChain, ViewRule, loopback_interface};
use rules::{Action, Hook, ListedCondition, Match, Origin, Rule, Table};
use std::collections::{BTreeSet, HashSet};
use summary::RuleSummary;

#[derive(Clone, Debug)]
pub struct RecognizedRule<'a> {
    pub mesh: Mesh,
    pub at: At,
    pub chain: &'a ViewChain,
    pub rule: &'a ViewRule,
    pub summary: RuleSummary,
    pub role: Role,
    pub reason: Option<RuleReason>,
    pub setting: Option<Setting>,
    pub is_reached: bool,
}

impl RecognizedRule<'_> {
    pub fn meaning(&self) -> Option<Meaning> {
        let ViewRule { conditions, action, .. } = self.rule;
        Some(self.reason?.meaning_of(self.chain.base.is_some(), conditions, action))
    }

    fn origin(&self) -> Option<Origin> {
        let ViewRule { conditions, action, .. } = self.rule;
        let cause = Cause { reason: self.reason?, setting: self.setting };
        Some(cause.origin(self.chain.base.is_some(), conditions, action))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Base(Hook),
    Inbound,
    Outbound,
    ToOutboundListener,
    ToInboundListener,
    Dns,
    Divert,
    Drop,
    Other,
}

pub struct RuleContext<'a> {
    owned: &'a OwnedView<'a>,
    pub chain: &'a ViewChain,
    pub rule: &'a ViewRule,
    pub summary: &'a RuleSummary,
    pub role: Role,
    pub to: Option<Role>,
}

impl RuleContext<'_> {
    pub fn view(&self) -> &View {
        self.owned.view
    }

    pub fn table(&self) -> Option<Table> {
        // `nat`, `nat (iptables-nft)`, `inet istio-proxy-nat`; our chains are named after tables.
        let is_ours = |name: &str| Mesh::ALL.iter().any(|mesh| mesh.ownership().table == name);
        let table = match self.chain.table.strip_prefix("inet ") {
            Some(name) if is_ours(name) => self.chain.chain.split('_').next().unwrap_or_default(),
            Some(name) => name.rsplit('-').next().unwrap_or_default(),
            None => self.chain.table.split(' ').next().unwrap_or_default(),
        };
        Table::ALL.into_iter().find(|known| known.name() == table)
    }

    pub fn is_first(&self) -> bool {
        let first = self.chain.rules.iter().find(|rule| !rule.action.surely_continues());
        first.is_some_and(|first| std::ptr::eq(first, self.rule))
    }

    /// True if the mesh's predecessor writes a rule of this form in a base chain, and rules beside it prove the origin.
    fn is_of_predecessor(&self, mesh: Mesh) -> bool {
        let led_to = || self.owned.led_to.iter().filter(|led_to| led_to.mesh == mesh);
        let pattern = || {
            let known = mesh.ownership().predecessor?;
            known.pattern(self.table()?, self.chain.base?.hook, &self.words())
        };
        // The mesh is searched for first: most foreign rules are in namespaces without it.
        let Some(pattern) = led_to().next().and_then(|_| pattern()) else { return false };
        match pattern.proof {
            Proof::Form => true,
            Proof::Table | Proof::Position => led_to().any(|led_to| led_to.table == self.chain.table),
            Proof::NoComments => led_to().all(|led_to| !led_to.is_commented),
        }
    }

    fn words(&self) -> String {
        let known = |condition: &ListedCondition| match condition {
            ListedCondition::Known(known) => Some(known.clone()),
            _ => None,
        };
        let matches: Option<Vec<Match>> = self.rule.conditions.iter().map(known).collect();
        match (matches, &self.rule.action) {
            (Some(mut matches), Action::Target(target)) => {
                matches.retain(|one| !matches!(one, Match::Comment(_)));
                Rule::new(matches, target.clone()).canonical().to_string()
            }
            _ => self.rule.text.clone().unwrap_or_default(),
        }
    }

    pub fn leave_by(&self, interfaces: &Condition) -> bool {
        let leaving = Condition { field: Field::OutInterface, ..interfaces.clone() };
        self.owned.left_by.contains(&(&*self.chain.table, leaving))
    }
}

struct OwnedView<'a> {
    view: &'a View,
    owners: Vec<Option<Mesh>>,
    led_to: BTreeSet<LedTo<'a>>,
    left_by: BTreeSet<(&'a str, Condition)>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct LedTo<'a> {
    mesh: Mesh,
    table: &'a str,
    is_commented: bool,
}

impl<'a> OwnedView<'a> {
    fn of(view: &'a View) -> Self {
        let names = view.chains().iter().map(|chain| (&*chain.table, &*chain.chain)).collect();
        let owners = view.chains().iter().map(|chain| owner(chain, &names)).collect();
        let mut owned = Self { view, owners, led_to: BTreeSet::new(), left_by: BTreeSet::new() };
        for chain in view.chains() {
            let Some(base) = chain.base else { continue };
            for rule in &chain.rules {
                let asks = |field| rule.conditions.iter().any(|one| one.field() == Some(field));
                if let Some(mesh) = owned.led_to(rule) {
                    let is_comment =
                        |one: &ListedCondition| matches!(one, ListedCondition::Known(Match::Comment(_)));
                    let is_commented = rule.conditions.iter().any(is_comment);
                    owned.led_to.insert(LedTo { mesh, table: &chain.table, is_commented });
                }
                if base.hook == Hook::Output && asks(Field::OutInterface) {
                    let interfaces = RuleSummary::of(&rule.conditions).values(Field::OutInterface).cloned();
                    owned.left_by.extend(interfaces.map(|interfaces| (&*chain.table, interfaces)));
                }
            }
        }
        owned
    }

    fn led_to(&self, rule: &ViewRule) -> Option<Mesh> {
        rule.leads_to.and_then(|chain| self.owners[chain])
    }

    /// `None` for a chain that no mesh owns.
    fn role(&self, chain: usize) -> Option<Role> {
        let chain_rules = &self.view.chains()[chain];
        if let Some(base) = chain_rules.base {
            return Some(Role::Base(base.hook));
        }
        // `nat_ISTIO_OUTPUT` and `istio-output` are `ISTIO_OUTPUT`.
        let name = chain_rules.chain.to_uppercase().replace('-', "_");
        let is_it =
            |plain: &str| name.strip_suffix(plain).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'));
        let chains = self.owners[chain]?.entry().chains;
        Some(chains.iter().find(|(plain, _)| is_it(plain)).map_or(Role::Other, |(_, role)| *role))
    }

    fn context<'b>(&'b self, at: At, summary: &'b RuleSummary) -> Option<RuleContext<'b>> {
        let chain = &self.view.chains()[at.chain];
        let rule = &chain.rules[at.rule];
        let to = rule.leads_to.and_then(|chain| self.role(chain));
        let role = self.role(at.chain)?;
        Some(RuleContext { owned: self, chain, rule, summary, role, to })
    }

    /// A mesh's rule with an effect, recognized. Packets reach the first `reach` rules of its chain.
    fn recognized(&self, at: At, reach: usize) -> Option<RecognizedRule<'a>> {
        let chain = &self.view.chains()[at.chain];
        let rule = &chain.rules[at.rule];
        if self.owners[at.chain].is_none() && chain.base.is_none() {
            return None;
        }
        let stated = match rule.origin {
            Some(origin) => {
                RuleReason::named(origin.name).map(|reason| (reason, RuleReason::setting_of(origin)))
            }
            None => RuleReason::of_comment(&rule.comment),
        };
        // LOG, NFLOG and rules without a target have no effect. A rule that states its reason is recognized in any case.
        if stated.is_none() && rule.action.surely_continues() {
            return None;
        }
        let summary = RuleSummary::of(&rule.conditions);
        let context = self.context(at, &summary)?;
        let mesh = self.owners[at.chain].or_else(|| self.mesh_of(&context))?;
        let (known, role) = (&mesh.entry().recognition, context.role);
        let reason = stated.map(|(reason, _)| reason);
        let reason = reason.or_else(|| (known.special)(&context)).or_else(|| form::reason(mesh, &context));
        let setting = stated.and_then(|(_, setting)| setting);
        let setting = setting.or_else(|| (known.setting)(reason?, &context));
        let is_reached = at.rule < reach && self.view.is_of_family(rule);
        Some(RecognizedRule { mesh, at, chain, rule, summary, role, reason, setting, is_reached })
    }

    fn mesh_of(&self, context: &RuleContext<'_>) -> Option<Mesh> {
        let mut meshes = Mesh::ALL.iter().copied();
        let of_comment = || {
            let comment = context.summary.comment.as_deref()?;
            meshes.clone().find(|mesh| mesh.ownership().owns_comment(comment))
        };
        let found = self.led_to(context.rule).or_else(of_comment);
        found.or_else(|| meshes.find(|mesh| context.is_of_predecessor(*mesh)))
    }
}

/// The mesh that owns a chain with all its rules: by its nf_tables table, or, except for base chains, by its name.
fn owner(chain_rules: &ViewChain, names: &HashSet<(&str, &str)>) -> Option<Mesh> {
    let by_table = |mesh: &Mesh| {
        let owner = mesh.ownership();
        chain_rules.table.strip_prefix("inet ").is_some_and(|name| {
            name == owner.table || owner.predecessor.is_some_and(|known| known.tables.contains(&name))
        })
    };
    let exists = |name: &str| names.contains(&(&*chain_rules.table, name));
    let by_name = |mesh: &Mesh| {
        chain_rules.base.is_none() && mesh.ownership().owns_chain_among(&chain_rules.chain, &exists)
    };
    let meshes = || Mesh::ALL.iter().copied();
    meshes().find(by_table).or_else(|| meshes().find(by_name))
}

pub fn recognized(view: &View) -> Vec<RecognizedRule<'_>> {
    let (owned, reach) = (OwnedView::of(view), view.reach());
    let rules_of = |chain: usize| (0..view.chains()[chain].rules.len()).map(move |rule| At { chain, rule });
    let places = (0..view.chains().len()).flat_map(rules_of);
    let mut found: Vec<RecognizedRule<'_>> =
        places.filter_map(|at| owned.recognized(at, reach[at.chain])).collect();
    Mesh::ALL.iter().for_each(|mesh| (mesh.entry().recognition.refine)(&mut found));
    found
}

pub fn named(view: View) -> View {
    let origins = recognized(&view).into_iter().filter_map(|rule| Some((rule.at, rule.origin()?)));
    let origins: Vec<(At, Origin)> = origins.collect();
    view.with_origins(origins)
}

pub fn is_loopback(interfaces: Option<&Condition>) -> bool {
    interfaces.is_some_and(|one| !one.negated && loopback_interface().within(&one.values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::field::{Intervals, interface_number};

    #[test]
    fn negated_loopback_is_not_loopback() {
        let values = |negated, name: &str| Condition {
            negated,
            ..Condition::is(Field::InInterface, Intervals::one(interface_number(name)))
        };
        assert!(is_loopback(Some(&values(false, "lo"))));
        assert!(!is_loopback(Some(&values(true, "lo"))) && !is_loopback(Some(&values(true, "eth0"))));
        assert!(!is_loopback(Some(&values(false, "eth0"))) && !is_loopback(None));
    }
}
