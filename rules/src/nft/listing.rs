//! Tables of nf_tables as they were read: ours and those of others.
//!
//! The twin of [`crate::Listing`]. A rule keeps what is known of each of its conditions and says what is not, in the
//! vocabulary of [`crate::listed`], so that one walk serves both.

use super::Base;
use crate::{Family, Hits, ListedCondition, Policy, listed};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveTable {
    /// `None` for packets of both.
    pub family: Option<Family>,
    /// Family and name, such as `inet filter`.
    pub name: String,
    pub chains: Vec<LiveChain>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveChain {
    pub name: String,
    /// `None` if only rules call it.
    pub base: Option<LiveBase>,
    pub rules: Vec<LiveRule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBase {
    /// A chain at `ingress` is given as the first of PREROUTING, one at `egress` as the last of POSTROUTING.
    pub base: Base,
    pub policy: Policy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRule {
    /// In the words of `nft`, as far as it is understood.
    pub text: String,
    /// In the order in which they are tested.
    pub conditions: Vec<ListedCondition>,
    /// Before the action; none of these ends the walk.
    pub first: Vec<listed::Action>,
    pub action: listed::Action,
    pub comment: String,
    /// `None` if it has no counter, or the counters were not read.
    pub hits: Option<Hits>,
}
