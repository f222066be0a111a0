//! Destination of a question: an address, a name, or one of the pod's ports; and flags that describe a packet.

use super::pod::{OUTSIDE, PodContext, Sender};
use super::question::{POD_ADDRESS_NAME, QuestionContext, default_source, outsider};
use crate::pod_packets::SOURCE_PORT;
use mesh::settings::Setting;
use mesh::sources::{SettingReader, Source};
use rules::simulate::{Direction, Packet};
use rules::{ConnState, Family, Port, Protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) struct Destination {
    pub(super) address: SocketAddr,
    /// `None` if the address is shown.
    pub(super) name: Option<String>,
    /// True for a placeholder: the pod's own address is unknown.
    pub(super) stands_in: bool,
}

pub(super) fn destination(
    reader: &mut SettingReader<'_>,
    context: &QuestionContext<'_>,
    inbound: bool,
) -> Option<Destination> {
    let Some(given) = reader.raw.get(Setting::Destination) else {
        let text = "is required: the packet's destination, such as 10.0.0.5:443";
        reader.whole(&Source::Flag(Setting::Destination.row().long), text);
        return None;
    };
    let text = given.value.trim_matches([' ', '\t']);
    let to = |address: IpAddr, port| {
        SocketAddr::new(if inbound { address.to_canonical() } else { met(address) }, port)
    };
    if let Some(address) = text.parse().ok().filter(|to: &SocketAddr| to.port() != 0) {
        let address = to(address.ip(), address.port());
        return Some(Destination { address, name: None, stands_in: false });
    }
    if let Some(port) = text.parse::<Port>().ok().filter(|_| inbound) {
        let family = context.pod.addresses.first().map_or(Family::V4, |first| Family::of(*first));
        let (own, is_known) = context.pod.address(family);
        let name = (!is_known).then(|| POD_ADDRESS_NAME.to_owned());
        let address = SocketAddr::new(own, port.number());
        return Some(Destination { address, name, stands_in: !is_known });
    }
    let (source, value) = (given.source.clone(), given.value.clone());
    let mut problem = |text: &str| {
        reader.problem(&source, &value, text);
        None
    };
    if text.parse::<Port>().is_ok() {
        return problem(&format!(
            "is only a port, as in calls from outside (--sender external); for a call from the \
             pod, add an address, such as 127.0.0.1:{text}"
        ));
    }
    if let Ok(address) = text.parse() {
        return problem(&format!("has no port; give one, such as {}", SocketAddr::new(address, 443)));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return problem("is not a port; expected 1 to 65535");
    }
    if let Some(pod) = text.strip_prefix("pod/") {
        return problem(&format!("is a pod of a cluster; use kubectl capture explain {pod} PORT"));
    }
    let Some((name, port)) = named(text) else {
        return problem(
            "is not a destination; expected PORT of the pod, ADDRESS:PORT such as 10.0.0.5:443, NAME:PORT, or a URL",
        );
    };
    let Some(port) = port else {
        return problem(&format!("names no port; give one, such as {name}:443"));
    };
    if let Ok(address) = name.parse() {
        return Some(Destination { address: to(address, port.number()), name: None, stands_in: false });
    }
    let found = match (context.names)(name) {
        None => {
            return problem(
                "is a name, and names are not resolved here; give its address, such as 10.0.0.5:443",
            );
        }
        Some(Err(error)) => {
            return problem(&format!("can't be resolved: {error}; give its address, such as 10.0.0.5:443"));
        }
        Some(Ok(found)) => found,
    };
    // Prefers the pod's families.
    let has_family =
        |address: &&IpAddr| context.pod.addresses.iter().any(|own| Family::of(*own) == Family::of(**address));
    let Some(taken) = found.iter().find(has_family).or(found.first()).copied() else {
        return problem("has no address; give one, such as 10.0.0.5:443");
    };
    let which = if found.len() > 1 { format!(", one of {} addresses", found.len()) } else { String::new() };
    let name = Some(format!("{name} ({taken}{which})"));
    Some(Destination { address: to(taken, port.number()), name, stands_in: false })
}

/// Host and port of a URL (RFC 3986, 3.2), with the default port of its scheme; any other string unchanged.
pub fn authority(text: &str) -> (&str, Option<&'static str>) {
    let Some((scheme, rest)) = text.split_once("://") else { return (text, None) };
    let usual = match scheme {
        "http" | "ws" => Some("80"),
        "https" | "wss" => Some("443"),
        _ => None,
    };
    (rest.split(['/', '?', '#']).next().unwrap_or_default(), usual)
}

/// Host name and port of `NAME:PORT` or of a URL; `None` for any other string.
fn named(text: &str) -> Option<(&str, Option<Port>)> {
    let (rest, of_scheme) = authority(text);
    // A colon within brackets belongs to an address, as in `http://[::1]/`.
    let (name, port) = match rest.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((name, port)) => (name, Some(port)),
        None => (rest, of_scheme),
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let has_more = name.contains(|c: char| c.is_ascii_alphabetic()) && is_name;
    let is_address = name.parse::<IpAddr>().is_ok();
    if !(has_more || is_address && text.contains("://")) {
        return None;
    }
    match port {
        Some(port) => Some((name, Some(port.parse().ok()?))),
        None => Some((name, None)),
    }
}

