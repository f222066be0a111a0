//! Rules as packets meet them: reports of the kernel, told to people and programs.
//!
//! Pure: who listens, and when to stop, is the caller's business.

mod filter;
mod utc;

pub use utc::utc;

pub use filter::{Destination, Filter};

use crate::istio::Reason;
use rules::report::{Headers, Report, protocol_name};
use serde::Serialize;
use std::{
    fmt::{self, Display},
    net::IpAddr,
    time::SystemTime,
};

/// A packet that met a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// When, in UTC.
    pub time: String,
    /// The rule's name.
    pub rule: String,
    /// The options that make rules of this name; empty for what is always there, and for rules of others.
    pub options: Vec<String>,
    /// The hook: `PREROUTING`, `OUTPUT` or another.
    pub hook: &'static str,
    /// Where it came in.
    pub in_interface: Option<String>,
    /// Where it leaves.
    pub out_interface: Option<String>,
    /// The protocol; absent where the packet is none that we can read.
    pub protocol: Option<String>,
    /// Where it comes from.
    pub source: Option<IpAddr>,
    /// Its source port, for protocols that have ports.
    pub source_port: Option<u16>,
    /// Where it goes.
    pub destination: Option<IpAddr>,
    pub destination_port: Option<u16>,
    /// The packet's mark.
    pub mark: u32,
    /// The sender's user, of packets from here.
    pub uid: Option<u32>,
    /// The sender's group.
    pub gid: Option<u32>,
}

impl Event {
    /// What a report says; `now` where it says no time.
    pub fn of(report: &Report, now: SystemTime) -> Self {
        let headers = Headers::read(&report.packet);
        let ports = headers.and_then(|headers| headers.ports);
        Self {
            time: utc::utc(report.time.unwrap_or(now)),
            rule: report.prefix.clone(),
            options: options(&report.prefix),
            hook: hook(report.hook),
            in_interface: report.in_interface.clone(),
            out_interface: report.out_interface.clone(),
            protocol: headers.map(|headers| protocol_name(headers.protocol)),
            source: headers.map(|headers| headers.source),
            source_port: ports.map(|(source, _)| source),
            destination: headers.map(|headers| headers.destination),
            destination_port: ports.map(|(_, destination)| destination),
            mark: report.mark,
            uid: report.uid,
            gid: report.gid,
        }
    }
}

/// The options that make rules of this name; none for what is always there, and for names that are not ours.
fn options(rule: &str) -> Vec<String> {
    let settings = Reason::named(rule).map(Reason::settings).unwrap_or_default();
    settings.iter().map(|setting| setting.row().option()).collect()
}

/// `NF_INET_*`.
fn hook(number: u8) -> &'static str {
    ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"].get(usize::from(number)).unwrap_or(&"?")
}

/// One line, without its end.
impl Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of a rule of somebody's, the name is whatever its author wrote.
        write!(f, "{} {}", self.time, self.rule.escape_debug())?;
        if !self.options.is_empty() {
            write!(f, " ({})", self.options.join(", "))?;
        }
        for (word, interface) in [("in", &self.in_interface), ("out", &self.out_interface)] {
            if let Some(interface) = interface {
                write!(f, " {word} {interface}")?;
            }
        }
        match (
            &self.protocol,
            end(self.source, self.source_port),
            end(self.destination, self.destination_port),
        ) {
            (Some(protocol), Some(source), Some(destination)) => {
                write!(f, " {protocol} {source} -> {destination}")?;
            }
            _ => write!(f, " no IP packet")?,
        }
        for (word, id) in [("uid", self.uid), ("gid", self.gid)] {
            if let Some(id) = id {
                write!(f, " {word} {id}")?;
            }
        }
        Ok(())
    }
}

/// An address and its port if it has one, as people write them.
fn end(address: Option<IpAddr>, port: Option<u16>) -> Option<String> {
    Some(match (address?, port) {
        (address, None) => address.to_string(),
        (address, Some(port)) => std::net::SocketAddr::new(address, port).to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0, 5];
        packet.extend([0x9c, 0x40, 1, 0xbb]);
        Report {
            prefix: "outbound-network".to_owned(),
            hook: 3,
            time: Some(SystemTime::UNIX_EPOCH),
            out_interface: Some("eth0".to_owned()),
            uid: Some(1000),
            gid: Some(1001),
            packet,
            ..Report::default()
        }
    }

    #[test]
    fn an_event_is_one_line() {
        let event = Event::of(&report(), SystemTime::now());
        assert_eq!(
            event.to_string(),
            "1970-01-01T00:00:00.000000Z outbound-network (--istio-service-cidr) out eth0 tcp 10.0.0.2:40000 -> \
             10.0.0.5:443 uid 1000 gid 1001"
        );
        assert_eq!(event.hook, "OUTPUT");
        let strange = Report { prefix: "a\nb".to_owned(), packet: Vec::new(), ..report() };
        assert_eq!(
            Event::of(&strange, SystemTime::now()).to_string(),
            "1970-01-01T00:00:00.000000Z a\\nb out eth0 no IP packet uid 1000 gid 1001"
        );
    }
}
