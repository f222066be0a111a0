//! Live rules back into the policies' words: which of them are a mesh's, and why each is there.
//!
//! Our tables of nf_tables say why in their comments, and so do rules of iptables where a mesh's rules have comments that
//! tell. Of the others, ours and upstream's, the chain that a rule stands in, what it asks and what it does tell, to the
//! mesh whose rules they are ([`crate::reason::Reasons::read`]).

pub mod summary;

use crate::Reason;
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
    pub asks: RuleSummary,
    pub role: Role,
    /// Why it is there; `None` where nothing tells.
    pub reason: Option<Reason>,
    /// The setting that made it, where it is known or only one can.
    pub setting: Option<Setting>,
    /// Whether packets of the family come there.
    pub is_reached: bool,
}

impl RecognizedRule<'_> {
    /// What the rule does in its place: rules of one reason may only lead on to those that do what the reason says.
    pub fn meaning(&self) -> Option<Meaning> {
        let (rule, asks) = (self.rule, &self.asks);
        let leads_on = rule.leads_to.is_some();
        let is_jump = leads_on && matches!(self.role, Role::Base(_));
        Some(match self.reason?.meaning() {
            Meaning::InboundPort | Meaning::Inbound if is_jump => Meaning::InboundJump,
            Meaning::Outbound if is_jump => Meaning::OutboundJump,
            Meaning::Dns if is_jump => Meaning::DnsJump,
            Meaning::Dns if leads_on => Meaning::DnsChain,
            Meaning::Dns if !captures(rule) => Meaning::DnsZone,
            Meaning::OutboundNetwork if asks.in_interface.is_some() => Meaning::Machine,
            Meaning::ExcludedSource if asks.source.is_none() => Meaning::ExcludedDestination,
            Meaning::ProxyToApplication if !returns(rule) => Meaning::ProxyAnswers,
            meaning => meaning,
        })
    }
}

/// What a chain is for.
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

/// Which table of iptables, or what stands for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Raw,
    Mangle,
    Nat,
    Other,
}

/// A rule as a mesh meets it that is asked what it knows of it.
pub struct RuleContext<'a> {
    /// The mesh that is asked.
    mesh: Mesh,
    whole: &'a Whole<'a>,
    pub chain: &'a ViewChain,
    /// The rule's place in the chain.
    pub index: usize,
    pub rule: &'a ViewRule,
    pub asks: &'a RuleSummary,
    pub role: Role,
    /// What the chain is for that the rule leads to.
    pub to: Option<Role>,
}

impl RuleContext<'_> {
    pub fn view(&self) -> &View {
        self.whole.view
    }

    pub fn kind(&self) -> Kind {
        // `nat`, `nat (iptables-nft)`, `inet istio-proxy-nat`; ours name their chains after tables.
        let is_ours = |name: &str| Mesh::ALL.iter().any(|mesh| mesh.ownership().table == name);
        let table = match self.chain.table.strip_prefix("inet ") {
            Some(name) if is_ours(name) => self.chain.chain.split('_').next().unwrap_or_default(),
            Some(name) => name.rsplit('-').next().unwrap_or_default(),
            None => self.chain.table.split(' ').next().unwrap_or_default(),
        };
        match table {
            "raw" => Kind::Raw,
            "mangle" => Kind::Mangle,
            "nat" => Kind::Nat,
            _ => Kind::Other,
        }
    }

    /// Whether the rule is the first of its chain that says something.
    pub fn is_first(&self) -> bool {
        self.chain.rules.iter().position(|rule| !says_nothing(rule)) == Some(self.index)
    }

    /// Whether a chain that the kernel calls leads to chains of the mesh's; of the rule's table, or of any.
    pub fn mesh_is_reached(&self, of_table: bool) -> bool {
        let chains = self.view().chains().iter().filter(|other| other.base.is_some());
        let mut chains = chains.filter(|other| !of_table || other.table == self.chain.table);
        let leads = |rule: &ViewRule| self.whole.led_to(rule) == Some(self.mesh);
        chains.any(|other| other.rules.iter().any(leads))
    }
}

/// All rules, and whose each chain is.
struct Whole<'a> {
    view: &'a View,
    owners: Vec<Option<Mesh>>,
}

impl<'a> Whole<'a> {
    fn of(view: &'a View) -> Self {
        Self { view, owners: view.chains().iter().map(|held| owner(view, held)).collect() }
    }

    /// Whose chain a rule leads to.
    fn led_to(&self, rule: &ViewRule) -> Option<Mesh> {
        rule.leads_to.and_then(|chain| self.owners[chain])
    }

    /// What a chain is for; `None` of one that is nobody's.
    fn role(&self, chain: usize) -> Option<Role> {
        let held = &self.view.chains()[chain];
        if let Some(base) = held.base {
            return Some(Role::Base(base.hook));
        }
        // `nat_ISTIO_OUTPUT` and `istio-output` are `ISTIO_OUTPUT`.
        let name = held.chain.to_uppercase().replace('-', "_");
        let is_it =
            |plain: &str| name.strip_suffix(plain).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'));
        let chains = self.owners[chain]?.reasons().chains();
        Some(chains.iter().find(|(plain, _)| is_it(plain)).map_or(Role::Other, |(_, role)| *role))
    }

