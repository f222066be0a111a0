//! What a network namespace captures and what it leaves alone, told from its live rules: for whoever has to understand it
//! without knowing a single flag.
//!
//! The rules may be ours or upstream's, in iptables or in nf_tables; `recognition` turns them back into the policy's
//! reasons. What they claim is walked with a packet each, so that a rule of somebody else that decides before is seen.
//! Nothing here reads a kernel or a clock: what was seen comes in, what is to be told goes out.

mod claims;
mod hits;
mod listeners;
mod parts;
#[cfg(test)]
mod tests;
mod text;
mod witness;

pub use claims::proxy;
pub use hits::{Counted, Hit};
pub use listeners::{Listening, Socket, ports};
pub use mesh::recognition::reasons;
pub use parts::Part;

use crate::Tone;
use mesh::Mesh;
use mesh::recognition;
use rules::simulate::{Routing, View};
use rules::{ByFamily, Family};
use serde::Serialize;
use std::net::IpAddr;

/// What was read of a namespace.
#[derive(Debug)]
pub struct Seen<'a> {
    /// All rules that a packet meets, with what they have counted.
    pub views: &'a ByFamily<View>,
    /// What routing does beside them.
    pub routing: &'a ByFamily<Routing>,
    /// The addresses of all interfaces.
    pub addresses: &'a [IpAddr],
    /// Who listens; `None` where that can't be seen.
    pub sockets: Option<&'a [Socket]>,
    /// What holds rules of meshes.
    pub held: Vec<Held>,
    /// The one mesh to tell of; `None` for all that are there.
    pub only: Option<Mesh>,
    /// What the engine has found that is not as it should be.
    pub findings: Vec<Finding>,
}

/// Rules of a mesh in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Held {
    /// Whose they are, as `--mesh` takes it.
    pub mesh: &'static str,
    pub backend: String,
    pub families: Vec<&'static str>,
    #[serde(rename = "rule_count")]
    pub rules: usize,
    /// The program that made them, as far as the rules tell.
    pub program: String,
    /// How they were made; null where nothing says it, as in iptables.
    pub made: Option<Record>,
}

/// How a table of ours was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    pub program_version: String,
    pub command: String,
    /// When, as RFC 3339 writes it.
    #[serde(rename = "time")]
    pub at: String,
    /// What was said to be captured; `None` where there was no room for it.
    pub settings: Option<String>,
    pub settings_digest: String,
    pub rules_digest: String,
    /// Whether the rules are others than those that were written then.
    pub changed_since: bool,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Level {
    /// It may be meant so.
    #[serde(rename = "warning")]
    Warn,
    /// Traffic fails, or passes the proxy by.
    #[serde(rename = "failure")]
    Fail,
}

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub level: Level,
    /// A word for what it is about: `ipv6`, `foreign`, `listeners`, `rules`, `routing`, `drift`.
    pub topic: &'static str,
    pub text: String,
    pub remedy: Option<String>,
}

impl Finding {
    /// Something that may be meant so.
    pub fn warn(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Warn, topic, text: text.into(), remedy: Some(remedy.into()) }
    }

    /// Something by which traffic fails, or passes the proxy by.
    pub fn fail(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Fail, ..Self::warn(topic, text, remedy) }
    }
}

/// What is to be told, in the order in which it is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// Whether anything is captured.
    pub capturing: bool,
    /// The whole in a sentence.
    pub summary: String,
    /// The meshes that capture something, as `--mesh` takes them.
    pub meshes: Vec<&'static str>,
    /// The families of which something is captured.
    pub families: Vec<&'static str>,
    pub held_by: Vec<Held>,
    /// The first that is said in `held_by`.
    pub made: Option<Record>,
    pub captured: Vec<Part>,
    pub left_alone: Vec<Part>,
    pub dropped: Vec<Part>,
    pub listeners: Vec<Listening>,
    pub hits: Vec<Hit>,
    pub findings: Vec<Finding>,
}

/// Tells what was seen.
pub fn status(seen: Seen<'_>) -> Status {
    let Seen { views, held, .. } = &seen;
    let meant = |view| {
        let mut meant = recognition::recognized(view);
        meant.retain(|meant| seen.only.is_none_or(|only| only == meant.mesh));
        meant
    };
    let meant = ByFamily { v4: meant(&views.v4), v6: meant(&views.v6) };
    let told = parts::told(&seen, &meant);
    let captured_in = |family: Family| told.captured.iter().any(|part| part.is_of(family));
    let families: Vec<Family> = Family::BOTH.into_iter().filter(|family| captured_in(*family)).collect();
    let listeners = listeners::listening(&seen, &meant);
    let mut findings = witness::findings(&seen, &meant);
    findings.extend(listeners::findings(&listeners));
    let captures = |mesh: &Mesh| told.captured.iter().any(|part| part.mesh == mesh.name());
    let meshes: Vec<Mesh> = Mesh::ALL.iter().copied().filter(captures).collect();
    findings.extend(gaps(&seen, &families, &meshes));
    findings.extend(held.iter().filter_map(|held| drift(held.made.as_ref()?)));
    let summary = summary(held, &families, &meshes, &told);
    let held = held.clone();
    findings.extend(seen.findings);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    Status {
        capturing: !families.is_empty(),
        summary,
        meshes: meshes.into_iter().map(Mesh::name).collect(),
        families: families.iter().copied().map(word).collect(),
        made: held.iter().find_map(|held| held.made.clone()),
        held_by: held,
        captured: told.captured,
        left_alone: told.left_alone,
        dropped: told.dropped,
        listeners,
        hits: hits::counted(&meant),
        findings,
    }
}

