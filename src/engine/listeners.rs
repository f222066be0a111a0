//! Whether a process listens where rules send traffic, and whether it is the proxy.

use crate::sys::listener::{self, ListeningSocket, SocketHolder, Transport};
use rules::field::{Field, protocol_number};
use rules::finding::NamespaceFinding;
use rules::simulate::{View, ViewRule};
use rules::{Action, Family, ListedCondition, Match, Protocol, Target};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
};

const TOPIC: &str = "listeners";

/// The proxy, as far as it can be known from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyProfile {
    /// The users whose traffic passes.
    pub uids: Vec<u32>,
    /// The groups whose traffic passes.
    pub gids: Vec<u32>,
    /// Where it listens, and for what: `outbound`, `inbound`, `DNS`.
    pub ports: Vec<(&'static str, RangeInclusive<u16>)>,
    /// The option that names its users; `None` where nothing does.
    pub named_by: Option<String>,
}

impl ProxyProfile {
    fn role(&self, port: u16) -> Option<&'static str> {
        self.ports.iter().find(|(_, ports)| ports.contains(&port)).map(|(role, _)| *role)
    }

    fn is(&self, listener: &ListeningSocket, holder: Option<&SocketHolder>) -> bool {
        let gid = holder.and_then(|holder| holder.gid);
        // A proxy that is recognized otherwise may run as any user. One that is known by its group alone may be any process
        // whose group can't be seen.
        let may_be_any = self.uids.is_empty() && (self.gids.is_empty() || gid.is_none());
        may_be_any || self.uids.contains(&listener.uid) || gid.is_some_and(|gid| self.gids.contains(&gid))
    }
}

/// A port to which rules send traffic.
#[derive(Clone, Debug, Default)]
struct PortTraffic {
    families: Vec<Family>,
    /// Whether it is handed over as it is, which only a transparent socket takes.
    is_tproxy: bool,
    /// By which protocols.
    is_tcp: bool,
    is_udp: bool,
}

/// Findings about the ports to which rules send traffic. `views` are all rules that a packet meets, one view per family.
pub(super) fn findings(views: &[View], proxy: &ProxyProfile) -> Vec<NamespaceFinding> {
    let listeners = match listener::all() {
        Ok(listeners) => listeners,
        Err(error) => {
            let text = format!("listeners can't be listed: {error}");
            return vec![NamespaceFinding::warn(TOPIC, text, "see who does with ss -lntup")];
        }
    };
    let inodes: Vec<u64> = listeners.iter().map(|listener| listener.inode).collect();
    let holders = listener::holders(&inodes);
    let targets = targets(views);
    if targets.is_empty() {
        return vec![idle(&listeners, proxy)];
    }
    let finding = |(port, sent): (&u16, &PortTraffic)| {
        let of_port: Vec<&ListeningSocket> =
            listeners.iter().filter(|listener| listener.port == *port).collect();
        at(*port, sent, &of_port, &holders, proxy)
    };
    targets.iter().flat_map(finding).collect()
}

/// The ports to which rules send traffic.
fn targets(views: &[View]) -> BTreeMap<u16, PortTraffic> {
    let mut targets: BTreeMap<u16, PortTraffic> = BTreeMap::new();
    for view in views {
        let reached = view.chains().iter().zip(view.reach());
        for rule in reached.flat_map(|(chain, count)| &chain.rules[..count]) {
            let (ports, is_tproxy) = match (&rule.action, rule.action.redirects_to()) {
                (Action::Target(Target::Tproxy { port, .. }), _) => (port.number()..=port.number(), true),
                (_, Some(ports)) => (ports.first().number()..=ports.last().number(), false),
                (_, None) => continue,
            };
            for port in ports {
                let sent = targets.entry(port).or_default();
                sent.is_tproxy |= is_tproxy;
                sent.is_udp |= has_protocol(rule, Protocol::Udp);
                sent.is_tcp |= has_protocol(rule, Protocol::Tcp);
                if !sent.families.contains(&view.family()) {
                    sent.families.push(view.family());
                }
            }
        }
    }
    targets
}

/// Whether a rule has a condition on this protocol. One that changes ports has a condition on some protocol.
fn has_protocol(rule: &ViewRule, protocol: Protocol) -> bool {
    rule.conditions.iter().any(|condition| match condition {
        ListedCondition::Known(Match::Protocol(condition)) => *condition == protocol,
        ListedCondition::Nft(condition) => {
            condition.field == Field::Protocol && condition.holds(protocol_number(protocol).into())
        }
        _ => false,
    })
}

