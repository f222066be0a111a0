//! Recognizes live rules: which of them are a mesh's, and why each is there. A *reason* is why a rule was
//! written, by the setting that made it; its *meaning* is what the rule does to packets in its place. The files of
//! `tests/configurations` show both for rules of each mesh.
//!
//! Our tables of nf_tables carry reasons in their comments, and so do rules of iptables where a mesh's rules have such
//! comments. Of the others, ours and upstream's, the chain, the conditions and the target show the reason to the
//! mesh whose rules they are ([`crate::registry::Recognition`]).

pub mod summary;

use crate::RuleReason;
use crate::mesh::Mesh;
use crate::reason::{Cause, Meaning};
use crate::settings::Setting;
use rules::field::{Condition, Field};
use rules::predecessor::Proof;
use rules::simulate::{At, View, ViewChain, ViewRule, loopback_interface};
use rules::{Action, Hook, ListedCondition, Match, Origin, Rule, Table};
use std::collections::{BTreeSet, HashSet};
use summary::RuleSummary;

/// A rule of a mesh's.
#[derive(Clone, Debug)]
pub struct RecognizedRule<'a> {
    pub mesh: Mesh,
    pub at: At,
    pub chain: &'a ViewChain,
    pub rule: &'a ViewRule,
    pub summary: RuleSummary,
    pub role: Role,
    /// Why it is there; `None` where nothing shows it.
    pub reason: Option<RuleReason>,
    /// The setting that made it, where it is known or only one can.
    pub setting: Option<Setting>,
    /// Whether packets of the family come there.
    pub is_reached: bool,
}

impl RecognizedRule<'_> {
    /// The meaning of the rule itself.
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
    /// The kernel calls it.
    Base(Hook),
    Inbound,
    Outbound,
    ToOutboundListener,
    ToInboundListener,
    Dns,
    Divert,
    Drop,
    /// Another chain of the mesh's.
    Other,
}

/// A rule as recognition passes it to a mesh.
pub struct RuleContext<'a> {
    /// The mesh that is to recognize it.
    mesh: Mesh,
    owned: &'a OwnedView<'a>,
    pub chain: &'a ViewChain,
    pub rule: &'a ViewRule,
    pub summary: &'a RuleSummary,
    pub role: Role,
    /// What the chain is for that the rule leads to.
    pub to: Option<Role>,
}

impl RuleContext<'_> {
    pub fn view(&self) -> &View {
        self.owned.view
    }

    /// The table of iptables, or of what equals it.
    pub fn table(&self) -> Option<Table> {
        // `nat`, `nat (iptables-nft)`, `inet istio-proxy-nat`; ours name their chains after tables.
        let is_ours = |name: &str| Mesh::ALL.iter().any(|mesh| mesh.ownership().table == name);
        let table = match self.chain.table.strip_prefix("inet ") {
            Some(name) if is_ours(name) => self.chain.chain.split('_').next().unwrap_or_default(),
            Some(name) => name.rsplit('-').next().unwrap_or_default(),
            None => self.chain.table.split(' ').next().unwrap_or_default(),
        };
        Table::ALL.into_iter().find(|known| known.name() == table)
    }

    /// Whether the rule is the first of its chain that has an effect.
    pub fn is_first(&self) -> bool {
        let first = self.chain.rules.iter().find(|rule| !rule.action.surely_continues());
        first.is_some_and(|first| std::ptr::eq(first, self.rule))
    }

    /// Whether a rule in a base chain has a form that the mesh's predecessor writes there, and rules beside it prove that it did.
    fn is_of_predecessor(&self) -> bool {
        let led_to = || self.owned.led_to.iter().filter(|led_to| led_to.mesh == self.mesh);
        let pattern = || {
            let known = self.mesh.ownership().predecessor?;
            known.pattern(self.table()?, self.chain.base?.hook, &self.words())
        };
        // The mesh is looked for first: most rules of others are in namespaces without it.
        let Some(pattern) = led_to().next().and_then(|_| pattern()) else { return false };
        match pattern.proof {
            Proof::Form => true,
            Proof::Table | Proof::Position => led_to().any(|led_to| led_to.table == self.chain.table),
            Proof::NoComments => led_to().all(|led_to| !led_to.is_commented),
        }
    }

    /// The rule without its comment, in the words of patterns.
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

    /// Whether a rule in OUTPUT of the rule's table asks for these interfaces.
    pub fn leave_by(&self, interfaces: &Condition) -> bool {
        let leaving = Condition { field: Field::OutInterface, ..interfaces.clone() };
        self.owned.left_by.contains(&(&*self.chain.table, leaving))
    }
}

