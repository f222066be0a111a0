//! Readings of a network namespace: its rules and their authors, its addresses, its sockets.

use crate::explain::RuleView;
use mesh::Mesh;
use rules::{ByFamily, Protocol, finding::Finding};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, net::IpAddr};

#[derive(Debug)]
pub struct Observation<'a> {
    /// All rules that packets meet, with counters and routing.
    pub rules: &'a ByFamily<RuleView>,
    pub addresses: &'a [IpAddr],
    /// `None` if listeners are not visible.
    pub sockets: Option<&'a [Socket]>,
    pub processes: &'a [UserProcess],
    pub held: Vec<InstalledRules>,
    /// `None` for all installed meshes.
    pub only: Option<Mesh>,
    pub findings: Vec<Finding>,
}

/// Rules of a mesh in one backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InstalledRules {
    /// The mesh, as a `--mesh` value.
    pub mesh: Cow<'static, str>,
    pub backend: String,
    pub families: Vec<Cow<'static, str>>,
    #[serde(rename = "rule_count")]
    pub rules: usize,
    /// The program that made the rules, as far as they show it.
    pub program: String,
    /// The origin of the rules; null without a record, as in iptables.
    pub made: Option<Record>,
}

/// The origin of our table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    pub program_version: String,
    pub command: String,
    /// The time, in RFC 3339 format.
    #[serde(rename = "time")]
    pub at: String,
    /// The capture settings; null if they did not fit.
    pub settings: Option<String>,
    pub settings_digest: String,
    pub rules_digest: String,
    /// True if the rules have changed since.
    pub changed_since: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    pub protocol: Protocol,
    pub port: u16,
    /// The namespace's addresses on which it listens.
    pub hears: Vec<IpAddr>,
    /// True if the socket is bound to an interface and receives only its packets.
    pub is_bound: bool,
    pub uid: u32,
    /// Number and name; `None` if not visible.
    pub process: Option<(u32, String)>,
    /// Group of the process; `None` if not visible.
    pub gid: Option<u32>,
    /// True if TPROXY can deliver packets to it; `None` if not visible.
    pub is_transparent: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserProcess {
    pub id: u32,
    pub name: String,
    pub uid: u32,
    /// True if it is certainly in the network namespace.
    pub is_here: bool,
}
