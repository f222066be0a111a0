//! Reports of rules about packets: the listener of an NFLOG group.
//!
//! All numbers are in network order.

use super::message::{Messages, attributes, text};
use super::netfilter::{body, message_type, nfgenmsg};
use super::netlink::{NetlinkSocket, SockProtocol};
use super::{header::*, link::interface, owner_ids::OwnerIds};
use rules::report::NflogMessage;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, SystemTime};

const PACKET: u16 = message_type(NFNL_SUBSYS_ULOG, NFULNL_MSG_PACKET);
const CONFIG: u16 = message_type(NFNL_SUBSYS_ULOG, NFULNL_MSG_CONFIG);

/// Bytes of each packet that are reported: enough for the longest headers.
const HEADERS: u32 = 256;
/// Room for some ten thousand reports.
const ROOM: usize = 4 << 20;

/// Makes a socket the listener of a group, with further settings that `fill` adds.
///
/// # Errors
/// When the kernel refuses: `EPERM` or `EEXIST` where another socket listens to the group.
pub(super) fn bind(
    socket: &mut NetlinkSocket,
    group: u16,
    fill: impl FnOnce(&mut Messages),
) -> io::Result<()> {
    // The resource is the group, of whatever family.
    socket.request(CONFIG, 0, &nfgenmsg(NFPROTO_UNSPEC, group), |message| {
        fill(message.attribute(NFULA_CFG_CMD, &[NFULNL_CFG_CMD_BIND]));
    })
}

/// The listener of a group. A group has one; when it ends, reports go nowhere again.
pub struct NflogListener(NetlinkSocket);

impl NflogListener {
    /// Starts to listen in the thread's network namespace.
    ///
    /// # Errors
    /// When the kernel refuses: `EPERM` also where another program listens to the group.
    pub fn open(group: u16) -> io::Result<Self> {
        let mut socket = NetlinkSocket::open(SockProtocol::NetlinkNetFilter)?;
        socket.reserve(ROOM)?;
        bind(&mut socket, group, |message| {
            // struct nfulnl_msg_config_mode: range, mode, padding. A report is sent as it comes, not with others.
            let mode = [&HEADERS.to_be_bytes()[..], &[NFULNL_COPY_PACKET, 0]].concat();
            message.attribute(NFULA_CFG_MODE, &mode).number(NFULA_CFG_QTHRESH, 1);
        })?;
        Ok(Self(socket))
    }

    /// Waits for reports and takes them; an empty list if others have come than those.
    ///
    /// # Errors
    /// The kernel's error; `ENOBUFS` when reports were lost.
    pub fn take(&mut self) -> io::Result<Vec<NflogMessage>> {
        self.reports(NetlinkSocket::events)
    }

    /// Takes the reports that have come already.
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

/// Users and groups are numbered as rules number them.
fn report(ids: &OwnerIds, bytes: &[u8]) -> NflogMessage {
    let mut report = NflogMessage::default();
    for (kind, payload) in attributes(bytes) {
        match kind {
            // struct nfulnl_msg_packet_hdr: protocol, hook, padding.
            NFULA_PACKET_HDR => report.hook = payload.get(2).copied().unwrap_or_default(),
            NFULA_MARK => report.mark = number(payload).unwrap_or_default(),
            NFULA_TIMESTAMP => report.time = time(payload),
            NFULA_IFINDEX_INDEV => report.in_interface = number(payload).map(interface),
            NFULA_IFINDEX_OUTDEV => report.out_interface = number(payload).map(interface),
            NFULA_PAYLOAD => report.packet = payload.to_owned(),
            NFULA_PREFIX => text(payload).clone_into(&mut report.prefix),
            NFULA_UID => report.uid = number(payload).map(|uid| ids.user_in_rules(uid)),
            NFULA_GID => report.gid = number(payload).map(|gid| ids.group_in_rules(gid)),
            _ => {}
        }
    }
    report
}

fn number(payload: &[u8]) -> Option<u32> {
    payload.try_into().ok().map(u32::from_be_bytes)
}

/// Seconds and microseconds since 1970.
fn time(payload: &[u8]) -> Option<SystemTime> {
    let at = |from: usize| payload.get(from..from + 8)?.try_into().ok().map(u64::from_be_bytes);
    let since = Duration::from_secs(at(0)?).checked_add(Duration::from_micros(at(8)?))?;
    SystemTime::UNIX_EPOCH.checked_add(since)
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
}
