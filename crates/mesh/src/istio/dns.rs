//! DNS queries, sent to the agent beside the proxy.

use super::config::{CaptureConfig, DnsCapture};
use super::defaults::{AGENT_PORT, DNS_PORT};
use super::reason::Reason;
use super::words::{
    ChainPlace, INBOUND, OUTBOUND, OUTPUT, PREROUTING, from, from_port, jump, own, port, tcp, to, udp,
};
use super::writer::Writer;
use crate::reason::Cause;
use rules::{Cidr, Table, Target, Zone, desired::StaleFlows};

const DNS: ChainPlace = own("ISTIO_OUTPUT_DNS");

const AGENT_ZONE: Zone = Zone::new(1).expect("not 0");
/// Zone of the queries that are redirected to the agent.
const CLIENT_ZONE: Zone = Zone::new(2).expect("not 0");

pub(super) fn write(writer: &mut Writer<'_>) {
    if writer.config.dns == DnsCapture::Off {
        return;
    }
    let cause = Reason::Dns.cause();
    let servers = writer.config.dns.servers(writer.family());
    writer.append(Table::Raw, OUTPUT, [], jump(DNS), cause);
    if !servers.is_empty() {
        writer.append(Table::Nat, OUTBOUND, [], jump(DNS), cause);
    }
    for protocol in [tcp(), udp()] {
        for server in &servers {
            let matches = [protocol.clone(), port(DNS_PORT)].into_iter().chain(server.map(to));
            writer.append(Table::Nat, DNS, matches, Target::Redirect(AGENT_PORT.into()), cause);
        }
    }
    zones(writer, &servers, cause);
}

/// The agent queries the resolver from a port of its own choosing, which may be one that an application uses
/// for a redirected query to the same resolver. In one zone the two would be one connection to conntrack,
/// and an answer would go to the wrong one.
fn zones(writer: &mut Writer<'_>, servers: &[Option<Cidr>], cause: Cause) {
    for owner in writer.owners() {
        let query = [udp(), port(DNS_PORT), owner.is()];
        writer.append(Table::Raw, DNS, query, Target::SetZone(AGENT_ZONE), cause);
        let answer = [udp(), from_port(AGENT_PORT), owner.is()];
        writer.append(Table::Raw, DNS, answer, Target::SetZone(CLIENT_ZONE), cause);
    }
    if !servers.is_empty() {
        writer.append(Table::Raw, PREROUTING, [], jump(INBOUND), cause);
    }
    for server in servers {
        let query = [udp(), port(DNS_PORT)].into_iter().chain(server.map(to));
        writer.append(Table::Raw, DNS, query, Target::SetZone(CLIENT_ZONE), cause);
        let answer = [udp(), from_port(DNS_PORT)].into_iter().chain(server.map(from));
        writer.append(Table::Raw, INBOUND, answer, Target::SetZone(AGENT_ZONE), cause);
    }
}

/// The agent's own queries are excluded.
pub(super) fn stale_flows(config: &CaptureConfig) -> Option<StaleFlows> {
    config.dns.stale_flows(AGENT_ZONE, config.families())
}
