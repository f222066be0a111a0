//! Contents of a table: sets, chains, and rules with their conditions and effects.

use crate::field::{Condition, DataType, Intervals};
use crate::{Family, Hits, Hook, ListedCondition, Origin, Policy, Target, listed};

/// Longest comment of a rule in bytes: `nft` reads one length byte and a NUL.
pub const LONGEST_COMMENT: usize = 127;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InetTable {
    /// Of the family `inet`.
    pub name: String,
    pub sets: Vec<Set>,
    /// By iptables table: first base chains, then other chains.
    pub chains: Vec<InetChain>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Name of the option's rule and type of the values.
    pub name: String,
    /// Source and destination sets have the same kind.
    pub kind: SetKind,
    pub values: Intervals,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetKind {
    pub data_type: DataType,
    pub has_ranges: bool,
}

impl SetKind {
    /// True if the kernel needs a flag to choose a hash table: the timeout flag, although our values never expire. For two-byte
    /// keys without ranges, it would choose a bitmap, where adding 5,000 values took a quarter of a second. Such a set also
    /// states its size: a hash table that grows after the commit (`rhashtable`) is listed with missing values.
    pub fn asks_for_hash(self) -> bool {
        self == Self { data_type: DataType::Port, has_ranges: false }
    }
}

/// Days between the kernel's searches for expired values: about the maximum of 32-bit milliseconds.
pub const NEVER_DAYS: u32 = 49;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InetChain {
    pub name: String,
    /// `None` if only rules call it.
    pub base: Option<Base>,
    pub rules: Vec<InetRule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    pub kind: Kind,
    pub hook: Hook,
    /// The lowest comes first.
    pub priority: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Filter,
    /// Routes a packet again after a mark change.
    Route,
    /// Sees the first packet of a connection and may redirect it.
    Nat,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Route => "route",
            Self::Nat => "nat",
        }
    }
}

/// Every rule counts its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InetRule {
    pub tests: Vec<Test>,
    pub report: Option<Target>,
    pub effect: Effect,
    pub comment: String,
}

impl InetRule {
    pub fn family(&self) -> Option<Family> {
        let asks_for =
            |family: Family| self.tests.iter().any(|test| test.condition == Condition::family(family));
        Family::BOTH.into_iter().find(|family| asks_for(*family))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    pub condition: Condition,
    /// Name of the set; `None` for a single range, or for bits tested together.
    pub set: Option<String>,
}

/// As in iptables, except that TPROXY accepts packets that a socket takes, and does not match otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    Target(Target),
    Jump(String),
    /// Walks a chain of this name, whose end also ends this chain.
    Goto(String),
    None,
}

pub(super) fn comment(origin: Option<Origin>) -> String {
    let mut text = match origin {
        None => String::new(),
        Some(Origin { name, option: "", .. }) => name.to_owned(),
        Some(origin) => format!("{} ({})", origin.name, origin.option_text()),
    };
    text.truncate(LONGEST_COMMENT);
    text
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveTable {
    pub family: Option<Family>,
    /// Family and name, such as `inet filter`.
    pub name: String,
    pub chains: Vec<LiveChain>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveChain {
    pub name: String,
    /// `None` if only rules call it. `ingress` counts as the first chain of PREROUTING, `egress` as the last of POSTROUTING.
    pub base: Option<(Base, Policy)>,
    pub rules: Vec<LiveRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRule {
    /// In `nft` syntax, as far as known.
    pub text: String,
    pub conditions: Vec<ListedCondition>,
    /// Before the action; none of these ends the walk.
    pub first: Vec<listed::Action>,
    pub action: listed::Action,
    pub comment: String,
    /// `None` if it has no counter, or the counters were not read.
    pub hits: Option<Hits>,
}
