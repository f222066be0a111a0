//! From rules to the expressions that carry them out.

use super::expression::{Ct, Expression, Header, Meta, Operator, Register, Verdict};
use crate::sys::{header::NFPROTO_UNSPEC, nfnetlink::nfproto};
use rules::nft::{Action, Condition, Field, Interval, Log, Rule, SetKind, Test};
use rules::{Family, Mark, PortRange};

/// The expressions of a rule: conditions, counter, report, action.
pub(super) fn rule(rule: &Rule) -> Vec<Expression> {
    let mut list = Vec::new();
    for test in &rule.tests {
        self::test(&mut list, test);
    }
    list.push(Expression::Counter);
    list.extend(rule.log.as_ref().map(log));
    action(&mut list, &rule.action);
    list
}

fn log(log: &Log) -> Expression {
    match log {
        Log::Group { group, prefix } => Expression::Log { group: *group, prefix: prefix.as_str().to_owned() },
        Log::Kernel { prefix, level } => {
            Expression::KernelLog { level: *level, prefix: prefix.as_str().to_owned() }
        }
    }
}

fn test(list: &mut Vec<Expression>, test: &Test) {
    let Condition { field, negated, values } = &test.condition;
    list.push(load(*field));
    if asks_order(&test.condition) {
        list.push(Expression::ToPacketOrder);
    }
    match (&test.set, field) {
        (Some(set), _) => list.push(Expression::Lookup { set: set.clone(), negated: *negated }),
        (None, Field::ConnState) => {
            let bits: u32 = values.numbers().map(|bit| 1 << bit).sum();
            list.push(bits_of(bits));
            // Any of the bits.
            let operator = if *negated { Operator::Eq } else { Operator::Neq };
            list.push(Expression::Cmp(operator, vec![0; 4]));
        }
        (None, Field::Mark(mask) | Field::Connmark(mask)) => {
            if *mask != u32::MAX {
                list.push(bits_of(*mask));
            }
            compare(list, *field, *negated, values.single());
        }
        (None, _) => compare(list, *field, *negated, values.single()),
    }
}

/// Whether numbers that stand as this machine writes them are compared by their order: the kernel compares byte by byte.
fn asks_order(condition: &Condition) -> bool {
    is_reversed(condition.field) && SetKind::of(condition).is_some_and(SetKind::has_ranges)
}

/// Keeps these bits of a number of 32.
fn bits_of(mask: u32) -> Expression {
    Expression::Bitwise { mask: mask.to_ne_bytes().to_vec(), xor: vec![0; 4] }
}

fn load(field: Field) -> Expression {
    let network = |offset, length| Expression::Payload { header: Header::Network, offset, length };
    let transport = |offset| Expression::Payload { header: Header::Transport, offset, length: 2 };
    match field {
        Field::InInterface => Expression::Meta(Meta::Iifname),
        Field::OutInterface => Expression::Meta(Meta::Oifname),
        Field::Family => Expression::Meta(Meta::Nfproto),
        // Places in the headers of IPv4 (RFC 791) and IPv6 (RFC 8200).
        Field::Source(Family::V4) => network(12, 4),
        Field::Source(Family::V6) => network(8, 16),
        Field::Destination(Family::V4) => network(16, 4),
        Field::Destination(Family::V6) => network(24, 16),
        Field::Protocol => Expression::Meta(Meta::L4proto),
        Field::SourcePort => transport(0),
        Field::DestinationPort => transport(2),
        Field::Uid => Expression::Meta(Meta::Skuid),
        Field::Gid => Expression::Meta(Meta::Skgid),
        Field::ConnState => Expression::Ct(Ct::State),
        Field::Mark(_) => Expression::Meta(Meta::Mark),
        Field::Connmark(_) => Expression::Ct(Ct::Mark),
    }
}

/// Compares the register with the one range that a test without a set has.
fn compare(list: &mut Vec<Expression>, field: Field, negated: bool, interval: Option<Interval>) {
    let Some(interval) = interval else {
        unreachable!("several ranges are in a set");
    };
    let equal = if negated { Operator::Neq } else { Operator::Eq };
    if interval.is_single() {
        list.push(Expression::Cmp(equal, bytes(field, interval.first)));
        return;
    }
    let bytes = |number| packet_bytes(field, number);
    match (field, prefix(field, interval)) {
        // Names are compared up to the prefix's length.
        (Field::InInterface | Field::OutInterface, Some(bits)) => {
            let mut name = bytes(interval.first);
            name.truncate(usize::from(bits / 8));
            list.push(Expression::Cmp(equal, name));
        }
        // Whole bytes are loaded alone, as nft does: one expression less for each packet.
        (Field::Source(_) | Field::Destination(_), Some(bits)) if bits % 8 == 0 && bits > 0 => {
            let mut network = bytes(interval.first);
            network.truncate(usize::from(bits / 8));
            if let Some(Expression::Payload { length, .. }) = list.last_mut() {
                *length = u32::from(bits / 8);
            }
            list.push(Expression::Cmp(equal, network));
        }
        (Field::Source(_) | Field::Destination(_), Some(_)) => {
            let mask = bytes(!(interval.first ^ interval.last));
            list.push(Expression::Bitwise { xor: vec![0; mask.len()], mask });
            list.push(Expression::Cmp(equal, bytes(interval.first)));
        }
        _ if negated => {
            let (first, last) = (bytes(interval.first), bytes(interval.last));
            list.push(Expression::Range { negated, first, last });
        }
        _ => {
            list.push(Expression::Cmp(Operator::Gte, bytes(interval.first)));
            list.push(Expression::Cmp(Operator::Lte, bytes(interval.last)));
        }
    }
}

