//! A listing of rules, ours and others', understood as far as it can be.
//!
//! [`crate::State`] holds what we plan with: rules that we can say exactly, and text. To follow a packet
//! less is enough: a rule of another tool whose address does not fit is passed, whatever else it asks. So
//! a listing keeps what is known of each rule and says what is not. It never says nearly the same.

use crate::{
    Chain, ChainName, Family, Line, Mark, Match, Port, PortRange, Protocol, Rule, Sense, State, Table, Target,
};
use std::{collections::BTreeMap, fmt, net::IpAddr};

/// A table that a packet can meet. The order of the variants is that in which a hook calls them: priorities
/// -300, -150, -100, 0 and 50 in `linux/netfilter_ipv4.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Before conntrack.
    Raw,
    /// Marks and TPROXY.
    Mangle,
    /// Addresses; sees only the first packet of a connection. Its hooks that change sources come last.
    Nat,
    /// Where firewalls stand.
    Filter,
    /// Where mandatory access control stands.
    Security,
}

impl Layer {
    /// All tables, in the order in which a hook calls them.
    pub const ALL: [Self; 5] = [Self::Raw, Self::Mangle, Self::Nat, Self::Filter, Self::Security];

    /// The name, such as `nat`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => Table::Raw.name(),
            Self::Mangle => Table::Mangle.name(),
            Self::Nat => Table::Nat.name(),
            Self::Filter => "filter",
            Self::Security => "security",
        }
    }
}

impl From<Table> for Layer {
    fn from(table: Table) -> Self {
        match table {
            Table::Mangle => Self::Mangle,
            Table::Nat => Self::Nat,
            Table::Raw => Self::Raw,
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What becomes of a packet at the end of a base chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// It goes on.
    #[default]
    Accept,
    /// It ends.
    Drop,
}

/// One condition of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// One of ours.
    Known(Match),
    /// `-p` of a protocol that is not TCP and not UDP (`None`), or negated.
    Protocol(Sense<Option<Protocol>>),
    /// `-m addrtype --dst-type LOCAL`: the destination is an address of this machine.
    DestinationLocal(Sense<()>),
    /// `-m tcp --tcp-flags`: whether a segment with SYN alone, which starts a connection, fulfils it.
    TcpFlags {
        /// The answer for such a segment; for others it is not known.
        takes_first: bool,
        /// As it is written.
        text: String,
    },
    /// A condition that says nothing, such as a comment.
    Always(String),
    /// Any other, as it is written.
    Unknown(String),
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// One of ours.
    Target(Target),
    /// `-g`: on to a chain whose end is the end of the calling chain too.
    Goto(ChainName),
    /// Nothing that changes a packet's way: no target at all, `LOG`, `TCPMSS`, ...
    Continue(String),
    /// `REJECT`: ends the packet with an answer.
    Reject,
    /// `REDIRECT` without ports: to this machine, the port as it is.
    RedirectSamePort,
    /// `DNAT` to one address, one range of ports, or both.
    Destination {
        /// The new address.
        address: Option<IpAddr>,
        /// The new ports.
        ports: Option<PortRange>,
    },
    /// `SNAT` or `MASQUERADE`: the source becomes one that is not followed.
    Source(String),
    /// `NOTRACK`: conntrack, and with it `nat`, never sees the packet.
    Notrack,
    /// A target that changes marks in a way that is not followed.
    Marks(String),
    /// Any other, as it is written.
    Unknown(String),
}

/// A rule of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listed {
    /// As it is written after the chain's name; empty for rules that were made here.
    pub text: String,
    /// What it asks, in the order in which it is written.
    pub conditions: Vec<Condition>,
    /// What it does.
    pub action: Action,
}

impl From<&Rule> for Listed {
    fn from(rule: &Rule) -> Self {
        Self {
            text: String::new(),
            conditions: rule.matches.iter().cloned().map(Condition::Known).collect(),
            action: Action::Target(rule.target.clone()),
        }
    }
}

impl From<&Line> for Listed {
    /// Of a foreign rule nothing is known but its text and whether it can decide.
    fn from(line: &Line) -> Self {
        match line {
            Line::Typed(rule) => rule.into(),
            Line::Foreign(foreign) => {
                let name = foreign.target.clone().unwrap_or_default();
                let action =
                    if line.may_decide() { Action::Unknown(name) } else { continuing_of_state(name) };
                let conditions = vec![Condition::Unknown(foreign.text.clone())];
                Self { text: foreign.text.clone(), conditions, action }
            }
        }
    }
}

/// Targets that continue may still change what later rules see.
fn continuing_of_state(name: String) -> Action {
    match name.as_str() {
        "MARK" | "CONNMARK" => Action::Marks(name),
        "CT" => Action::Unknown(name),
        _ => Action::Continue(name),
    }
}

/// The rules of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedChain {
    /// What happens at its end, if the kernel calls it.
    pub policy: Policy,
    /// The rules in order.
    pub rules: Vec<Listed>,
}

/// The chains of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The family.
    pub family: Family,
    /// By table and name.
    pub chains: BTreeMap<(Layer, Chain), ListedChain>,
}

impl Listing {
    /// A listing without rules.
    pub fn empty(family: Family) -> Self {
        Self { family, chains: BTreeMap::new() }
    }

    /// What a state holds; the policies, which it does not keep, count as `ACCEPT`.
    pub fn of_state(state: &State, family: Family) -> Self {
        let mut listing = Self::empty(family);
        for table in Table::ALL {
            for (chain, held) in state.chains(table) {
                let rules = held.lines.iter().map(Listed::from).collect();
                let key = (Layer::from(table), chain.clone());
                listing.chains.insert(key, ListedChain { policy: Policy::Accept, rules });
            }
        }
        listing
    }

    /// Whether any rule or user-defined chain is there.
    pub fn holds_rules(&self) -> bool {
        self.chains.iter().any(|((_, chain), held)| matches!(chain, Chain::User(_)) || !held.rules.is_empty())
    }
}

/// `(mark & !mask) ^ value`, as the kernel's `MARK` computes it (`xt_mark.c`, `mark_tg`).
pub(crate) fn marked(before: u32, Mark { value, mask }: Mark) -> u32 {
    (before & !mask) ^ value
}

/// The single port that a range is, if it is one.
pub fn single(ports: PortRange) -> Option<Port> {
    ports.is_single().then(|| ports.first())
}
