//! Routing objects that rules need.

use crate::{Family, Mark};
use std::{fmt, net::Ipv6Addr};

/// Routing objects, all on `lo`, in the order in which they are added: a policy rule after its table's route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// An address, alone in its network.
    Address(Ipv6Addr),
    /// A local default route, alone in its table.
    Route { family: Family, table: u32 },
    Rule {
        family: Family,
        mark: Mark,
        table: u32,
        /// Position among all policy rules, lowest first; `None` lets the kernel choose.
        preference: Option<u32>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutingEntry {
    pub object: Object,
    /// Routing protocol; 0 for none.
    pub protocol: u8,
    /// Preference of a policy rule, by which duplicates differ; 0 for other objects.
    pub preference: u32,
}

impl From<Object> for RoutingEntry {
    fn from(object: Object) -> Self {
        let preference = match object {
            Object::Rule { preference, .. } => preference.unwrap_or(0),
            Object::Address(_) | Object::Route { .. } => 0,
        };
        Self { object, protocol: 0, preference }
    }
}

impl Object {
    pub fn family(self) -> Family {
        match self {
            Self::Address(_) => Family::V6,
            Self::Route { family, .. } | Self::Rule { family, .. } => family,
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let option = |family| if family == Family::V6 { "-6 " } else { "" };
        match *self {
            Self::Address(address) => write!(f, "address {address}/128 on lo"),
            Self::Route { family, table } => {
                write!(f, "route {}local default dev lo table {table}", option(family))
            }
            Self::Rule { family, mark, table, preference } => {
                write!(f, "policy rule {}fwmark {mark} lookup {table}", option(family))?;
                preference.map_or(Ok(()), |preference| write!(f, " pref {preference}"))
            }
        }
    }
}
