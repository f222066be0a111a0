//! Recognizes live rules: which of them are a mesh's, and why each is there. A *reason* is why a rule was
//! written, by the setting that made it; its *meaning* is what the rule does to packets in its place. The files of
//! `tests/configurations` show both for rules of each mesh.
//!
//! Our tables of nf_tables carry reasons in their comments, and so do rules of iptables where a mesh's rules have such
//! comments. Of the others, ours and upstream's, the chain, the conditions and the target show the reason to the
//! mesh whose rules they are ([`crate::policy::Reasons::read`]).

pub mod summary;

use crate::RuleReason;
use crate::mesh::Mesh;
use crate::reason::Meaning;
use crate::settings::Setting;
use rules::simulate::{At, View, ViewChain, ViewRule};
use rules::{Action, Hook, Target};
use summary::{FieldValues, RuleSummary};

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
    /// What the rule itself does. Of the rules with one reason, some only jump to a chain whose rules do what it says.
    pub fn meaning(&self) -> Option<Meaning> {
        let (rule, summary) = (self.rule, &self.summary);
        let leads_on = rule.leads_to.is_some();
        let is_jump = leads_on && matches!(self.role, Role::Base(_));
        Some(match self.reason?.meaning() {
            Meaning::InboundPort | Meaning::Inbound if is_jump => Meaning::InboundJump,
            Meaning::Outbound if is_jump => Meaning::OutboundJump,
            Meaning::Dns if is_jump => Meaning::DnsJump,
            Meaning::Dns if leads_on => Meaning::DnsChain,
            Meaning::Dns if !captures(rule) => Meaning::DnsZone,
            Meaning::OutboundNetwork if summary.in_interface.is_some() => Meaning::VirtualMachine,
            Meaning::ExcludedSource if summary.source.is_none() => Meaning::ExcludedDestination,
            Meaning::ProxyToApplication if !passes(rule) => Meaning::ProxyAnswers,
            meaning => meaning,
        })
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

impl Role {
    /// What each rule does that decides in such a chain, where that is one thing.
    pub fn meaning(self) -> Option<Meaning> {
        match self {
            Self::ToOutboundListener => Some(Meaning::ToOutboundListener),
            Self::ToInboundListener => Some(Meaning::ToInboundListener),
            Self::Dns => Some(Meaning::Dns),
            Self::Base(_) | Self::Inbound | Self::Outbound | Self::Divert | Self::Drop | Self::Other => None,
        }
    }
}

/// Which table of iptables, or its equivalent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    Raw,
    Mangle,
    Nat,
    Other,
}

/// A rule as recognition passes it to a mesh.
pub struct RuleContext<'a> {
    /// The mesh that is to recognize it.
    mesh: Mesh,
    owned: &'a OwnedView<'a>,
    pub chain: &'a ViewChain,
    /// The rule's place in the chain.
    pub index: usize,
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

    pub fn kind(&self) -> TableKind {
        // `nat`, `nat (iptables-nft)`, `inet istio-proxy-nat`; ours name their chains after tables.
        let is_ours = |name: &str| Mesh::ALL.iter().any(|mesh| mesh.ownership().table == name);
        let table = match self.chain.table.strip_prefix("inet ") {
            Some(name) if is_ours(name) => self.chain.chain.split('_').next().unwrap_or_default(),
            Some(name) => name.rsplit('-').next().unwrap_or_default(),
            None => self.chain.table.split(' ').next().unwrap_or_default(),
        };
        match table {
            "raw" => TableKind::Raw,
            "mangle" => TableKind::Mangle,
            "nat" => TableKind::Nat,
            _ => TableKind::Other,
        }
    }

    /// Whether the rule is the first of its chain that has an effect.
    pub fn is_first(&self) -> bool {
        self.chain.rules.iter().position(|rule| !has_no_effect(rule)) == Some(self.index)
    }

    /// Whether a chain that the kernel calls leads to chains of the mesh's; of the rule's table, or of any.
    pub fn mesh_is_reached(&self, of_table: bool) -> bool {
        let chains = self.view().chains().iter().filter(|other| other.base.is_some());
        let mut chains = chains.filter(|other| !of_table || other.table == self.chain.table);
        let leads = |rule: &ViewRule| self.owned.led_to(rule) == Some(self.mesh);
        chains.any(|other| other.rules.iter().any(leads))
    }
}

/// A view, and the mesh that each of its chains belongs to.
struct OwnedView<'a> {
    view: &'a View,
    owners: Vec<Option<Mesh>>,
}

impl<'a> OwnedView<'a> {
    fn of(view: &'a View) -> Self {
        Self { view, owners: view.chains().iter().map(|chain_rules| owner(view, chain_rules)).collect() }
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
        let chains = self.owners[chain]?.reasons().chains();
        Some(chains.iter().find(|(plain, _)| is_it(plain)).map_or(Role::Other, |(_, role)| *role))
    }

    fn context<'b>(&'b self, mesh: Mesh, at: At, summary: &'b RuleSummary) -> Option<RuleContext<'b>> {
        let chain = &self.view.chains()[at.chain];
        let rule = &chain.rules[at.rule];
        let to = rule.leads_to.and_then(|chain| self.role(chain));
        Some(RuleContext {
            mesh,
            owned: self,
            chain,
            index: at.rule,
            rule,
            summary,
            role: self.role(at.chain)?,
            to,
        })
    }