/// Where no rule sends traffic, no listener is needed.
fn idle(listeners: &[ListeningSocket], proxy: &ProxyProfile) -> NamespaceFinding {
    let listens = |port: &u16| listeners.iter().any(|listener| listener.port == *port);
    let found: Vec<String> = proxy
        .ports
        .iter()
        .flat_map(|(_, ports)| ports.clone())
        .filter(listens)
        .map(|port| port.to_string())
        .collect();
    NamespaceFinding::ok(
        TOPIC,
        match found.is_empty() {
            true => "no rule sends traffic to a proxy, and none listens yet".to_owned(),
            false => {
                format!("no rule sends traffic to a proxy, which listens at {} already", found.join(", "))
            }
        },
    )
}

/// Findings about one port.
fn at(
    port: u16,
    sent: &PortTraffic,
    listeners: &[&ListeningSocket],
    holders: &BTreeMap<u64, SocketHolder>,
    proxy: &ProxyProfile,
) -> Vec<NamespaceFinding> {
    // Rules send only DNS queries to a proxy over UDP.
    let role = proxy.role(port).or_else(|| sent.is_udp.then_some("DNS"));
    let place = role.map_or_else(|| format!("port {port}"), |role| format!("port {port} ({role})"));
    let transports = match (sent.is_tcp, sent.is_udp) {
        (true, true) => &[Transport::Udp, Transport::Tcp][..],
        (false, true) => &[Transport::Udp],
        (_, false) => &[Transport::Tcp],
    };
    let mut findings = Vec::new();
    for &transport in transports {
        // What it is bound to decides: what this machine sends arrives at lo, calls from outside elsewhere.
        let reaches = |listener: &ListeningSocket| {
            let is_outside = |device: &str| device != "lo";
            listener.device.as_deref().is_none_or(|device| match role {
                Some("inbound") => is_outside(device),
                Some(_) => !is_outside(device),
                None => true,
            })
        };
        let is_there = |listener: &&&ListeningSocket| listener.transport == transport && reaches(listener);
        let of: Vec<&&ListeningSocket> = listeners.iter().filter(is_there).collect();
        if of.is_empty() {
            // Where it finds no socket, TPROXY drops the packet; to the same port others may be redirected.
            let refused = match transport {
                Transport::Tcp if sent.is_tproxy => "connections are dropped or refused",
                Transport::Tcp => "connections are refused",
                Transport::Udp => "queries are refused",
            };
            let text = format!("nothing listens at {transport} {place}, where rules send traffic: {refused}");
            findings.push(NamespaceFinding::warn(
                TOPIC,
                text,
                "start the proxy there, or wait for it; ss -lntup shows who listens",
            ));
            continue;
        }
        for family in
            sent.families.iter().filter(|family| !of.iter().any(|listener| takes(listener, **family, role)))
        {
            let text = format!(
                "no listener at {transport} {place} accepts {family} at every address, so a part of it is refused"
            );
            findings.push(NamespaceFinding::warn(
                TOPIC,
                text,
                "let the proxy listen on every address, 0.0.0.0 and ::",
            ));
        }
        if sent.is_tproxy && of.iter().all(|listener| listener.is_transparent == Some(false)) {
            let text = format!(
                "who listens at {transport} {place} has no IP_TRANSPARENT, so TPROXY can't hand anything over"
            );
            findings.push(NamespaceFinding::warn(
                TOPIC,
                text,
                "set transparent: true on the proxy's listener, or have packets redirected instead",
            ));
        }
        findings.extend(
            of.iter().map(|listener| whose(transport, &place, listener, holders.get(&listener.inode), proxy)),
        );
    }
    // Each of the proxy's threads may have a listener, with the same finding.
    let mut distinct: Vec<NamespaceFinding> = Vec::new();
    for finding in findings {
        if !distinct.contains(&finding) {
            distinct.push(finding);
        }
    }
    distinct
}

