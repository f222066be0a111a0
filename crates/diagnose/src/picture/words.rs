//! The conditions of an arrow, in words.

use super::flow::{Is, Place};
use super::label::{Label, PORTS, TCP_AND_UDP_PORTS, TCP_PORTS};
use super::panel::Part;
use mesh::Proxy;
use rules::{Cidr, Family, Gid, UidRange};

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

/// What an arrow is about. `is_first` is whether no arrow of the part precedes it.
pub(super) fn label(needs: &[Is], proxy: &Proxy, part: Part, is_first: bool) -> Label {
    let subject = subject(needs, is_first);
    let ports = needs.iter().find_map(|need| match need {
        Is::Ports(ports) => Some(ports),
        _ => None,
    });
    let pieces: Vec<Piece> = needs.iter().filter_map(|need| piece(need, proxy, part)).collect();
    let but: Vec<String> = needs.iter().filter_map(|need| exception(need, proxy, part)).collect();
    let but = if but.is_empty() { String::new() } else { format!(", but not {}", but.join(" or ")) };
    if let Some(ports) = ports {
        let nouns = if needs.contains(&Is::Tcp) {
            TCP_PORTS
        } else if needs.contains(&Is::Udp) {
            UDP_PORTS
        } else {
            TCP_AND_UDP_PORTS
        };
        let after: String = pieces.iter().map(|piece| piece.text()).collect();
        return Label::ports(&family(needs), nouns, ports).with(after + &but);
    }
    // The longest list is the one that may be folded.
    let longest = (0..pieces.len()).rev().max_by_key(|at| pieces[*at].items.len());
    let Some(longest) = longest.filter(|at| pieces[*at].instead.is_none()) else {
        let text: String = pieces.iter().map(|piece| piece.text()).collect();
        return Label::plain(own_calls(needs, proxy).unwrap_or_else(|| subject + &text) + &but);
    };
    let before: String = pieces[..longest].iter().map(|piece| piece.text()).collect();
    let after: String = pieces[longest + 1..].iter().map(|piece| piece.text()).collect();
    let Piece { before: lead, nouns, items, .. } = &pieces[longest];
    Label::list(&format!("{subject}{before}{lead}"), *nouns, items).with(after + &but)
}

/// Who sends such packets.
pub(super) fn sender(needs: &[Is], proxy: &Proxy, part: Part) -> Place {
    let is_proxys = needs.iter().any(|need| match need {
        Is::Of(users, groups) => is_proxys(users, groups, proxy),
        Is::Marked(mark) => proxy.mark == Some(*mark),
        Is::From(_) => is_handed_on(need, proxy),
        _ => false,
    });
    let is_own = matches!(part, Part::Outbound | Part::Within);
    if is_proxys && is_own { Place::Proxy } else { part.ends().0 }
}

/// What all of the proxy's own packets are called.
fn own_calls(needs: &[Is], proxy: &Proxy) -> Option<String> {
    match needs {
        [Is::Of(users, groups)] if is_proxys(users, groups, proxy) => {
            Some(format!("the proxy's own calls ({})", owners(users, groups)))
        }
        [Is::Marked(mark)] if proxy.mark == Some(*mark) => {
            Some(format!("the proxy's own packets (mark {mark})"))
        }
        [handed @ Is::From(_)] if is_handed_on(handed, proxy) => {
            Some(format!("calls that the proxy hands on, from {}", from(handed)))
        }
        [Is::Tcp, Is::Of(users, groups)] if is_proxys(users, groups, proxy) => {
            Some(format!("the proxy's own TCP calls ({})", owners(users, groups)))
        }
        [Is::Invalid] => Some("packets that belong to no connection".to_owned()),
        _ => None,
    }
}

