//! Wording of an arrow's packets.

use super::model::{FlowEndpoint, PictureFlow};
use crate::packets::{Packets, Values, count_in};
use crate::traffic::{TrafficPart, TrafficRow};
use mesh::{Proxy, ProxyProgram, RuleReason, reason::Meaning};
use rules::{Family, PortRange, simulate::Verdict};
use std::fmt::Display;

const UDP_PORTS: (&str, &str) = ("UDP port", "UDP ports");

/// Number of items shown of a list that is not the longest.
const FEW: usize = 4;

pub(super) struct Known {
    pub(super) proxy: Proxy,
    pub(super) program: ProxyProgram,
}

/// Packets already covered by earlier rows.
#[derive(Clone, Copy, Default)]
pub(super) struct Before {
    tcp: bool,
    udp: bool,
    /// True if a row has captured all remaining TCP.
    all_tcp: bool,
}

impl Before {
    pub(super) fn see(&mut self, flow: &PictureFlow) {
        for TrafficRow { packets, .. } in &flow.rows {
            self.tcp |= !packets.is_only("udp");
            self.udp |= !packets.is_only("tcp");
            self.all_tcp |= packets.is_only("tcp") && packets.is_plain();
        }
    }
}

impl Known {
    pub(super) fn label(
        &self,
        rows: &[TrafficRow],
        part: TrafficPart,
        before: Before,
        is_dual: bool,
    ) -> Label {
        let [row, more @ ..] = rows else { return Label::default() };
        let label = match more {
            [] => self.of_row(row, part, before, is_dual),
            _ => {
                let lists = |of: fn(&Packets) -> &Option<Values>| -> Vec<String> {
                    let lists = rows.iter().filter_map(|row| of(&row.packets).as_ref());
                    lists.flat_map(|list| list.values.clone()).collect()
                };
                let owners = owners(&lists(|one| &one.users), &lists(|one| &one.groups), " or ");
                Label::plain(format!("calls from {}, {owners}", self.program.name))
            }
        };
        match row.end.verdict {
            Verdict::Tproxy(_) if part == TrafficPart::Inbound => {
                label.with("; TPROXY keeps the source address")
            }
            _ => label,
        }
    }

    pub(super) fn ports(rows: &[TrafficRow]) -> Label {
        let ports = rows.iter().filter_map(|row| row.packets.ports.as_ref());
        let mut ports: Vec<PortRange> =
            ports.flat_map(|ports| &ports.values).filter_map(|one| one.parse().ok()).collect();
        ports.sort_unstable();
        Label::list("", TCP_PORTS, ports.iter().map(|ports| ports.dashed()))
    }

    fn of_row(&self, row: &TrafficRow, part: TrafficPart, before: Before, is_dual: bool) -> Label {
        let packets = &row.packets;
        if row.more > 0 {
            return Label::plain(format!("{} other kinds of packets", row.more));
        }
        let is_named = is_dual && packets.sources.is_none() && packets.other_destinations().is_none();
        let family = match &packets.families[..] {
            [family] if is_named && *family == Family::V4.word() => "IPv4 ",
            [_] if is_named => "IPv6 ",
            _ => "",
        };
        let pieces = self.pieces(packets, part);
        let (but, pieces): (Vec<_>, Vec<_>) = pieces.into_iter().partition(|(_, except)| *except);
        let but: Vec<String> = but.iter().map(|(one, _)| one.short().trim_start().to_owned()).collect();
        let pieces: Vec<Label> = pieces.into_iter().map(|(label, _)| label).collect();
        let but = if but.is_empty() { String::new() } else { format!(", but not {}", but.join(" or ")) };
        let is_udp = packets.is_only("udp");
        if let Some(ports) = packets.ports.as_ref().filter(|ports| !ports.except) {
            let nouns = match (packets.is_only("tcp"), is_udp) {
                (true, _) => TCP_PORTS,
                (_, true) => UDP_PORTS,
                _ => TCP_AND_UDP_PORTS,
            };
            let service = self.service(row).map(|name| format!("{name}, ")).unwrap_or_default();
            let after: String = pieces.iter().map(Label::short).collect();
            return Label::list(&(service + family), nouns, &ports.values).with(after + &but);
        }
        let subject = subject(packets, pieces.is_empty(), family, before);
        // Only the longest list may be folded.
        let longest = (0..pieces.len()).rev().max_by_key(|at| pieces[*at].items.len());
        let Some(longest) = longest.filter(|at| !pieces[*at].items.is_empty()) else {
            let text: String = pieces.iter().map(Label::short).collect();
            return Label::plain(self.own_calls(packets, &pieces).unwrap_or(subject + &text) + &but);
        };
        let before: String = pieces[..longest].iter().map(Label::short).collect();
        let after: String = pieces[longest + 1..].iter().map(Label::short).collect();
        let list = pieces[longest].clone();
        Label { before: subject + &before + &list.before, ..list }.with(after + &but)
    }

