//! States of a namespace: a mesh's goal and its backend. All combinations of backends, families, captures and flags are too many
//! for each property, so most properties are tested with a table in which any two values of two columns share a row.

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

/// A row for each backend with each capture; rows vary the family of the pod's first address and the number of flags.
fn rows() -> Vec<State> {
    let row = |index: usize| {
        let goals = if index.is_multiple_of(2) { Goal::ALL } else { Goal::OTHERWISE };
        let goal = goals[index % goals.len()];
        let goal = if (index / 2).is_multiple_of(2) { goal } else { goal.with_ipv6_first() };
        State { backend: BACKENDS[index % BACKENDS.len()], goal }
    };
    (0..BACKENDS.len() * Goal::ALL.len()).map(row).collect()
}

/// All rows of the table, or three that change daily, with every backend.
pub(crate) fn states() -> Vec<State> {
    scope::of(rows().chunks(BACKENDS.len()).map(<[State]>::to_vec).collect(), 1).concat()
}
