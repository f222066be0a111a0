//! `sidecar-init ambient-host`: the host's part of the ambient mesh, called by an agent when pods start and end.

use super::report::{self, Format};
use super::run::{self, Run};
use super::{Exit, RunResult};
use mesh::Setting;
use mesh::ambient::{self, Reason, defaults};
use mesh::sources::{Raw, SettingReader};
use serde::Serialize;
use sidecar_init::backend::Error;
use sidecar_init::backend::nftables::snat::{self, SnatChange};
use std::{collections::BTreeSet, net::IpAddr};

/// The state after the change, for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct AmbientHostReport {
    /// The table's name, of the family inet.
    table: &'static str,
    /// True if the run changed anything.
    changed: bool,
    /// The addresses of all pods in the table.
    pods: Vec<IpAddr>,
    /// The sources of the host's calls to pods, over IPv4 and IPv6; empty without a table.
    probe_addresses: Vec<IpAddr>,
}

pub(super) fn run(raw: &Raw, problems: Vec<mesh::InputProblem>) -> RunResult {
    let (run, change) = run::begin(raw, problems, Run::stdout, change)?;
    let report = done(change.as_ref())?;
    tracing::info!(target: "nftables", changed = report.changed, "{}", sentence(&report));
    match run.format {
        Format::Text => Ok(Exit::Done),
        Format::Data(encoding) => report::change(encoding, &report, &sentence(&report)),
    }
}

fn change(reader: &mut SettingReader<'_>) -> Option<SnatChange> {
    let [add, remove]: [BTreeSet<IpAddr>; 2] = [Setting::HostAdd, Setting::HostRemove]
        .map(|setting| reader.list(setting, SettingReader::address_item).into_iter().collect());
    for (setting, addresses) in [(Setting::HostAdd, &add), (Setting::HostRemove, &remove)] {
        let (_, source) = reader.items(setting);
        // An IPv4-mapped IPv6 address is IPv4 in packets.
        let is_mapped = |address: &IpAddr| address.to_canonical() != *address;
        for address in addresses.iter().filter(|address| {
            address.is_loopback() || address.is_unspecified() || address.is_multicast() || is_mapped(address)
        }) {
            let text = "is not the address of a pod; expected one that other pods can call, such as 10.1.2.3";
            reader.problem(&source, &address.to_string(), text);
        }
    }
    let (_, source) = reader.items(Setting::HostRemove);
    for address in add.intersection(&remove) {
        let text = "is also in --add; give it once";
        reader.problem(&source, &address.to_string(), text);
    }
    let (v4, v6) = ambient::probe_addresses(reader);
    if reader.switch(Setting::HostClean) {
        for setting in [Setting::HostAdd, Setting::HostRemove] {
            reader.blame(
                setting,
                "contradicts --clean, which removes the table with all pods; give one of them",
            );
        }
        return None;
    }
    let (table, comment) = (defaults::HOST_TABLE, Reason::Probe.name());
    let defaults = (defaults::PROBE_V4, defaults::PROBE_V6);
    Some(SnatChange { table, comment, add, remove, v4, v6, defaults })
}

fn done(change: Option<&SnatChange>) -> Result<AmbientHostReport, Error> {
    let table = defaults::HOST_TABLE;
    let Some(change) = change else {
        let changed = snat::remove(table)?;
        return Ok(AmbientHostReport { table, changed, pods: Vec::new(), probe_addresses: Vec::new() });
    };
    let (changed, content) = snat::change(change)?;
    let probe_addresses = vec![content.v4.into(), content.v6.into()];
    Ok(AmbientHostReport { table, changed, pods: content.pods.into_iter().collect(), probe_addresses })
}

fn sentence(AmbientHostReport { table, pods, probe_addresses, .. }: &AmbientHostReport) -> String {
    if probe_addresses.is_empty() {
        return format!("the table inet {table} is removed");
    }
    let (count, plural) = (pods.len(), if pods.len() == 1 { "" } else { "es" });
    let from = probe_addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    format!("host calls to {count} pod address{plural} come from {from}")
}