    pub(super) fn sender(&self, packets: &Packets, part: TrafficPart) -> FlowEndpoint {
        let is_proxys = self.is_owner(packets) || self.is_forwarded(packets);
        if is_proxys && part.is_sent_here() { FlowEndpoint::Proxy } else { part.ends().0 }
    }

    pub(super) fn recipient(&self, row: &TrafficRow, part: TrafficPart) -> FlowEndpoint {
        let is_served = |ports: &Values| {
            let served = |port: u16| self.program.ports.iter().any(|own| own.number() == port);
            let mut ranges = ports.values.iter().filter_map(|one| one.parse::<PortRange>().ok());
            !ports.except && ranges.all(|range| (range.first().number()..=range.last().number()).all(served))
        };
        let is_proxys = row.end.verdict == Verdict::Pass
            && (self.is_tunnel(row) || row.packets.ports.as_ref().is_some_and(is_served));
        if is_proxys && part == TrafficPart::Inbound { FlowEndpoint::Proxy } else { part.ends().1 }
    }

    /// Protocol of the row's port, if the mesh names it.
    fn service(&self, row: &TrafficRow) -> Option<&'static str> {
        match row.end.verdict {
            Verdict::Pass => self.program.tunnel.filter(|_| self.is_tunnel(row)),
            Verdict::Redirect(_) if matches!(meaning(row)?, Meaning::Dns | Meaning::VirtualMachineDns) => {
                Some("DNS")
            }
            _ => None,
        }
    }

    fn is_tunnel(&self, row: &TrafficRow) -> bool {
        let tunnel = self.proxy.listeners.tunnel.map(|port| port.to_string());
        let ports = row.packets.ports.as_ref().filter(|ports| !ports.except);
        meaning(row) == Some(Meaning::TunnelPort)
            || ports.is_some_and(|ports| ports.values.first() == tunnel.as_ref() && ports.values.len() == 1)
    }

    fn own_calls(&self, packets: &Packets, pieces: &[Label]) -> Option<String> {
        let name = self.program.name;
        let [Label { before: text, .. }] = pieces else { return None };
        if packets.states.is_some() {
            return Some("packets of unknown connections".to_owned());
        }
        let protocol = if packets.is_only("tcp") { "TCP " } else { "" };
        match packets {
            _ if packets.is_only("udp") => None,
            _ if self.is_owner(packets) => Some(format!("{protocol}calls{text}")),
            _ if self.is_forwarded(packets) && protocol.is_empty() => Some(format!(
                "calls that {name} forwards, from {}",
                packets.sources.as_ref()?.values.join(" or ")
            )),
            _ => None,
        }
    }

    /// Words for properties of the packets; true for properties that the packets don't have.
    fn pieces(&self, packets: &Packets, part: TrafficPart) -> Vec<(Label, bool)> {
        let name = self.program.name;
        let piece = |before, nouns, values: &Values| {
            let label = Label::list(before, nouns, &values.values);
            (label, values.except)
        };
        let instead = |text: String, except| (Label::plain(text), except);
        let mut pieces = Vec::new();
        if let Some(to) = packets.other_destinations() {
            pieces.push(match to.is_own() {
                true => instead(format!(" to {}", to.values[0]), to.except),
                false => piece(" to ", nouns(to), to),
            });
        }
        let is_forwarded = self.is_forwarded(packets);
        if let Some(from) = &packets.sources {
            pieces.push(match is_forwarded {
                true => instead(format!(" that {name} forwards, from {}", from.values.join(" or ")), false),
                false => piece(" from ", nouns(from), from),
            });
        }
        if let Some(ports) = &packets.source_ports {
            pieces.push(piece(" from ", PORTS, ports));
        }
        if let Some(ports) = packets.ports.as_ref().filter(|ports| ports.except) {
            pieces.push(piece(" to ", PORTS, ports));
        }
        if let Some(interfaces) = &packets.interfaces {
            let by = if part.is_sent_here() { " that leaves by " } else { " that arrives by " };
            pieces.push(piece(by, ("interface", "interfaces"), interfaces));
        }
        let (users, groups) = (&packets.users, &packets.groups);
        // The sender comes last, since its name contains a comma.
        for (own, except) in [(true, false), (false, true)] {
            let (users, groups) = (listed(users, except), listed(groups, except));
            if (users.is_empty() && groups.is_empty()) || (own && is_forwarded) {
                continue;
            }
            let owners = owners(&users, &groups, if except { " or " } else { " and " });
            let is_proxys = self.is_proxys(&users, &groups);
            pieces.push(match (is_proxys, except) {
                (true, true) => instead(format!(" from {name}"), true),
                (true, false) => instead(format!(" from {name}, {owners}"), false),
                (false, false) if groups.is_empty() => {
                    piece(" from ", ("user", "users"), &Values { except, values: users })
                }
                (false, _) => instead(format!(" from {owners}"), except),
            });
        }
        if packets.states.is_some() {
            pieces.push(instead(" of an unknown connection".to_owned(), false));
        }
        if let Some(marks) = packets.marks.as_ref().filter(|marks| !marks.except) {
            let text = match self.proxy.mark {
                Some(mark) if self.is_owner(packets) => format!(" from {name}, mark {mark}"),
                _ => format!(" with mark {}", marks.values.join(" or ")),
            };
            pieces.push(instead(text, false));
        }
        pieces
    }

    /// True for the proxy's packets, by user, group or mark.
    fn is_owner(&self, packets: &Packets) -> bool {
        let is_marked =
            packets.marks.as_ref().is_some_and(|marks| !marks.except) && self.proxy.mark.is_some();
        is_marked || self.is_proxys(&listed(&packets.users, false), &listed(&packets.groups, false))
    }

    fn is_proxys(&self, users: &[String], groups: &[String]) -> bool {
        let is_user = |user: &String| self.proxy.uids.iter().any(|uid| uid.to_string() == *user);
        let is_group = |group: &String| self.proxy.gids.iter().any(|gid| gid.to_string() == *group);
        users.len() + groups.len() > 0 && users.iter().all(is_user) && groups.iter().all(is_group)
    }

    /// True for packets from the addresses from which the proxy itself calls the application (127.0.0.6 for Istio).
    fn is_forwarded(&self, packets: &Packets) -> bool {
        let own = Family::BOTH.map(|family| self.proxy.passthrough(family).map(|one| one.to_string()));
        let sources = packets.sources.as_ref().filter(|sources| !sources.except);
        sources.is_some_and(|sources| sources.values.iter().all(|one| own.contains(&Some(one.clone()))))
    }
}

