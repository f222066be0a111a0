//! Kernel reports about packets: rules' messages to an NFLOG group, and the steps of packets traced by nf_tables (`meta nftrace
//! set 1`), which `nft monitor trace` receives too. All numbers are in network order.

use super::header::*;
use super::link::interface;
use super::message::{Messages, attribute, attributes, number, text};
use super::netfilter::{body, message_type, nfgenmsg};
use super::netlink::NetlinkSocket;
use super::user::OwnerIds;
use rules::report::{NflogMessage, PacketSnapshot, TraceEvent, TraceEventKind};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, SystemTime};

const PACKET: u16 = message_type(NFNL_SUBSYS_ULOG, NFULNL_MSG_PACKET);
const CONFIG: u16 = message_type(NFNL_SUBSYS_ULOG, NFULNL_MSG_CONFIG);

/// Reported bytes of each packet: enough for the longest headers.
const HEADERS: u32 = 256;
/// Receive buffer: some ten thousand reports, or the steps of a thousand packets.
const ROOM: usize = 4 << 20;

/// Makes a socket the listener of a group, with `fill`'s settings; `EPERM` or `EEXIST` if another socket listens.
pub(super) fn bind(
    socket: &mut NetlinkSocket,
    group: u16,
    fill: impl FnOnce(&mut Messages),
) -> io::Result<()> {
    // The resource is the group; the family does not matter.
    socket.request(CONFIG, 0, &nfgenmsg(NFPROTO_UNSPEC, group), |message| {
        fill(message.attribute(NFULA_CFG_CMD, &[NFULNL_CFG_CMD_BIND]));
    })
}

/// The only listener of a group. Once it is dropped, the kernel discards reports to the group.
pub struct NflogListener(NetlinkSocket);

impl NflogListener {
    /// Listens in the thread's network namespace. Fails with `EPERM` if another program listens to the group.
    pub fn open(group: u16) -> io::Result<Self> {
        let mut socket = NetlinkSocket::open(NETLINK_NETFILTER)?;
        socket.reserve(ROOM)?;
        bind(&mut socket, group, |message| {
            // struct nfulnl_msg_config_mode: range, mode, padding. Each report is sent at once, not batched.
            let mode = [&HEADERS.to_be_bytes()[..], &[NFULNL_COPY_PACKET, 0]].concat();
            message.attribute(NFULA_CFG_MODE, &mode).number(NFULA_CFG_QTHRESH, 1);
        })?;
        Ok(Self(socket))
    }

    /// Waits for messages and returns their reports, possibly none. Fails with `ENOBUFS` if reports were lost.
    pub fn take(&mut self) -> io::Result<Vec<NflogMessage>> {
        self.reports(NetlinkSocket::events)
    }

    pub fn take_so_far(&mut self) -> io::Result<Vec<NflogMessage>> {
        self.reports(NetlinkSocket::events_so_far)
    }

    fn reports(
        &mut self,
        read: impl FnOnce(&mut NetlinkSocket, &mut dyn FnMut(u16, &[u8])) -> io::Result<()>,
    ) -> io::Result<Vec<NflogMessage>> {
        let (mut reports, ids) = (Vec::new(), OwnerIds::here());
        read(&mut self.0, &mut |kind, payload| {
            if kind == PACKET {
                reports.extend(body(payload).map(|bytes| report(&ids, bytes)));
            }
        })?;
        Ok(reports)
    }
}

impl AsFd for NflogListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Decodes a report. Users and groups have the numbers used in rules.
fn report(ids: &OwnerIds, bytes: &[u8]) -> NflogMessage {
    let mut report = NflogMessage::default();
    for (kind, payload) in attributes(bytes) {
        match i32::from(kind) {
            // struct nfulnl_msg_packet_hdr: protocol, hook, padding.
            NFULA_PACKET_HDR => report.hook = payload.get(2).copied().unwrap_or_default(),
            NFULA_MARK => report.mark = number_of(payload).unwrap_or_default(),
            NFULA_TIMESTAMP => report.time = time(payload),
            NFULA_IFINDEX_INDEV => report.in_interface = number_of(payload).map(interface),
            NFULA_IFINDEX_OUTDEV => report.out_interface = number_of(payload).map(interface),
            NFULA_PAYLOAD => report.packet = payload.to_owned(),
            NFULA_PREFIX => text(payload).clone_into(&mut report.prefix),
            NFULA_UID => report.uid = number_of(payload).map(|uid| ids.user_in_rules(uid)),
            NFULA_GID => report.gid = number_of(payload).map(|gid| ids.group_in_rules(gid)),
            _ => {}
        }
    }
    report
}

