//! What cleaning leaves though it may be the predecessor's: whether it is, nothing tells.

use crate::backend::{Contents, Snapshot, Variant};
use rules::{Chain, Family, ListedRule, Ownership, Table, inheritance, render, routing::OwnedRoute};
use std::fmt;

/// Something that may be the predecessor's as well as anybody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubtful {
    Rule {
        variant: Variant,
        family: Family,
        table: Table,
        chain: Chain,
        line: ListedRule,
    },
    Routing(OwnedRoute),
    /// It carries the owner's protocol and is nothing that the owner would make.
    Unlike {
        what: String,
        protocol: u8,
    },
}

impl fmt::Display for Doubtful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { variant, family, table, chain, line } => {
                write!(f, "{family} {table} ({variant}): {}", render::iptables::appended(chain, line))
            }
            Self::Routing(OwnedRoute { object, .. }) => object.fmt(f),
            Self::Unlike { what, protocol } => write!(f, "{what}, of routing protocol {protocol}"),
        }
    }
}

/// All of it.
pub fn doubtful(snapshot: &Snapshot, owner: &Ownership) -> Vec<Doubtful> {
    let mut found = Vec::new();
    for contents in snapshot.all_contents() {
        let Contents::Iptables { variant, tables } = contents else { continue };
        for (family, state) in tables.iter() {
            found.extend(inheritance::doubtful(state, owner).map(|(table, hook, line)| Doubtful::Rule {
                variant: *variant,
                family,
                table,
                chain: Chain::Base(hook),
                line: line.clone(),
            }));
        }
    }
    found.extend(snapshot.inheritance(owner).doubtful.into_iter().map(Doubtful::Routing));
    let unlike = snapshot.unlike_ours.iter().cloned();
    found.extend(unlike.map(|what| Doubtful::Unlike { what, protocol: owner.protocol }));
    found
}