/// Values of a list with this `except`; empty for any other list.
fn listed(values: &Option<Values>, except: bool) -> Vec<String> {
    let values = values.as_ref().filter(|values| values.except == except);
    values.map(|values| values.values.clone()).unwrap_or_default()
}

fn meaning(row: &TrafficRow) -> Option<Meaning> {
    Some(RuleReason::named(row.end.origin?.name)?.meaning())
}

fn subject(packets: &Packets, is_plain: bool, family: &str, before: Before) -> String {
    let other = |is_rest: bool| if is_rest { "all other " } else { "all " };
    let is_else = before.tcp || before.udp;
    let protocol = match (packets.is_only("tcp"), packets.is_only("udp")) {
        (true, _) => Some(("TCP", before.tcp)),
        (_, true) => Some(("UDP", before.udp)),
        _ => None,
    };
    match protocol {
        Some((protocol, is_rest)) if is_plain => format!("{}{family}{protocol}", other(is_rest)),
        Some((protocol, _)) => format!("{family}{protocol}"),
        None if packets.is_everything() && family.is_empty() && before.all_tcp => {
            format!("{}UDP and ICMP", other(before.udp))
        }
        None if family.is_empty() && is_plain && is_else => "all else".to_owned(),
        None if family.is_empty() => "everything".to_owned(),
        None => format!("{}{}", other(is_plain && is_else), family.trim_end()),
    }
}

fn nouns(networks: &Values) -> (&'static str, &'static str) {
    match networks.values.iter().any(|one| one.contains(['/', '-'])) {
        true => ("network", "networks"),
        false => ("address", "addresses"),
    }
}

fn owners(users: &[String], groups: &[String], between: &str) -> String {
    if let ([user], [group]) = (users, groups)
        && user == group
    {
        return format!("user{between}group {group}");
    }
    let list = |nouns, items: &[String]| {
        (!items.is_empty()).then(|| Label::list("", nouns, items).text(|text| text.len() < 60))
    };
    let lists = [list(("user", "users"), users), list(("group", "groups"), groups)];
    lists.into_iter().flatten().collect::<Vec<_>>().join(between)
}

