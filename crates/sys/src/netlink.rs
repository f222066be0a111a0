//! A netlink socket: acknowledged requests, and dumps.

use super::header::*;
use super::message::{self, Messages, Received};
use nix::libc;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
    sockopt,
};
use std::ops::{ControlFlow, Range};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::{io, num::NonZeroU32};

/// Largest datagram of a dump (`netlink_recvmsg` caps it at 32 KiB).
const DATAGRAM: usize = 32 * 1024;

/// Largest batch that fits every machine's default buffer.
const SMALL_BATCH: usize = 100_000;

const DUMP_TRIES: u32 = 10;

/// A socket of one netlink family. A request has a type, the family's own header, and attributes that `fill` adds.
#[derive(Debug)]
pub struct NetlinkSocket {
    descriptor: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl NetlinkSocket {
    /// Opens a socket in the thread's network namespace.
    pub fn open(protocol: i32) -> io::Result<Self> {
        Self::listen(protocol, 0)
    }

    /// Opens a socket that receives the messages of these multicast groups, one bit each; the lowest bit is group 1.
    pub fn listen(protocol: i32, groups: u32) -> io::Result<Self> {
        let protocol = NonZeroU32::new(protocol.cast_unsigned()).map(Protocol::from_raw);
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let descriptor = socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
        bind(&descriptor, &SocketAddrNetlink::new(0, groups))?;
        Ok(Self { descriptor, sequence: 0, buffer: Vec::with_capacity(DATAGRAM) })
    }

    /// Sends one request and waits for its acknowledgement. `flags` are additional flags.
    pub fn request(
        &mut self,
        kind: u16,
        flags: i32,
        head: &[u8],
        fill: impl FnOnce(&mut Messages),
    ) -> io::Result<()> {
        self.send(kind, flags | NLM_F_ACK, head, fill)?;
        let sequence = self.sequence;
        self.receive(|message| match message.kind {
            NLMSG_ERROR if message.sequence == sequence => outcome(message).map(|()| ControlFlow::Break(())),
            _ => Ok(ControlFlow::Continue(())),
        })
    }

    pub fn one(&mut self, kind: u16, head: &[u8], fill: impl FnOnce(&mut Messages)) -> io::Result<Vec<u8>> {
        self.send(kind, 0, head, fill)?;
        let (sequence, mut found) = (self.sequence, Vec::new());
        self.receive(|message| match message.kind {
            _ if message.sequence != sequence => Ok(ControlFlow::Continue(())),
            NLMSG_ERROR => outcome(message).map(|()| ControlFlow::Break(())),
            _ => {
                found.extend(message.payload);
                Ok(ControlFlow::Break(()))
            }
        })?;
        Ok(found)
    }

    /// Sends consecutively numbered messages, applied as a whole or not at all; the kernel acknowledges number `acknowledged`. An
    /// error of the whole batch has the first number.
    pub fn batch(&mut self, bytes: &[u8], sequences: Range<u32>, acknowledged: u32) -> Result<(), Rejection> {
        let plain =
            |source: io::Error| Rejection { sequence: sequences.start, message: None, offset: None, source };
        self.sequence = sequences.end - 1;
        self.prepare(bytes.len()).map_err(plain)?;
        send(&self.descriptor, bytes, SendFlags::empty()).map_err(|error| plain(error.into()))?;
        let mut rejection = None;
        let received = self.receive(|message| match message.kind {
            NLMSG_ERROR if sequences.contains(&message.sequence) => match outcome(message) {
                Ok(()) if message.sequence == acknowledged => Ok(ControlFlow::Break(())),
                Ok(()) => Ok(ControlFlow::Continue(())),
                Err(source) => {
                    let (text, offset) = explanation(message).unwrap_or_default();
                    rejection = Some(Rejection { sequence: message.sequence, message: text, offset, source });
                    Ok(ControlFlow::Break(()))
                }
            },
            _ => Ok(ControlFlow::Continue(())),
        });
        received.map_err(plain)?;
        rejection.map_or(Ok(()), Err)
    }

    pub fn next_sequence(&self) -> u32 {
        self.sequence + 1
    }

    /// Sets the receive buffer, for messages that arrive faster than they are read.
    pub fn reserve(&self, bytes: usize) -> io::Result<()> {
        // Beyond the machine's limit if permitted, else up to it.
        sockopt::set_socket_recv_buffer_size_force(&self.descriptor, bytes)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&self.descriptor, bytes))?;
        Ok(())
    }

    /// Reads one datagram of unsolicited messages; `ENOBUFS` if messages were lost.
    pub fn events(&mut self, visit: &mut dyn FnMut(u16, &[u8])) -> io::Result<()> {
        self.datagram(RecvFlags::empty(), visit)
    }

    /// Reads all pending messages without waiting, like [`NetlinkSocket::events`].
    pub fn events_so_far(&mut self, visit: &mut dyn FnMut(u16, &[u8])) -> io::Result<()> {
        loop {
            match self.datagram(RecvFlags::DONTWAIT, visit) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => other?,
            }
        }
    }

    fn datagram(&mut self, flags: RecvFlags, visit: &mut dyn FnMut(u16, &[u8])) -> io::Result<()> {
        for message in message::received(self.fill(flags)?) {
            visit(message.kind, message.payload);
        }
        Ok(())
    }

    /// Sets the send buffer for a large batch, and requests extended error messages.
    fn prepare(&self, length: usize) -> io::Result<()> {
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            let _ = switch_on(&self.descriptor, libc::SOL_NETLINK, option);
        }
        if length > SMALL_BATCH {
            sockopt::set_socket_send_buffer_size_force(&self.descriptor, length)
                .or_else(|_| sockopt::set_socket_send_buffer_size(&self.descriptor, length))?;
        }
        Ok(())
    }

    /// Requests all objects of a kind. Fails with [`io::ErrorKind::Interrupted`] if they keep changing meanwhile.
    pub fn dump<T>(
        &mut self,
        kind: u16,
        head: &[u8],
        visit: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        self.dump_some(kind, head, |_| {}, visit)
    }

    /// Like [`NetlinkSocket::dump`], for the objects selected by the request's attributes.
    pub fn dump_some<T>(
        &mut self,
        kind: u16,
        head: &[u8],
        fill: impl Fn(&mut Messages),
        mut visit: impl FnMut(&[u8]) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        for _ in 0..DUMP_TRIES {
            self.send(kind, NLM_F_DUMP, head, &fill)?;
            let (sequence, mut found, mut disturbed) = (self.sequence, Vec::new(), false);
            self.receive(|message| {
                if message.sequence != sequence {
                    return Ok(ControlFlow::Continue(()));
                }
                disturbed |= message.flags & NLM_F_DUMP_INTR != 0;
                match message.kind {
                    NLMSG_ERROR | NLMSG_DONE => outcome(message).map(|()| ControlFlow::Break(())),
                    _ => {
                        found.extend(visit(message.payload));
                        Ok(ControlFlow::Continue(()))
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
        kind: u16,
        flags: i32,
        head: &[u8],
        fill: impl FnOnce(&mut Messages),
    ) -> io::Result<()> {
        self.sequence += 1;
        let mut messages = Messages::default();
        messages.message(kind, flags, self.sequence, head);
        fill(&mut messages);
        send(&self.descriptor, messages.bytes(), SendFlags::empty())?;
        Ok(())
    }

    /// Receives a datagram into uninitialized memory: clearing it would fault in each page, and most datagrams need one page.
    fn fill(&mut self, flags: RecvFlags) -> rustix::io::Result<&[u8]> {
        self.buffer.clear();
        recv(&self.descriptor, spare_capacity(&mut self.buffer), flags)?;
        Ok(&self.buffer)
    }

    fn receive(
        &mut self,
        mut visit: impl FnMut(Received<'_>) -> io::Result<ControlFlow<()>>,
    ) -> io::Result<()> {
        loop {
            let datagram = match self.fill(RecvFlags::empty()) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            if datagram.len() < NLMSG_HDRLEN {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for message in message::received(datagram) {
                if visit(message)?.is_break() {
                    return Ok(());
                }
            }
        }
    }
}

impl AsFd for NetlinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{}", .message.as_deref().unwrap_or("the kernel gave no explanation"))]
pub struct Rejection {
    pub sequence: u32,
    pub message: Option<String>,
    pub offset: Option<usize>,
    pub source: io::Error,
}

/// Content of the extended acknowledgement, if any: after our message, or with `NETLINK_CAP_ACK` after its header.
fn explanation(message: Received<'_>) -> Option<(Option<String>, Option<usize>)> {
    if message.flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let ours = match message.flags & NLM_F_CAPPED {
        0 => (message::u32_at(message.payload, 4)? as usize).next_multiple_of(NLMSG_ALIGNTO),
        _ => NLMSG_HDRLEN,
    };
    // struct nlmsgerr: error, then our message or its header.
    let attributes = message.payload.get(4 + ours..)?;
    let text = message::attribute(attributes, NLMSGERR_ATTR_MSG).map(|text| message::text(text).to_owned());
    let offset =
        message::attribute(attributes, NLMSGERR_ATTR_OFFS).and_then(|offset| message::u32_at(offset, 0));
    Some((text, offset.map(|offset| offset as usize)))
}

/// Result in an error message or the last message of a dump: 0, or a negative error.
fn outcome(message: Received<'_>) -> io::Result<()> {
    match message::u32_at(message.payload, 0) {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number.cast_signed().wrapping_neg())),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[expect(unsafe_code, reason = "nix has no NETLINK_EXT_ACK")]
fn switch_on(socket: &impl AsFd, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    static ON: libc::c_int = 1;
    const LENGTH: libc::socklen_t = 4;
    // SAFETY: the descriptor is open while `socket` is borrowed, and the kernel reads LENGTH bytes, the size of ON.
    let result = unsafe {
        libc::setsockopt(socket.as_fd().as_raw_fd(), level, option, (&raw const ON).cast(), LENGTH)
    };
    Ok(nix::errno::Errno::result(result).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With strict checking, the kernel reports a missing table at the end of the dump.
    #[test]
    fn aborted_dump_is_an_error() {
        const NO_SUCH_TABLE: u8 = 77;
        let mut socket = NetlinkSocket::open(NETLINK_ROUTE).expect("a socket");
        switch_on(&socket, libc::SOL_NETLINK, libc::NETLINK_GET_STRICT_CHK)
            .expect("the kernel has it since 4.20");
        let head = [AF_INET, 0, 0, 0, NO_SUCH_TABLE, 0, 0, 0, 0, 0, 0, 0];
        let found = socket.dump(RTM_GETROUTE, &head, |_| Some(()));
        assert_eq!(found.expect_err("no such table").kind(), io::ErrorKind::NotFound);
    }
}