    /// The reason of a rule, if it is a mesh's and has an effect. Packets come to the first `reach` rules of its chain.
    fn recognized(&self, at: At, reach: usize) -> Option<RecognizedRule<'a>> {
        let chain = &self.view.chains()[at.chain];
        let rule = chain.rules.get(at.rule).filter(|rule| !has_no_effect(rule))?;
        let summary = RuleSummary::of(&rule.conditions);
        let mesh = self.mesh_of(at, &summary)?;
        let context = self.context(mesh, at, &summary)?;
        let (known, role) = (mesh.reasons(), context.role);
        let stated = rule.origin.and_then(|origin| RuleReason::named(origin.name));
        let reason = stated.or_else(|| known.read(&context));
        let setting = rule.origin.and_then(RuleReason::setting_of).or_else(|| match reason?.settings() {
            [one] => Some(*one),
            _ => known.setting(reason?, &context),
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
            let owns = |mesh: &Mesh| {
                self.context(*mesh, at, summary).is_some_and(|context| mesh.reasons().owns(&context))
            };
            Mesh::ALL.iter().copied().find(owns)
        };
        match self.owners[at.chain] {
            Some(mesh) => Some(mesh),
            None if self.view.chains()[at.chain].base.is_none() => None,
            None => self.led_to(rule).or_else(of_comment).or_else(of_form),
        }
    }
}

/// The mesh that a chain belongs to with all its rules: by its nf_tables table, or by its name if it is no base chain.
fn owner(view: &View, chain_rules: &ViewChain) -> Option<Mesh> {
    let by_table = |mesh: &Mesh| {
        let owner = mesh.ownership();
        chain_rules.table.strip_prefix("inet ").is_some_and(|name| {
            name == owner.table || owner.predecessor.is_some_and(|known| known.tables.contains(&name))
        })
    };
    let exists = |name: &str| {
        view.chains().iter().any(|other| other.table == chain_rules.table && other.chain == name)
    };
    let by_name = |mesh: &Mesh| {
        chain_rules.base.is_none() && mesh.ownership().owns_chain_among(&chain_rules.chain, &exists)
    };
    let meshes = || Mesh::ALL.iter().copied();
    meshes().find(by_table).or_else(|| meshes().find(by_name))
}

/// All rules of meshes that have an effect, in the order of their chains.
pub fn recognized(view: &View) -> Vec<RecognizedRule<'_>> {
    let (owned, reach) = (OwnedView::of(view), view.reach());
    let places = view.chains().iter().enumerate().flat_map(|(chain, chain_rules)| {
        let count = chain_rules.rules.len();
        (0..count).map(move |rule| At { chain, rule })
    });
    let mut found: Vec<RecognizedRule<'_>> =
        places.filter_map(|at| owned.recognized(at, reach[at.chain])).collect();
    Mesh::ALL.iter().for_each(|mesh| mesh.reasons().refine(&mut found));
    found
}

/// Why a rule is there that carries no reason, and the setting that made it where it is known.
pub fn read_at(view: &View, at: At) -> Option<(RuleReason, Option<Setting>)> {
    let recognized = OwnedView::of(view).recognized(at, usize::MAX)?;
    Some((recognized.reason?, recognized.setting))
}

/// The reason of each rule of a mesh, as far as the rules alone show it.
pub fn reasons(view: &View) -> Vec<(At, Option<RuleReason>)> {
    recognized(view).into_iter().map(|recognized| (recognized.at, recognized.reason)).collect()
}

/// LOG, NFLOG and rules without a target change nothing. A rule with a known origin is recognized whatever it does.
fn has_no_effect(rule: &ViewRule) -> bool {
    rule.origin.is_none() && rule.action.surely_continues()
}

/// Whether a rule itself hands packets to a listener.
pub fn captures(rule: &ViewRule) -> bool {
    matches!(rule.action, Action::Target(Target::Tproxy { .. }) | Action::RedirectSamePort)
        || rule.action.redirects_to().is_some()
}

/// Whether a rule excludes its packets from capture: RETURN ends the mesh's chain, and ACCEPT the table's.
pub fn passes(rule: &ViewRule) -> bool {
    matches!(rule.action, Action::Target(Target::Return | Target::Accept))
}

pub fn is_loopback(values: Option<&FieldValues>) -> bool {
    values.is_some_and(|values| !values.negated && values.items.iter().any(|item| item == "lo"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::{Family, parse};

    /// The reasons of the rules of a table that holds a mesh's chains, and which of the rules packets come to.
    fn read(mesh: Mesh, table: &str, rules: &str) -> Vec<(Option<&'static str>, bool)> {
        let chains = mesh.reasons().chains().iter().map(|(name, _)| format!(":{name} - [0:0]\n"));
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
        let values = |negated, name: &str| FieldValues { negated, items: vec![name.to_owned()] };
        assert!(is_loopback(Some(&values(false, "lo"))));
        assert!(!is_loopback(Some(&values(true, "lo"))) && !is_loopback(Some(&values(true, "eth0"))));
        assert!(!is_loopback(Some(&values(false, "eth0"))) && !is_loopback(None));
    }
}
