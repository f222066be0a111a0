//! Expressions as the kernel dumps them.
//!
//! It writes attributes that we leave out, in another order. Each attribute is taken once; whatever is left over
//! and says something makes the expression one of others.

use super::expression::{
    CmpOperator, Ct, EncodedVerdict, Expression, GOTO, Header, JUMP, Meta, RETURN, Register, WORD,
};
use crate::sys::header::*;
use crate::sys::message;
use rules::LogLevel;

impl Expression {
    /// Reads one item of a list of expressions.
    pub(super) fn decode(item: &[u8]) -> Option<Self> {
        let name = message::text(message::attribute(item, NFTA_EXPR_NAME)?);
        let data = message::attribute(item, NFTA_EXPR_DATA).unwrap_or_default();
        let known = decode(name, &mut RemainingAttributes(message::attributes(data).collect()));
        Some(known.unwrap_or_else(|| Self::Other { name: name.to_owned(), data: data.to_vec() }))
    }
}

impl EncodedVerdict {
    pub(super) fn decode(data: &[u8]) -> Option<Self> {
        let code = message::attribute(data, NFTA_VERDICT_CODE)?.try_into().ok().map(u32::from_be_bytes)?;
        let chain = || message::attribute(data, NFTA_VERDICT_CHAIN).map(message::name);
        match code {
            NF_ACCEPT => Some(Self::Accept),
            NF_DROP => Some(Self::Drop),
            RETURN => Some(Self::Return),
            JUMP => chain().map(Self::Jump),
            GOTO => chain().map(Self::Goto),
            _ => None,
        }
    }
}

/// Reads an expression that loads into any register: the register's number, and what it would be for the first register.
pub(super) fn load_elsewhere(name: &str, data: &[u8]) -> Option<(u32, Expression)> {
    const FIRST: [u8; 4] = NFT_REG_1.to_be_bytes();
    let register = match name {
        "payload" => NFTA_PAYLOAD_DREG,
        "meta" => NFTA_META_DREG,
        "ct" => NFTA_CT_DREG,
        _ => return None,
    };
    let mut fields = RemainingAttributes(message::attributes(data).collect());
    let number = fields.number(register)?;
    fields.0.push((register, &FIRST));
    Some((number, decode(name, &mut fields)?))
}

/// Attributes that have not been taken yet.
struct RemainingAttributes<'a>(Vec<(u16, &'a [u8])>);

impl<'a> RemainingAttributes<'a> {
    fn take(&mut self, kind: u16) -> Option<&'a [u8]> {
        let at = self.0.iter().position(|(number, _)| *number == kind)?;
        Some(self.0.swap_remove(at).1)
    }

    fn number(&mut self, kind: u16) -> Option<u32> {
        self.take(kind)?.try_into().ok().map(u32::from_be_bytes)
    }

    fn value(&mut self, kind: u16) -> Option<Vec<u8>> {
        message::attribute(self.take(kind)?, NFTA_DATA_VALUE).map(<[u8]>::to_vec)
    }

    fn text(&mut self, kind: u16) -> Option<String> {
        self.take(kind).map(|payload| message::text(payload).to_owned())
    }

    /// Whether the first register is named there.
    fn first(&mut self, kind: u16) -> Option<()> {
        self.number(kind).filter(|register| *register == NFT_REG_1).map(drop)
    }

    /// Whether nothing is left that says something: the kernel writes many a zero that we leave out.
    fn end(&self) -> Option<()> {
        self.0.iter().all(|(_, payload)| payload.iter().all(|&byte| byte == 0)).then_some(())
    }
}

