//! The conditions of an arrow, in words.

use super::flow::{FlowDisposition, FlowEndpoint, Is, PictureFlow};
use super::label::{Label, PORTS, TCP_AND_UDP_PORTS, TCP_PORTS};
use super::panel::TrafficPart;
use mesh::{DNS_PORT, Proxy, ProxyProgram};
use rules::{Cidr, Family, Gid, PortRange, UidRange, port::merge};

const UDP_PORTS: (&str, &str) = ("UDP port", "UDP ports");

/// So many items of a list are written where another list is the longer one.
const FEW: usize = 4;

/// Words about packets: a list, with the text before it.
struct Piece {
    before: &'static str,
    nouns: (&'static str, &'static str),
    items: Vec<String>,
    /// The text in place of the list.
    instead: Option<String>,
}

/// What is known of a proxy.
pub(super) struct Known {
    pub(super) proxy: Proxy,
    pub(super) program: ProxyProgram,
}

/// What rows before this one take.
#[derive(Clone, Copy, Default)]
pub(super) struct Before {
    /// Whether some take TCP, or UDP.
    tcp: bool,
    udp: bool,
    /// Whether one has captured all TCP that was left.
    all_tcp: bool,
}

impl Before {
    pub(super) fn see(&mut self, flow: &PictureFlow) {
        self.tcp |= !flow.needs.contains(&Is::Udp);
        self.udp |= !flow.needs.contains(&Is::Tcp);
        self.all_tcp |= flow.needs == [Is::Tcp];
    }
}

impl Known {
    /// What an arrow is about.
    pub(super) fn label(&self, flow: &PictureFlow, part: TrafficPart, before: Before) -> Label {
        let label = self.of_needs(flow, part, before);
        let listeners = &self.proxy.listeners;
        match flow.disposition {
            FlowDisposition::Captured(ports)
                if part == TrafficPart::Inbound
                    && listeners.transparent.is_some()
                    && listeners.inbound == Some(ports) =>
            {
                label.with("; TPROXY keeps the source address")
            }
            _ => label,
        }
    }

    fn of_needs(&self, flow: &PictureFlow, part: TrafficPart, before: Before) -> Label {
        let PictureFlow { needs, disposition, .. } = flow;
        let subject = subject(needs, before);
        // Who sends it comes last, as its name has a comma.
        let is_sender = |need: &&Is| matches!(need, Is::Of(..) | Is::Marked(_));
        let (senders, others): (Vec<&Is>, Vec<&Is>) = needs.iter().partition(is_sender);
        let is_forwarded =
            needs.iter().any(|need| matches!(need, Is::From(networks) if self.is_passthrough(networks)));
        let senders = senders.into_iter().filter(|_| !is_forwarded);
        let pieces: Vec<Piece> =
            others.into_iter().chain(senders).filter_map(|need| self.piece(need, part)).collect();
        let but: Vec<String> = needs.iter().filter_map(|need| self.exception(need, part)).collect();
        let but = if but.is_empty() { String::new() } else { format!(", but not {}", but.join(" or ")) };
        if let Some(ports) = ports(needs) {
            let nouns = if needs.contains(&Is::Tcp) {
                TCP_PORTS
            } else if needs.contains(&Is::Udp) {
                UDP_PORTS
            } else {
                TCP_AND_UDP_PORTS
            };
            let service = self.service(ports, part, *disposition);
            let service = service.map(|name| format!("{name}, ")).unwrap_or_default();
            let after: String = pieces.iter().map(Piece::text).collect();
            return Label::ports(&(service + &family(needs)), nouns, ports).with(after + &but);
        }
        // The longest list is the one that may be folded.
        let longest = (0..pieces.len()).rev().max_by_key(|at| pieces[*at].items.len());
        let Some(longest) = longest.filter(|at| pieces[*at].instead.is_none()) else {
            let text: String = pieces.iter().map(Piece::text).collect();
            return Label::plain(self.own_calls(needs).unwrap_or_else(|| subject + &text) + &but);
        };
        let before: String = pieces[..longest].iter().map(Piece::text).collect();
        let after: String = pieces[longest + 1..].iter().map(Piece::text).collect();
        let Piece { before: lead, nouns, items, .. } = &pieces[longest];
        Label::list(&format!("{subject}{before}{lead}"), *nouns, items).with(after + &but)
    }

    /// Who sends such packets.
    pub(super) fn sender(&self, needs: &[Is], part: TrafficPart) -> FlowEndpoint {
        let is_proxys = needs.iter().any(|need| match need {
            Is::Of(users, groups) => self.is_owner(users, groups),
            Is::Marked(mark) => self.proxy.mark == Some(*mark),
            Is::From(networks) => self.is_passthrough(networks),
            _ => false,
        });
        if is_proxys && part.is_sent_here() { FlowEndpoint::Proxy } else { part.ends().0 }
    }