    fn met<'b>(&'b self, mesh: Mesh, at: At, asks: &'b RuleSummary) -> Option<RuleContext<'b>> {
        let chain = &self.view.chains()[at.chain];
        let rule = &chain.rules[at.rule];
        let to = rule.leads_to.and_then(|chain| self.role(chain));
        Some(RuleContext {
            mesh,
            whole: self,
            chain,
            index: at.rule,
            rule,
            asks,
            role: self.role(at.chain)?,
            to,
        })
    }

    /// What a rule means, if it is a mesh's and says something. Packets come to the first `reach` rules of its chain.
    fn meant(&self, at: At, reach: usize) -> Option<RecognizedRule<'a>> {
        let chain = &self.view.chains()[at.chain];
        let rule = chain.rules.get(at.rule).filter(|rule| !says_nothing(rule))?;
        let asks = RuleSummary::of(&rule.conditions);
        let mesh = self.mesh_of(at, &asks)?;
        let met = self.met(mesh, at, &asks)?;
        let (known, role) = (mesh.reasons(), met.role);
        let told = rule.origin.and_then(|origin| Reason::named(origin.name));
        let reason = told.or_else(|| known.read(&met));
        let by_origin = rule.origin.and_then(|origin| {
            let settings = reason?.settings().iter();
            settings.copied().find(|setting| setting.row().name() == origin.option)
        });
        let setting = by_origin.or_else(|| match reason?.settings() {
            [one] => Some(*one),
            _ => known.setting(reason?, &met),
        });
        let is_reached = at.rule < reach && self.view.is_of_family(rule);
        Some(RecognizedRule { mesh, at, chain, rule, asks, role, reason, setting, is_reached })
    }

    /// Whose a rule is.
    fn mesh_of(&self, at: At, asks: &RuleSummary) -> Option<Mesh> {
        let rule = self.view.rule(at)?;
        let of_comment = || {
            let comment = asks.comment.as_deref()?;
            Mesh::ALL.iter().copied().find(|mesh| mesh.ownership().owns_comment(comment))
        };
        let of_form = || {
            let owns = |mesh: &Mesh| self.met(*mesh, at, asks).is_some_and(|met| mesh.reasons().owns(&met));
            Mesh::ALL.iter().copied().find(owns)
        };
        match self.owners[at.chain] {
            Some(mesh) => Some(mesh),
            None if self.view.chains()[at.chain].base.is_none() => None,
            None => self.led_to(rule).or_else(of_comment).or_else(of_form),
        }
    }
}

/// Whose a chain is with all its rules: by its table, or by its name if only rules lead to it.
fn owner(view: &View, held: &ViewChain) -> Option<Mesh> {
    let by_table = |mesh: &Mesh| {
        let owner = mesh.ownership();
        held.table.strip_prefix("inet ").is_some_and(|name| {
            name == owner.table || owner.predecessor.is_some_and(|known| known.tables.contains(&name))
        })
    };
    let stands =
        |name: &str| view.chains().iter().any(|other| other.table == held.table && other.chain == name);
    let by_name =
        |mesh: &Mesh| held.base.is_none() && mesh.ownership().owns_chain_among(&held.chain, &stands);
    let meshes = || Mesh::ALL.iter().copied();
    meshes().find(by_table).or_else(|| meshes().find(by_name))
}

/// All rules of meshes that say something, in the order of their chains.
pub fn recognized(view: &View) -> Vec<RecognizedRule<'_>> {
    let (whole, reach) = (Whole::of(view), view.reach());
    let places = view.chains().iter().enumerate().flat_map(|(chain, held)| {
        let count = held.rules.len();
        (0..count).map(move |rule| At { chain, rule })
    });
    let mut found: Vec<RecognizedRule<'_>> =
        places.filter_map(|at| whole.meant(at, reach[at.chain])).collect();
    Mesh::ALL.iter().for_each(|mesh| mesh.reasons().settle(&mut found));
    found
}

/// Why a rule is there that does not say so, and the setting that made it where one can be told. `None` where place and
/// text are all that is told of such rules.
pub fn read_at(view: &View, at: At) -> Option<(Reason, Option<Setting>)> {
    let meant = Whole::of(view).meant(at, usize::MAX)?;
    let reason = meant.reason.filter(|_| meant.mesh.reasons().tells_of_listings())?;
    Some((reason, meant.setting))
}

/// Why each rule of a mesh's is there, as it can be told from the rules alone.
pub fn reasons(view: &View) -> Vec<(At, Option<Reason>)> {
    recognized(view).into_iter().map(|meant| (meant.at, meant.reason)).collect()
}

/// Reports to a listener change nothing.
fn says_nothing(rule: &ViewRule) -> bool {
    rule.origin.is_none() && rule.action.surely_continues()
}

/// Whether a rule itself hands packets to a listener.
pub fn captures(rule: &ViewRule) -> bool {
    matches!(
        rule.action,
        Action::Target(Target::Redirect(_) | Target::Tproxy { .. }) | Action::RedirectSamePort
    )
}

/// Whether a rule ends the way through the chains of its hook, or through its own.
pub fn returns(rule: &ViewRule) -> bool {
    matches!(rule.action, Action::Target(Target::Return | Target::Accept))
}

pub fn is_loopback(asked: Option<&FieldValues>) -> bool {
    asked.is_some_and(|asked| !asked.negated && asked.items.iter().any(|item| item == "lo"))
}
