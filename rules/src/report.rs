//! Kernel reports about packets: rule counters, messages from rules that log to an NFLOG group (`-j NFLOG`, `log group`), events
//! of `nft monitor trace`, and the headers in a packet's first bytes.

use crate::{Protocol, field::protocol_number};
use std::{net::IpAddr, time::SystemTime};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NflogMessage {
    pub prefix: String,
    /// `NF_INET_*`: 0 prerouting, 3 output.
    pub hook: u8,
    /// `None` if the kernel did not record it.
    pub time: Option<SystemTime>,
    pub in_interface: Option<String>,
    pub out_interface: Option<String>,
    /// 0 for none.
    pub mark: u32,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// The packet's first bytes, from its IP header.
    pub packet: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Same in all steps of a packet; derived from its address in memory, so a later packet may have it too.
    pub id: u32,
    /// `NFPROTO_*` of the table.
    pub family: u8,
    pub table: String,
    pub chain: String,
    pub kind: TraceEventKind,
    /// 0 for none.
    pub mark: u32,
    /// Present once per chain that a hook calls.
    pub packet: Option<PacketSnapshot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEventKind {
    /// A matching rule, by handle.
    Rule { handle: u64, drops: bool },
    /// The end of a chain that another chain called.
    Return,
    /// The end of a chain that a hook called.
    Policy { drops: bool },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketSnapshot {
    pub packet: Vec<u8>,
    pub in_interface: Option<String>,
    pub out_interface: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hits {
    /// Packets that fulfilled all conditions; in a NAT chain, only each connection's first packet.
    pub packets: u64,
    pub bytes: u64,
}

const TCP: u8 = protocol_number(Protocol::Tcp);
const UDP: u8 = protocol_number(Protocol::Udp);
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    pub protocol: u8,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub ports: Option<(u16, u16)>,
}

impl Headers {
    /// Parses an IP packet; `None` for anything else. `ports` are `None` if the transport header is incomplete.
    pub fn read(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::v4(packet),
            6 => Self::v6(packet),
            _ => None,
        }
    }

    fn v4(packet: &[u8]) -> Option<Self> {
        let protocol = *packet.get(9)?;
        let length = usize::from(packet[0] & 0xf) * 4;
        // Only the first fragment has ports.
        let is_first_fragment = be_u16(packet, 6)? & 0x1fff == 0;
        let ports = if is_first_fragment { ports(protocol, packet.get(length..)?) } else { None };
        Some(Self {
            protocol,
            source: address::<4>(packet, 12)?,
            destination: address::<4>(packet, 16)?,
            ports,
        })
    }

    fn v6(packet: &[u8]) -> Option<Self> {
        let (source, destination) = (address::<16>(packet, 8)?, address::<16>(packet, 24)?);
        let (mut protocol, mut at, mut is_first_fragment) = (packet[6], 40, true);
        // Extension headers: hop-by-hop options, routing, fragment, destination options.
        while let (0 | 43 | 44 | 60, Some(&next)) = (protocol, packet.get(at)) {
            match protocol {
                44 => {
                    is_first_fragment = be_u16(packet, at + 2)? >> 3 == 0;
                    at += 8;
                }
                _ => at += (usize::from(*packet.get(at + 1)?) + 1) * 8,
            }
            protocol = next;
            if !is_first_fragment {
                break;
            }
        }
        let ports =
            if is_first_fragment { packet.get(at..).and_then(|rest| ports(protocol, rest)) } else { None };
        Some(Self { protocol, source, destination, ports })
    }
}

fn ports(protocol: u8, rest: &[u8]) -> Option<(u16, u16)> {
    match protocol {
        TCP | UDP => Some((be_u16(rest, 0)?, be_u16(rest, 2)?)),
        _ => None,
    }
}

fn address<const LENGTH: usize>(packet: &[u8], at: usize) -> Option<IpAddr>
where
    IpAddr: From<[u8; LENGTH]>,
{
    packet.get(at..)?.first_chunk::<LENGTH>().map(|bytes| IpAddr::from(*bytes))
}

fn be_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

pub fn protocol_name(number: u8) -> String {
    match number {
        TCP => "tcp".to_owned(),
        UDP => "udp".to_owned(),
        ICMP => "icmp".to_owned(),
        ICMP_V6 => "icmpv6".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_follow_extension_headers() {
        let mut packet = vec![0; 40];
        packet[0] = 0x60;
        packet[6] = 60;
        packet[23] = 1;
        packet[39] = 2;
        packet.extend([44, 1, 0, 0, 0, 0, 0, 0]);
        packet.extend([0; 8]);
        packet.extend([UDP, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([0x10, 0, 0, 53]);
        let headers = Headers::read(&packet).expect("an IPv6 packet");
        assert_eq!((headers.protocol, headers.ports), (UDP, Some((0x1000, 53))));
        assert_eq!(headers.destination, "::2".parse::<IpAddr>().expect("an address"));
        packet[59] = 8;
        assert_eq!(Headers::read(&packet).expect("a later fragment").ports, None);
    }

    #[test]
    fn truncated_and_invalid_packets_do_not_panic() {
        let whole = [&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6][..], &[0; 14]].concat();
        for cut in 0..whole.len() {
            let _ = Headers::read(&whole[..cut]);
        }
        assert!(Headers::read(&whole).is_some());
        let v6 = [&[0x60, 0, 0, 0, 0, 0, 44, 64][..], &[0; 40]].concat();
        for cut in 0..v6.len() {
            let _ = Headers::read(&v6[..cut]);
        }
        assert_eq!(Headers::read(&[0x70]), None);
    }
}
