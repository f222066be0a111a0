//! A packet for each claim: what rules claim to capture is walked through all rules that are there, so that another
//! program's rule that decides before is seen. And chains and marks without effect.

use super::claims::{Claim, claim, proxy_of};
use super::observation::Observation;
use crate::explain::{
    EndpointNames, OUTSIDE_ADDRESS_NAME, POD_ADDRESS_NAME, PodContext, Sender, explain, usual_packet,
};
use mesh::DNS_PORT;
use mesh::reason::Meaning;
use mesh::recognition::{RecognizedRule, Role, summary::field_condition};
use rules::finding::{Code, Finding, Level};
use rules::nft::{Field, Interval};
use rules::simulate::{At, Packet, Verdict, View, ViewRule, walk};
use rules::{Action, ByFamily, Cidr, Family, PortRange, Protocol, Target, TrafficEffect};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// No host has these (RFC 5737, RFC 3849): a host outside, and the pod where it has no address.
const ELSEWHERE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 10))];
const STAND_IN: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 77))];

/// Ports of which a usual pod excludes none.
const PORTS: [u16; 6] = [8080, 8081, 9080, 18_080, 28_080, 38_080];

/// Ports of rules of others that are tried for each claim.
const MAX_PORTS: usize = 8;

/// What packets show, and what chains show that no packet comes to.
pub(super) fn findings(
    seen: &Observation<'_>,
    recognized: &ByFamily<Vec<RecognizedRule<'_>>>,
) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for (family, recognized) in recognized.iter() {
        found.extend(contradicted(seen, family, recognized));
        found.extend(unreached(seen.views.get(family), family, recognized));
        found.extend(unrouted(seen, family, recognized));
    }
    // A table of both families is walked twice.
    let mut texts = BTreeSet::new();
    found.retain(|finding| texts.insert(finding.text.clone()));
    found
}

/// Claims of which a packet shows that others decide.
fn contradicted(seen: &Observation<'_>, family: Family, recognized: &[RecognizedRule<'_>]) -> Vec<Finding> {
    let view = seen.views.get(family);
    let ours: BTreeSet<At> = recognized.iter().map(|recognized| recognized.at).collect();
    let claims: Vec<Claim> = recognized.iter().filter_map(|recognized| claim(view, recognized)).collect();
    let pod = pod(seen, &claims);
    let others = ports_of_others(view, &ours);
    let captured = claims.iter().filter(|claim| claim.meaning.row().effect == TrafficEffect::Captured);
    captured
        .filter_map(|claim| {
            let ports = std::iter::once(None).chain(ports(claim, &claims, &others).into_iter().map(Some));
            let mut witnesses = ports.filter_map(|port| witness(claim, family, &pod, &claims, port));
            witnesses.find_map(|witness| contradiction(seen, family, claim, &witness, &ours))
        })
        .collect()
}

/// The finding about a packet that does not go as the claim has it.
fn contradiction(
    seen: &Observation<'_>,
    family: Family,
    claim: &Claim,
    witness: &Witness,
    ours: &BTreeSet<At>,
) -> Option<Finding> {
    let view = seen.views.get(family);
    let explanation =
        explain(view, seen.routing.get(family), &witness.packet).with_endpoint_names(&witness.endpoint_names);
    let outcome = explanation.outcome();
    let port = match outcome.verdict {
        Verdict::Redirect(ports) => Some(ports),
        Verdict::Tproxy(port) => Some(port.into()),
        Verdict::Pass | Verdict::Drop | Verdict::Unknown => None,
    };
    if port.is_some_and(|port| claim.listener.is_none_or(|listener| listener.ports == port)) {
        return None;
    }
    // Our own exclusions are reported as such, unless another program's rule has made the packet one of them.
    let is_own = port.is_none() && outcome.decided_by.is_some_and(|at| ours.contains(&at));
    let is_changed = |at: &At| !ours.contains(at) && view.rule(*at).is_some_and(ViewRule::changes_packet);
    if is_own && !explanation.rules_met().any(|at| is_changed(&at)) {
        return None;
    }
    let option = claim.setting.map(|setting| format!(" ({})", setting.row().short_option()));
    let claimed = match (port, claim.listener) {
        (Some(_), Some(listener)) => format!("is to go to port {}", listener.ports),
        _ => "is to be captured".to_owned(),
    };
    let option = option.unwrap_or_default();
    let text = format!("{} {claimed}{option} and is {}", witness.what, explanation.sentence());
    let remedy = "see all rules that it meets with sidecar-init explain --live";
    let level = if outcome.verdict == Verdict::Unknown { Level::Warning } else { Level::Failure };
    Some(Finding { level, ..Finding::failure(Code::Overruled, "", text, remedy) })
}