fn decode(name: &str, data: &mut RemainingAttributes<'_>) -> Option<Expression> {
    let expression = match name {
        "meta" => meta(data)?,
        "ct" => ct(data)?,
        "payload" => {
            data.first(NFTA_PAYLOAD_DREG)?;
            let header = match data.number(NFTA_PAYLOAD_BASE)? {
                NFT_PAYLOAD_NETWORK_HEADER => Header::Network,
                NFT_PAYLOAD_TRANSPORT_HEADER => Header::Transport,
                _ => return None,
            };
            let (offset, length) = (data.number(NFTA_PAYLOAD_OFFSET)?, data.number(NFTA_PAYLOAD_LEN)?);
            Expression::Payload { header, offset, length }
        }
        "cmp" => {
            data.first(NFTA_CMP_SREG)?;
            let operator = match data.number(NFTA_CMP_OP)? {
                NFT_CMP_EQ => CmpOperator::Eq,
                NFT_CMP_NEQ => CmpOperator::Neq,
                NFT_CMP_LT => CmpOperator::Lt,
                NFT_CMP_GT => CmpOperator::Gt,
                NFT_CMP_LTE => CmpOperator::Lte,
                NFT_CMP_GTE => CmpOperator::Gte,
                _ => return None,
            };
            Expression::Cmp(operator, data.value(NFTA_CMP_DATA)?)
        }
        "range" => {
            data.first(NFTA_RANGE_SREG)?;
            let negated = match data.number(NFTA_RANGE_OP)? {
                NFT_RANGE_EQ => false,
                NFT_RANGE_NEQ => true,
                _ => return None,
            };
            let (first, last) = (data.value(NFTA_RANGE_FROM_DATA)?, data.value(NFTA_RANGE_TO_DATA)?);
            Expression::Range { negated, first, last }
        }
        "bitwise" => {
            data.first(NFTA_BITWISE_SREG)?;
            data.first(NFTA_BITWISE_DREG)?;
            data.number(NFTA_BITWISE_LEN)?;
            Expression::Bitwise { mask: data.value(NFTA_BITWISE_MASK)?, xor: data.value(NFTA_BITWISE_XOR)? }
        }
        "byteorder" => {
            data.first(NFTA_BYTEORDER_SREG)?;
            data.first(NFTA_BYTEORDER_DREG)?;
            data.number(NFTA_BYTEORDER_OP).filter(|operation| *operation == NFT_BYTEORDER_HTON)?;
            data.number(NFTA_BYTEORDER_LEN).filter(|length| *length == WORD)?;
            data.number(NFTA_BYTEORDER_SIZE).filter(|size| *size == WORD)?;
            Expression::ToPacketOrder
        }
        "lookup" => {
            let set = data.text(NFTA_LOOKUP_SET)?;
            // A map answers; the register of verdicts has the number 0.
            if data.take(NFTA_LOOKUP_DREG).is_some() {
                return None;
            }
            data.first(NFTA_LOOKUP_SREG)?;
            let negated = match data.number(NFTA_LOOKUP_FLAGS).unwrap_or(0) {
                0 => false,
                NFT_LOOKUP_F_INV => true,
                _ => return None,
            };
            Expression::Lookup { set, negated }
        }
        "immediate" => match data.number(NFTA_IMMEDIATE_DREG)? {
            NFT_REG_VERDICT => {
                let verdict = message::attribute(data.take(NFTA_IMMEDIATE_DATA)?, NFTA_DATA_VERDICT)?;
                Expression::Verdict(EncodedVerdict::decode(verdict)?)
            }
            NFT_REG_1 => Expression::Immediate(Register::First, data.value(NFTA_IMMEDIATE_DATA)?),
            NFT_REG_2 => Expression::Immediate(Register::Second, data.value(NFTA_IMMEDIATE_DATA)?),
            _ => return None,
        },
        "redir" => {
            data.first(NFTA_REDIR_REG_PROTO_MIN)?;
            data.number(NFTA_REDIR_FLAGS).filter(|flags| *flags == NF_NAT_RANGE_PROTO_SPECIFIED)?;
            match data.number(NFTA_REDIR_REG_PROTO_MAX)? {
                NFT_REG_1 => Expression::Redir { range: false },
                NFT_REG_2 => Expression::Redir { range: true },
                _ => return None,
            }
        }
        "tproxy" => {
            data.first(NFTA_TPROXY_REG_PORT)?;
            let family = data.number(NFTA_TPROXY_FAMILY).map_or(Ok(NFPROTO_UNSPEC), u8::try_from).ok()?;
            Expression::Tproxy { family }
        }
        "counter" => return Some(Expression::Counter),
        "log" => {
            let prefix = data.text(NFTA_LOG_PREFIX)?;
            match data.take(NFTA_LOG_GROUP) {
                Some(group) => Expression::Log { group: u16::from_be_bytes(group.try_into().ok()?), prefix },
                None => Expression::KernelLog { level: LogLevel::new(data.number(NFTA_LOG_LEVEL)?)?, prefix },
            }
        }
        _ => return None,
    };
    data.end()?;
    Some(expression)
}

fn meta(data: &mut RemainingAttributes<'_>) -> Option<Expression> {
    const KEYS: [Meta; 7] =
        [Meta::Mark, Meta::Iifname, Meta::Oifname, Meta::Skuid, Meta::Skgid, Meta::Nfproto, Meta::L4proto];
    let number = data.number(NFTA_META_KEY)?;
    let key = KEYS.into_iter().find(|key| *key as u32 == number)?;
    if data.first(NFTA_META_DREG).is_some() {
        return Some(Expression::Meta(key));
    }
    data.first(NFTA_META_SREG)?;
    (key == Meta::Mark).then_some(Expression::SetMetaMark)
}

fn ct(data: &mut RemainingAttributes<'_>) -> Option<Expression> {
    let key = data.number(NFTA_CT_KEY)?;
    // Ours are of both directions, which the kernel says by leaving it out; the original one has the number 0.
    if data.take(NFTA_CT_DIRECTION).is_some() {
        return None;
    }
    if data.first(NFTA_CT_DREG).is_some() {
        return match key {
            NFT_CT_STATE => Some(Expression::Ct(Ct::State)),
            NFT_CT_MARK => Some(Expression::Ct(Ct::Mark)),
            _ => None,
        };
    }
    data.first(NFTA_CT_SREG)?;
    match key {
        NFT_CT_ZONE => Some(Expression::SetCtZone),
        NFT_CT_MARK => Some(Expression::SetCtMark),
        _ => None,
    }
}
