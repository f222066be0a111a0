//! The expressions that rules are made of, and how they are written.
//!
//! A rule is a list of small steps: load a field into a register, compare the register, act. All ours load into
//! the first register; a range of ports takes the second as well. What an expression can't say as we would have
//! said it is read as [`Expression::Other`], so that it never passes for one of ours.

use crate::sys::header::*;
use crate::sys::message::Messages;

/// One step of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// Loads what the kernel knows of the packet.
    Meta(Meta),
    /// Sets the packet's mark.
    SetMark,
    /// Loads what the kernel knows of the connection.
    Connection(Connection),
    /// Sets the connection's mark.
    SetConnmark,
    /// Sets the connection's zone.
    SetZone,
    /// Loads bytes of the packet.
    Payload {
        /// From which header.
        header: Header,
        /// Where in it.
        offset: u32,
        /// How many.
        length: u32,
    },
    /// Goes on if the register compares so to the value.
    Compare(Operator, Vec<u8>),
    /// Goes on if the register lies outside of both and what is between.
    Outside(Vec<u8>, Vec<u8>),
    /// Changes the register: bits of the mask stay, then bits of the second value are flipped.
    Bits {
        /// Bits that stay.
        mask: Vec<u8>,
        /// Bits that are flipped.
        flip: Vec<u8>,
    },
    /// Goes on if the set holds the register's value.
    Lookup {
        /// The set.
        set: String,
        /// Goes on if it does not.
        negated: bool,
    },
    /// Loads a value.
    Load(Vec<u8>),
    /// Loads a value into the second register.
    LoadSecond(Vec<u8>),
    /// NAT to this machine, at the port in the first register.
    Redirect {
        /// Or at one of the ports up to that in the second register.
        range: bool,
    },
    /// Hands the packet to a transparent socket at the port in the register.
    Tproxy {
        /// `NFPROTO_*`; 0 for any.
        family: u32,
    },
    /// Counts packets and bytes.
    Counter,
    /// Reports to listeners.
    Log {
        /// The group.
        group: u16,
        /// The text.
        prefix: String,
    },
    /// Ends or leads on the walk.
    Verdict(Verdict),
    /// Anything that we never write.
    Other {
        /// Its name.
        name: String,
        /// Its attributes.
        data: Vec<u8>,
    },
}

/// What the kernel knows of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Meta {
    Mark = NFT_META_MARK,
    InInterfaceName = NFT_META_IIFNAME,
    OutInterfaceName = NFT_META_OIFNAME,
    SocketUid = NFT_META_SKUID,
    SocketGid = NFT_META_SKGID,
    Family = NFT_META_NFPROTO,
    Protocol = NFT_META_L4PROTO,
}

/// What the kernel knows of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Connection {
    State = NFT_CT_STATE,
    Mark = NFT_CT_MARK,
}

/// Part of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Header {
    Network = NFT_PAYLOAD_NETWORK_HEADER,
    Transport = NFT_PAYLOAD_TRANSPORT_HEADER,
}

/// How to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Operator {
    Equal = NFT_CMP_EQ,
    Different = NFT_CMP_NEQ,
    AtMost = NFT_CMP_LTE,
    AtLeast = NFT_CMP_GTE,
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accept,
    Drop,
    Return,
    Jump(String),
}

pub(super) const RETURN: u32 = NFT_RETURN.cast_unsigned();
pub(super) const JUMP: u32 = NFT_JUMP.cast_unsigned();

impl Expression {
    /// Adds the expression to the list that `messages` is at.
    pub(super) fn encode(&self, messages: &mut Messages) {
        messages.nest(NFTA_LIST_ELEM, |item| {
            item.text(NFTA_EXPR_NAME, self.name());
            match self {
                Self::Other { data, .. } => drop(item.attribute(NFTA_EXPR_DATA, data)),
                _ => drop(item.nest(NFTA_EXPR_DATA, |data| self.data(data))),
            }
        });
    }

    fn name(&self) -> &str {
        match self {
            Self::Meta(_) | Self::SetMark => "meta",
            Self::Connection(_) | Self::SetConnmark | Self::SetZone => "ct",
            Self::Payload { .. } => "payload",
            Self::Compare(..) => "cmp",
            Self::Outside(..) => "range",
            Self::Bits { .. } => "bitwise",
            Self::Lookup { .. } => "lookup",
            Self::Load(_) | Self::LoadSecond(_) | Self::Verdict(_) => "immediate",
            Self::Redirect { .. } => "redir",
            Self::Tproxy { .. } => "tproxy",
            Self::Counter => "counter",
            Self::Log { .. } => "log",
            Self::Other { name, .. } => name,
        }
    }