/// The first ports of the lists that rules of other programs match.
fn ports_of_others(view: &View, ours: &BTreeSet<At>) -> BTreeSet<u16> {
    let mut ports = BTreeSet::new();
    for (chain, of_chain) in view.chains().iter().enumerate() {
        let rules = of_chain.rules.iter().enumerate();
        let others = rules.filter(|(rule, _)| !ours.contains(&At { chain, rule: *rule }));
        let conditions = others.flat_map(|(_, rule)| &rule.conditions).filter_map(field_condition);
        for condition in conditions.filter(|condition| condition.field == Field::DestinationPort) {
            let first = |range: &Interval| u16::try_from(range.first).ok();
            ports.extend(condition.values.ranges().iter().filter_map(first));
        }
    }
    ports
}

/// The ports among these that the claim is about, where it is about all that no list names.
fn ports(claim: &Claim, claims: &[Claim], others: &BTreeSet<u16>) -> Vec<u16> {
    let is_of_ports = match claim.meaning {
        Meaning::OutboundNetwork => true,
        Meaning::OutboundPort | Meaning::InboundPort => claim.items.is_empty(),
        _ => false,
    };
    if !is_of_ports {
        return Vec::new();
    }
    let direction = claim.meaning.row().direction;
    let is_beside =
        |other: &&Claim| other.meaning.row().direction == direction || other.meaning == Meaning::Dns;
    let beside = claims.iter().filter(is_beside);
    let ports = others.iter().copied().filter(|port| *port != 0 && !is_named(beside.clone(), *port));
    ports.take(MAX_PORTS).collect()
}

/// Whether a list names the port, or it is that of captured DNS.
fn is_named<'a>(mut claims: impl Iterator<Item = &'a Claim>, port: u16) -> bool {
    claims.any(|claim| {
        if claim.meaning == Meaning::Dns && port == DNS_PORT.number() {
            return true;
        }
        let exclusions = claim.exclusions.iter().flat_map(|(_, items)| items);
        let mut ranges =
            claim.items.iter().chain(exclusions).filter_map(|item| item.parse::<PortRange>().ok());
        ranges.any(|range| range.contains(port))
    })
}

fn pod(seen: &Observation<'_>, claims: &[Claim]) -> PodContext {
    let mut pod = PodContext::new(seen.addresses.iter().copied(), None);
    for address in STAND_IN {
        if !pod.addresses.iter().any(|own| Family::of(*own) == Family::of(address)) {
            pod.addresses.push(address);
        }
    }
    pod.with_proxy(&proxy_of(claims))
}

/// Whether some TCP from or to this address of the pod passes its rules; `None` where only rules that are not understood let it
/// pass. It does not where rules of others drop all of a family, or redirect it to a port.
pub(super) fn passes(seen: &Observation<'_>, address: IpAddr) -> Option<bool> {
    let verdicts: Vec<Verdict> = verdicts(seen, address).collect();
    let passes = verdicts.contains(&Verdict::Pass);
    (passes || !verdicts.contains(&Verdict::Unknown)).then_some(passes)
}