fn prefix(field: Field, interval: Interval) -> Option<u8> {
    u8::try_from(8 * width(field)).ok().and_then(|bits| interval.prefix_length(bits))
}

/// Bytes of a field's values.
pub(super) fn width(field: Field) -> usize {
    match field {
        Field::InInterface | Field::OutInterface => 16,
        Field::Source(Family::V6) | Field::Destination(Family::V6) => 16,
        Field::Family | Field::Protocol => 1,
        Field::SourcePort | Field::DestinationPort => 2,
        Field::Source(Family::V4)
        | Field::Destination(Family::V4)
        | Field::Uid
        | Field::Gid
        | Field::ConnState
        | Field::Mark(_)
        | Field::Connmark(_) => 4,
    }
}

/// A value with its most significant byte first.
fn packet_bytes(field: Field, number: u128) -> Vec<u8> {
    number.to_be_bytes()[16 - width(field)..].to_vec()
}

/// A value as the register holds it.
fn bytes(field: Field, number: u128) -> Vec<u8> {
    let mut bytes = packet_bytes(field, number);
    if is_reversed(field) {
        bytes.reverse();
    }
    bytes
}

/// Whether the least significant byte comes first: what comes from the packet has the most significant byte there,
/// what comes from the kernel stands as this machine writes numbers.
pub(super) fn is_reversed(field: Field) -> bool {
    let host_order = match field {
        Field::Uid | Field::Gid | Field::ConnState | Field::Mark(_) | Field::Connmark(_) => true,
        Field::InInterface
        | Field::OutInterface
        | Field::Family
        | Field::Source(_)
        | Field::Destination(_)
        | Field::Protocol
        | Field::SourcePort
        | Field::DestinationPort => false,
    };
    host_order && cfg!(target_endian = "little")
}

fn action(list: &mut Vec<Expression>, action: &Action) {
    match action {
        Action::Accept => list.push(Expression::Verdict(Verdict::Accept)),
        Action::Drop => list.push(Expression::Verdict(Verdict::Drop)),
        Action::Return => list.push(Expression::Verdict(Verdict::Return)),
        Action::Jump(chain) => list.push(Expression::Verdict(Verdict::Jump(chain.clone()))),
        Action::Goto(chain) => list.push(Expression::Verdict(Verdict::Goto(chain.clone()))),
        Action::Redirect(ports) => redirect(list, *ports),
        Action::Tproxy { family, port, mark } => {
            list.push(Expression::Immediate(Register::First, port.number().to_be_bytes().to_vec()));
            let family = family.map_or(NFPROTO_UNSPEC, nfproto);
            list.push(Expression::Tproxy { family });
            set_mark(list, Expression::Meta(Meta::Mark), Expression::SetMetaMark, *mark);
            list.push(Expression::Verdict(Verdict::Accept));
        }
        Action::SetMark(mark) => {
            set_mark(list, Expression::Meta(Meta::Mark), Expression::SetMetaMark, *mark);
        }
        // What has no connection fails at loading its mark, and there is nothing to set.
        Action::SetConnmark(mark) => {
            set_mark(list, Expression::Ct(Ct::Mark), Expression::SetCtMark, *mark);
        }
        Action::SaveMark => {
            list.extend([Expression::Meta(Meta::Mark), Expression::SetCtMark]);
        }
        Action::RestoreMark => {
            list.extend([Expression::Ct(Ct::Mark), Expression::SetMetaMark]);
        }
        Action::SetZone(zone) => {
            list.extend([
                Expression::Immediate(Register::First, zone.number().to_ne_bytes().to_vec()),
                Expression::SetCtZone,
            ]);
        }
        Action::Report => {}
    }
}

fn redirect(list: &mut Vec<Expression>, ports: PortRange) {
    let port = |port: rules::Port| port.number().to_be_bytes().to_vec();
    list.push(Expression::Immediate(Register::First, port(ports.first())));
    if !ports.is_single() {
        list.push(Expression::Immediate(Register::Second, port(ports.last())));
    }
    list.push(Expression::Redir { range: !ports.is_single() });
}

/// Bits outside of the mask stay; bits inside become those of the value.
fn set_mark(list: &mut Vec<Expression>, load: Expression, store: Expression, mark: Mark) {
    let bytes = |number: u32| number.to_ne_bytes().to_vec();
    match mark.is_whole() {
        true => list.push(Expression::Immediate(Register::First, bytes(mark.value))),
        false => list.extend([load, Expression::Bitwise { mask: bytes(!mark.mask), xor: bytes(mark.value) }]),
    }
    list.push(store);
}
