//! What tables of nf_tables hold, as it was read: ours and those of others.
//!
//! The twin of [`crate::Listing`]. A rule keeps what is known of each of its conditions and says what is not, in the
//! vocabulary of [`crate::listed`], so that one walk serves both.

use super::Base;
use crate::{Family, Hits, ListedCondition, Policy, listed};

/// A table of nf_tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveTable {
    /// Whose packets it sees; `None` for those of both.
    pub family: Option<Family>,
    /// Family and name, such as `inet filter`.
    pub name: String,
    pub chains: Vec<LiveChain>,
}

/// A chain of a table of nf_tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveChain {
    pub name: String,
    /// How the kernel calls it; `None` if only rules do.
    pub base: Option<LiveBase>,
    pub rules: Vec<LiveRule>,
}

/// How the kernel calls a base chain, and what it does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBase {
    /// A chain at `ingress` is given as the first of PREROUTING, one at `egress` as the last of POSTROUTING.
    pub base: Base,
    /// What becomes of packets that no rule decides about.
    pub policy: Policy,
}

/// A rule of a table of nf_tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRule {
    /// In the words of `nft`, as far as it is understood.
    pub text: String,
    /// In the order in which they are tested.
    pub conditions: Vec<ListedCondition>,
    /// What it does before the action: none of these ends the walk.
    pub first: Vec<listed::Action>,
    pub action: listed::Action,
    pub comment: String,
    /// What it has counted, if it counts and the counters were read.
    pub hits: Option<Hits>,
}
