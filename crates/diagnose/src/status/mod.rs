//! Captured and excluded traffic of a network namespace, derived only from live rules of sidecar-init or upstream programs, in
//! iptables or nf_tables. Packets that a mesh's rules alone would capture are walked through all rules, which reveals other
//! programs' overruling rules.

mod hits;
#[cfg(test)]
mod law_tests;
mod listeners;
mod observation;
mod overruled;
#[cfg(test)]
mod tests;
mod text;

pub use hits::{Counted, Hit};
pub use listeners::{Listening, ports};
pub use observation::{InstalledRules, Observation, Record, Socket, UserProcess};

use crate::explain::PodContext;
use crate::finding::{FindingReport, reports};
use crate::live_proxy::proxy_of;
use crate::picture;
use crate::picture::TrafficRowReport;
use crate::style::listed;
use listeners::{CapturedFlow, captured};
use mesh::{Mesh, RuleReason, recognition};
use rules::finding::{Code, Finding, Level};
use rules::{ByFamily, Family};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeSet, net::IpAddr};

/// The report, in printed order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaptureStatus {
    /// True if any traffic is captured; null if part of the rules cannot be read and no other part captures.
    pub capturing: Option<bool>,
    /// The summary in a sentence.
    pub summary: String,
    /// The captured directions: `outbound`, `inbound`, `dns`.
    pub directions: Vec<Cow<'static, str>>,
    /// The meshes that capture traffic, as `--mesh` values.
    pub meshes: Vec<Cow<'static, str>>,
    /// The families with captured traffic.
    pub families: Vec<Cow<'static, str>>,
    pub held_by: Vec<InstalledRules>,
    /// The first record in `held_by`.
    pub made: Option<Record>,
    /// All traffic, in rows: the first row that matches decides. Empty if no rule has an effect.
    pub rows: Vec<TrafficRowReport>,
    pub listeners: Vec<Listening>,
    pub hits: Vec<Hit>,
    pub findings: Vec<FindingReport>,
}

pub fn status(seen: &Observation<'_>) -> CaptureStatus {
    let (Observation { rules, held, .. }, only) = (seen, seen.only);
    let all = [&rules.v4, &rules.v6].map(|one| recognition::recognized(&one.view));
    let proxies = all.each_ref().map(|of_family| proxy_of(of_family));
    let others: BTreeSet<&str> = all.iter().flatten().map(|one| one.mesh.ownership().name).collect();
    let [v4, v6] = all.map(|mut of_family| {
        of_family.retain(|one| only.is_none_or(|only| only == one.mesh));
        of_family
    });
    let recognized = ByFamily { v4, v6 };
    let pod = PodContext::new(seen.addresses.iter().copied(), None);
    let picture = picture::of_rules(&[&rules.v4, &rules.v6], &pod);
    let all_captured = captured(&picture, only);
    let captured: Vec<&CapturedFlow<'_>> = all_captured.iter().filter(|one| one.crosses).collect();
    let is_of =
        |family: Family, one: &CapturedFlow<'_>| one.flow.rows.iter().any(|row| row.packets.is_of(family));
    let is_captured = |direction: &&str| captured.iter().any(|one| one.purpose == *direction);
    let directions: Vec<&str> = ["outbound", "inbound", "dns"].into_iter().filter(is_captured).collect();
    let families: Vec<Family> =
        Family::BOTH.into_iter().filter(|family| captured.iter().any(|one| is_of(*family, one))).collect();
    let listeners = listeners::listening(seen, &proxies, &all_captured);
    let mut findings = overruled::findings(seen, &recognized);
    // Without captured traffic, no proxy is needed.
    if !families.is_empty() {
        findings.extend(listeners::findings(&listeners));
    }
    findings.extend(listeners::runs_as_proxy(seen, &listeners));
    let is_undecided = families.is_empty() && !held.is_empty() && picture.has_unknown();
    if is_undecided {
        let text = "rules that are not understood may affect typical packets";
        let remedy = "sidecar-init explain --live shows them";
        findings.push(Finding::failure(Code::Unreadable, "", text, remedy));
    }
    let is_unread = |finding: &Finding| (finding.level, finding.code) == (Level::Failure, Code::Unreadable);
    let is_complete = !is_undecided && !seen.findings.iter().any(is_unread);
    let is_known = is_complete || !families.is_empty();
    let captures = |mesh: &Mesh| captured.iter().any(|one| one.mesh == Some(*mesh));
    let meshes: Vec<Mesh> = Mesh::ALL.iter().copied().filter(captures).collect();
    if is_complete {
        findings.extend(gaps(seen, &families, &meshes));
    }
    findings.extend(held.iter().filter_map(|held| drift(held.made.as_ref()?)));
    let summary = match only.filter(|_| families.is_empty() && held.is_empty()) {
        _ if !is_known => "whether traffic is captured is unknown: some rules are not understood".to_owned(),
        Some(mesh) => {
            let others = others.into_iter().collect::<Vec<_>>().join(" and ");
            let others = Some(others).filter(|names| !names.is_empty());
            let others = others.map(|names| format!("; rules of {names} exist")).unwrap_or_default();
            format!("nothing is captured for {}{others}", mesh.ownership().name)
        }
        None => summary(held, &families, &meshes, &directions),
    };
    findings.extend(seen.findings.iter().cloned());
    findings.sort_by_key(|finding| finding.level);
    CaptureStatus {
        capturing: is_known.then_some(!families.is_empty()),
        summary,
        directions: directions.into_iter().map(Cow::from).collect(),
        meshes: meshes.into_iter().map(|mesh| mesh.name().into()).collect(),
        families: families.iter().map(|family| family.word().into()).collect(),
        made: held.iter().find_map(|held| held.made.clone()),
        held_by: held.clone(),
        rows: picture.rows_where(|flow| only.is_none() || flow.reason().map(RuleReason::mesh) == only),
        listeners,
        hits: hits::counted(&recognized),
        findings: reports(&findings),
    }
}