fn number_of(payload: &[u8]) -> Option<u32> {
    payload.try_into().ok().map(u32::from_be_bytes)
}

/// Seconds and microseconds since 1970.
fn time(payload: &[u8]) -> Option<SystemTime> {
    let at = |from: usize| payload.get(from..from + 8)?.try_into().ok().map(u64::from_be_bytes);
    let since = Duration::from_secs(at(0)?).checked_add(Duration::from_micros(at(8)?))?;
    SystemTime::UNIX_EPOCH.checked_add(since)
}

const TRACE: u16 = message_type(NFNL_SUBSYS_NFTABLES, NFT_MSG_TRACE);

/// IPv6 extension headers, which would have to be walked; a step contains only part of them.
const EXTENSIONS: [u8; 4] = [0, 43, 44, 60];

pub struct NftraceListener(NetlinkSocket);

impl NftraceListener {
    pub fn open() -> io::Result<Self> {
        let socket = NetlinkSocket::listen(NETLINK_NETFILTER, 1 << (NFNLGRP_NFTRACE - 1))?;
        socket.reserve(ROOM)?;
        Ok(Self(socket))
    }

    /// Waits for steps and returns the pending ones. Fails with `ENOBUFS` if steps were lost.
    pub fn take(&mut self) -> io::Result<Vec<TraceEvent>> {
        let mut steps = Vec::new();
        let mut visit = |kind, payload: &[u8]| {
            if kind == TRACE {
                steps.extend(event(payload));
            }
        };
        self.0.events(&mut visit)?;
        self.0.events_so_far(&mut visit)?;
        Ok(steps)
    }
}

impl AsFd for NftraceListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns `None` for a message that is not a known step.
fn event(payload: &[u8]) -> Option<TraceEvent> {
    let attributes = body(payload)?;
    let number = |kind| number(attributes, kind);
    let name = |kind| attribute(attributes, kind).map(|payload| text(payload).to_owned());
    let kind = match number(NFTA_TRACE_TYPE)?.cast_signed() {
        // A rule with the verdict `return` has the type RETURN too. Only the end of a chain has no handle.
        NFT_TRACETYPE_RULE | NFT_TRACETYPE_RETURN => match attribute(attributes, NFTA_TRACE_RULE_HANDLE) {
            Some(handle) => TraceEventKind::Rule {
                handle: u64::from_be_bytes(handle.try_into().ok()?),
                drops: verdict(attributes) == Some(NF_DROP),
            },
            None => TraceEventKind::Return,
        },
        NFT_TRACETYPE_POLICY => TraceEventKind::Policy { drops: number(NFTA_TRACE_POLICY) == Some(NF_DROP) },
        _ => TraceEventKind::Return,
    };
    Some(TraceEvent {
        id: number(NFTA_TRACE_ID)?,
        family: *payload.first()?,
        table: name(NFTA_TRACE_TABLE)?,
        chain: name(NFTA_TRACE_CHAIN)?,
        kind,
        mark: number(NFTA_TRACE_MARK).unwrap_or_default(),
        packet: attribute(attributes, NFTA_TRACE_NETWORK_HEADER).map(|network| PacketSnapshot {
            packet: packet(network, attribute(attributes, NFTA_TRACE_TRANSPORT_HEADER).unwrap_or_default()),
            in_interface: number(NFTA_TRACE_IIF).map(interface),
            out_interface: number(NFTA_TRACE_OIF).map(interface),
        }),
    })
}

fn verdict(attributes: &[u8]) -> Option<u32> {
    number(attribute(attributes, NFTA_TRACE_VERDICT)?, NFTA_VERDICT_CODE)
}

/// Joins the headers. The kernel reports at most 40 bytes of the first one.
fn packet(network: &[u8], transport: &[u8]) -> Vec<u8> {
    let mut packet = network.to_vec();
    match packet.first().map(|first| (first >> 4, usize::from(first & 0xf) * 4)) {
        Some((4, length)) => packet.resize(length, 0),
        Some((6, _)) if packet.get(6).is_some_and(|next| EXTENSIONS.contains(next)) => return packet,
        _ => {}
    }
    packet.extend(transport);
    packet
}