    /// Where such packets go.
    pub(super) fn recipient(
        &self,
        needs: &[Is],
        part: TrafficPart,
        disposition: FlowDisposition,
    ) -> FlowEndpoint {
        let served: Vec<PortRange> = self.program.ports.iter().map(|port| PortRange::from(*port)).collect();
        let served = merge(served);
        let is_served = |range: &PortRange| {
            served.iter().any(|own| own.first() <= range.first() && range.last() <= own.last())
        };
        let is_proxys = disposition == FlowDisposition::Passing
            && ports(needs).is_some_and(|ports| self.is_tunnel(ports) || ports.iter().all(is_served));
        if is_proxys && part == TrafficPart::Inbound { FlowEndpoint::Proxy } else { part.ends().1 }
    }

    /// The name of the protocol of such a port, where the mesh gives it one.
    fn service(
        &self,
        ports: &[PortRange],
        part: TrafficPart,
        disposition: FlowDisposition,
    ) -> Option<&'static str> {
        let dns = self.proxy.listeners.dns.map(|port| FlowDisposition::Captured(port.into()));
        match disposition {
            FlowDisposition::Captured(_) if Some(disposition) == dns && ports == [DNS_PORT.into()] => {
                Some("DNS")
            }
            FlowDisposition::Passing if part == TrafficPart::Inbound && self.is_tunnel(ports) => {
                self.program.tunnel
            }
            _ => None,
        }
    }

    fn is_tunnel(&self, ports: &[PortRange]) -> bool {
        matches!((ports, self.proxy.listeners.tunnel), ([range], Some(tunnel)) if *range == tunnel.into())
    }

    /// What all of the proxy's own packets are called.
    fn own_calls(&self, needs: &[Is]) -> Option<String> {
        let name = self.program.name;
        match needs {
            [Is::Of(users, groups)] if self.is_owner(users, groups) => {
                Some(format!("calls from {name}, {}", owners(users, groups)))
            }
            [Is::Marked(mark)] if self.proxy.mark == Some(*mark) => {
                Some(format!("calls from {name}, mark {mark}"))
            }
            [Is::From(networks)] if self.is_passthrough(networks) => {
                Some(format!("calls that {name} forwards, from {}", addresses(networks).join(" or ")))
            }
            [Is::Tcp, Is::Of(users, groups)] if self.is_owner(users, groups) => {
                Some(format!("TCP calls from {name}, {}", owners(users, groups)))
            }
            [Is::Invalid] => Some("packets that belong to no connection".to_owned()),
            _ => None,
        }
    }

    fn piece(&self, need: &Is, part: TrafficPart) -> Option<Piece> {
        let name = self.program.name;
        let list = |before, nouns, items: Vec<String>| Some(Piece { before, nouns, items, instead: None });
        let instead = |text: String| {
            Some(Piece { before: "", nouns: ("", ""), items: Vec::new(), instead: Some(text) })
        };
        match need {
            Is::To(networks) => list(" to ", nouns(networks), addresses(networks)),
            Is::From(networks) if self.is_passthrough(networks) => {
                instead(format!(" that {name} forwards, from {}", addresses(networks).join(" or ")))
            }
            Is::From(networks) => list(" from ", nouns(networks), addresses(networks)),
            Is::FromPorts(ports) => {
                list(" from ", PORTS, ports.iter().map(|ports| ports.dashed().to_string()).collect())
            }
            Is::Over(names) => {
                let before = match part {
                    TrafficPart::Inbound | TrafficPart::Machines => " that arrives by ",
                    TrafficPart::Outbound | TrafficPart::Within => " that leaves by ",
                };
                list(before, ("interface", "interfaces"), names.iter().map(ToString::to_string).collect())
            }
            Is::Of(users, groups) if self.is_owner(users, groups) => {
                instead(format!(" from {name}, {}", owners(users, groups)))
            }
            Is::Of(users, groups) if groups.is_empty() => list(
                " from ",
                ("user", "users"),
                users.iter().map(|users| users.dashed().to_string()).collect(),
            ),
            Is::Of(users, groups) => instead(format!(" from {}", owners(users, groups))),
            Is::Marked(mark) if self.proxy.mark == Some(*mark) => {
                instead(format!(" from {name}, mark {mark}"))
            }
            Is::Marked(mark) => instead(format!(" with mark {mark}")),
            Is::Invalid => instead(" that belongs to no connection".to_owned()),
            Is::Tcp | Is::Udp | Is::Family(_) | Is::Ports(_) | Is::Not(_) => None,
        }
    }

    /// What is taken out.
    fn exception(&self, need: &Is, part: TrafficPart) -> Option<String> {
        let Is::Not(need) = need else { return None };
        let text = match &**need {
            Is::Tcp => "TCP".to_owned(),
            Is::Udp => "UDP".to_owned(),
            Is::Family(family) => family.to_string(),
            Is::Ports(ports) => Label::ports("to ", PORTS, ports).text(|text| text.len() < 60),
            Is::Of(users, groups) if self.is_owner(users, groups) => format!("from {}", self.program.name),
            other => self.piece(other, part)?.text().trim_start().to_owned(),
        };
        Some(text)
    }

    fn is_owner(&self, users: &[UidRange], groups: &[Gid]) -> bool {
        let is_user = |range: &UidRange| self.proxy.uids.iter().any(|uid| *range == UidRange::from(*uid));
        users.iter().all(is_user) && groups.iter().all(|gid| self.proxy.gids.contains(gid))
    }

    /// Whether these are the addresses from which the proxy itself calls the application (127.0.0.6 of Istio's).
    fn is_passthrough(&self, sources: &[Cidr]) -> bool {
        let own = Family::BOTH.map(|family| self.proxy.passthrough(family));
        sources.iter().all(|network| network.is_host() && own.contains(&Some(network.address())))
    }
}

