//! The expressions that rules are made of, as bytes and back.
//!
//! A rule is a list of small steps: load a field into a register, compare the register, act. All ours load into
//! the first register; a range of ports takes the second as well. What an expression can't say as we would have
//! said it is read as [`Expression::Other`], so that it never passes for one of ours. Attribute numbers are those
//! of `linux/netfilter/nf_tables.h`.

use super::header::{DATA_VALUE, DATA_VERDICT, ITEM, NF_ACCEPT, NF_DROP};
use crate::sys::message::{self, Messages};

/// `NFT_REG_1` and `NFT_REG_2`, 16 bytes each.
const FIRST: u32 = 1;
const SECOND: u32 = 2;

/// `NF_NAT_RANGE_PROTO_SPECIFIED` (`linux/netfilter/nf_nat.h`).
const NAT_TO_PORTS: u32 = 2;

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

/// What the kernel knows of a packet (`NFT_META_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the header has no more to say")]
pub enum Meta {
    Mark = 3,
    InInterfaceName = 6,
    OutInterfaceName = 7,
    SocketUid = 10,
    SocketGid = 11,
    Family = 15,
    Protocol = 16,
}

/// What the kernel knows of a connection (`NFT_CT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the header has no more to say")]
pub enum Connection {
    State = 0,
    Mark = 3,
}

/// `NFT_CT_ZONE`.
const CT_ZONE: u32 = 17;

/// Part of a packet (`NFT_PAYLOAD_*_HEADER`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the header has no more to say")]
pub enum Header {
    Network = 1,
    Transport = 2,
}

/// How to compare (`NFT_CMP_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the header has no more to say")]
pub enum Operator {
    Equal = 0,
    Different = 1,
    AtMost = 3,
    AtLeast = 5,
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in the rules crate")]
pub enum Verdict {
    Accept,
    Drop,
    Return,
    Jump(String),
}

/// `NFT_JUMP` and `NFT_RETURN`.
const JUMP: u32 = (-3_i32).cast_unsigned();
const RETURN: u32 = (-5_i32).cast_unsigned();

impl Expression {
    /// Adds the expression to the list that `messages` is at.
    pub(super) fn encode(&self, messages: &mut Messages) {
        messages.nest(ITEM, |item| {
            item.text(1, self.name());
            match self {
                Self::Other { data, .. } => drop(item.attribute(2, data)),
                _ => drop(item.nest(2, |data| self.data(data))),
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
            Self::Meta(key) => data.number(1, FIRST).number(2, *key as u32),
            Self::SetMark => data.number(2, Meta::Mark as u32).number(3, FIRST),
            Self::Connection(key) => data.number(1, FIRST).number(2, *key as u32),
            Self::SetConnmark => data.number(2, Connection::Mark as u32).number(4, FIRST),
            Self::SetZone => data.number(2, CT_ZONE).number(4, FIRST),
            Self::Payload { header, offset, length } => {
                data.number(1, FIRST).number(2, *header as u32).number(3, *offset).number(4, *length)
            }
            Self::Compare(operator, bytes) => {
                value(data.number(1, FIRST).number(2, *operator as u32), 3, bytes)
            }
            Self::Outside(first, last) => {
                const DIFFERENT: u32 = 1; // NFT_RANGE_NEQ
                value(value(data.number(1, FIRST).number(2, DIFFERENT), 3, first), 4, last)
            }
            Self::Bits { mask, flip } => {
                let length = u32::try_from(mask.len()).expect("a register has 16 bytes");
                value(value(data.number(1, FIRST).number(2, FIRST).number(3, length), 4, mask), 5, flip)
            }
            Self::Lookup { set, negated } => {
                data.text(1, set).number(2, FIRST).number(5, u32::from(*negated)) // NFT_LOOKUP_F_INV
            }
            Self::Load(bytes) => value(data.number(1, FIRST), 2, bytes),
            Self::LoadSecond(bytes) => value(data.number(1, SECOND), 2, bytes),
            Self::Redirect { range } => {
                let last = if *range { SECOND } else { FIRST };
                data.number(1, FIRST).number(2, last).number(3, NAT_TO_PORTS)
            }
            Self::Tproxy { family } => data.number(1, *family).number(3, FIRST),
            Self::Counter => data,
            Self::Log { group, prefix } => data.attribute(1, &group.to_be_bytes()).text(2, prefix),
            Self::Verdict(verdict) => data.number(1, 0).nest(2, |data| {
                data.nest(DATA_VERDICT, |data| verdict.encode(data));
            }),
            Self::Other { .. } => data,
        };
    }

    /// Reads one item of a list of expressions.
    pub(super) fn decode(item: &[u8]) -> Option<Self> {
        let name = message::text(message::attribute(item, 1)?);
        let data = message::attribute(item, 2).unwrap_or_default();
        let known = decode(name, &mut Fields(message::attributes(data).collect()));
        Some(known.unwrap_or_else(|| Self::Other { name: name.to_owned(), data: data.to_vec() }))
    }
}

fn value<'a>(data: &'a mut Messages, kind: u16, bytes: &[u8]) -> &'a mut Messages {
    data.nest(kind, |nest| {
        nest.attribute(DATA_VALUE, bytes);
    })
}

impl Verdict {
    fn encode(&self, data: &mut Messages) {
        match self {
            Self::Accept => data.number(1, NF_ACCEPT),
            Self::Drop => data.number(1, NF_DROP),
            Self::Return => data.number(1, RETURN),
            Self::Jump(chain) => data.number(1, JUMP).text(2, chain),
        };
    }

