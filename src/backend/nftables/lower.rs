//! Encodes rules as expressions. [`super::lift`] is the reverse; both use one table of fields.

use super::expression::{CmpOperator, Ct, EncodedVerdict, Expression, Header, Meta, Register};
use rules::nft::{Condition, DataType, Effect, Field, InetRule, Interval, SetKind, Test, family_number};
use rules::{Family, Mark, Target};

pub(super) fn rule(rule: &InetRule) -> Vec<Expression> {
    let mut list = tests(&rule.tests);
    list.push(Expression::Counter);
    list.extend(rule.report.iter().flat_map(|report| target(report, None)));
    match &rule.effect {
        Effect::Target(target) => list.extend(self::target(target, rule.family())),
        Effect::Jump(chain) => list.push(Expression::Verdict(EncodedVerdict::Jump(chain.clone()))),
        Effect::Goto(chain) => list.push(Expression::Verdict(EncodedVerdict::Goto(chain.clone()))),
        Effect::None => {}
    }
    list
}

pub(super) fn conditions(conditions: impl IntoIterator<Item = Condition>) -> Vec<Expression> {
    let tests: Vec<Test> = conditions.into_iter().map(|condition| Test { condition, set: None }).collect();
    self::tests(&tests)
}

pub(super) fn tests(tests: &[Test]) -> Vec<Expression> {
    let mut list = Vec::with_capacity(2 * tests.len() + 4);
    tests.iter().for_each(|test| self::test(&mut list, test));
    list
}