/// Maximum number of list items shown.
const MAX: usize = 24;

pub(crate) const PORTS: (&str, &str) = ("port", "ports");
pub(crate) const TCP_PORTS: (&str, &str) = ("TCP port", "TCP ports");
pub(crate) const TCP_AND_UDP_PORTS: (&str, &str) = ("TCP and UDP port", "TCP and UDP ports");

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label {
    /// Words before the noun, with trailing space.
    before: String,
    /// Noun for one item, and for several.
    nouns: (&'static str, &'static str),
    /// First items, one more than may be shown.
    items: Vec<String>,
    /// Number of items; each port of a range counts.
    count: usize,
    /// Words after the list, with leading space or comma.
    after: String,
}

impl Label {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { before: text.into(), ..Self::default() }
    }

    /// List whose items are named by `nouns`. Each port, user and group of a range counts.
    pub(crate) fn list(
        before: &str,
        nouns: (&'static str, &'static str),
        items: impl IntoIterator<Item = impl Display>,
    ) -> Self {
        let mut count = 0;
        let mut shown = Vec::new();
        for item in items {
            let item = item.to_string();
            count += count_in(&item);
            if shown.len() <= MAX {
                shown.push(item);
            }
        }
        Self { before: before.to_owned(), nouns, items: shown, count, after: String::new() }
    }

    pub(crate) fn with(self, after: impl AsRef<str>) -> Self {
        Self { after: self.after + after.as_ref(), ..self }
    }

    pub(crate) fn text(&self, fits: impl Fn(&str) -> bool) -> String {
        let whole = self.whole();
        match whole {
            Some(text) if self.items.len() <= 1 || fits(&text) => text,
            _ => {
                let folded = |shown| self.folded(shown);
                let most = self.items.len().min(MAX) - usize::from(self.items.len() <= MAX);
                (1..=most).rev().map(folded).find(|text| fits(text)).unwrap_or_else(|| folded(0))
            }
        }
    }

    fn short(&self) -> String {
        if self.items.len() > FEW { self.folded(0) } else { self.text(|_| true) }
    }

    fn whole(&self) -> Option<String> {
        let Self { before, nouns, items, after, .. } = self;
        // A range of ports or users is plural; interface names may also contain dashes.
        let is_range =
            |item: &str| item.contains('-') && item.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        let single = items.len() == 1 && !is_range(&items[0]);
        match items.len() {
            0 => Some(format!("{before}{after}")),
            1..=MAX => {
                let noun = if single { nouns.0 } else { nouns.1 };
                Some(format!("{before}{noun} {}{after}", items.join(", ")))
            }
            _ => None,
        }
    }

    fn folded(&self, shown: usize) -> String {
        let Self { before, nouns, items, count, after } = self;
        let count = crate::style::grouped(*count);
        match shown {
            0 => format!("{before}{count} {}{after}", nouns.1),
            _ => format!("{before}{count} {}: {}, ...{after}", nouns.1, items[..shown].join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(count: u8, width: usize, expected: &str) {
        let networks = (0..count).map(|n| format!("10.{n}.0.0/16"));
        let label = Label::list("to ", ("network", "networks"), networks);
        assert_eq!(label.text(|text| text.len() <= width), expected);
    }

    #[test]
    fn items_that_do_not_fit_are_counted() {
        check(1, 5, "to network 10.0.0.0/16");
        check(3, 60, "to networks 10.0.0.0/16, 10.1.0.0/16, 10.2.0.0/16");
        check(3, 45, "to 3 networks: 10.0.0.0/16, 10.1.0.0/16, ...");
        check(61, 40, "to 61 networks: 10.0.0.0/16, ...");
        check(61, 20, "to 61 networks");
    }

    #[test]
    fn an_interface_with_a_dash_in_its_name_is_one() {
        let label = Label::list("over ", ("interface", "interfaces"), ["br-lan"]);
        assert_eq!(label.text(|_| true), "over interface br-lan");
    }

    #[test]
    fn ranges_are_many_ports() {
        let ports = ["1000-65535", "80"];
        assert_eq!(Label::list("", ("port", "ports"), ports).text(|_| true), "ports 1000-65535, 80");
        assert_eq!(Label::list("", ("port", "ports"), ports).text(|text| text.len() < 15), "64,537 ports");
        assert_eq!(Label::list("", ("port", "ports"), &ports[..1]).text(|_| true), "ports 1000-65535");
    }
}