    fn decode(data: &[u8]) -> Option<Self> {
        let code = message::attribute(data, 1)?.try_into().ok().map(u32::from_be_bytes)?;
        match code {
            NF_ACCEPT => Some(Self::Accept),
            NF_DROP => Some(Self::Drop),
            RETURN => Some(Self::Return),
            JUMP => Some(Self::Jump(message::text(message::attribute(data, 2)?).to_owned())),
            _ => None,
        }
    }
}

/// Attributes that nobody has looked at yet.
struct Fields<'a>(Vec<(u16, &'a [u8])>);

impl<'a> Fields<'a> {
    fn take(&mut self, kind: u16) -> Option<&'a [u8]> {
        let at = self.0.iter().position(|(number, _)| *number == kind)?;
        Some(self.0.swap_remove(at).1)
    }

    fn number(&mut self, kind: u16) -> Option<u32> {
        self.take(kind)?.try_into().ok().map(u32::from_be_bytes)
    }

    fn value(&mut self, kind: u16) -> Option<Vec<u8>> {
        message::attribute(self.take(kind)?, DATA_VALUE).map(<[u8]>::to_vec)
    }

    fn text(&mut self, kind: u16) -> Option<String> {
        self.take(kind).map(|payload| message::text(payload).to_owned())
    }

    /// Whether the first register is named there.
    fn first(&mut self, kind: u16) -> Option<()> {
        self.number(kind).filter(|register| *register == FIRST).map(drop)
    }

    /// Whether nothing is left that says something: the kernel writes many a zero that we leave out.
    fn end(&self) -> Option<()> {
        self.0.iter().all(|(_, payload)| payload.iter().all(|&byte| byte == 0)).then_some(())
    }
}

fn decode(name: &str, data: &mut Fields<'_>) -> Option<Expression> {
    let expression = match name {
        "meta" => meta(data)?,
        "ct" => connection(data)?,
        "payload" => {
            data.first(1)?;
            let header = match data.number(2)? {
                1 => Header::Network,
                2 => Header::Transport,
                _ => return None,
            };
            Expression::Payload { header, offset: data.number(3)?, length: data.number(4)? }
        }
        "cmp" => {
            data.first(1)?;
            let operator = match data.number(2)? {
                0 => Operator::Equal,
                1 => Operator::Different,
                3 => Operator::AtMost,
                5 => Operator::AtLeast,
                _ => return None,
            };
            Expression::Compare(operator, data.value(3)?)
        }
        "range" => {
            data.first(1)?;
            data.number(2).filter(|operator| *operator == 1)?;
            Expression::Outside(data.value(3)?, data.value(4)?)
        }
        "bitwise" => {
            data.first(1)?;
            data.first(2)?;
            data.number(3)?;
            Expression::Bits { mask: data.value(4)?, flip: data.value(5)? }
        }
        "lookup" => {
            let set = data.text(1)?;
            data.first(2)?;
            let negated = match data.number(5).unwrap_or(0) {
                0 => false,
                1 => true,
                _ => return None,
            };
            Expression::Lookup { set, negated }
        }
        "immediate" => match data.number(1)? {
            0 => Expression::Verdict(Verdict::decode(message::attribute(data.take(2)?, DATA_VERDICT)?)?),
            FIRST => Expression::Load(data.value(2)?),
            SECOND => Expression::LoadSecond(data.value(2)?),
            _ => return None,
        },
        "redir" => {
            data.first(1)?;
            data.number(3).filter(|flags| *flags == NAT_TO_PORTS)?;
            match data.number(2)? {
                FIRST => Expression::Redirect { range: false },
                SECOND => Expression::Redirect { range: true },
                _ => return None,
            }
        }
        "tproxy" => {
            data.first(3)?;
            Expression::Tproxy { family: data.number(1).unwrap_or(0) }
        }
        "counter" => return Some(Expression::Counter),
        "log" => {
            let group = data.take(1)?.try_into().ok().map(u16::from_be_bytes)?;
            Expression::Log { group, prefix: data.text(2)? }
        }
        _ => return None,
    };
    data.end()?;
    Some(expression)
}

fn meta(data: &mut Fields<'_>) -> Option<Expression> {
    const KEYS: [Meta; 7] = [
        Meta::Mark,
        Meta::InInterfaceName,
        Meta::OutInterfaceName,
        Meta::SocketUid,
        Meta::SocketGid,
        Meta::Family,
        Meta::Protocol,
    ];
    let number = data.number(2)?;
    let key = KEYS.into_iter().find(|key| *key as u32 == number)?;
    if data.first(1).is_some() {
        return Some(Expression::Meta(key));
    }
    data.first(3)?;
    (key == Meta::Mark).then_some(Expression::SetMark)
}

fn connection(data: &mut Fields<'_>) -> Option<Expression> {
    let key = data.number(2)?;
    if data.first(1).is_some() {
        let keys = [Connection::State, Connection::Mark];
        return keys.into_iter().find(|known| *known as u32 == key).map(Expression::Connection);
    }
    data.first(4)?;
    match key {
        CT_ZONE => Some(Expression::SetZone),
        _ if key == Connection::Mark as u32 => Some(Expression::SetConnmark),
        _ => None,
    }
}