#[cfg(test)]
mod tests {
    use super::super::message::Messages;
    use super::*;

    #[test]
    fn reports_are_read() {
        let mut messages = Messages::default();
        messages.message(0x400, 0, 0, &[2, 0, 5, 57]);
        messages.attribute(1, &[8, 0, 3, 0]).text(10, "dns").number(11, 1000).number(14, 7);
        messages.attribute(3, &[&5_u64.to_be_bytes()[..], &6_u64.to_be_bytes()].concat());
        messages.attribute(9, &[0x45, 0]).number(2, 1337).number(5, u32::MAX);
        let expected = NflogMessage {
            prefix: "dns".to_owned(),
            hook: 3,
            time: Some(SystemTime::UNIX_EPOCH + Duration::new(5, 6_000)),
            in_interface: None,
            out_interface: Some(u32::MAX.to_string()),
            mark: 1337,
            uid: Some(1000),
            gid: Some(7),
            packet: vec![0x45, 0],
        };
        assert_eq!(report(&OwnerIds::default(), &messages.bytes()[20..]), expected);
        assert_eq!(report(&OwnerIds::default(), &[9, 0, 1]), NflogMessage::default());
    }

    #[test]
    fn returning_rule_differs_from_the_end_of_a_chain() {
        let event_kind = |kind, verdict, handle: Option<u64>| {
            let mut messages = Messages::default();
            messages.message(TRACE, 0, 0, &[1, 0, 0, 0]);
            messages.text(NFTA_TRACE_TABLE, "nat").text(NFTA_TRACE_CHAIN, "ISTIO_OUTPUT");
            messages.number(NFTA_TRACE_TYPE, kind as u32).number(NFTA_TRACE_ID, 7);
            if let Some(handle) = handle {
                messages.attribute(NFTA_TRACE_RULE_HANDLE, &handle.to_be_bytes());
            }
            messages.nest(NFTA_TRACE_VERDICT, |nest| {
                nest.number(NFTA_VERDICT_CODE, verdict);
            });
            event(&messages.bytes()[16..]).map(|event| event.kind)
        };
        let rule = TraceEventKind::Rule { handle: 9, drops: false };
        assert_eq!(event_kind(NFT_TRACETYPE_RETURN, NFT_RETURN.cast_unsigned(), Some(9)), Some(rule));
        assert_eq!(event_kind(NFT_TRACETYPE_RETURN, u32::MAX, None), Some(TraceEventKind::Return));
        assert_eq!(event_kind(NFT_TRACETYPE_RULE, u32::MAX, Some(9)), Some(rule));
    }

    #[test]
    fn steps_are_read() {
        let mut messages = Messages::default();
        messages.message(TRACE, 0, 0, &[1, 0, 0, 0]);
        messages.text(NFTA_TRACE_TABLE, "sidecar_init").text(NFTA_TRACE_CHAIN, "output");
        messages.number(NFTA_TRACE_TYPE, 3).number(NFTA_TRACE_ID, 7).number(NFTA_TRACE_MARK, 1337);
        messages.attribute(NFTA_TRACE_RULE_HANDLE, &9_u64.to_be_bytes());
        messages.nest(NFTA_TRACE_VERDICT, |verdict| {
            verdict.number(NFTA_VERDICT_CODE, NF_DROP);
        });
        let network = [&[0x45, 0, 0, 24][..], &[0; 5], &[6], &[0; 10]].concat();
        messages.attribute(NFTA_TRACE_NETWORK_HEADER, &network);
        messages.attribute(NFTA_TRACE_TRANSPORT_HEADER, &[0x9c, 0x40, 1, 0xbb]);
        messages.number(NFTA_TRACE_OIF, u32::MAX);
        let expected = TraceEvent {
            id: 7,
            family: 1,
            table: "sidecar_init".to_owned(),
            chain: "output".to_owned(),
            kind: TraceEventKind::Rule { handle: 9, drops: true },
            mark: 1337,
            packet: Some(PacketSnapshot {
                packet: [&network[..], &[0x9c, 0x40, 1, 0xbb]].concat(),
                in_interface: None,
                out_interface: Some(u32::MAX.to_string()),
            }),
        };
        let payload = &messages.bytes()[16..];
        assert_eq!(event(payload), Some(expected));
        for cut in 0..payload.len() {
            let _ = event(&payload[..cut]);
        }
    }
}
