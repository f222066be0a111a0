//! The expressions that rules are made of, and how they are written.
//!
//! A rule is a list of small steps: load a field into a register, compare the register, act. All ours load into
//! the first register; a range of ports takes the second as well. An expression in a form that
//! we never write is read as [`Expression::Other`], so that it never passes for one of ours.

use crate::sys::header::*;
use crate::sys::message::Messages;
use rules::LogLevel;

/// One step of a rule. A register that is not named is the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// Loads what the kernel knows of the packet.
    Meta(Meta),
    SetMetaMark,
    /// Loads what the kernel knows of the connection.
    Ct(Ct),
    SetCtMark,
    SetCtZone,
    /// Loads bytes of the packet.
    Payload {
        header: Header,
        offset: u32,
        length: u32,
    },
    /// Goes on if the register compares so to the value.
    Cmp(CmpOperator, Vec<u8>),
    /// Goes on if the register lies between both, or is one of them; negated, if it does not. (Ours are negated: ranges
    /// that it may lie in are two comparisons.)
    Range {
        negated: bool,
        first: Vec<u8>,
        last: Vec<u8>,
    },
    /// Changes the register: bits of the mask stay, then bits of the second value are flipped.
    Bitwise {
        mask: Vec<u8>,
        xor: Vec<u8>,
    },
    /// Brings a number of 32 bits from this machine's order of bytes into the packet's, in which ranges are compared.
    ToPacketOrder,
    /// Goes on if the set holds the register's value, or, negated, if it does not.
    Lookup {
        set: String,
        negated: bool,
    },
    /// Loads a value.
    Immediate(Register, Vec<u8>),
    /// NAT to this machine, at the port in the first register.
    Redir {
        /// Or at one of the ports up to that in the second register.
        range: bool,
    },
    /// Hands the packet to a transparent socket at the port in the register.
    Tproxy {
        /// `NFPROTO_*`.
        family: u8,
    },
    /// Counts packets and bytes.
    Counter,
    /// Reports to the listeners of an NFLOG group.
    Log {
        group: u16,
        prefix: String,
    },
    /// Writes a line to the kernel's log.
    KernelLog {
        level: LogLevel,
        prefix: String,
    },
    /// Decides about the packet, or goes on in another chain: an immediate value for the register of verdicts.
    Verdict(EncodedVerdict),
    /// Anything that we never write.
    Other {
        name: String,
        data: Vec<u8>,
    },
}

/// What the kernel knows of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Meta {
    Mark = NFT_META_MARK,
    Iifname = NFT_META_IIFNAME,
    Oifname = NFT_META_OIFNAME,
    Skuid = NFT_META_SKUID,
    Skgid = NFT_META_SKGID,
    Nfproto = NFT_META_NFPROTO,
    L4proto = NFT_META_L4PROTO,
}

/// What the kernel knows of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ct {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CmpOperator {
    Eq = NFT_CMP_EQ,
    Neq = NFT_CMP_NEQ,
    Lt = NFT_CMP_LT,
    Gt = NFT_CMP_GT,
    Lte = NFT_CMP_LTE,
    Gte = NFT_CMP_GTE,
}

/// 16 bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Register {
    First = NFT_REG_1,
    Second = NFT_REG_2,
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodedVerdict {
    Accept,
    Drop,
    Return,
    Jump(String),
    /// A jump whose end is that of the calling chain too.
    Goto(String),
}

pub(super) const RETURN: u32 = NFT_RETURN.cast_unsigned();
pub(super) const JUMP: u32 = NFT_JUMP.cast_unsigned();
pub(super) const GOTO: u32 = NFT_GOTO.cast_unsigned();