fn subject(needs: &[Is], is_first: bool) -> String {
    let protocol = if needs.contains(&Is::Tcp) {
        Some("TCP")
    } else if needs.contains(&Is::Udp) {
        Some("UDP")
    } else {
        None
    };
    let is_plain = needs.iter().all(|need| matches!(need, Is::Tcp | Is::Udp | Is::Family(_) | Is::Not(_)));
    let family = family(needs);
    match (protocol, is_plain, is_first) {
        (Some(protocol), true, true) => format!("all {family}{protocol}"),
        (Some(protocol), true, false) => format!("all other {family}{protocol}"),
        (Some(protocol), false, _) => format!("{family}{protocol}"),
        (None, true, false) if family.is_empty() => "all else".to_owned(),
        (None, _, _) if family.is_empty() => "everything".to_owned(),
        (None, true, false) => format!("all other {family}").trim_end().to_owned(),
        (None, _, _) => format!("all {family}").trim_end().to_owned(),
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

fn piece(need: &Is, proxy: &Proxy, part: Part) -> Option<Piece> {
    let list = |before, nouns, items: Vec<String>| Some(Piece { before, nouns, items, instead: None });
    let instead =
        |text: String| Some(Piece { before: "", nouns: ("", ""), items: Vec::new(), instead: Some(text) });
    match need {
        Is::To(networks) => list(" to ", nouns(networks), addresses(networks)),
        Is::From(_) if is_handed_on(need, proxy) => {
            instead(format!(" from {}, by which the proxy hands calls on", from(need)))
        }
        Is::From(networks) => list(" from ", nouns(networks), addresses(networks)),
        Is::FromPorts(ports) => list(" from ", PORTS, ports.iter().map(|p| p.dashed().to_string()).collect()),
        Is::Over(names) => {
            let before = match part {
                Part::Inbound | Part::Machines => " that arrives by ",
                Part::Outbound | Part::Within => " that leaves by ",
            };
            list(before, ("interface", "interfaces"), texts(names))
        }
        Is::Of(users, groups) if is_proxys(users, groups, proxy) => {
            instead(format!(" of the proxy ({})", owners(users, groups)))
        }
        Is::Of(users, groups) if groups.is_empty() => {
            list(" of ", ("user", "users"), users.iter().map(|users| users.dashed().to_string()).collect())
        }
        Is::Of(users, groups) => instead(format!(" of {}", owners(users, groups))),
        Is::Marked(mark) if proxy.mark == Some(*mark) => instead(format!(" of the proxy (mark {mark})")),
        Is::Marked(mark) => instead(format!(" with mark {mark}")),
        Is::Invalid => instead(" that belongs to no connection".to_owned()),
        Is::Tcp | Is::Udp | Is::Family(_) | Is::Ports(_) | Is::Not(_) => None,
    }
}

/// What is taken out.
fn exception(need: &Is, proxy: &Proxy, part: Part) -> Option<String> {
    let Is::Not(need) = need else { return None };
    let text = match &**need {
        Is::Tcp => "TCP".to_owned(),
        Is::Udp => "UDP".to_owned(),
        Is::Family(family) => family.to_string(),
        Is::Ports(ports) => Label::ports("to ", PORTS, ports).text(|text| text.len() < 60),
        other => piece(other, proxy, part)?.text().trim_start().to_owned(),
    };
    Some(text)
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

/// What networks are called of which all may be hosts.
fn nouns(networks: &[Cidr]) -> (&'static str, &'static str) {
    match networks.iter().all(is_host) {
        true => ("address", "addresses"),
        false => ("network", "networks"),
    }
}

fn addresses(networks: &[Cidr]) -> Vec<String> {
    let hosts = networks.iter().all(is_host);
    let text = |network: &Cidr| if hosts { network.address().to_string() } else { network.to_string() };
    networks.iter().map(text).collect()
}

fn is_host(network: &Cidr) -> bool {
    network.length() == network.family().bits()
}

fn texts<T: ToString>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

fn is_proxys(users: &[UidRange], groups: &[Gid], proxy: &Proxy) -> bool {
    let is_user = |range: &UidRange| proxy.uids.iter().any(|uid| *range == UidRange::from(*uid));
    users.iter().all(is_user) && groups.iter().all(|gid| proxy.gids.contains(gid))
}

fn is_handed_on(need: &Is, proxy: &Proxy) -> bool {
    let own = Family::BOTH.map(|family| proxy.passthrough(family));
    match need {
        Is::From(networks) => {
            networks.iter().all(|network| is_host(network) && own.contains(&Some(network.address())))
        }
        _ => false,
    }
}

fn from(need: &Is) -> String {
    let Is::From(networks) = need else { return String::new() };
    let addresses: Vec<String> = networks.iter().map(|network| network.address().to_string()).collect();
    addresses.join(" or ")
}

fn owners(users: &[UidRange], groups: &[Gid]) -> String {
    let users_of = |users: &[UidRange]| {
        let users = users.iter().map(|users| users.dashed().to_string());
        Label::list("", ("user", "users"), users).text(|text| text.len() < 60)
    };
    let users = (!users.is_empty()).then(|| users_of(users));
    let groups = (!groups.is_empty())
        .then(|| Label::list("", ("group", "groups"), groups).text(|text| text.len() < 60));
    users.into_iter().chain(groups).collect::<Vec<_>>().join(", ")
}
