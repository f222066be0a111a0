//! The expressions that rules are made of, and how they are written and read. All ours load into the first register; a range
//! of ports takes the second as well.
//! An expression is read only in the form in which it would be written: any other form is [`Expression::Other`], so that it
//! never passes for one of ours.

use crate::sys::header::*;
use crate::sys::message::{Messages, attribute, attributes, name, number, text};
use rules::LogLevel;

/// One step of a rule. A register that is not named is the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    Meta(Meta),
    SetMetaMark,
    Ct(Ct),
    SetCtMark,
    SetCtZone,
    Payload {
        header: Header,
        offset: u32,
        length: u32,
    },
    /// Goes on if the register compares so to the value.
    Cmp(CmpOperator, Vec<u8>),
    /// Goes on if the register lies between both, or is one of them; negated, as ours are, if it does not.
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
    Immediate(Register, Vec<u8>),
    /// NAT to this machine, at the port in the first register.
    Redir {
        /// Or at one of the ports up to that in the second register.
        range: bool,
    },
    /// Hands the packet to a transparent socket at the port in the register.
    Tproxy {
        family: u8,
    },
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
    Other {
        name: String,
        data: Vec<u8>,
    },
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ct {
    State = NFT_CT_STATE,
    Mark = NFT_CT_MARK,
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Register {
    First = NFT_REG_1,
    Second = NFT_REG_2,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodedVerdict {
    Accept,
    Drop,
    Return,
    Jump(String),
    /// A jump whose end is that of the calling chain too.
    Goto(String),
}

const RETURN: u32 = NFT_RETURN.cast_unsigned();
const JUMP: u32 = NFT_JUMP.cast_unsigned();
const GOTO: u32 = NFT_GOTO.cast_unsigned();

/// Bytes of the numbers that the kernel keeps in this machine's order.
pub(super) const WORD: u32 = 4;

impl Expression {
    pub(super) fn decode(item: &[u8]) -> Option<Self> {
        let name = text(attribute(item, NFTA_EXPR_NAME)?);
        let data = attribute(item, NFTA_EXPR_DATA).unwrap_or_default();
        let known = known(name, data, None);
        Some(known.unwrap_or_else(|| Self::Other { name: name.to_owned(), data: data.to_vec() }))
    }

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
    pub(super) fn decode(data: &[u8]) -> Option<Self> {
        let chain = || attribute(data, NFTA_VERDICT_CHAIN).map(name);
        match number(data, NFTA_VERDICT_CODE)? {
            NF_ACCEPT => Some(Self::Accept),
            NF_DROP => Some(Self::Drop),
            RETURN => Some(Self::Return),
            JUMP => chain().map(Self::Jump),
            GOTO => chain().map(Self::Goto),
            _ => None,
        }
    }

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

/// Reads an expression that loads into any register: the register's number, and the expression for the first register.
pub(super) fn load_elsewhere(name: &str, data: &[u8]) -> Option<(u32, Expression)> {
    let register = match name {
        "payload" => NFTA_PAYLOAD_DREG,
        "meta" => NFTA_META_DREG,
        "ct" => NFTA_CT_DREG,
        _ => return None,
    };
    Some((number(data, register)?, known(name, data, Some(register))?))
}

/// The expression that is written with these attributes, if there is one. The attribute `any` may have any value.
fn known(name: &str, data: &[u8], any: Option<u16>) -> Option<Expression> {
    let expression = likely(name, data)?;
    let any = match expression {
        Expression::Counter => return Some(expression),
        // The kernel marks a nest of its own in another way.
        Expression::Verdict(_) => Some(NFTA_IMMEDIATE_DATA),
        _ => any,
    };
    let written = Messages::alone(|message| expression.data(message));
    // The kernel writes many a zero that we leave out, and in another order.
    let has = |bytes: &[u8], (kind, payload): (u16, &[u8])| {
        Some(kind) == any
            || payload.iter().all(|&byte| byte == 0)
            || attribute(bytes, kind).is_some_and(|other| other == payload)
    };
    let is_same =
        attributes(&written).all(|one| has(data, one)) && attributes(data).all(|one| has(&written, one));
    is_same.then_some(expression)
}

/// The only expression that may be written with these attributes.
fn likely(name: &str, data: &[u8]) -> Option<Expression> {
    const KEYS: [Meta; 7] =
        [Meta::Mark, Meta::Iifname, Meta::Oifname, Meta::Skuid, Meta::Skgid, Meta::Nfproto, Meta::L4proto];
    const OPERATORS: [CmpOperator; 6] = {
        use CmpOperator::{Eq, Gt, Gte, Lt, Lte, Neq};
        [Eq, Neq, Lt, Gt, Lte, Gte]
    };
    let has = |kind| attribute(data, kind).is_some();
    let number = |kind| number(data, kind);
    let value = |kind| attribute(attribute(data, kind)?, NFTA_DATA_VALUE).map(<[u8]>::to_vec);
    let text = |kind| attribute(data, kind).map(|payload| text(payload).to_owned());
    Some(match name {
        "meta" => {
            let key = number(NFTA_META_KEY)?;
            let key = KEYS.into_iter().find(|known| *known as u32 == key)?;
            if has(NFTA_META_DREG) { Expression::Meta(key) } else { Expression::SetMetaMark }
        }
        // Ours are of both directions, which the kernel says by leaving it out; the original one has the number 0.
        "ct" if has(NFTA_CT_DIRECTION) => return None,
        "ct" => match (number(NFTA_CT_KEY)?, has(NFTA_CT_DREG)) {
            (NFT_CT_STATE, true) => Expression::Ct(Ct::State),
            (NFT_CT_MARK, true) => Expression::Ct(Ct::Mark),
            (NFT_CT_MARK, false) => Expression::SetCtMark,
            (NFT_CT_ZONE, false) => Expression::SetCtZone,
            _ => return None,
        },
        "payload" => {
            let base = number(NFTA_PAYLOAD_BASE)?;
            let header =
                [Header::Network, Header::Transport].into_iter().find(|known| *known as u32 == base)?;
            let (offset, length) = (number(NFTA_PAYLOAD_OFFSET)?, number(NFTA_PAYLOAD_LEN)?);
            Expression::Payload { header, offset, length }
        }
        "cmp" => {
            let operator = number(NFTA_CMP_OP)?;
            let operator = OPERATORS.into_iter().find(|known| *known as u32 == operator)?;
            Expression::Cmp(operator, value(NFTA_CMP_DATA)?)
        }
        "range" => {
            let negated = number(NFTA_RANGE_OP)? == NFT_RANGE_NEQ;
            let (first, last) = (value(NFTA_RANGE_FROM_DATA)?, value(NFTA_RANGE_TO_DATA)?);
            Expression::Range { negated, first, last }
        }
        "bitwise" => Expression::Bitwise { mask: value(NFTA_BITWISE_MASK)?, xor: value(NFTA_BITWISE_XOR)? },
        "byteorder" => Expression::ToPacketOrder,
        // A map answers; the register of verdicts has the number 0.
        "lookup" if has(NFTA_LOOKUP_DREG) => return None,
        "lookup" => {
            let negated = number(NFTA_LOOKUP_FLAGS) == Some(NFT_LOOKUP_F_INV);
            Expression::Lookup { set: text(NFTA_LOOKUP_SET)?, negated }
        }
        "immediate" => match number(NFTA_IMMEDIATE_DREG)? {
            NFT_REG_VERDICT => {
                let verdict = attribute(attribute(data, NFTA_IMMEDIATE_DATA)?, NFTA_DATA_VERDICT)?;
                Expression::Verdict(EncodedVerdict::decode(verdict)?)
            }
            NFT_REG_1 => Expression::Immediate(Register::First, value(NFTA_IMMEDIATE_DATA)?),
            _ => Expression::Immediate(Register::Second, value(NFTA_IMMEDIATE_DATA)?),
        },
        "redir" => Expression::Redir { range: number(NFTA_REDIR_REG_PROTO_MAX)? == NFT_REG_2 },
        "tproxy" => {
            let family = number(NFTA_TPROXY_FAMILY).map_or(Ok(NFPROTO_UNSPEC), u8::try_from).ok()?;
            Expression::Tproxy { family }
        }
        "counter" => Expression::Counter,
        "log" => {
            let prefix = text(NFTA_LOG_PREFIX)?;
            match attribute(data, NFTA_LOG_GROUP) {
                Some(group) => Expression::Log { group: u16::from_be_bytes(group.try_into().ok()?), prefix },
                None => Expression::KernelLog { level: LogLevel::new(number(NFTA_LOG_LEVEL)?)?, prefix },
            }
        }
        _ => return None,
    })
}