/// A view, and the mesh that each of its chains belongs to.
struct OwnedView<'a> {
    view: &'a View,
    owners: Vec<Option<Mesh>>,
    /// The meshes to whose chains base chains lead.
    led_to: BTreeSet<LedTo<'a>>,
    /// The interfaces that rules in OUTPUT ask for, by table.
    left_by: BTreeSet<(&'a str, Condition)>,
}

/// A rule in a base chain that leads to a chain of a mesh's.
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
                    let interfaces = RuleSummary::of(&rule.conditions).out_interface;
                    owned.left_by.extend(interfaces.map(|interfaces| (&*chain.table, interfaces)));
                }
            }
        }
        owned
    }

    /// Whose chain a rule leads to.
    fn led_to(&self, rule: &ViewRule) -> Option<Mesh> {
        rule.leads_to.and_then(|chain| self.owners[chain])
    }

    /// What a chain is for; `None` of one that is not a mesh's.
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

    fn context<'b>(&'b self, mesh: Mesh, at: At, summary: &'b RuleSummary) -> Option<RuleContext<'b>> {
        let chain = &self.view.chains()[at.chain];
        let rule = &chain.rules[at.rule];
        let to = rule.leads_to.and_then(|chain| self.role(chain));
        let role = self.role(at.chain)?;
        Some(RuleContext { mesh, owned: self, chain, rule, summary, role, to })
    }

    /// The reason of a rule, if it is a mesh's and has an effect. Packets come to the first `reach` rules of its chain.
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
        // LOG, NFLOG and rules without a target change nothing. A rule that states its reason is recognized whatever it does.
        if stated.is_none() && rule.action.surely_continues() {
            return None;
        }
        let summary = RuleSummary::of(&rule.conditions);
        let mesh = self.mesh_of(at, &summary)?;
        let context = self.context(mesh, at, &summary)?;
        let (known, role) = (&mesh.entry().recognition, context.role);
        let reason = stated.map(|(reason, _)| reason).or_else(|| (known.reason)(&context));
        let setting = stated.and_then(|(_, setting)| setting).or_else(|| match reason?.settings() {
            [one] => Some(*one),
            _ => (known.setting)(reason?, &context),
        });
        let is_reached = at.rule < reach && self.view.is_of_family(rule);
        Some(RecognizedRule { mesh, at, chain, rule, summary, role, reason, setting, is_reached })
    }

    fn mesh_of(&self, at: At, summary: &RuleSummary) -> Option<Mesh> {
        let rule = self.view.rule(at)?;
        let of_comment = || {
            let comment = summary.comment.as_deref()?;
            Mesh::ALL.iter().copied().find(|mesh| mesh.ownership().owns_comment(comment))
        };
        let of_form = || {
            let made =
                |mesh: &Mesh| self.context(*mesh, at, summary).is_some_and(|one| one.is_of_predecessor());
            Mesh::ALL.iter().copied().find(made)
        };
        let of_rule = || self.led_to(rule).or_else(of_comment).or_else(of_form);
        self.owners[at.chain].or_else(of_rule)
    }
}

/// The mesh that a chain belongs to with all its rules: by its nf_tables table, or by its name if it is no base chain.
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

/// All rules of meshes that have an effect, in the order of their chains.
pub fn recognized(view: &View) -> Vec<RecognizedRule<'_>> {
    let (owned, reach) = (OwnedView::of(view), view.reach());
    let rules_of = |chain: usize| (0..view.chains()[chain].rules.len()).map(move |rule| At { chain, rule });
    let places = (0..view.chains().len()).flat_map(rules_of);
    let mut found: Vec<RecognizedRule<'_>> =
        places.filter_map(|at| owned.recognized(at, reach[at.chain])).collect();
    Mesh::ALL.iter().for_each(|mesh| (mesh.entry().recognition.refine)(&mut found));
    found
}