/// Whether a listener gets what rules send it. Outbound goes to the loopback address, inbound to that of an interface.
fn takes(listener: &ListeningSocket, family: Family, role: Option<&str>) -> bool {
    let (loopback, any) = match family {
        Family::V4 => (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv4Addr::UNSPECIFIED)),
        Family::V6 => (IpAddr::from(Ipv6Addr::LOCALHOST), IpAddr::from(Ipv6Addr::UNSPECIFIED)),
    };
    match role {
        Some("inbound") if listener.device.is_some() => false,
        Some("inbound") => {
            listener.hears(any)
                || (!listener.address.is_loopback() && listener.address.is_ipv4() == loopback.is_ipv4())
        }
        Some(_) => listener.hears(loopback),
        None => true,
    }
}

fn whose(
    transport: Transport,
    place: &str,
    listener: &ListeningSocket,
    holder: Option<&SocketHolder>,
    proxy: &ProxyProfile,
) -> NamespaceFinding {
    let uid = listener.uid;
    let who = holder.map_or_else(
        || "an unknown process".to_owned(),
        |SocketHolder { id, name, .. }| format!("{name} (process {id})"),
    );
    let text = format!("{who} listens at {transport} {place} as user {uid}");
    // The expected listener of other ports is unknown.
    if proxy.role(listener.port).is_none() || proxy.is(listener, holder) {
        return NamespaceFinding::ok(TOPIC, text);
    }
    let owners: Vec<String> = match proxy.uids.is_empty() {
        true => proxy.gids.iter().map(|gid| format!("group {gid}")).collect(),
        false => proxy.uids.iter().map(ToString::to_string).collect(),
    };
    let named_by = proxy.named_by.iter().map(|option| format!(", or name its user with {option}"));
    NamespaceFinding::warn(
        TOPIC,
        format!("{text}, who is not the proxy's ({}): what it sends on comes back to it", owners.join(", ")),
        format!("run the proxy as its own user{}", named_by.collect::<String>()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::finding::FindingLevel;

    fn listener(port: u16, device: Option<&str>) -> ListeningSocket {
        ListeningSocket {
            transport: Transport::Tcp,
            port,
            address: Ipv4Addr::UNSPECIFIED.into(),
            device: device.map(str::to_owned),
            is_dual: false,
            uid: 5,
            inode: 1,
            is_transparent: None,
        }
    }

    #[test]
    fn a_listener_takes_what_arrives_at_its_interface_alone() {
        let ports = vec![("outbound", 15001..=15001), ("inbound", 15006..=15006)];
        let proxy = ProxyProfile { uids: vec![5], ports, ..ProxyProfile::default() };
        let sent = PortTraffic { families: vec![Family::V4], is_tcp: true, ..PortTraffic::default() };
        for (port, device, expected) in [
            (15001, None, ["listens at tcp port 15001"].as_slice()),
            (15001, Some("lo"), &["listens at tcp port 15001"]),
            (15001, Some("eth0"), &["nothing listens at tcp port 15001"]),
            (15006, None, &["listens at tcp port 15006"]),
            (15006, Some("lo"), &["nothing listens at tcp port 15006"]),
            (15006, Some("eth0"), &["accepts IPv4 at every address", "listens at tcp port 15006"]),
        ] {
            let found = at(port, &sent, &[&listener(port, device)], &BTreeMap::new(), &proxy);
            let texts: Vec<&str> = found.iter().map(|one| one.text.as_str()).collect();
            let is_as = texts.iter().zip(expected).all(|(text, part)| text.contains(part));
            assert!(texts.len() == expected.len() && is_as, "{port} {device:?}: {texts:?}");
        }
    }

    #[test]
    fn a_proxy_without_a_user_is_known_by_its_group() {
        let ports = vec![("inbound", 4143..=4143)];
        let proxy = ProxyProfile { gids: vec![2102], ports, ..ProxyProfile::default() };
        let listener = listener(4143, None);
        let found = |gid| {
            let holder = SocketHolder { id: 7, name: "p".to_owned(), gid };
            whose(Transport::Tcp, "port 4143", &listener, Some(&holder), &proxy)
        };
        assert_eq!(found(Some(2102)).level, FindingLevel::Ok);
        assert_eq!(found(None).level, FindingLevel::Ok);
        let stranger = found(Some(5));
        assert_eq!(stranger.level, FindingLevel::Warn);
        assert!(stranger.text.contains("not the proxy's (group 2102)"), "{}", stranger.text);
    }
}
