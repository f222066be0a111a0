//! What a network namespace captures and what it leaves alone, told from its live rules: for whoever has to understand it
//! without knowing a single flag.
//!
//! The rules may be ours or upstream's, in iptables or in nf_tables; `recognition` turns them back into the policy's
//! reasons. What they claim is walked with a packet each, so that a rule of somebody else that decides before is seen.
//! Nothing here reads a kernel or a clock: what was seen comes in, what is to be told goes out.

mod claims;
mod family;
mod finding;
mod hits;
mod listeners;
mod parts;
mod seen;
#[cfg(test)]
mod tests;
mod text;
mod witness;

pub use claims::proxy;
pub use finding::{Finding, Level};
pub use hits::{Counted, Hit};
pub use listeners::{Listening, ports};
pub use mesh::recognition::reasons;
pub use parts::Part;
pub use seen::{Held, Record, Seen, Socket};

use family::word;
use mesh::Mesh;
use mesh::recognition;
use rules::{ByFamily, Family};
use seen::is_put_there;
use serde::Serialize;
use std::net::IpAddr;

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
