//! Reports of rules about packets: the listener of an NFLOG group.
//!
//! Numbers are from `linux/netfilter/nfnetlink_log.h`; all are in network order.

use super::message::{attributes, text};
use super::netlink::{Request, Socket};
use nix::{net::if_::if_indextoname, sys::socket::SockProtocol};
use rules::report::Report;
use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, SystemTime},
};

/// `NFNL_SUBSYS_ULOG`, in the upper half of a message type.
const ULOG: u16 = 4 << 8;
const PACKET: u16 = ULOG;
const CONFIG: u16 = ULOG | 1;

const CONFIG_COMMAND: u16 = 1;
const CONFIG_MODE: u16 = 2;
const CONFIG_THRESHOLD: u16 = 5;
const COMMAND_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;

/// Of each packet so many bytes come along: the longest headers that anybody sends.
const HEADERS: u32 = 256;
/// Room for some ten thousand reports.
const ROOM: usize = 4 << 20;

const HEADER: u16 = 1;
const MARK: u16 = 2;
const TIMESTAMP: u16 = 3;
const IN_INTERFACE: u16 = 4;
const OUT_INTERFACE: u16 = 5;
const PAYLOAD: u16 = 9;
const PREFIX: u16 = 10;
const UID: u16 = 11;
const GID: u16 = 14;

/// The listener of a group. A group has one; when it ends, reports go nowhere again.
pub struct Listener(Socket);

impl Listener {
    /// Starts to listen in the thread's network namespace.
    ///
    /// # Errors
    /// When the kernel refuses: `EPERM` also where another program listens to the group.
    pub fn open(group: u16) -> io::Result<Self> {
        let mut socket = Socket::open(SockProtocol::NetlinkNetFilter)?;
        socket.reserve(ROOM)?;
        let [high, low] = group.to_be_bytes();
        // struct nfgenmsg: family, version, resource.
        let request = Request { kind: CONFIG, flags: 0, head: &[0, 0, high, low] };
        socket.request(&request, |message| {
            // struct nfulnl_msg_config_mode: range, mode, padding. A report is sent as it comes, not with others.
            let mode = [&HEADERS.to_be_bytes()[..], &[COPY_PACKET, 0]].concat();
            message.attribute(CONFIG_COMMAND, &[COMMAND_BIND]);
            message.attribute(CONFIG_MODE, &mode).number(CONFIG_THRESHOLD, 1);
        })?;
        Ok(Self(socket))
    }

    /// Waits for reports and takes them; an empty list if others have come than those.
    ///
    /// # Errors
    /// What the kernel says; `ENOBUFS` when reports were lost.
    pub fn take(&mut self) -> io::Result<Vec<Report>> {
        let mut reports = Vec::new();
        self.0.events(|kind, payload| {
            if kind == PACKET {
                reports.extend(payload.get(4..).map(report));
            }
        })?;
        Ok(reports)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn report(bytes: &[u8]) -> Report {
    let mut report = Report::default();
    for (kind, payload) in attributes(bytes) {
        match kind {
            // struct nfulnl_msg_packet_hdr: protocol, hook, padding.
            HEADER => report.hook = payload.get(2).copied().unwrap_or_default(),
            MARK => report.mark = number(payload).unwrap_or_default(),
            TIMESTAMP => report.time = time(payload),
            IN_INTERFACE => report.in_interface = number(payload).map(interface),
            OUT_INTERFACE => report.out_interface = number(payload).map(interface),
            PAYLOAD => report.packet = payload.to_owned(),
            PREFIX => text(payload).clone_into(&mut report.prefix),
            UID => report.uid = number(payload),
            GID => report.gid = number(payload),
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

/// The interface's name, or its number if it is gone.
fn interface(index: u32) -> String {
    match if_indextoname(index) {
        Ok(name) if !name.is_empty() => name.to_string_lossy().into_owned(),
        Ok(_) | Err(_) => index.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Messages;
    use super::*;

    #[test]
    fn reports_are_read() {
        let mut messages = Messages::default();
        messages.message(PACKET, 0, 0, &[2, 0, 5, 57]);
        messages.attribute(HEADER, &[8, 0, 3, 0]).text(PREFIX, "dns").number(UID, 1000).number(GID, 7);
        messages.attribute(TIMESTAMP, &[&5_u64.to_be_bytes()[..], &6_u64.to_be_bytes()].concat());
        messages.attribute(PAYLOAD, &[0x45, 0]).number(MARK, 1337).number(OUT_INTERFACE, u32::MAX);
        let expected = Report {
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
        assert_eq!(report(&messages.bytes()[20..]), expected);
        assert_eq!(report(&[9, 0, 1]), Report::default());
    }
}
