//! Netlink messages as bytes (`linux/netlink.h`): a 16-byte header (`struct nlmsghdr`) and a payload; attributes with a 4-byte
//! header (`struct nlattr`); both padded to 4 bytes. Numbers are in host byte order unless a family differs.

use super::header::*;
use rules::Family;
use std::net::IpAddr;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    bytes: Vec<u8>,
    start: usize,
}

impl Messages {
    /// Begins a message of this type; `head` is the family's own header.
    pub fn message(&mut self, kind: u16, flags: i32, sequence: u32, head: &[u8]) -> &mut Self {
        self.start = self.bytes.len();
        let [kind_low, kind_high] = kind.to_ne_bytes();
        let [flags_low, flags_high] = wire_u16(flags | NLM_F_REQUEST).to_ne_bytes();
        let [a, b, c, d] = sequence.to_ne_bytes();
        let header = [0, 0, 0, 0, kind_low, kind_high, flags_low, flags_high, a, b, c, d, 0, 0, 0, 0];
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(head);
        self.pad();
        self
    }

    pub fn acknowledge(&mut self) {
        let [low, high] = wire_u16(NLM_F_ACK).to_ne_bytes();
        self.bytes[self.start + 6] |= low;
        self.bytes[self.start + 7] |= high;
    }

    pub fn attribute(&mut self, kind: u16, payload: &[u8]) -> &mut Self {
        self.head(kind, payload.len());
        self.bytes.extend_from_slice(payload);
        self.pad();
        self
    }

    /// Adds a 32-bit number in network order, the order of netfilter's families.
    pub fn number(&mut self, kind: u16, number: u32) -> &mut Self {
        self.attribute(kind, &number.to_be_bytes())
    }

    pub fn address(&mut self, kind: u16, address: IpAddr) -> &mut Self {
        self.attribute(kind, &octets(address))
    }

    pub fn text(&mut self, kind: u16, text: &str) -> &mut Self {
        self.head(kind, text.len() + 1);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        self.pad();
        self
    }

    pub fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.head(kind | NLA_F_NESTED, 0);
        fill(self);
        let length = u16::try_from(self.bytes.len() - start).expect("nests are shorter than 64 KiB");
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    pub fn raw(&mut self, attributes: &[u8]) {
        self.bytes.extend_from_slice(attributes);
        self.pad();
    }

    pub fn alone(fill: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut messages = Self::default();
        fill(messages.message(0, 0, 0, &[]));
        messages.bytes.split_off(NLMSG_HDRLEN)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn head(&mut self, kind: u16, payload: usize) {
        let length = u16::try_from(payload + NLA_HDRLEN).expect("attributes are shorter than 64 KiB");
        let ([length_low, length_high], [kind_low, kind_high]) = (length.to_ne_bytes(), kind.to_ne_bytes());
        self.bytes.extend_from_slice(&[length_low, length_high, kind_low, kind_high]);
    }

    fn pad(&mut self) {
        const ZEROS: [u8; NLMSG_ALIGNTO] = [0; NLMSG_ALIGNTO];
        let missing = self.bytes.len().next_multiple_of(NLMSG_ALIGNTO) - self.bytes.len();
        self.bytes.extend_from_slice(&ZEROS[..missing]);
        let length = u32::try_from(self.bytes.len() - self.start).expect("messages are shorter than 4 GiB");
        self.bytes[self.start..self.start + 4].copy_from_slice(&length.to_ne_bytes());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    pub kind: u16,
    pub flags: i32,
    pub sequence: u32,
    pub payload: &'a [u8],
}

/// Splits a datagram into messages; stops at the first truncated one.
pub fn received(mut bytes: &[u8]) -> impl Iterator<Item = Received<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let message = Received {
            kind: u16_at(bytes, 4)?,
            flags: u16_at(bytes, 6)?.into(),
            sequence: u32_at(bytes, 8)?,
            payload: bytes.get(NLMSG_HDRLEN..length)?,
        };
        bytes = bytes.get(length.next_multiple_of(NLMSG_ALIGNTO)..).unwrap_or_default();
        Some(message)
    })
}

/// Attributes in `bytes`, as number and payload; stops at the first truncated one.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & !(NLA_F_NESTED | NLA_F_NET_BYTEORDER);
        let attribute = (kind, bytes.get(NLA_HDRLEN..length)?);
        bytes = bytes.get(length.next_multiple_of(NLA_ALIGNTO)..).unwrap_or_default();
        Some(attribute)
    })
}

pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(number, _)| *number == kind).map(|(_, payload)| payload)
}

pub fn number(bytes: &[u8], kind: u16) -> Option<u32> {
    attribute(bytes, kind)?.try_into().ok().map(u32::from_be_bytes)
}

pub fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

pub const fn wire_u16(number: i32) -> u16 {
    let [low, high, ..] = number.to_le_bytes();
    u16::from_le_bytes([low, high])
}

pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes)
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes)
}

pub fn text(payload: &[u8]) -> &str {
    std::str::from_utf8(until_nul(payload)).unwrap_or_default()
}

fn until_nul(payload: &[u8]) -> &[u8] {
    payload.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// A name chosen by another program. Bytes that are not UTF-8 are escaped, so that different names stay different.
pub fn name(payload: &[u8]) -> String {
    let bytes = until_nul(payload);
    std::str::from_utf8(bytes).map_or_else(|_| bytes.escape_ascii().to_string(), str::to_owned)
}

pub(super) const fn af(family: Family) -> u8 {
    match family {
        Family::V4 => AF_INET,
        Family::V6 => AF_INET6,
    }
}

pub(super) type RtMsg = [u8; 12];

/// `struct rtmsg`: family, lengths, tos, table, protocol, scope, type, flags.
pub(super) fn rtmsg(family: Family, [table, protocol, scope, kind]: [u8; 4]) -> RtMsg {
    [af(family), 0, 0, 0, table, protocol, scope, kind, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::super::header::NLM_F_ACK;
    use super::*;

    #[test]
    fn built_messages_are_parsed_back() {
        let mut messages = Messages::default();
        messages.message(10, NLM_F_ACK, 7, &[1, 2, 3, 4]).attribute(1, b"abcde");
        messages.message(11, 0, 8, &[]).nest(2, |nest| {
            nest.attribute(3, &[9]);
        });
        let received: Vec<_> = received(messages.bytes()).collect();
        assert_eq!((received[0].kind, received[0].flags, received[0].sequence), (10, 5, 7));
        assert_eq!(attribute(&received[0].payload[4..], 1), Some(&b"abcde"[..]));
        let nest = attribute(received[1].payload, 2).expect("the nest");
        assert_eq!(attributes(nest).collect::<Vec<_>>(), [(3, &[9][..])]);
    }

    #[test]
    fn truncated_data_ends_the_iteration() {
        let mut messages = Messages::default();
        messages.message(10, 0, 1, &[1, 2, 3, 4]).attribute(1, b"abcde");
        for cut in 0..messages.bytes().len() {
            assert_eq!(received(&messages.bytes()[..cut]).count(), 0);
        }
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
        assert_eq!(attributes(&[0, 0, 1, 0]).count(), 0);
    }
}
