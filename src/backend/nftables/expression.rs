//! Rule expressions. Each is declared once, as the attributes by which it is written and read back. Our expressions load into the
//! first register; a port range also uses the second. An expression is recognized only in the form in which we write it: any
//! other form becomes [`Expression::Other`], never one of ours.

use crate::sys::header::*;
use crate::sys::message::{self, Messages, attribute, attributes, name, text};
use rules::LogLevel;

trait AttributeValue: Sized {
    fn write(&self, data: &mut Messages, kind: u16);
    fn read(data: &[u8], kind: u16) -> Option<Self>;
}

/// Declares names for kernel constants; other numbers are not decoded.
macro_rules! numbers {
    ($($name:ident { $($variant:ident = $number:ident),* })*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum $name {
            $($variant = $number),*
        }

        impl AttributeValue for $name {
            fn write(&self, data: &mut Messages, kind: u16) {
                data.number(kind, (*self as i32).cast_unsigned());
            }

            fn read(data: &[u8], kind: u16) -> Option<Self> {
                match message::number(data, kind)?.cast_signed() {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    )*};
}

numbers! {
    Meta {
        Mark = NFT_META_MARK,
        Iifname = NFT_META_IIFNAME,
        Oifname = NFT_META_OIFNAME,
        Skuid = NFT_META_SKUID,
        Skgid = NFT_META_SKGID,
        Nfproto = NFT_META_NFPROTO,
        L4proto = NFT_META_L4PROTO,
        Iif = NFT_META_IIF,
        Oif = NFT_META_OIF,
        Protocol = NFT_META_PROTOCOL,
        Priority = NFT_META_PRIORITY,
        Nftrace = NFT_META_NFTRACE
    }
    Ct { State = NFT_CT_STATE, Mark = NFT_CT_MARK, Zone = NFT_CT_ZONE }
    Header { Network = NFT_PAYLOAD_NETWORK_HEADER, Transport = NFT_PAYLOAD_TRANSPORT_HEADER }
    CmpOperator {
        Eq = NFT_CMP_EQ, Neq = NFT_CMP_NEQ, Lt = NFT_CMP_LT, Gt = NFT_CMP_GT, Lte = NFT_CMP_LTE, Gte = NFT_CMP_GTE
    }
    Register { First = NFT_REG_1, Second = NFT_REG_2 }
}

/// Declares each expression with its name and its attributes in order: a fixed number, or the value of a field.
macro_rules! expressions {
    ($(
        $(#[$doc:meta])*
        $variant:ident $name:literal {
            $($kind:ident $(($field:ident: $type:ty))? $(= $fixed:expr)?),*
        }
    )*) => {
        /// One step of a rule. The default register is the first.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Expression {
            $($(#[$doc])* $variant($($($type,)?)*),)*
            Counter,
            Other {
                name: String,
                data: Vec<u8>,
            },
        }

        impl Expression {
            pub(super) fn name(&self) -> &str {
                match self {
                    $(Self::$variant(..) => $name,)*
                    Self::Counter => "counter",
                    Self::Other { name, .. } => name,
                }
            }

            fn write(&self, data: &mut Messages) {
                match self {
                    $(Self::$variant($($($field,)?)*) => {
                        $($(AttributeValue::write($field, data, $kind);)? $(data.number($kind, $fixed as u32);)?)*
                    })*
                    Self::Counter => {}
                    Self::Other { data: attributes, .. } => data.raw(attributes),
                }
            }

            /// Finds the expression written with these attributes, if there is one. The attribute `any` may have any value.
            fn known(name: &str, data: &[u8], any: Option<u16>) -> Option<Self> {
                $(
                    let read = || Some(Self::$variant($($(<$type as AttributeValue>::read(data, $kind)?,)?)*));
                    if name == $name && let Some(found) = read().filter(|found| found.is_written_as(data, any)) {
                        return Some(found);
                    }
                )*
                (name == "counter").then_some(Self::Counter)
            }
        }
    };
}

expressions! {
    Meta "meta" { NFTA_META_DREG = NFT_REG_1, NFTA_META_KEY(key: Meta) }
    SetMeta "meta" { NFTA_META_KEY(key: Meta), NFTA_META_SREG = NFT_REG_1 }
    Ct "ct" { NFTA_CT_DREG = NFT_REG_1, NFTA_CT_KEY(key: Ct) }
    SetCt "ct" { NFTA_CT_KEY(key: Ct), NFTA_CT_SREG = NFT_REG_1 }
    Payload "payload" {
        NFTA_PAYLOAD_DREG = NFT_REG_1,
        NFTA_PAYLOAD_BASE(header: Header),
        NFTA_PAYLOAD_OFFSET(offset: u32),
        NFTA_PAYLOAD_LEN(length: u32)
    }
    /// Continues if the register's comparison with the value holds.
    Cmp "cmp" { NFTA_CMP_SREG = NFT_REG_1, NFTA_CMP_OP(operator: CmpOperator), NFTA_CMP_DATA(value: Vec<u8>) }
    /// Continues if the register is within the inclusive range or, negated as in our rules, outside it.
    Range "range" {
        NFTA_RANGE_SREG = NFT_REG_1,
        NFTA_RANGE_OP(negated: bool),
        NFTA_RANGE_FROM_DATA(first: Vec<u8>),
        NFTA_RANGE_TO_DATA(last: Vec<u8>)
    }
    /// Changes the register: keeps the mask's bits, then flips the second value's bits.
    Bitwise "bitwise" {
        NFTA_BITWISE_SREG = NFT_REG_1,
        NFTA_BITWISE_DREG = NFT_REG_1,
        NFTA_BITWISE_LEN = u32::try_from(mask.len()).unwrap_or(u32::MAX),
        NFTA_BITWISE_MASK(mask: Vec<u8>),
        NFTA_BITWISE_XOR(xor: Vec<u8>)
    }
    /// Converts a number of `length` bytes from host to network order, in which ranges are compared.
    ToPacketOrder "byteorder" {
        NFTA_BYTEORDER_SREG = NFT_REG_1,
        NFTA_BYTEORDER_DREG = NFT_REG_1,
        NFTA_BYTEORDER_OP = NFT_BYTEORDER_HTON,
        NFTA_BYTEORDER_LEN(length: u32),
        NFTA_BYTEORDER_SIZE = WORD
    }
    /// Continues if the set contains the register's value, or, negated, if it does not.
    Lookup "lookup" {
        NFTA_LOOKUP_SET(set: String),
        NFTA_LOOKUP_SREG = NFT_REG_1,
        NFTA_LOOKUP_FLAGS(negated: bool)
    }
    Immediate "immediate" { NFTA_IMMEDIATE_DREG(register: Register), NFTA_IMMEDIATE_DATA(value: Vec<u8>) }
    /// Gives the packet's verdict, or continues in another chain: an immediate value for the verdict register.
    Verdict "immediate" { NFTA_IMMEDIATE_DREG = NFT_REG_VERDICT, NFTA_IMMEDIATE_DATA(verdict: EncodedVerdict) }
    /// NAT to this machine; the registers hold the first and last port.
    Redir "redir" {
        NFTA_REDIR_REG_PROTO_MIN = NFT_REG_1,
        NFTA_REDIR_REG_PROTO_MAX(last: Register),
        NFTA_REDIR_FLAGS = NF_NAT_RANGE_PROTO_SPECIFIED
    }
    /// Changes the source of this family's packets to the address in the register.
    Snat "nat" {
        NFTA_NAT_TYPE = NFT_NAT_SNAT,
        NFTA_NAT_FAMILY(family: u32),
        NFTA_NAT_REG_ADDR_MIN = NFT_REG_1,
        NFTA_NAT_REG_ADDR_MAX = NFT_REG_1,
        NFTA_NAT_FLAGS = NF_NAT_RANGE_MAP_IPS
    }
    /// Passes the packet to a transparent socket on the port in the register; the family is optional.
    Tproxy "tproxy" { NFTA_TPROXY_FAMILY(family: u32), NFTA_TPROXY_REG_PORT = NFT_REG_1 }
    Log "log" { NFTA_LOG_GROUP(group: u16), NFTA_LOG_PREFIX(prefix: String) }
    KernelLog "log" { NFTA_LOG_LEVEL(level: LogLevel), NFTA_LOG_PREFIX(prefix: String) }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodedVerdict {
    Accept,
    Drop,
    Return,
    Jump(String),
    /// A jump that never returns to the calling chain.
    Goto(String),
}

const RETURN: u32 = NFT_RETURN.cast_unsigned();
const JUMP: u32 = NFT_JUMP.cast_unsigned();
const GOTO: u32 = NFT_GOTO.cast_unsigned();

/// Size in bytes of numbers in host order.
pub(super) const WORD: u32 = 4;

impl Expression {
    pub(super) fn decode(item: &[u8]) -> Option<Self> {
        let name = text(attribute(item, NFTA_EXPR_NAME)?);
        let data = attribute(item, NFTA_EXPR_DATA).unwrap_or_default();
        let known = Self::known(name, data, None);
        Some(known.unwrap_or_else(|| Self::Other { name: name.to_owned(), data: data.to_vec() }))
    }

    /// Decodes a load into any register: returns the register's number, and the expression for the first register.
    pub(super) fn load_elsewhere(name: &str, data: &[u8]) -> Option<(i32, Self)> {
        let register = match name {
            "payload" => NFTA_PAYLOAD_DREG,
            "meta" => NFTA_META_DREG,
            "ct" => NFTA_CT_DREG,
            _ => return None,
        };
        Some((message::number(data, register)?.cast_signed(), Self::known(name, data, Some(register))?))
    }

    pub(super) fn encode(&self, messages: &mut Messages) {
        messages.nest(NFTA_LIST_ELEM, |item| {
            item.text(NFTA_EXPR_NAME, self.name());
            item.nest(NFTA_EXPR_DATA, |data| self.write(data));
        });
    }

    /// True if the expression is written with these attributes, of which `any` may have any value.
    fn is_written_as(&self, data: &[u8], any: Option<u16>) -> bool {
        // Our `ct` expressions match both directions, for which the kernel omits the attribute; the original direction is 0. A
        // map loads into a register; number 0 is the verdict register.
        let is_other = match self {
            Self::Ct(_) | Self::SetCt(_) => attribute(data, NFTA_CT_DIRECTION).is_some(),
            Self::Lookup(..) => attribute(data, NFTA_LOOKUP_DREG).is_some(),
            _ => false,
        };
        // The kernel flags nested attributes differently.
        let any = if matches!(self, Self::Verdict(_)) { Some(NFTA_IMMEDIATE_DATA) } else { any };
        let written = Messages::alone(|message| self.write(message));
        // The kernel writes zeros that we omit, and orders attributes differently.
        let has = |bytes: &[u8], (kind, payload): (u16, &[u8])| {
            Some(kind) == any
                || payload.iter().all(|&byte| byte == 0)
                || attribute(bytes, kind).is_some_and(|other| other == payload)
        };
        !is_other
            && attributes(&written).all(|one| has(data, one))
            && attributes(data).all(|one| has(&written, one))
    }
}

impl AttributeValue for u32 {
    fn write(&self, data: &mut Messages, kind: u16) {
        data.number(kind, *self);
    }

    fn read(data: &[u8], kind: u16) -> Option<Self> {
        Some(message::number(data, kind).unwrap_or(0))
    }
}

impl AttributeValue for bool {
    fn write(&self, data: &mut Messages, kind: u16) {
        data.number(kind, (*self).into());
    }

    fn read(data: &[u8], kind: u16) -> Option<Self> {
        u32::read(data, kind).map(|number| number == 1)
    }
}

impl AttributeValue for u16 {
    fn write(&self, data: &mut Messages, kind: u16) {
        data.attribute(kind, &self.to_be_bytes());
    }

    fn read(data: &[u8], kind: u16) -> Option<Self> {
        attribute(data, kind)?.try_into().ok().map(Self::from_be_bytes)
    }
}

impl AttributeValue for LogLevel {
    fn write(&self, data: &mut Messages, kind: u16) {
        data.number(kind, self.number());
    }

    fn read(data: &[u8], kind: u16) -> Option<Self> {
        Self::new(message::number(data, kind)?)
    }
}

impl AttributeValue for String {
    fn write(&self, data: &mut Messages, kind: u16) {
        data.text(kind, self);
    }

    fn read(data: &[u8], kind: u16) -> Option<Self> {
        attribute(data, kind).map(|payload| text(payload).to_owned())
    }
}

impl AttributeValue for Vec<u8> {
    fn write(&self, data: &mut Messages, kind: u16) {
        data.nest(kind, |nest| {
            nest.attribute(NFTA_DATA_VALUE, self);
        });
    }

    fn read(data: &[u8], kind: u16) -> Option<Self> {
        attribute(attribute(data, kind)?, NFTA_DATA_VALUE).map(<[u8]>::to_vec)
    }
}

impl AttributeValue for EncodedVerdict {
    fn write(&self, data: &mut Messages, kind: u16) {
        let (code, chain) = match self {
            Self::Accept => (NF_ACCEPT, None),
            Self::Drop => (NF_DROP, None),
            Self::Return => (RETURN, None),
            Self::Jump(chain) => (JUMP, Some(chain)),
            Self::Goto(chain) => (GOTO, Some(chain)),
        };
        data.nest(kind, |data| {
            data.nest(NFTA_DATA_VERDICT, |data| {
                data.number(NFTA_VERDICT_CODE, code);
                chain.map(|chain| data.text(NFTA_VERDICT_CHAIN, chain));
            });
        });
    }

    fn read(data: &[u8], kind: u16) -> Option<Self> {
        Self::decode(attribute(attribute(data, kind)?, NFTA_DATA_VERDICT)?)
    }
}

impl EncodedVerdict {
    pub(super) fn decode(data: &[u8]) -> Option<Self> {
        let chain = || attribute(data, NFTA_VERDICT_CHAIN).map(name);
        match message::number(data, NFTA_VERDICT_CODE)? {
            NF_ACCEPT => Some(Self::Accept),
            NF_DROP => Some(Self::Drop),
            RETURN => Some(Self::Return),
            JUMP => chain().map(Self::Jump),
            GOTO => chain().map(Self::Goto),
            _ => None,
        }
    }
}