/// Whether rules that are not understood may decide about usual packets.
pub(super) fn is_undecided(seen: &Observation<'_>) -> bool {
    STAND_IN
        .into_iter()
        .flat_map(|address| verdicts(seen, address))
        .any(|verdict| verdict == Verdict::Unknown)
}

/// The verdicts of TCP from and to this address of the pod, at usual ports.
fn verdicts<'a>(seen: &'a Observation<'_>, address: IpAddr) -> impl Iterator<Item = Verdict> + 'a {
    let family = Family::of(address);
    let (view, routing) = (seen.views.get(family), seen.routing.get(family));
    let pod = PodContext::new([address], None);
    let outside = ELSEWHERE.into_iter().find(|one| Family::of(*one) == family);
    let outbound = outside.map(|outside| (Sender::App, outside));
    let ways = outbound.into_iter().chain([(Sender::External, address)]);
    let packets = ways.flat_map(|(sender, to)| PORTS.map(|port| (sender, SocketAddr::new(to, port))));
    packets.filter_map(move |(sender, to)| {
        let packet = usual_packet(sender, &pod, &pod, Protocol::Tcp, to)?;
        Some(walk(view, routing, &packet, &mut ()).verdict)
    })
}

/// A packet that a claim is about.
struct Witness {
    what: String,
    packet: Packet,
    endpoint_names: EndpointNames,
}

/// A packet that the claim is about: to this port, or to a usual one that no list names.
fn witness(
    claim: &Claim,
    family: Family,
    pod: &PodContext,
    claims: &[Claim],
    port: Option<u16>,
) -> Option<Witness> {
    let of = |address: &IpAddr| Family::of(*address) == family;
    let elsewhere = ELSEWHERE.into_iter().find(of)?;
    let own = pod.addresses.iter().copied().find(of)?;
    let first_port = || claim.items.first()?.parse::<PortRange>().ok().map(|ports| ports.first().number());
    let free = || {
        let usual = || PORTS.into_iter().find(|port| !is_named(claims.iter(), *port));
        port.or_else(usual).unwrap_or(PORTS[0])
    };
    let network = || {
        let cidr = network_of(claim.items.first()?)?;
        // No host has the first address of a network.
        Some(match cidr.address() {
            _ if cidr.is_everything() => elsewhere,
            IpAddr::V4(first) if cidr.length() < 31 => IpAddr::V4(Ipv4Addr::from(u32::from(first) + 1)),
            IpAddr::V6(first) if cidr.length() < 127 => IpAddr::V6(Ipv6Addr::from(u128::from(first) + 1)),
            one => one,
        })
    };
    let (sender, to) = match claim.meaning {
        Meaning::OutboundNetwork if claim.items.is_empty() => {
            (Sender::App, SocketAddr::new(elsewhere, free()))
        }
        Meaning::OutboundNetwork => (Sender::App, SocketAddr::new(network()?, free())),
        Meaning::OutboundPort if claim.items.is_empty() => (Sender::App, SocketAddr::new(elsewhere, free())),
        Meaning::OutboundPort => (Sender::App, SocketAddr::new(elsewhere, first_port()?)),
        Meaning::InboundPort if claim.items.is_empty() => (Sender::External, SocketAddr::new(own, free())),
        Meaning::InboundPort => (Sender::External, SocketAddr::new(own, first_port()?)),
        Meaning::Dns if claim.items.is_empty() => {
            (Sender::App, SocketAddr::new(elsewhere, DNS_PORT.number()))
        }
        Meaning::Dns => (Sender::App, SocketAddr::new(network()?, DNS_PORT.number())),
        _ => return None,
    };
    let protocol = if claim.meaning == Meaning::Dns { Protocol::Udp } else { Protocol::Tcp };
    let packet = usual_packet(sender, pod, pod, protocol, to)?;
    let listed = claim.items.first().and_then(|item| network_of(item));
    let endpoint_names = match (sender, listed.filter(|network| !network.is_everything())) {
        (Sender::External, _) if STAND_IN.contains(&to.ip()) => {
            EndpointNames::default().with_destination_name(POD_ADDRESS_NAME)
        }
        (Sender::External, _) => EndpointNames::default(),
        (_, Some(network)) if network.is_host() => EndpointNames::default(),
        (_, Some(network)) => {
            EndpointNames::default().with_destination_name(format!("an address in {network}"))
        }
        (_, None) => EndpointNames::default().with_destination_name(OUTSIDE_ADDRESS_NAME),
    };
    let goes = endpoint_names.destination(&packet);
    let what = match (sender, claim.meaning) {
        (_, Meaning::Dns) => format!("a DNS query to {goes}"),
        (Sender::External, _) => format!("TCP from outside to port {}", to.port()),
        _ => format!("TCP of the application to {goes}"),
    };
    Some(Witness { what, packet, endpoint_names })
}