impl Status {
    /// The text for people, for as many columns.
    pub fn text(&self, width: usize) -> String {
        text::text(self, width)
    }

    /// Notes how many packets a second have come since an earlier look, so many seconds ago. Rules that were made anew
    /// since count from nothing.
    pub fn rate(&mut self, earlier: &Self, seconds: f64) {
        for hit in &mut self.hits {
            let same = |other: &&Hit| {
                (other.reason, &other.text, &other.option) == (hit.reason, &hit.text, &hit.option)
            };
            let before = earlier.hits.iter().find(same).map_or(0, |other| other.packets);
            let more = hit.packets.checked_sub(before).unwrap_or(hit.packets);
            hit.per_second = (seconds > 0.0).then(|| (more as f64 / seconds * 10.0).round() / 10.0);
        }
    }
}

/// The family, for programs.
pub(super) fn word(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

fn summary(held: &[Held], families: &[Family], meshes: &[Mesh], told: &parts::Parts) -> String {
    let mut by: Vec<&str> = Vec::new();
    for held in held {
        if !by.contains(&held.backend.as_str()) {
            by.push(&held.backend);
        }
    }
    match (families, held) {
        ([], []) => "nothing is captured: no rule here sends traffic to a mesh proxy".to_owned(),
        ([], _) => format!("nothing is captured, though rules of the mesh are there ({})", by.join(", ")),
        (families, _) => {
            let names: Vec<String> = families.iter().map(ToString::to_string).collect();
            let ways: Vec<&str> = ["outbound", "inbound", "dns"]
                .into_iter()
                .filter(|way| told.captured.iter().any(|part| part.direction == *way))
                .map(|way| if way == "dns" { "DNS" } else { way })
                .collect();
            let by = if by.is_empty() { "rules of an unknown program".to_owned() } else { by.join(" and ") };
            let ways = match ways.split_last() {
                Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
                _ => ways.concat(),
            };
            // Of the mesh that is meant where none is named, nothing need be said.
            let whose = match meshes {
                [mesh] if *mesh == Mesh::default() => String::new(),
                meshes => {
                    let names: Vec<&str> = meshes.iter().map(|mesh| mesh.ownership().name).collect();
                    format!(", for {}", names.join(" and "))
                }
            };
            format!("{ways} traffic is captured over {}, by {by}{whose}", names.join(" and "))
        }
    }
}

/// Whether an address is one that a policy puts on `lo`, for the proxy alone.
fn is_put_there(address: IpAddr) -> bool {
    Mesh::ALL.iter().any(|mesh| mesh.ownership().address.map(IpAddr::V6) == Some(address))
}

/// Addresses whose traffic no rule takes to the proxy, while that of the other family goes there.
fn gaps(seen: &Seen<'_>, captured: &[Family], meshes: &[Mesh]) -> Vec<Finding> {
    let reachable = crate::explain::Pod::new(seen.addresses.iter().copied(), None).addresses;
    let missing =
        Family::BOTH.into_iter().filter(|family| !captured.is_empty() && !captured.contains(family));
    let of = |family: Family| {
        let own = |address: &&IpAddr| Family::of(**address) == family && !is_put_there(**address);
        reachable.iter().find(own).map(|address| (family, *address))
    };
    let finding = |(family, address): (Family, IpAddr)| {
        let remedies = meshes.iter().map(|mesh| mesh.reasons().remedy_of_gap(family));
        let remedy = remedies.collect::<Vec<_>>().join("; ");
        let text =
            format!("{family} passes the proxy by: the pod has {address}, and no rule captures {family}");
        Finding::fail(if family == Family::V6 { "ipv6" } else { "ipv4" }, text, remedy)
    };
    missing.filter_map(of).map(finding).collect()
}

fn drift(record: &Record) -> Option<Finding> {
    record.changed_since.then(|| {
        let Record { program_version, command, at, .. } = record;
        let text = format!(
            "the rules are not those that {command} (sidecar-init {program_version}) wrote at {at}: somebody has \
             changed our table since"
        );
        let remedy = "sidecar-init check with the pod's flags shows what differs, sidecar-init apply puts it back";
        Finding::warn("drift", text, remedy)
    })
}

/// How a level is shown.
pub(super) fn tone(level: Level) -> Tone {
    match level {
        Level::Warn => Tone::Passing,
        Level::Fail => Tone::Dropped,
    }
}
