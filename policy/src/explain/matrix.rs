//! The usual packets at a glance: who calls, what, and where it ends.

use super::pod::{Pod, Sender};
use super::{Explanation, explain, question};
use crate::istio::{CaptureConfig, DnsCapture, OutboundCidrs};
use rules::simulate::{Packet, Routing, Verdict, View};
use rules::{Cidr, Family, Protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One cell of the table.
#[derive(Clone, Debug)]
pub struct Case {
    /// The family of its addresses.
    pub family: Family,
    /// Who sends it: the row.
    pub who: &'static str,
    /// What it is: the row, behind who.
    pub what: &'static str,
    /// Where it goes: the column.
    pub to: &'static str,
    /// The packet; `None` where there is none to be had.
    pub packet: Option<Packet>,
}

/// The table as text, rows by sender and kind, columns by destination, in the order of the cases.
pub fn matrix(view: &View, routing: &Routing, cases: &[Case]) -> String {
    let mut columns: Vec<&str> = Vec::new();
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for case in cases {
        if !columns.contains(&case.to) {
            columns.push(case.to);
        }
        if !rows.contains(&(case.who, case.what)) {
            rows.push((case.who, case.what));
        }
    }
    let cell = |row: &(&str, &str), column: &&str| {
        let case = cases.iter().find(|case| (case.who, case.what) == *row && case.to == *column);
        let packet = case.and_then(|case| case.packet.as_ref());
        packet.map_or_else(|| "-".to_owned(), |packet| short(&explain(view, routing, packet)))
    };
    let mut lines = vec![["", ""].iter().chain(&columns).map(ToString::to_string).collect::<Vec<_>>()];
    for row in &rows {
        let names = [row.0.to_owned(), row.1.to_owned()];
        lines.push(names.into_iter().chain(columns.iter().map(|column| cell(row, column))).collect());
    }
    aligned(&lines)
}

fn short(explanation: &Explanation<'_>) -> String {
    match explanation.outcome.verdict {
        Verdict::Pass => "passes".to_owned(),
        Verdict::Redirect(ports) => format!("-> {ports}"),
        Verdict::Tproxy(port) => format!("=> {port}"),
        Verdict::Drop => "dropped".to_owned(),
        Verdict::Unknown => "unknown".to_owned(),
    }
}

fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(String::len).max();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .enumerate()
            .map(|(column, cell)| format!("{cell:<0$}", width(column).unwrap_or_default()))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Application, proxy and outside, each with TCP, UDP and DNS, to the places that matter.
pub fn usual_cases(pod: &Pod, config: Option<&CaptureConfig>) -> Vec<Case> {
    let mut cases = Vec::new();
    for family in Family::BOTH {
        let own = pod.addresses.iter().copied().find(|address| Family::of(*address) == family);
        let Some(own) = own else { continue };
        for (who, sender) in [("app", Sender::App), ("proxy", Sender::Proxy), ("external", Sender::External)]
        {
            let kinds =
                [("tcp", Protocol::Tcp, 8080), ("udp", Protocol::Udp, 8080), ("dns", Protocol::Udp, 53)];
            for (what, protocol, port) in kinds {
                for (to, address) in places(family, own, config, what == "dns") {
                    let packet = address.and_then(|address| {
                        question::usual(sender, pod, protocol, SocketAddr::new(address, port))
                    });
                    cases.push(Case { family, who, what, to, packet });
                }
            }
        }
    }
    cases
}

fn places(
    family: Family,
    own: IpAddr,
    config: Option<&CaptureConfig>,
    dns: bool,
) -> [(&'static str, Option<IpAddr>); 4] {
    let (loopback, nobody): (IpAddr, IpAddr) = match family {
        Family::V4 => (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::new(192, 0, 2, 10).into()),
        Family::V6 => (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 10).into()),
    };
    let first = |cidrs: &[Cidr]| cidrs.iter().find(|cidr| cidr.family() == family).map(Cidr::address);
    let included = config.and_then(|config| match &config.outbound_cidrs {
        OutboundCidrs::All => None,
        OutboundCidrs::Only(cidrs) => first(cidrs),
    });
    let server = config.and_then(|config| match &config.dns {
        DnsCapture::Servers(servers) if dns => servers.iter().copied().find(|s| Family::of(*s) == family),
        DnsCapture::Servers(_) | DnsCapture::Off | DnsCapture::All => None,
    });
    let excluded = config.and_then(|config| first(&config.excluded_cidrs));
    [
        ("pod ip", Some(own)),
        ("loopback", Some(loopback)),
        ("service", Some(server.or(included).unwrap_or(nobody))),
        ("excluded", excluded),
    ]
}