impl CaptureStatus {
    pub fn has_changed(&self) -> bool {
        self.findings.iter().any(|finding| finding.is(Code::Changed))
    }

    /// True if capture can't work, or is unknown.
    pub fn fails(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == Level::Failure)
    }

    /// Sets the packets per second since an earlier reading; rules applied again since then count from zero.
    pub fn rate(&mut self, earlier: &Self, seconds: f64) {
        for hit in &mut self.hits {
            let same = |other: &&Hit| {
                (&other.reason, &other.text, &other.option) == (&hit.reason, &hit.text, &hit.option)
            };
            let before = earlier.hits.iter().find(same).map_or(0, |other| other.packets);
            let more = hit.packets.checked_sub(before).unwrap_or(hit.packets);
            hit.per_second = (seconds > 0.0).then(|| (more as f64 / seconds * 10.0).round() / 10.0);
        }
    }
}

fn summary(held: &[InstalledRules], families: &[Family], meshes: &[Mesh], directions: &[&str]) -> String {
    let mut by: Vec<&str> = Vec::new();
    for held in held {
        if !by.contains(&held.backend.as_str()) {
            by.push(&held.backend);
        }
    }
    match (families, held) {
        ([], []) => "nothing is captured: no rule sends traffic to a mesh proxy".to_owned(),
        ([], _) => format!("nothing is captured, although rules of the mesh exist ({})", by.join(", ")),
        (families, _) => {
            let names: Vec<String> = families.iter().map(ToString::to_string).collect();
            let directions: Vec<&str> =
                directions.iter().map(|word| if *word == "dns" { "DNS" } else { word }).collect();
            let by = match (by.is_empty(), meshes.is_empty()) {
                (true, true) => "rules of another program".to_owned(),
                (true, false) => "rules of an unknown program".to_owned(),
                (false, _) => by.join(" and "),
            };
            let whose = match meshes {
                [] => String::new(),
                [mesh] if *mesh == Mesh::default() => String::new(),
                meshes => {
                    let names: Vec<&str> = meshes.iter().map(|mesh| mesh.ownership().name).collect();
                    format!(", for {}", names.join(" and "))
                }
            };
            let directions = listed(&directions);
            format!("{directions} traffic is captured over {}, by {by}{whose}", names.join(" and "))
        }
    }
}

/// Findings about addresses of the family that is not captured.
fn gaps(seen: &Observation<'_>, captured: &[Family], meshes: &[Mesh]) -> Vec<Finding> {
    let reachable = PodContext::new(seen.addresses.iter().copied(), None).addresses;
    let missing =
        Family::BOTH.into_iter().filter(|family| !captured.is_empty() && !captured.contains(family));
    let of = |family: Family| {
        let own = reachable.iter().filter(|address| Family::of(**address) == family);
        let mut passing = own.map(|address| (family, *address, overruled::passes(seen, *address)));
        passing.find(|(.., passes)| *passes != Some(false))
    };
    let finding = |(family, address, passes): (Family, IpAddr, Option<bool>)| {
        let [uncaptured, unknown] = match family {
            Family::V4 => [Code::Ipv4Uncaptured, Code::Unreadable],
            Family::V6 => [Code::Ipv6Uncaptured, Code::Ipv6Unknown],
        };
        if passes.is_none() {
            let text =
                format!("whether {family} of {address} is captured is unknown: rules are not understood");
            return Finding::warning(unknown, "", text, "sidecar-init explain --live shows them");
        }
        let remedies = meshes.iter().map(|mesh| *mesh.entry().remedy_of_gap.get(family));
        let remedy = remedies.collect::<Vec<_>>().join("; ");
        let text =
            format!("{family} bypasses the proxy: the pod has {address}, and no rule captures {family}");
        Finding::warning(uncaptured, "", text, remedy)
    };
    missing.filter_map(of).map(finding).collect()
}

fn drift(record: &Record) -> Option<Finding> {
    record.changed_since.then(|| {
        let Record { program_version, command, at, .. } = record;
        let text = format!(
            "the table has changed since {command} (sidecar-init {program_version}) wrote it at {at}"
        );
        let remedy =
            "sidecar-init diff with the pod's flags shows the differences; sidecar-init apply reverts them";
        Finding::warning(Code::Changed, "", text, remedy)
    })
}
