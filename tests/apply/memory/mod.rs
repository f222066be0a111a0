//! The engine on an in-memory backend that fails at chosen steps: every call ends in the new state or the old one, or reports the
//! remaining changes.

mod order;
mod takeover;
mod verbs;

use crate::support::memory::Memory;
use crate::takeover::memory::{foreign_rules, same};
use crate::takeover::meshes::options;
use mesh::istio::OWNERSHIP;
use rules::{Checked, Family, Mark, check::check, desired::Desired, parse, routing::Object};
use sidecar_init::{
    backend::{BackendName, CommitStep, Snapshot, Variant},
    engine::{self, Summary},
};
use std::net::Ipv6Addr;

const V4_MARK: Object =
    Object::Rule { family: Family::V4, mark: Mark::whole(1337), table: 133, preference: None };
const V4_ROUTE: Object = Object::Route { family: Family::V4, table: 133 };
const V6_MARK: Object =
    Object::Rule { family: Family::V6, mark: Mark::whole(1337), table: 133, preference: None };
const V6_ROUTE: Object = Object::Route { family: Family::V6, table: 133 };
const ADDRESS: Object = Object::Address(Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6));

const LEGACY: BackendName = BackendName::Iptables(Variant::Legacy);
const NFT: BackendName = BackendName::Iptables(Variant::Nft);

/// Desired state of a namespace; `None` cleans it.
type Goal = Option<Desired>;

fn desired(v4: &str, v6: Option<&str>, routing: &[Object]) -> Goal {
    let rules = |text, family| -> Checked {
        check(parse::restore(text, family).expect("rules of the catalogue"), &OWNERSHIP).expect("valid")
    };
    Some(Desired {
        owner: OWNERSHIP,
        v4: rules(v4, Family::V4),
        v6: v6.map(|text| rules(text, Family::V6)),
        routing: routing.iter().copied().collect(),
        stale_flows: None,
        made: None,
    })
}

macro_rules! text {
    ($file:literal) => {
        include_str!(concat!("../../../rules/scenarios/", $file, ".rules"))
    };
}

fn redirect() -> Goal {
    desired(text!("istio-init-container/v4"), None, &[])
}

fn transparent() -> Goal {
    let routes = [V4_MARK, V4_ROUTE, V6_MARK, V6_ROUTE, ADDRESS];
    desired(text!("tproxy-dual-stack/v4"), Some(text!("tproxy-dual-stack/v6")), &routes)
}

fn dns() -> Goal {
    desired(text!("dns-both-families/v4"), Some(text!("dns-both-families/v6")), &[ADDRESS])
}

fn all() -> [Goal; 4] {
    [None, redirect(), transparent(), dns()]
}

fn shared() -> Memory {
    foreign_rules()
}

fn holding(goal: &Goal, backend: BackendName) -> Memory {
    let mut memory = shared();
    run(&mut memory, goal, backend).expect("nothing breaks");
    memory.committed.clear();
    memory
}

fn run(memory: &mut Memory, goal: &Goal, backend: BackendName) -> Result<Summary, String> {
    let done = match goal {
        Some(desired) => engine::apply(memory, desired, &options(backend)),
        None => engine::clean(memory, OWNERSHIP, mesh::OWNERS),
    };
    done.map_err(|error| error.to_string())
}

fn steps(memory: &Memory, goal: &Goal, backend: BackendName) -> Vec<CommitStep> {
    run(&mut memory.clone(), goal, backend).expect("nothing breaks").steps
}

/// True if the snapshot has the goal's rules in this backend only, and all rules of other owners.
fn holds(snapshot: &Snapshot, goal: &Goal, backend: BackendName) -> bool {
    same(snapshot, &holding(goal, backend).snapshot)
}
