//! Recognizes live rules: their mesh, their *reason*, and their *meaning* (the effect on packets). Comments hold the reasons in
//! our nf_tables tables, and in iptables if a mesh's rules have such comments. Otherwise, chain, conditions and target
//! give the meaning and so the reason, unless the mesh has a special case (`Recognition`).

pub use crate::reason::field_condition;
use crate::reason::{Cause, Meaning};
use crate::{RuleReason, mesh::Mesh, settings::Setting};
use rules::field::{Condition, Field, Intervals, protocol_number};
use rules::simulate::{At, View, ViewChain, ViewRule, loopback_interface};
use rules::{
    Action, Family, Hook, ListedCondition, Mark, Match, Origin, Proof, Protocol, Rule, Table, Target, render,
};
use std::collections::{BTreeSet, HashSet};
use std::mem::discriminant;

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

    /// True if the mesh's predecessor writes rules of this form in base chains, and neighbouring rules prove the origin.
    fn is_of_predecessor(&self, mesh: Mesh) -> bool {
        let led_to = || self.owned.led_to.iter().filter(|led_to| led_to.mesh == mesh);
        let pattern = || {
            let known = mesh.ownership().predecessor?;
            known.pattern(self.table()?, self.chain.base?.hook, &self.words())
        };
        // Checks for the mesh first, as most foreign rules are in namespaces without it.
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

    /// Recognizes a mesh's rule with an effect. Packets reach the first `reach` rules of its chain.
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
        // LOG, NFLOG and rules without a target have no effect. A rule that states its reason is always recognized.
        if stated.is_none() && rule.action.surely_continues() {
            return None;
        }
        let summary = RuleSummary::of(&rule.conditions);
        let context = self.context(at, &summary)?;
        let mesh = self.owners[at.chain].or_else(|| self.mesh_of(&context))?;
        let (known, role) = (&mesh.entry().recognition, context.role);
        let reason = stated.map(|(reason, _)| reason);
        let reason = reason.or_else(|| (known.special)(&context)).or_else(|| reason_by_form(mesh, &context));
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

/// Mesh that owns a chain with all its rules: by the nf_tables table or, except for base chains, by the chain's name.
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

fn reason_by_form(mesh: Mesh, context: &RuleContext<'_>) -> Option<RuleReason> {
    let reasons = mesh.entry().reasons;
    let of_meaning = |meaning: &Meaning| reasons.iter().find(|reason| reason.meaning() == *meaning);
    meanings(context).iter().find_map(of_meaning).copied()
}

/// Possible meanings by chain, conditions and target, most specific first; a mesh has reasons for some of them.
fn meanings(context: &RuleContext<'_>) -> &'static [Meaning] {
    match (context.table(), context.role) {
        (Some(Table::Raw), _) => &[Meaning::DnsZone, Meaning::Dns],
        (Some(Table::Nat | Table::Mangle), role) => match role {
            Role::Base(hook) => base(context, hook),
            Role::Inbound => inbound(context),
            Role::Outbound => outbound(context),
            // Istio 1.8 and 1.9 handle TCP DNS here.
            Role::ToOutboundListener if context.summary.ports().is_some() => &[Meaning::Dns],
            Role::ToOutboundListener => &[Meaning::ToOutboundListener],
            Role::ToInboundListener => &[Meaning::ToInboundListener],
            Role::Dns => &[Meaning::Dns],
            Role::Divert => &[Meaning::KnownConnection],
            Role::Drop => &[Meaning::Dropped],
            Role::Other => &[],
        },
        _ => &[],
    }
}

fn is_one(values: Option<&Condition>) -> bool {
    values.is_some_and(|values| !values.negated)
}

fn owner_condition(summary: &RuleSummary) -> Option<&Condition> {
    summary.values(Field::Uid).or_else(|| summary.values(Field::Gid))
}

fn inbound(context: &RuleContext<'_>) -> &'static [Meaning] {
    let RuleContext { rule, summary, to, .. } = *context;
    let is_from_loopback = is_loopback(summary.values(Field::InInterface));
    let is_from_interface = summary.values(Field::InInterface).is_some() && !is_from_loopback;
    if matches!(to, Some(Role::ToInboundListener | Role::Divert)) || rule.action.captures() {
        return if is_from_interface { &[Meaning::VirtualMachine] } else { &[Meaning::InboundPort] };
    }
    if !rule.action.passes() {
        return &[];
    }
    match (summary.ports(), summary.source()) {
        (Some(_), _) => &[Meaning::ExcludedInboundPort],
        (None, Some(source)) if source.negated => &[],
        (None, Some(_)) => &[Meaning::ExcludedSource, Meaning::ProxyToApplication],
        (None, None) if is_from_loopback => &[Meaning::ApplicationLoopback],
        (None, None) if is_from_interface => &[Meaning::VirtualMachine],
        (None, None) if summary.more => &[Meaning::KnownConnection],
        (None, None) => &[Meaning::InboundOff],
    }
}

fn outbound(context: &RuleContext<'_>) -> &'static [Meaning] {
    let RuleContext { rule, summary, to, .. } = *context;
    let has_ports = is_one(summary.ports());
    match to {
        Some(Role::Dns) => return &[Meaning::Dns],
        Some(Role::ToInboundListener) => return &[Meaning::ProxyCallsOwnPod],
        Some(Role::ToOutboundListener) if has_ports => return &[Meaning::OutboundPort],
        Some(Role::ToOutboundListener) => return &[Meaning::OutboundNetwork, Meaning::OutboundPort],
        _ if rule.action.captures() && has_ports => return &[Meaning::Dns, Meaning::OutboundNetwork],
        _ if rule.action.captures() => return &[Meaning::OutboundNetwork],
        _ if !rule.action.passes() => return &[],
        _ => {}
    }
    let is_to_loopback = is_loopback(summary.values(Field::OutInterface));
    match (owner_condition(summary), summary.source(), summary.destination()) {
        (Some(owner), ..) if owner.negated && is_to_loopback => &[Meaning::ApplicationLoopback],
        (Some(owner), ..) if owner.negated => &[Meaning::OtherOwners],
        (Some(_), ..) => &[Meaning::ProxyOutbound],
        (None, Some(_), _) => &[Meaning::ProxyToApplication],
        (None, None, Some(networks)) if !networks.negated => {
            let is_loopback = |item: &String| item.starts_with("127.") || item == "::1";
            match items(networks).iter().all(is_loopback) {
                true => &[Meaning::Loopback],
                false => &[Meaning::ExcludedDestination, Meaning::ExcludedSource],
            }
        }
        _ if has_ports => &[Meaning::ExcludedOutboundPort],
        _ if summary.more => &[],
        _ if is_to_loopback => &[Meaning::ApplicationLoopback, Meaning::Loopback],
        (None, None, None) if summary.values(Field::OutInterface).is_none() => {
            // An empty list of captured groups excludes all.
            &[Meaning::OutboundOff, Meaning::OtherOwners]
        }
        _ => &[],
    }
}

fn base(context: &RuleContext<'_>, hook: Hook) -> &'static [Meaning] {
    let RuleContext { rule, summary, to, .. } = *context;
    let owner = owner_condition(summary);
    match (to, &rule.action) {
        (Some(Role::Inbound), _) if hook == Hook::Prerouting => &[Meaning::Inbound, Meaning::InboundPort],
        (Some(Role::Outbound), _) if hook == Hook::Output => &[Meaning::Outbound],
        (Some(Role::ToOutboundListener), _) => &[Meaning::OutboundNetwork],
        (Some(Role::Dns), _) => &[Meaning::Dns],
        (Some(Role::Drop), _) => &[Meaning::Dropped],
        (None, Action::Target(Target::Drop)) if context.table() == Some(Table::Mangle) => &[Meaning::Dropped],
        (None, Action::Target(Target::SaveMark | Target::RestoreMark)) => &[Meaning::KnownConnection],
        (None, Action::Target(Target::SetMark(_))) if summary.source().is_some() => {
            &[Meaning::ProxyToApplication]
        }
        (None, Action::Target(Target::SetMark(_))) => &[Meaning::ProxyCallsOwnPod],
        (None, action) if action.captures() && summary.values(Field::InInterface).is_some() => {
            if summary.udp { &[Meaning::VirtualMachineDns] } else { &[Meaning::VirtualMachine] }
        }
        // Istio 1.7 to 1.9 had no DNS chain, and rewrote the replies' source.
        (None, action) if action.captures() || matches!(action, Action::Source(_)) => &[Meaning::Dns],
        (None, action) if action.passes() => base_exclusion(context, hook),
        // Docker's chain answers the query.
        (None, _) if rule.leads_to.is_some() && is_one(owner) => &[Meaning::ProxyDns],
        _ => &[],
    }
}

fn base_exclusion(context: &RuleContext<'_>, hook: Hook) -> &'static [Meaning] {
    let RuleContext { rule, summary, .. } = *context;
    // A user's ports are a list; DNS is a single port.
    let is_list = |one: &ListedCondition| matches!(one, ListedCondition::Known(Match::DestinationPorts(_)));
    let interfaces = summary.values(Field::InInterface).or_else(|| summary.values(Field::OutInterface));
    match (owner_condition(summary), interfaces) {
        (Some(owner), _) if owner.negated => &[Meaning::ExcludedDns],
        (Some(_), _) if rule.conditions.iter().any(is_list) => &[Meaning::ExcludedOwner],
        (Some(_), _) => &[Meaning::ProxyDns, Meaning::ProxyOutbound],
        (None, _) if summary.destination().is_some() => &[Meaning::ExcludedDestination],
        (None, _) if summary.more => &[Meaning::KnownConnection],
        (None, Some(interfaces)) if hook == Hook::Output || context.leave_by(interfaces) => {
            &[Meaning::ExcludedInterface]
        }
        (None, Some(_)) => &[Meaning::VirtualMachineInterface],
        (None, None) => &[],
    }
}

/// Conditions of a rule in one vocabulary for both backends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSummary {
    conditions: Vec<Condition>,
    pub udp: bool,
    /// True if there are other conditions: connection state, a mark, or an unknown one.
    pub more: bool,
    pub comment: Option<String>,
}

impl RuleSummary {
    pub fn of(conditions: &[ListedCondition]) -> Self {
        let mut summary = Self::default();
        for condition in conditions {
            match condition {
                ListedCondition::Known(Match::Comment(comment)) => {
                    summary.comment = Some(comment.as_str().to_owned());
                }
                ListedCondition::Known(_) | ListedCondition::Nft(_) => {
                    field_condition(condition).into_iter().for_each(|one| summary.take(one.into_owned()));
                }
                ListedCondition::Always(_) | ListedCondition::Protocol(_) => {}
                ListedCondition::DestinationLocal(_)
                | ListedCondition::TcpFlags { .. }
                | ListedCondition::Unknown(_) => summary.more = true,
            }
        }
        summary
    }

    /// Condition on a field, for any family or mask.
    pub fn values(&self, field: Field) -> Option<&Condition> {
        self.conditions.iter().find(|one| discriminant(&one.field) == discriminant(&field))
    }

    pub fn source(&self) -> Option<&Condition> {
        self.values(Field::Source(Family::V4))
    }

    pub fn destination(&self) -> Option<&Condition> {
        self.values(Field::Destination(Family::V4))
    }

    pub fn ports(&self) -> Option<&Condition> {
        self.values(Field::DestinationPort)
    }

    fn take(&mut self, condition: Condition) {
        let Condition { field, negated, values } = &condition;
        self.more |= matches!(field, Field::Mark(_) | Field::ConnState | Field::Connmark(_));
        let udp = Intervals::one(protocol_number(Protocol::Udp).into());
        self.udp |= *field == Field::Protocol && !negated && values.meets(&udp);
        let held = |one: &&mut Condition| discriminant(&one.field) == discriminant(field);
        // A rule may have several owner conditions; the policy only ever negates them.
        match self.conditions.iter_mut().find(held) {
            Some(held) if held.negated == *negated => held.values.union(values),
            Some(held) => *held = condition,
            None => self.conditions.push(condition),
        }
    }
}

/// Values in `nft` syntax, but names without quotes, `+` for a prefix, and marks with their masks.
pub fn items(condition: &Condition) -> Vec<String> {
    let item = |text: &String| match (condition.field, text.parse::<u32>()) {
        (Field::Mark(mask), Ok(value)) => Mark { value, mask }.to_string(),
        _ => text.trim_matches('"').replace('*', "+"),
    };
    render::nft::values(condition).iter().map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::field::{Intervals, interface_number};
    use rules::parse;
    use rules::simulate::View;

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

    fn summarized(rule: &str) -> (RuleSummary, Vec<ListedCondition>) {
        let text = format!("*nat\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT {rule} -j RETURN\nCOMMIT\n");
        let view = View::of_listing(parse::listing(&text, Family::V4).expect("a listing"));
        let conditions =
            view.chains().iter().flat_map(|chain| &chain.rules).flat_map(|rule| rule.conditions.clone());
        let conditions: Vec<ListedCondition> = conditions.collect();
        (RuleSummary::of(&conditions), conditions)
    }

    #[test]
    fn rules_are_about_their_values() {
        let (summary, _) = summarized("-s 10.0.0.0/8 -d 10.1.2.3/32 -o eth0 -p tcp -m tcp --dport 80:81");
        let texts = |field: Field| summary.values(field).map(|values| items(values).join(" "));
        assert_eq!(texts(Field::Source(Family::V4)).as_deref(), Some("10.0.0.0/8"));
        assert_eq!(texts(Field::Destination(Family::V4)).as_deref(), Some("10.1.2.3"));
        assert_eq!(texts(Field::DestinationPort).as_deref(), Some("80-81"));
        assert_eq!(texts(Field::OutInterface).as_deref(), Some("eth0"));
        for field in [Field::Uid, Field::ConnState] {
            assert_eq!(texts(field), None, "{field:?}");
        }
        assert!(!summary.udp && !summary.more);
        let (summary, _) = summarized("-i lo -m owner ! --uid-owner 1337");
        let shown = |of: Option<&Condition>| of.map(|one| (one.negated, items(one).join(" ")));
        assert_eq!(shown(summary.values(Field::InInterface)), Some((false, "lo".to_owned())));
        assert_eq!(shown(summary.values(Field::Uid)), Some((true, "1337".to_owned())));
        let (summary, _) = summarized("! -p udp -m mark --mark 0x1/0x3 -m comment --comment mine");
        assert!(!summary.udp && summary.more);
        assert_eq!(shown(summary.values(Field::Mark(0))), Some((false, "0x1/0x3".to_owned())));
        assert_eq!(summary.comment.as_deref(), Some("mine"));
    }

    #[test]
    fn marks_have_their_masks_in_either_backend() {
        for mark in ["1337", "0x539/0xfff"] {
            let (summary, conditions) = summarized(&format!("-m mark ! --mark {mark}"));
            let shown = summary.values(Field::Mark(0)).map(|one| (one.negated, items(one)));
            assert_eq!(shown, Some((true, vec![mark.to_owned()])));
            let condition = conditions.iter().find_map(field_condition).expect("a field").into_owned();
            assert_eq!(RuleSummary::of(&[ListedCondition::Nft(condition)]), summary);
        }
    }

    #[test]
    fn conditions_have_at_most_one_field() {
        let fields = |rule: &str| {
            let (_, conditions) = summarized(rule);
            let fields = conditions.iter().filter_map(|one| field_condition(one).map(|found| found.field));
            fields.collect::<Vec<_>>()
        };
        assert_eq!(fields("-o eth0 -m owner --gid-owner 7"), [Field::OutInterface, Field::Gid]);
        let (_, conditions) = summarized("-o eth0");
        let condition = field_condition(&conditions[0]).expect("a field").into_owned();
        let listed = ListedCondition::Nft(condition.clone());
        assert_eq!(field_condition(&listed).as_deref(), Some(&condition));
        assert_eq!(field_condition(&ListedCondition::Unknown("x".to_owned())), None);
    }
}