    fn data(&self, data: &mut Messages) {
        match self {
            Self::Meta(key) => data.number(NFTA_META_DREG, NFT_REG_1).number(NFTA_META_KEY, *key as u32),
            Self::SetMark => data.number(NFTA_META_KEY, NFT_META_MARK).number(NFTA_META_SREG, NFT_REG_1),
            Self::Connection(key) => data.number(NFTA_CT_DREG, NFT_REG_1).number(NFTA_CT_KEY, *key as u32),
            Self::SetConnmark => data.number(NFTA_CT_KEY, NFT_CT_MARK).number(NFTA_CT_SREG, NFT_REG_1),
            Self::SetZone => data.number(NFTA_CT_KEY, NFT_CT_ZONE).number(NFTA_CT_SREG, NFT_REG_1),
            Self::Payload { header, offset, length } => data
                .number(NFTA_PAYLOAD_DREG, NFT_REG_1)
                .number(NFTA_PAYLOAD_BASE, *header as u32)
                .number(NFTA_PAYLOAD_OFFSET, *offset)
                .number(NFTA_PAYLOAD_LEN, *length),
            Self::Compare(operator, bytes) => {
                data.number(NFTA_CMP_SREG, NFT_REG_1).number(NFTA_CMP_OP, *operator as u32);
                value(data, NFTA_CMP_DATA, bytes)
            }
            Self::Outside(first, last) => {
                data.number(NFTA_RANGE_SREG, NFT_REG_1).number(NFTA_RANGE_OP, NFT_RANGE_NEQ);
                value(value(data, NFTA_RANGE_FROM_DATA, first), NFTA_RANGE_TO_DATA, last)
            }
            Self::Bits { mask, flip } => {
                let length = u32::try_from(mask.len()).expect("a register has 16 bytes");
                data.number(NFTA_BITWISE_SREG, NFT_REG_1).number(NFTA_BITWISE_DREG, NFT_REG_1);
                data.number(NFTA_BITWISE_LEN, length);
                value(value(data, NFTA_BITWISE_MASK, mask), NFTA_BITWISE_XOR, flip)
            }
            Self::Lookup { set, negated } => {
                let flags = if *negated { NFT_LOOKUP_F_INV } else { 0 };
                data.text(NFTA_LOOKUP_SET, set)
                    .number(NFTA_LOOKUP_SREG, NFT_REG_1)
                    .number(NFTA_LOOKUP_FLAGS, flags)
            }
            Self::Load(bytes) => {
                value(data.number(NFTA_IMMEDIATE_DREG, NFT_REG_1), NFTA_IMMEDIATE_DATA, bytes)
            }
            Self::LoadSecond(bytes) => {
                value(data.number(NFTA_IMMEDIATE_DREG, NFT_REG_2), NFTA_IMMEDIATE_DATA, bytes)
            }
            Self::Redirect { range } => data
                .number(NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1)
                .number(NFTA_REDIR_REG_PROTO_MAX, if *range { NFT_REG_2 } else { NFT_REG_1 })
                .number(NFTA_REDIR_FLAGS, NF_NAT_RANGE_PROTO_SPECIFIED),
            Self::Tproxy { family } => {
                data.number(NFTA_TPROXY_FAMILY, *family).number(NFTA_TPROXY_REG_PORT, NFT_REG_1)
            }
            Self::Counter => data,
            Self::Log { group, prefix } => {
                data.attribute(NFTA_LOG_GROUP, &group.to_be_bytes()).text(NFTA_LOG_PREFIX, prefix)
            }
            Self::Verdict(verdict) => {
                data.number(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT).nest(NFTA_IMMEDIATE_DATA, |data| {
                    data.nest(NFTA_DATA_VERDICT, |data| verdict.encode(data));
                })
            }
            Self::Other { .. } => data,
        };
    }
}

fn value<'a>(data: &'a mut Messages, kind: u16, bytes: &[u8]) -> &'a mut Messages {
    data.nest(kind, |nest| {
        nest.attribute(NFTA_DATA_VALUE, bytes);
    })
}

impl Verdict {
    fn encode(&self, data: &mut Messages) {
        match self {
            Self::Accept => data.number(NFTA_VERDICT_CODE, NF_ACCEPT),
            Self::Drop => data.number(NFTA_VERDICT_CODE, NF_DROP),
            Self::Return => data.number(NFTA_VERDICT_CODE, RETURN),
            Self::Jump(chain) => data.number(NFTA_VERDICT_CODE, JUMP).text(NFTA_VERDICT_CHAIN, chain),
        };
    }
}
