//! A netlink socket: requests that are acknowledged, and dumps.

use super::message::{self, ACKNOWLEDGE, DUMP, HEADER, Messages, Received};
use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, socket,
    },
};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

/// Control messages (`linux/netlink.h`).
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// The dump was disturbed by a change and may have missed something (`NLM_F_DUMP_INTR`).
const DUMP_INTERRUPTED: u16 = 0x10;

/// As much as the kernel ever puts into one datagram of a dump (`NLMSG_GOODSIZE` caps it at 32 KiB).
const DATAGRAM: usize = 32 * 1024;

/// How often a disturbed dump is taken again before the state counts as unreadable.
const DUMP_TRIES: u32 = 10;

/// A message's type, family header and flags; attributes are added by the caller.
pub struct Request<'a> {
    /// The message type.
    pub kind: u16,
    /// Flags other than those that the kind of request implies.
    pub flags: u16,
    /// The family's own header.
    pub head: &'a [u8],
}

/// A socket of one netlink family.
pub struct Socket {
    descriptor: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens a socket in the thread's network namespace.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn open(protocol: SockProtocol) -> io::Result<Self> {
        let descriptor = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
        bind(descriptor.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Self { descriptor, sequence: 0, buffer: vec![0; DATAGRAM] })
    }

    /// Sends one request and waits for its acknowledgement.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn request(&mut self, request: &Request<'_>, fill: impl FnOnce(&mut Messages)) -> io::Result<()> {
        self.send(request, ACKNOWLEDGE, fill)?;
        let sequence = self.sequence;
        self.receive(|message| match message.kind {
            ERROR if message.sequence == sequence => outcome(message).map(|()| Continue::No),
            _ => Ok(Continue::Yes),
        })
    }

    /// Asks for all objects of a kind; `visit` gets the payload of each.
    ///
    /// # Errors
    /// What the kernel answers, or [`io::ErrorKind::Interrupted`] when the objects keep changing meanwhile.
    pub fn dump<T>(
        &mut self,
        request: &Request<'_>,
        mut visit: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        for _ in 0..DUMP_TRIES {
            self.send(request, DUMP, |_| {})?;
            let (sequence, mut found, mut disturbed) = (self.sequence, Vec::new(), false);
            self.receive(|message| {
                if message.sequence != sequence {
                    return Ok(Continue::Yes);
                }
                disturbed |= message.flags & DUMP_INTERRUPTED != 0;
                match message.kind {
                    ERROR => outcome(message).map(|()| Continue::No),
                    DONE => Ok(Continue::No),
                    _ => {
                        found.extend(visit(message.payload));
                        Ok(Continue::Yes)
                    }
                }
            })?;
            if !disturbed {
                return Ok(found);
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    fn send(
        &mut self,
        request: &Request<'_>,
        flags: u16,
        fill: impl FnOnce(&mut Messages),
    ) -> io::Result<()> {
        self.sequence += 1;
        let mut messages = Messages::default();
        messages.message(request.kind, request.flags | flags, self.sequence, request.head);
        fill(&mut messages);
        let to = NetlinkAddr::new(0, 0);
        sendto(self.descriptor.as_raw_fd(), messages.bytes(), &to, MsgFlags::empty())?;
        Ok(())
    }

    fn receive(&mut self, mut visit: impl FnMut(Received<'_>) -> io::Result<Continue>) -> io::Result<()> {
        loop {
            let length = match recv(self.descriptor.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Err(Errno::EINTR) => continue,
                other => other?,
            };
            if length < HEADER {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for message in message::received(&self.buffer[..length]) {
                if visit(message)? == Continue::No {
                    return Ok(());
                }
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Continue {
    Yes,
    No,
}

/// An error message of number 0 is an acknowledgement.
fn outcome(message: Received<'_>) -> io::Result<()> {
    match message::u32_at(message.payload, 0) {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number.cast_signed().wrapping_neg())),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