/// The network that an item of a list names. A single address has no prefix length there.
fn network_of(item: &str) -> Option<Cidr> {
    item.parse::<Cidr>().ok().or_else(|| item.parse::<IpAddr>().ok().map(Cidr::host))
}

/// Chains of iptables that no packet comes to: a killed run or the removal of jumps leaves them, or a rule before the jump
/// takes all.
fn unreached(view: &View, family: Family, recognized: &[RecognizedRule<'_>]) -> Vec<Finding> {
    let mut chains: BTreeMap<(&str, &str), (bool, usize)> = BTreeMap::new();
    for recognized in recognized.iter().filter(|recognized| !recognized.chain.table.starts_with("inet ")) {
        let matters = match recognized.role {
            Role::Outbound => true,
            Role::Inbound => recognized.reason.is_some_and(|reason| reason.meaning() == Meaning::InboundPort),
            _ => false,
        };
        if matters {
            let name = (&*recognized.chain.table, &*recognized.chain.chain);
            chains.insert(name, (recognized.is_reached, recognized.at.chain));
        }
    }
    let has_jump = |chain: usize| {
        let called_by_kernel = view.chains().iter().filter(|one| one.base.is_some());
        called_by_kernel.flat_map(|one| &one.rules).any(|rule| rule.leads_to == Some(chain))
    };
    let lost = chains.into_iter().filter(|(_, (is_reached, _))| !is_reached);
    lost.map(|((table, chain), (_, index))| {
        if has_jump(index) {
            let text = format!(
                "a rule takes all packets before rules of {chain} in {family} table {table}: these capture nothing"
            );
            let remedy = "see all rules that a packet meets with sidecar-init explain --live";
            return Finding::failure(Code::Overruled, "", text, remedy);
        }
        let text =
            format!("no rule leads to {chain} in {family} table {table}: what it would capture passes");
        let remedy = "the rules are incomplete: sidecar-init apply with the pod's flags completes them";
        Finding::failure(Code::IncompleteRules, "", text, remedy)
    })
    .collect()
}

/// TPROXY that nothing routes for.
fn unrouted(seen: &Observation<'_>, family: Family, recognized: &[RecognizedRule<'_>]) -> Option<Finding> {
    let marks = &seen.routing.get(family).local_marks;
    let mark =
        recognized.iter().filter(|recognized| recognized.is_reached).find_map(
            |recognized| match &recognized.rule.action {
                Action::Target(Target::Tproxy { mark, .. }) if mark.value != 0 => Some(*mark),
                _ => None,
            },
        )?;
    (!marks.iter().any(|local| local.covers(mark.value))).then(|| {
        let text = format!(
            "TPROXY marks {family} packets with {}, and no policy rule routes that mark here: answers get lost",
            mark.value
        );
        let remedy = "sidecar-init apply with the pod's flags puts policy rule and route back";
        Finding::failure(Code::MissingRouting, "", text, remedy)
    })
}