/// Bytes of the numbers that the kernel keeps in this machine's order.
pub(super) const WORD: u32 = 4;

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
            Self::Meta(_) | Self::SetMetaMark => "meta",
            Self::Ct(_) | Self::SetCtMark | Self::SetCtZone => "ct",
            Self::Payload { .. } => "payload",
            Self::Cmp(..) => "cmp",
            Self::Range { .. } => "range",
            Self::Bitwise { .. } => "bitwise",
            Self::ToPacketOrder => "byteorder",
            Self::Lookup { .. } => "lookup",
            Self::Immediate(..) | Self::Verdict(_) => "immediate",
            Self::Redir { .. } => "redir",
            Self::Tproxy { .. } => "tproxy",
            Self::Counter => "counter",
            Self::Log { .. } | Self::KernelLog { .. } => "log",
            Self::Other { name, .. } => name,
        }
    }

    fn data(&self, data: &mut Messages) {
        match self {
            Self::Meta(key) => data.number(NFTA_META_DREG, NFT_REG_1).number(NFTA_META_KEY, *key as u32),
            Self::SetMetaMark => data.number(NFTA_META_KEY, NFT_META_MARK).number(NFTA_META_SREG, NFT_REG_1),
            Self::Ct(key) => data.number(NFTA_CT_DREG, NFT_REG_1).number(NFTA_CT_KEY, *key as u32),
            Self::SetCtMark => data.number(NFTA_CT_KEY, NFT_CT_MARK).number(NFTA_CT_SREG, NFT_REG_1),
            Self::SetCtZone => data.number(NFTA_CT_KEY, NFT_CT_ZONE).number(NFTA_CT_SREG, NFT_REG_1),
            Self::Payload { header, offset, length } => data
                .number(NFTA_PAYLOAD_DREG, NFT_REG_1)
                .number(NFTA_PAYLOAD_BASE, *header as u32)
                .number(NFTA_PAYLOAD_OFFSET, *offset)
                .number(NFTA_PAYLOAD_LEN, *length),
            Self::Cmp(operator, bytes) => {
                data.number(NFTA_CMP_SREG, NFT_REG_1).number(NFTA_CMP_OP, *operator as u32);
                value(data, NFTA_CMP_DATA, bytes)
            }
            Self::Range { negated, first, last } => {
                let operator = if *negated { NFT_RANGE_NEQ } else { NFT_RANGE_EQ };
                data.number(NFTA_RANGE_SREG, NFT_REG_1).number(NFTA_RANGE_OP, operator);
                value(value(data, NFTA_RANGE_FROM_DATA, first), NFTA_RANGE_TO_DATA, last)
            }
            Self::Bitwise { mask, xor } => {
                let length = u32::try_from(mask.len()).expect("a register has 16 bytes");
                data.number(NFTA_BITWISE_SREG, NFT_REG_1).number(NFTA_BITWISE_DREG, NFT_REG_1);
                data.number(NFTA_BITWISE_LEN, length);
                value(value(data, NFTA_BITWISE_MASK, mask), NFTA_BITWISE_XOR, xor)
            }
            Self::ToPacketOrder => data
                .number(NFTA_BYTEORDER_SREG, NFT_REG_1)
                .number(NFTA_BYTEORDER_DREG, NFT_REG_1)
                .number(NFTA_BYTEORDER_OP, NFT_BYTEORDER_HTON)
                .number(NFTA_BYTEORDER_LEN, WORD)
                .number(NFTA_BYTEORDER_SIZE, WORD),
            Self::Lookup { set, negated } => {
                let flags = if *negated { NFT_LOOKUP_F_INV } else { 0 };
                data.text(NFTA_LOOKUP_SET, set)
                    .number(NFTA_LOOKUP_SREG, NFT_REG_1)
                    .number(NFTA_LOOKUP_FLAGS, flags)
            }
            Self::Immediate(register, bytes) => {
                value(data.number(NFTA_IMMEDIATE_DREG, *register as u32), NFTA_IMMEDIATE_DATA, bytes)
            }
            Self::Redir { range } => data
                .number(NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1)
                .number(NFTA_REDIR_REG_PROTO_MAX, if *range { NFT_REG_2 } else { NFT_REG_1 })
                .number(NFTA_REDIR_FLAGS, NF_NAT_RANGE_PROTO_SPECIFIED),
            Self::Tproxy { family } => {
                data.number(NFTA_TPROXY_FAMILY, (*family).into()).number(NFTA_TPROXY_REG_PORT, NFT_REG_1)
            }
            Self::Counter => data,
            Self::Log { group, prefix } => {
                data.attribute(NFTA_LOG_GROUP, &group.to_be_bytes()).text(NFTA_LOG_PREFIX, prefix)
            }
            Self::KernelLog { level, prefix } => {
                data.number(NFTA_LOG_LEVEL, level.number()).text(NFTA_LOG_PREFIX, prefix)
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

impl EncodedVerdict {
    fn encode(&self, data: &mut Messages) {
        match self {
            Self::Accept => data.number(NFTA_VERDICT_CODE, NF_ACCEPT),
            Self::Drop => data.number(NFTA_VERDICT_CODE, NF_DROP),
            Self::Return => data.number(NFTA_VERDICT_CODE, RETURN),
            Self::Jump(chain) => data.number(NFTA_VERDICT_CODE, JUMP).text(NFTA_VERDICT_CHAIN, chain),
            Self::Goto(chain) => data.number(NFTA_VERDICT_CODE, GOTO).text(NFTA_VERDICT_CHAIN, chain),
        };
    }
}