/// Address that rules see when a process calls this one. An IPv4-mapped address is called over IPv4 (RFC 4291, 2.5.5.2), and
/// the unspecified address is the pod itself (`ip_route_output_key_hash_rcu` in `net/ipv4/route.c`, `tcp_v6_connect` in
/// `net/ipv6/tcp_ipv6.c`).
fn met(called: IpAddr) -> IpAddr {
    match called.to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

/// Destination and flags that [`super::packet`] parses as this packet, with an assumed address of the pod. `None` for a
/// connection with a mark, which flags can't describe. The source is included only if `source_matters`.
pub fn written(packet: &Packet, pod: &PodContext, source_matters: bool) -> Option<String> {
    if packet.connmark != 0 {
        return None;
    }
    let to = packet.destination;
    let is_own = pod.addresses.contains(&to.ip());
    let mut words = Vec::new();
    let mut flag = |setting: Setting, value: &dyn ToString| {
        words.push(format!("{} {}", setting.row().option(), value.to_string()));
    };
    let mut sender = Sender::App;
    let (destination, source) = match &packet.direction {
        Direction::Outbound { interface, uid, gid } => {
            if is_own && !pod.is_known {
                flag(Setting::PodIps, &to.ip());
            }
            let is_proxys =
                (*uid, *gid) == pod.owner(Sender::Proxy) && packet.mark == pod.mark(Sender::Proxy);
            if is_proxys {
                sender = Sender::Proxy;
                flag(Setting::Sender, &"proxy");
            } else if (*uid, *gid) != pod.owner(Sender::App) {
                flag(Setting::SenderUid, uid);
                flag(Setting::SenderGid, gid);
            }
            if interface != pod.route(to.ip()) {
                flag(Setting::OutInterface, interface);
            }
            (to.to_string(), default_source(pod, to.ip()).map(|(source, _)| source))
        }
        Direction::Inbound { interface, .. } => {
            let is_first = pod.addresses.first() == Some(&to.ip());
            if !is_first {
                sender = Sender::External;
                flag(Setting::Sender, &"external");
            }
            if interface != OUTSIDE {
                flag(Setting::InInterface, interface);
            }
            let destination = if is_first { to.port().to_string() } else { to.to_string() };
            (destination, Some(outsider(to.ip())))
        }
    };
    if packet.protocol == Protocol::Udp {
        flag(Setting::Protocol, &"udp");
    }
    if source_matters && source.map(|source| SocketAddr::new(source, SOURCE_PORT)) != Some(packet.source) {
        flag(Setting::PacketSource, &packet.source);
    }
    if packet.mark != pod.mark(sender) {
        flag(Setting::PacketMark, &packet.mark);
    }
    if packet.state != ConnState::New {
        flag(Setting::CtState, &packet.state.name().to_lowercase());
    }
    words.insert(0, destination);
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::{named, *};

    #[test]
    fn host_names_and_urls_are_recognized() {
        let check = |text: &str, expected: Option<(&str, Option<u16>)>| {
            let found = named(text).map(|(name, port)| (name, port.map(|port| port.number())));
            assert_eq!(found, expected, "{text}");
        };
        check("reviews:9080", Some(("reviews", Some(9080))));
        check("reviews.shop.svc", Some(("reviews.shop.svc", None)));
        check("https://example.com/a?b=c:1", Some(("example.com", Some(443))));
        check("http://example.com:8080", Some(("example.com", Some(8080))));
        check("https://10.0.0.5/", Some(("10.0.0.5", Some(443))));
        check("http://[2001:db8::1]/", Some(("2001:db8::1", Some(80))));
        check("http://[2001:db8::1]:81/", Some(("2001:db8::1", Some(81))));
        check("grpc://example.com", Some(("example.com", None)));
        for text in
            ["", "8080", "10.0.0.5", "10.0.0.5:0", "10.0.0.256:80", "a b:80", "reviews:0", "reviews:x", "::1"]
        {
            check(text, None);
        }
    }

    #[test]
    fn connection_marks_cannot_be_written_as_flags() {
        let pod = PodContext::new(["10.1.0.9".parse().expect("an address")], None);
        let (uid, gid) = pod.owner(Sender::App);
        let packet = |connmark| Packet {
            direction: Direction::Outbound { interface: OUTSIDE.to_owned(), uid, gid },
            protocol: Protocol::Tcp,
            source: "10.1.0.9:40000".parse().expect("an address"),
            destination: "192.0.2.10:80".parse().expect("an address"),
            mark: 0,
            connmark,
            state: ConnState::Established,
        };
        let expected = format!("192.0.2.10:80 {} established", Setting::CtState.row().option());
        assert_eq!(written(&packet(0), &pod, true), Some(expected));
        assert_eq!(written(&packet(0x111), &pod, true), None);
    }
}