/// The same view with the origins of rules of meshes, which show in the rules.
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
    use rules::{Family, parse};

    /// The reasons of the rules of a table that holds a mesh's chains, and which of the rules packets come to.
    fn read(mesh: Mesh, table: &str, rules: &str) -> Vec<(Option<&'static str>, bool)> {
        let chains = mesh.entry().chains.iter().map(|(name, _)| format!(":{name} - [0:0]\n"));
        let chains: String = chains.collect();
        let base = ":PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n";
        let text = format!("*{table}\n{base}{chains}{rules}\nCOMMIT\n");
        let view = View::of_listing(parse::listing(&text, Family::V4).expect("a listing"));
        let found = recognized(&view);
        assert!(found.iter().all(|rule| rule.mesh == mesh), "{found:?}");
        found.iter().map(|rule| (rule.reason.map(RuleReason::name), rule.is_reached)).collect()
    }

    /// The reason of a single rule; `None` of one that is not the mesh's, or whose form shows nothing.
    fn check(mesh: Mesh, rules: &[(&str, &str, Option<&str>)]) {
        for (table, rule, expected) in rules {
            let found = read(mesh, table, rule).first().and_then(|(reason, _)| *reason);
            assert_eq!(found, *expected, "{table}: {rule}");
        }
    }

    #[test]
    fn rules_of_istio_are_read_by_their_form() {
        check(
            Mesh::Istio,
            &[
                ("nat", "-A ISTIO_OUTPUT -j RETURN", Some("other-groups")),
                ("nat", "-A ISTIO_OUTPUT -j ACCEPT", Some("other-groups")),
                ("nat", "-A ISTIO_OUTPUT -j DROP", None),
                ("nat", "-A ISTIO_OUTPUT -o lo -j RETURN", None),
                ("nat", "-A ISTIO_OUTPUT -m mark --mark 0x1 -j RETURN", None),
                ("nat", "-A ISTIO_OUTPUT -o lo -m mark --mark 0x1 -j RETURN", None),
                ("nat", "-A ISTIO_OUTPUT -d 127.0.0.1/32 -j RETURN", Some("loopback")),
                ("nat", "-A ISTIO_OUTPUT -d 127.0.0.0/8 -j RETURN", Some("loopback")),
                ("nat", "-A ISTIO_OUTPUT -d 10.0.0.0/8 -j RETURN", Some("excluded-network")),
                ("nat", "-A ISTIO_OUTPUT -s 127.0.0.6/32 -j RETURN", Some("proxy-to-application")),
                ("nat", "-A ISTIO_OUTPUT -p tcp -m tcp --dport 22 -j RETURN", Some("excluded-outbound-port")),
                ("nat", "-A ISTIO_OUTPUT -m owner ! --uid-owner 1337 -j RETURN", Some("other-groups")),
                (
                    "nat",
                    "-A ISTIO_OUTPUT -o lo -m owner ! --uid-owner 1337 -j RETURN",
                    Some("application-loopback"),
                ),
                (
                    "nat",
                    "-A ISTIO_OUTPUT ! -o lo -m owner ! --uid-owner 1337 -j RETURN",
                    Some("other-groups"),
                ),
                ("nat", "-A ISTIO_OUTPUT -o lo -m owner --uid-owner 1337 -j RETURN", Some("proxy-outbound")),
                ("nat", "-A ISTIO_OUTPUT -m owner --gid-owner 5 -j RETURN", Some("excluded-group")),
                ("nat", "-A ISTIO_OUTPUT -p udp -j ISTIO_OUTPUT_DNS", Some("dns")),
                ("nat", "-A ISTIO_OUTPUT -o lo -j ISTIO_IN_REDIRECT", Some("proxy-calls-own-pod")),
                ("nat", "-A ISTIO_OUTPUT -j ISTIO_REDIRECT", Some("outbound-network")),
                ("nat", "-A ISTIO_OUTPUT -p tcp -m tcp --dport 80 -j ISTIO_REDIRECT", Some("outbound-port")),
                ("nat", "-A ISTIO_INBOUND -i lo -j RETURN", Some("application-loopback")),
                ("nat", "-A ISTIO_INBOUND ! -i lo -j RETURN", None),
                ("nat", "-A ISTIO_INBOUND -i eth0 -j RETURN", None),
                ("nat", "-A ISTIO_INBOUND -j RETURN", None),
                ("nat", "-A ISTIO_INBOUND -j DROP", None),
                ("mangle", "-A ISTIO_INBOUND -m mark --mark 0x539 -j RETURN", Some("tproxy-mark")),
                ("mangle", "-A ISTIO_INBOUND -s 127.0.0.6/32 -i lo -j RETURN", Some("proxy-to-application")),
                ("mangle", "-A ISTIO_INBOUND -p tcp -j ISTIO_DIVERT", Some("inbound-port")),
                ("nat", "-A ISTIO_INBOUND -p tcp -j REDIRECT --to-ports 15006", Some("inbound-port")),
                ("nat", "-A ISTIO_INBOUND -p tcp -m tcp --dport 15008 -j RETURN", Some("tunnel-port")),
                (
                    "mangle",
                    "-A ISTIO_INBOUND -p tcp -m tcp --dport 15008 -j RETURN",
                    Some("excluded-inbound-port"),
                ),
                (
                    "nat",
                    "-A ISTIO_INBOUND -p tcp -m multiport --dports 22,23 -j RETURN",
                    Some("excluded-inbound-port"),
                ),
                ("nat", "-A ISTIO_DIVERT -j ACCEPT", Some("tproxy-mark")),
                ("raw", "-A ISTIO_INBOUND -j RETURN", Some("dns")),
                ("nat", "-A OUTPUT -p udp -j ISTIO_OUTPUT_DNS", Some("dns")),
                ("nat", "-A PREROUTING -i vm0 -j ISTIO_REDIRECT", Some("outbound-network")),
                (
                    "mangle",
                    "-A PREROUTING -m conntrack --ctstate INVALID -j ISTIO_DROP",
                    Some("drop-invalid"),
                ),
                ("nat", "-A PREROUTING -j ISTIO_IN_REDIRECT", None),
                ("nat", "-A PREROUTING -i eth0 -j RETURN", None),
            ],
        );
    }

    #[test]
    fn rules_of_other_meshes_are_read_by_their_form() {
        check(
            Mesh::Linkerd,
            &[
                ("nat", "-A PREROUTING -j PROXY_INIT_REDIRECT", Some("linkerd-inbound")),
                ("nat", "-A PREROUTING -j PROXY_INIT_OUTPUT", None),
                ("nat", "-A OUTPUT -j PROXY_INIT_OUTPUT", Some("linkerd-outbound")),
                ("nat", "-A OUTPUT -j PROXY_INIT_REDIRECT", None),
                ("nat", "-A PROXY_INIT_REDIRECT -j RETURN", None),
                ("nat", "-A PROXY_INIT_REDIRECT -p tcp -m tcp --dport 80 -j DROP", None),
                ("nat", "-A PROXY_INIT_OUTPUT -j RETURN", None),
                ("nat", "-A PROXY_INIT_OUTPUT -o eth0 -j RETURN", None),
                ("nat", "-A PROXY_INIT_OUTPUT ! -o lo -j RETURN", None),
                ("nat", "-A PROXY_INIT_OUTPUT -o lo -j RETURN", Some("linkerd-loopback")),
            ],
        );
        check(
            Mesh::Kuma,
            &[
                ("nat", "-A PREROUTING -p tcp -j KUMA_MESH_INBOUND", Some("kuma-inbound")),
                ("nat", "-A KUMA_MESH_INBOUND -p tcp -j DROP", None),
                ("nat", "-A KUMA_MESH_INBOUND -p tcp -j KUMA_MESH_OUTBOUND_REDIRECT", None),
                ("nat", "-A KUMA_MESH_OUTBOUND -p tcp -j DROP", None),
                ("nat", "-A KUMA_MESH_OUTBOUND -p tcp -j RETURN", Some("kuma-outbound-off")),
                ("nat", "-A OUTPUT -m comment --comment kuma/mesh/transparent/proxy/rule -j DROP", None),
                ("nat", "-A OUTPUT -m comment --comment kuma/mesh/transparent/proxy/rule -j RETURN", None),
                ("nat", "-A OUTPUT -m comment --comment kuma/mesh/transparent/proxy/nobodys -j RETURN", None),
                (
                    "nat",
                    ":DOCKER_OUTPUT - [0:0]\n-A OUTPUT -p udp -m udp --dport 53 -m owner --uid-owner 5678 \
                     -m comment --comment kuma/mesh/transparent/proxy/prose -j DOCKER_OUTPUT",
                    Some("kuma-proxy-dns"),
                ),
                ("filter", "-A OUTPUT -m comment --comment kuma/mesh/transparent/proxy/rule -j RETURN", None),
                (
                    "nat",
                    "-A OUTPUT -m comment --comment kuma/mesh/transparent/proxy/dns -j RETURN",
                    Some("kuma-dns"),
                ),
            ],
        );
        check(
            Mesh::Ambient,
            &[
                ("nat", "-A PREROUTING -j ISTIO_PRERT", Some("ambient-arriving")),
                ("nat", "-A OUTPUT -j ISTIO_OUTPUT", Some("ambient-leaving")),
                ("nat", "-A ISTIO_PRERT -j RETURN", None),
                ("nat", "-A ISTIO_PRERT ! -s 169.254.7.127/32 -j RETURN", None),
                ("nat", "-A ISTIO_PRERT -s 169.254.7.127/32 -p tcp -j ACCEPT", Some("ambient-probe")),
                ("nat", "-A ISTIO_PRERT -i vm0 -j RETURN", Some("ambient-machine")),
                ("nat", "-A ISTIO_OUTPUT -j ACCEPT", None),
                ("nat", "-A ISTIO_OUTPUT ! -o lo -j ACCEPT", None),
                ("nat", "-A ISTIO_OUTPUT -o lo -j ACCEPT", Some("ambient-own-pod")),
                ("nat", "-A ISTIO_OUTPUT ! -d 169.254.7.127/32 -j ACCEPT", None),
                ("nat", "-A ISTIO_OUTPUT -d 169.254.7.127/32 -j ACCEPT", Some("ambient-probe")),
                (
                    "nat",
                    "-A ISTIO_OUTPUT -m mark --mark 0x539/0xfff -j ACCEPT",
                    Some("ambient-proxy-to-application"),
                ),
                (
                    "nat",
                    "-A ISTIO_OUTPUT -p tcp -m tcp --dport 53 -j REDIRECT --to-ports 15053",
                    Some("ambient-dns"),
                ),
                (
                    "nat",
                    "-A ISTIO_OUTPUT -p tcp -m tcp ! --dport 53 -j REDIRECT --to-ports 15001",
                    Some("ambient-outbound"),
                ),
            ],
        );
    }

    #[test]
    fn behind_a_rule_that_takes_all_none_is_reached() {
        let rules = "-A OUTPUT -p tcp -j ISTIO_OUTPUT\n-A ISTIO_OUTPUT -d 10.0.0.0/8 -j RETURN\n\
                     -A ISTIO_OUTPUT -j ISTIO_REDIRECT\n-A ISTIO_OUTPUT -j RETURN\n-A ISTIO_OUTPUT -j RETURN\n\
                     -A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001";
        let reached = read(Mesh::Istio, "nat", rules).into_iter().map(|(_, is_reached)| is_reached);
        assert_eq!(reached.collect::<Vec<_>>(), [true, true, true, true, false, true]);
    }

    #[test]
    fn loopback_is_the_interface_and_not_all_others() {
        let values = |negated, name: &str| Condition {
            negated,
            ..Condition::is(Field::InInterface, Intervals::one(interface_number(name)))
        };
        assert!(is_loopback(Some(&values(false, "lo"))));
        assert!(!is_loopback(Some(&values(true, "lo"))) && !is_loopback(Some(&values(true, "eth0"))));
        assert!(!is_loopback(Some(&values(false, "eth0"))) && !is_loopback(None));
    }
}