fn test(list: &mut Vec<Expression>, test: &Test) {
    let Condition { field, negated, values } = &test.condition;
    list.push(load(*field));
    // Numbers need network order: the kernel compares ranges byte by byte.
    let has_ranges = SetKind::of(&test.condition).is_some_and(|kind| kind.has_ranges);
    if has_ranges && field.data_type().is_reversed(false) {
        list.push(Expression::ToPacketOrder(width(*field)));
    }
    match (&test.set, field) {
        (Some(set), _) => list.push(Expression::Lookup(set.clone(), *negated)),
        (None, Field::ConnState) => {
            let bits: u32 = values.numbers().map(|bit| 1 << bit).sum();
            list.push(bits_of(bits));
            let operator = if *negated { CmpOperator::Eq } else { CmpOperator::Neq };
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

fn bits_of(mask: u32) -> Expression {
    Expression::Bitwise(mask.to_ne_bytes().to_vec(), vec![0; 4])
}

fn load(field: Field) -> Expression {
    let payload = |header, offset| Expression::Payload(header, offset, width(field));
    match field {
        Field::InInterface => Expression::Meta(Meta::Iifname),
        Field::OutInterface => Expression::Meta(Meta::Oifname),
        Field::Family => Expression::Meta(Meta::Nfproto),
        // Offsets in the headers of IPv4 (RFC 791) and IPv6 (RFC 8200).
        Field::Source(Family::V4) => payload(Header::Network, 12),
        Field::Source(Family::V6) => payload(Header::Network, 8),
        Field::Destination(Family::V4) => payload(Header::Network, 16),
        Field::Destination(Family::V6) => payload(Header::Network, 24),
        Field::Protocol => Expression::Meta(Meta::L4proto),
        Field::SourcePort => payload(Header::Transport, 0),
        Field::DestinationPort => payload(Header::Transport, 2),
        Field::Uid => Expression::Meta(Meta::Skuid),
        Field::Gid => Expression::Meta(Meta::Skgid),
        Field::ConnState => Expression::Ct(Ct::State),
        Field::Mark(_) => Expression::Meta(Meta::Mark),
        Field::Connmark(_) => Expression::Ct(Ct::Mark),
    }
}

/// Field, or its first bytes, that an expression loads from packets of this family, if known.
pub(super) fn loaded(expression: &Expression, family: Option<Family>) -> Option<Field> {
    let is_same = |field: &Field| match (load(*field), expression) {
        (Expression::Payload(header, offset, _), Expression::Payload(of, at, length)) => {
            let is_address = field.family().is_some();
            let is_whole = *length == width(*field) || is_address && (1..width(*field)).contains(length);
            (header, offset) == (*of, *at) && is_whole
        }
        (load, expression) => load == *expression,
    };
    let is_of = |field: &Field| field.family().is_none_or(|of| Some(of) == family);
    Field::ALL.into_iter().filter(is_of).find(is_same)
}

fn width(field: Field) -> u32 {
    u32::try_from(field.data_type().width()).expect("16 bytes at most")
}

/// Compares the register with the single range of a test without a set.
fn compare(list: &mut Vec<Expression>, field: Field, negated: bool, interval: Option<Interval>) {
    let Some(interval) = interval else {
        unreachable!("several ranges are in a set");
    };
    let kind = field.data_type();
    let equal = if negated { CmpOperator::Neq } else { CmpOperator::Eq };
    if interval.is_single() {
        list.push(Expression::Cmp(equal, kind.encode(interval.first, false)));
        return;
    }
    let [mut first, last] = [interval.first, interval.last].map(|number| kind.encode(number, true));
    let bits = u8::try_from(8 * kind.width()).ok().and_then(|bits| interval.prefix_length(bits));
    match (kind, bits) {
        (DataType::InterfaceName, Some(bits)) => {
            first.truncate(usize::from(bits / 8));
            list.push(Expression::Cmp(equal, first));
        }
        // Loads only a prefix's whole bytes, as nft does: saves one expression per packet.
        (DataType::Address(_), Some(bits)) if bits % 8 == 0 && bits > 0 => {
            if let Some(Expression::Payload(_, _, length)) = list.last_mut() {
                *length = u32::from(bits / 8);
            }
            first.truncate(usize::from(bits / 8));
            list.push(Expression::Cmp(equal, first));
        }
        (DataType::Address(_), Some(_)) => {
            let mask = kind.encode(!(interval.first ^ interval.last), true);
            let zeros = vec![0; mask.len()];
            list.extend([Expression::Bitwise(mask, zeros), Expression::Cmp(equal, first)]);
        }
        _ if negated => list.push(Expression::Range(negated, first, last)),
        _ => list.extend([Expression::Cmp(CmpOperator::Gte, first), Expression::Cmp(CmpOperator::Lte, last)]),
    }
}

fn target(target: &Target, family: Option<Family>) -> Vec<Expression> {
    let mark = |mark| set_mark(Expression::Meta(Meta::Mark), Expression::SetMeta(Meta::Mark), mark);
    match target {
        Target::Accept => vec![Expression::Verdict(EncodedVerdict::Accept)],
        Target::Drop => vec![Expression::Verdict(EncodedVerdict::Drop)],
        Target::Return => vec![Expression::Verdict(EncodedVerdict::Return)],
        Target::Jump(chain) | Target::JumpForeign(chain) => {
            vec![Expression::Verdict(EncodedVerdict::Jump(chain.to_string()))]
        }
        Target::Redirect(ports) => {
            let last = if ports.is_single() { Register::First } else { Register::Second };
            let mut list = vec![port(Register::First, ports.first())];
            list.extend((!ports.is_single()).then(|| port(last, ports.last())));
            list.push(Expression::Redir(last));
            list
        }
        Target::Tproxy { port: to, mark: set } => {
            let family = family.map_or(0, |family| family_number(family).into());
            let mut list = vec![port(Register::First, *to), Expression::Tproxy(family)];
            list.extend(mark(*set));
            list.push(Expression::Verdict(EncodedVerdict::Accept));
            list
        }
        Target::SetMark(set) => mark(*set),
        // Without a connection, loading its mark ends the rule, and there is nothing to set.
        Target::SetConnmark(set) => set_mark(Expression::Ct(Ct::Mark), Expression::SetCt(Ct::Mark), *set),
        Target::SaveMark => vec![Expression::Meta(Meta::Mark), Expression::SetCt(Ct::Mark)],
        Target::RestoreMark => vec![Expression::Ct(Ct::Mark), Expression::SetMeta(Meta::Mark)],
        Target::SetZone(zone) => {
            let zone = zone.get().to_ne_bytes().to_vec();
            vec![Expression::Immediate(Register::First, zone), Expression::SetCt(Ct::Zone)]
        }
        Target::Nflog { group, prefix } => vec![Expression::Log(*group, prefix.as_str().to_owned())],
        Target::Log { prefix, level } => vec![Expression::KernelLog(*level, prefix.as_str().to_owned())],
    }
}

fn port(register: Register, port: rules::Port) -> Expression {
    Expression::Immediate(register, port.number().to_be_bytes().to_vec())
}

/// Keeps the bits outside the mask, and sets the bits inside from the value.
fn set_mark(load: Expression, store: Expression, mark: Mark) -> Vec<Expression> {
    let bytes = |number: u32| number.to_ne_bytes().to_vec();
    match mark.is_whole() {
        true => vec![Expression::Immediate(Register::First, bytes(mark.value)), store],
        false => vec![load, Expression::Bitwise(bytes(!mark.mask), bytes(mark.value)), store],
    }
}