fn ports(needs: &[Is]) -> Option<&Vec<PortRange>> {
    needs.iter().find_map(|need| match need {
        Is::Ports(ports) => Some(ports),
        _ => None,
    })
}

fn subject(needs: &[Is], before: Before) -> String {
    let protocol = if needs.contains(&Is::Tcp) {
        Some(("TCP", before.tcp))
    } else if needs.contains(&Is::Udp) {
        Some(("UDP", before.udp))
    } else {
        None
    };
    let is_plain = needs.iter().all(|need| matches!(need, Is::Tcp | Is::Udp | Is::Family(_) | Is::Not(_)));
    let other = |is_rest: bool| if is_rest { "all other " } else { "all " };
    let family = family(needs);
    match protocol {
        Some((protocol, is_rest)) if is_plain => format!("{}{family}{protocol}", other(is_rest)),
        Some((protocol, _)) => format!("{family}{protocol}"),
        None if needs.is_empty() && before.all_tcp => format!("{}UDP and ICMP", other(before.udp)),
        None if family.is_empty() => {
            if is_plain && (before.tcp || before.udp) {
                "all else".to_owned()
            } else {
                "everything".to_owned()
            }
        }
        None => format!("{}{}", other(is_plain && (before.tcp || before.udp)), family.trim_end()),
    }
}

fn family(needs: &[Is]) -> String {
    let family = needs.iter().find_map(|need| match need {
        Is::Family(Family::V4) => Some("IPv4 "),
        Is::Family(Family::V6) => Some("IPv6 "),
        _ => None,
    });
    family.unwrap_or_default().to_owned()
}

impl Piece {
    fn text(&self) -> String {
        match &self.instead {
            Some(text) => text.clone(),
            None if self.items.len() > FEW => format!("{}{} {}", self.before, self.items.len(), self.nouns.1),
            None => Label::list(self.before, self.nouns, &self.items).text(|_| true),
        }
    }
}

/// What a list of networks is called: addresses, where each holds one only.
fn nouns(networks: &[Cidr]) -> (&'static str, &'static str) {
    match networks.iter().all(Cidr::is_host) {
        true => ("address", "addresses"),
        false => ("network", "networks"),
    }
}

fn addresses(networks: &[Cidr]) -> Vec<String> {
    let hosts = networks.iter().all(Cidr::is_host);
    let text = |network: &Cidr| if hosts { network.address().to_string() } else { network.to_string() };
    networks.iter().map(text).collect()
}

fn owners(users: &[UidRange], groups: &[Gid]) -> String {
    if let ([user], [group]) = (users, groups)
        && user.dashed().to_string() == group.to_string()
    {
        return format!("user or group {group}");
    }
    let users_of = |users: &[UidRange]| {
        let users = users.iter().map(|users| users.dashed().to_string());
        Label::list("", ("user", "users"), users).text(|text| text.len() < 60)
    };
    let users = (!users.is_empty()).then(|| users_of(users));
    let groups = (!groups.is_empty())
        .then(|| Label::list("", ("group", "groups"), groups).text(|text| text.len() < 60));
    users.into_iter().chain(groups).collect::<Vec<_>>().join(" or ")
}
