//! States of a namespace: what a mesh wants there, and the backend by which it is held.
//!
//! A full crossing of backends, families, captures and their words is too much for each property, so most are tried with
//! the rows of a table in which each two values of any two columns occur together.

use crate::support::scope;
use crate::takeover::meshes::Goal;
use crate::takeover::packets::{LEGACY, NATIVE, NFT};
use sidecar_init::backend::BackendName;
use std::fmt;

pub(crate) const BACKENDS: [BackendName; 3] = [NATIVE, NFT, LEGACY];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) backend: BackendName,
    pub(crate) goal: Goal,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.goal, self.backend)
    }
}

impl State {
    pub(crate) fn choice(self) -> &'static str {
        match self.backend {
            NATIVE => "nftables",
            NFT => "iptables-nft",
            _ => "iptables-legacy",
        }
    }
}

/// A row for each backend with each capture; in the rows of each, the pod's first address is of either family, and words are
/// few or many.
fn rows() -> Vec<State> {
    let row = |index: usize| {
        let goals = if index.is_multiple_of(2) { Goal::ALL } else { Goal::OTHERWISE };
        let goal = goals[index % goals.len()];
        let goal = if (index / 2).is_multiple_of(2) { goal } else { goal.with_ipv6_first() };
        State { backend: BACKENDS[index % BACKENDS.len()], goal }
    };
    (0..BACKENDS.len() * Goal::ALL.len()).map(row).collect()
}

/// The rows of the table, or today's three of them, in which each backend occurs.
pub(crate) fn states() -> Vec<State> {
    scope::of(rows().chunks(BACKENDS.len()).map(<[State]>::to_vec).collect(), 1).concat()
}
