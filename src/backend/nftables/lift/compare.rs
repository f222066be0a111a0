//! Conditions: comparisons and look-ups of the register.

use super::{BitwiseOperands, Lifter, RegisterValue, SYN};
use crate::backend::nftables::bytecode::{Element, EncodedSet};
use crate::backend::nftables::expression::{CmpOperator, WORD};
use crate::{backend::nftables::listed::values, sys::header::*};
use rules::nft::{self, Field, Interval, Intervals, Test};
use rules::{Family, ListedCondition, Negatable, Protocol};

/// TCP flags that a first segment may have (RFC 9293).
const ECN: u8 = 0xc0;

impl Lifter<'_> {
    /// Field whose `length` bytes are all in the register, most significant first.
    pub(super) fn ordered(&self, length: usize) -> Option<Field> {
        let (field, content) = match &self.content {
            RegisterValue::Field { field, length: content, bitwise: None }
                if !field.data_type().is_reversed(false) =>
            {
                (*field, *content)
            }
            RegisterValue::NetworkOrder(field) => (*field, width(*field)),
            _ => return None,
        };
        (content == length && width(field) == length).then_some(field)
    }

    pub(super) fn compare(&mut self, operator: CmpOperator, bytes: &[u8]) {
        let negated = operator == CmpOperator::Neq;
        let is_equality = matches!(operator, CmpOperator::Eq | CmpOperator::Neq);
        match self.content.clone() {
            RegisterValue::Field { field: Field::ConnState, bitwise: None, .. } => {
                let bits = <[u8; 4]>::try_from(bytes).map_or(0, u32::from_ne_bytes);
                match bits.count_ones() {
                    1 if is_equality => {
                        let bit = bits.trailing_zeros().into();
                        self.require(Field::ConnState, negated, bit, bit);
                    }
                    _ => self.unknown_condition(),
                }
            }
            RegisterValue::Field { field, length, bitwise: None } if is_equality && bytes.len() <= length => {
                let is_name = matches!(field, Field::InInterface | Field::OutInterface);
                if bytes.len() < length && !is_name {
                    return self.unknown_condition();
                }
                // Fewer bytes are a name or address prefix.
                let free = u32::try_from(8 * (width(field) - bytes.len())).unwrap_or(u128::BITS);
                let first = field.data_type().decode(bytes, false).checked_shl(free).unwrap_or(0);
                let prefixed = first | u128::MAX.checked_shr(u128::BITS - free).unwrap_or(0);
                // A name is padded with zeros.
                let last = if is_name && bytes.contains(&0) { first } else { prefixed };
                self.require(field, negated, first, last);
            }
            RegisterValue::NetworkOrder(field) if is_equality && bytes.len() == width(field) => {
                let number = field.data_type().decode(bytes, true);
                self.require(field, negated, number, number);
            }
            RegisterValue::Field { field, bitwise: None, .. } | RegisterValue::NetworkOrder(field)
                if self.ordered(bytes.len()) == Some(field) =>
            {
                self.compare_order(field, operator, field.data_type().decode(bytes, true));
            }
            RegisterValue::Field { field, length, bitwise: Some(BitwiseOperands { mask, xor }) }
                if is_equality && bytes.len() == length && xor.iter().all(|byte| *byte == 0) =>
            {
                let number = |bytes: &[u8]| field.data_type().decode(bytes, false);
                self.compare_bits(field, negated, number(&mask), number(bytes));
            }
            RegisterValue::Index(field) if is_equality => {
                let index = <[u8; 4]>::try_from(bytes).ok().map(u32::from_ne_bytes);
                match index.and_then(|index| self.context.interfaces.get(&index)) {
                    Some(name) => {
                        let name = nft::interface_number(name);
                        self.require(field, negated, name, name);
                    }
                    None => self.unknown_condition(),
                }
            }
            RegisterValue::EtherType if is_equality => match bytes {
                // `ETH_P_IP` and `ETH_P_IPV6` of `linux/if_ether.h`.
                [0x08, 0x00] => self.ask_family(negated, Family::V4),
                [0x86, 0xdd] => self.ask_family(negated, Family::V6),
                _ => self.unknown_condition(),
            },
            // A first segment may or may not set congestion flags.
            RegisterValue::TcpFlags(Some(mask)) if is_equality && mask & ECN == 0 && self.asks_tcp() => {
                let &[value] = bytes else { return self.unknown_condition() };
                let matches_syn = (SYN & mask == value) != negated;
                let sign = if negated { "!=" } else { "==" };
                let text = format!("tcp flags & {mask:#04x} {sign} {value:#04x}");
                self.words.push(text.clone());
                self.put(ListedCondition::TcpFlags { matches_syn, text });
            }
            RegisterValue::DestinationType if is_equality && *bytes == u32::from(RTN_LOCAL).to_ne_bytes() => {
                let operand = if negated { Negatable::Not(()) } else { Negatable::Is(()) };
                let not = if negated { "!= " } else { "" };
                self.words.push(format!("fib daddr type {not}local"));
                self.put(ListedCondition::DestinationLocal(operand));
            }
            _ => self.unknown_condition(),
        }
    }

    pub(super) fn asks_tcp(&self) -> bool {
        let tcp = nft::protocol_number(Protocol::Tcp).into();
        self.tests.iter().any(|Test { condition, .. }| {
            condition.field == Field::Protocol
                && !condition.negated
                && condition.values.single() == Some(Interval::one(tcp))
        })
    }

    pub(super) fn ask_family(&mut self, negated: bool, family: Family) {
        let number = nft::family_number(family).into();
        self.require(Field::Family, negated, number, number);
    }

    pub(super) fn compare_order(&mut self, field: Field, operator: CmpOperator, than: u128) {
        let greatest = field.data_type().max();
        let interval = match operator {
            CmpOperator::Lt => than.checked_sub(1).map(|last| (0, last)),
            CmpOperator::Lte => Some((0, than)),
            CmpOperator::Gt => {
                than.checked_add(1).filter(|first| *first <= greatest).map(|first| (first, greatest))
            }
            CmpOperator::Gte => Some((than, greatest)),
            CmpOperator::Eq | CmpOperator::Neq => None,
        };
        let Some((first, last)) = interval else { return self.unknown_condition() };
        if let Some(test) = self.tests.last().filter(|test| {
            test.condition.field == field
                && !test.condition.negated
                && test.set.is_none()
                && !self.is_condition_after_action
        }) && let Some(before) = test.condition.values.single()
            && matches!(self.conditions.last(), Some(ListedCondition::Nft(last)) if *last == test.condition)
            && before.first.max(first) <= before.last.min(last)
        {
            self.tests.pop();
            self.conditions.pop();
            return self.require(field, false, before.first.max(first), before.last.min(last));
        }
        self.require(field, false, first, last);
    }

    pub(super) fn compare_bits(&mut self, field: Field, negated: bool, mask: u128, value: u128) {
        let mask_of_mark = u32::try_from(mask).unwrap_or(0);
        match field {
            Field::Mark(_) => self.require(Field::Mark(mask_of_mark), negated, value, value),
            Field::Connmark(_) => self.require(Field::Connmark(mask_of_mark), negated, value, value),
            Field::ConnState if value == 0 => {
                let bits = (0..32).filter(|bit| mask >> bit & 1 == 1).map(Interval::one).collect();
                self.require_values(field, !negated, bits, None);
            }
            Field::Source(_) | Field::Destination(_) => {
                let free = field.data_type().max() & !mask;
                match free & free.wrapping_add(1) == 0 && value & free == 0 {
                    true => self.require(field, negated, value, value | free),
                    false => self.unknown_condition(),
                }
            }
            _ => self.unknown_condition(),
        }
    }

    pub(super) fn look_up(&mut self, name: &str, negated: bool) {
        let set = self.context.table.sets.iter().find(|set| set.name == name);
        let has_ranges = set.is_some_and(|set| set.flags & NFT_SET_INTERVAL != 0);
        let field = self.content.part(has_ranges);
        let values = field.zip(set).and_then(|(field, set)| {
            // States are bits: a set would list whole masks.
            (field != Field::ConnState)
                .then(|| values(set, field.data_type()))?
                .map(|values| (field, set, values))
        });
        match (values, set) {
            (Some((field, set, values)), _) => {
                let is_named = set.flags & NFT_SET_ANONYMOUS == 0;
                self.require_values(field, negated, values, is_named.then(|| name.to_owned()));
            }
            (None, Some(set)) if !negated && !has_ranges && set.others == 0 => self.look_up_parts(set),
            (None, _) => self.unknown_condition(),
        }
    }

    /// Adds the known conditions on a key's fields. With several keys, the kernel also tests the combination.
    fn look_up_parts(&mut self, set: &EncodedSet) {
        let mut parts = Vec::new();
        let mut at = 0;
        while at < set.key_length as usize {
            let content = if at == 0 { Some(&self.content) } else { self.further_registers.get(&word(at)) };
            // A key with a state would hold a whole bit mask.
            let part = content.and_then(|content| content.part(false));
            let Some(field) = part.filter(|field| *field != Field::ConnState) else { break };
            parts.push((field, at));
            at += width(field).next_multiple_of(WORD as usize);
        }
        let is_whole = parts.len() > 1 && at == set.key_length as usize && at <= 16;
        let usual = NFT_SET_ANONYMOUS | NFT_SET_CONSTANT | NFT_SET_TIMEOUT | NFT_SET_CONCAT | NFT_SET_MAP;
        if !is_whole || set.flags & !usual != 0 {
            return self.unknown_condition();
        }
        for (field, at) in parts {
            let value = |element: &Element| {
                Interval::one(field.data_type().decode(&element.key[at..][..width(field)], false))
            };
            let values = set.elements.iter().map(value).collect();
            self.require_values(field, false, values, None);
        }
        if set.elements.len() > 1 {
            self.put_unknown(format!("(one of {} keys of several fields)", set.elements.len()));
        }
    }

    pub(super) fn require(&mut self, field: Field, negated: bool, first: u128, last: u128) {
        self.require_values(field, negated, [Interval { first, last }].into_iter().collect(), None);
    }

    fn require_values(&mut self, field: Field, negated: bool, values: Intervals, set: Option<String>) {
        let condition = nft::Condition { field, negated, values };
        self.tests.push(Test { condition: condition.clone(), set });
        self.put(ListedCondition::Nft(condition));
    }

    pub(super) fn unknown_condition(&mut self) {
        let text = match &self.content {
            RegisterValue::Field { field, .. } | RegisterValue::NetworkOrder(field) => {
                format!("({field:?} in an unknown form)")
            }
            RegisterValue::Other(name) => format!("({name})"),
            RegisterValue::Value(_)
            | RegisterValue::DestinationType
            | RegisterValue::Index(_)
            | RegisterValue::EtherType
            | RegisterValue::TcpFlags(_) => "(cmp)".to_owned(),
        };
        self.put_unknown(text);
    }

    pub(super) fn put_unknown(&mut self, text: String) {
        self.words.push(text.clone());
        self.put(ListedCondition::Unknown(text));
    }

    /// Adds a condition, unless it follows an action, which takes effect first and may change the result.
    pub(super) fn put(&mut self, condition: ListedCondition) {
        if self.actions.is_empty() && self.tproxy.is_none() {
            self.conditions.push(condition);
        } else {
            self.is_condition_after_action = true;
        }
    }
}

impl RegisterValue {
    /// The register's field, if complete and in the form of set keys. Interval sets compare keys byte by byte.
    fn part(&self, has_ranges: bool) -> Option<Field> {
        match self {
            Self::Field { field, length, bitwise: None }
                if *length == width(*field) && !(has_ranges && field.data_type().is_reversed(false)) =>
            {
                Some(*field)
            }
            Self::NetworkOrder(field) if has_ranges || !field.data_type().is_reversed(false) => Some(*field),
            _ => None,
        }
    }
}

fn word(at: usize) -> i32 {
    i32::try_from(at / WORD as usize).unwrap_or(i32::MAX)
}

fn width(field: Field) -> usize {
    field.data_type().width()
}
