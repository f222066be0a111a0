//! State of a set's packets at one moment, and conditions on it.

use super::marks::bits_of;
use super::set::{By, Divider, LOOPBACK, PacketSet, Way};
use super::trace::{At, CaptureKind};
use crate::field::{
    Condition, Field, Interval, Intervals, UNTRACKED_BIT, family_number, interface_number, state_bit,
};
use crate::{ConnState, Hook, ListedCondition, Mark, PortRange, Protocol, net::number};
use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    Here(ConnState),
    /// No connection: counts as invalid or, if `None`, as untracked.
    None(Option<ConnState>),
    /// A template that a zone rule attached before conntrack (`xt_ct_target` in `xt_CT.c`), or possibly a connection.
    Template,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binding<T> {
    /// Unchanged since it was sent.
    Sent,
    Is(T),
    Unknown,
}

impl<T> Binding<T> {
    pub(super) fn known(self, sent: Option<T>) -> Option<T> {
        match self {
            Self::Sent => sent,
            Self::Is(value) => Some(value),
            Self::Unknown => None,
        }
    }

    fn load(self, range: impl FnOnce(T) -> Interval) -> Loaded {
        match self {
            Self::Sent => Loaded::Sent,
            Self::Is(value) => Loaded::OneOf(range(value)),
            Self::Unknown => Loaded::Unknown,
        }
    }
}

impl Binding<u128> {
    /// Without an interface, the kernel compares with the empty name.
    pub(super) const NO_INTERFACE: Self = Self::Is(0);

    pub(super) fn loopback() -> Self {
        Self::Is(interface_number(LOOPBACK))
    }
}

/// The sent mark as changed by rules: `(mark & keep) ^ xor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarkNow {
    pub(super) of_connection: bool,
    pub(super) keep: u32,
    pub(super) xor: u32,
}

impl MarkNow {
    pub(super) const fn sent(of_connection: bool) -> Self {
        Self { of_connection, keep: u32::MAX, xor: 0 }
    }

    pub(super) fn set(self, mark: Mark) -> Self {
        Self { keep: self.keep & !mark.mask, xor: mark.set_in(self.xor), ..self }
    }

    /// Sent bits that yield `bits` in this mark; `None` if impossible.
    fn sent_bits(self, bits: Mark) -> Option<Mark> {
        let value = (bits.value ^ self.xor) & bits.mask;
        let mask = bits.mask & self.keep;
        (value & !mask == 0 && bits.value & !bits.mask == 0).then_some(Mark { value, mask })
    }

    pub(super) fn constant(self) -> Option<u32> {
        (self.keep == 0).then_some(self.xor)
    }
}

/// A walk's state, except its position. `None` means unknown unless documented otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Now {
    pub(super) source_sent: bool,
    pub(super) destination: Binding<IpAddr>,
    pub(super) destination_port: Binding<PortRange>,
    pub(super) destination_local: bool,
    pub(super) arrives_at: Binding<u128>,
    pub(super) leaves_by: Binding<u128>,
    /// The socket's owner: the sender, none, or possibly the receiver.
    pub(super) owner: Loaded,
    pub(super) mark: Option<MarkNow>,
    pub(super) connmark: Option<MarkNow>,
    /// `None` for a packet that conntrack does not see.
    pub(super) state: Option<ConnState>,
    pub(super) is_tracked: Option<bool>,
    pub(super) is_zoned: bool,
    pub(super) perhaps_zoned: bool,
    pub(super) hook: Hook,
    pub(super) in_nat: bool,
    pub(super) stays: bool,
    /// The capture, and the rule that decided it.
    pub(super) captured: Option<(CaptureKind, At)>,
    pub(super) passed: Option<(bool, At)>,
    /// The rule that changed the destination without a capture.
    pub(super) translated: Option<At>,
    /// True once destination NAT is decided: later chains are skipped (`nf_nat_initialized` in `nf_nat_inet_fn`).
    pub(super) destination_done: bool,
    /// Like `destination_done`, for source NAT.
    pub(super) source_done: bool,
    /// True if a rule may have changed the type of service.
    pub(super) tos_changed: bool,
    pub(super) rerouted: bool,
    /// True if a rule's mark delivers the packet locally despite its remote destination; a socket may receive it.
    pub(super) taken_by_mark: bool,
    /// True if a mark may deliver the packet locally.
    pub(super) perhaps_taken: bool,
    /// Fields that rules have read and written, while the order of chains is unknown.
    pub(super) read: TouchedFields,
    pub(super) written: TouchedFields,
}

impl Now {
    pub(super) fn of(set: &PacketSet) -> Self {
        let is_inbound = matches!(set.way, Way::Inbound { .. });
        Self {
            source_sent: true,
            destination: Binding::Sent,
            destination_port: Binding::Sent,
            destination_local: set.way == Way::Inbound { local: true },
            arrives_at: if is_inbound { Binding::Sent } else { Binding::NO_INTERFACE },
            leaves_by: if is_inbound { Binding::NO_INTERFACE } else { Binding::Sent },
            owner: if is_inbound { Loaded::Nothing } else { Loaded::Sent },
            mark: Some(MarkNow::sent(false)),
            connmark: Some(MarkNow::sent(true)),
            state: Some(set.state),
            is_tracked: Some(false),
            is_zoned: false,
            perhaps_zoned: false,
            hook: if is_inbound { Hook::Prerouting } else { Hook::Output },
            in_nat: false,
            stays: set.way == Way::Inbound { local: true },
            captured: None,
            passed: None,
            translated: None,
            destination_done: false,
            source_done: false,
            tos_changed: false,
            rerouted: false,
            taken_by_mark: false,
            perhaps_taken: false,
            read: TouchedFields::default(),
            written: TouchedFields::default(),
        }
    }

    pub(super) fn connection(&self) -> Connection {
        match (self.state, self.is_tracked) {
            (None, _) => Connection::None(None),
            (Some(_), Some(false)) if self.is_zoned => Connection::Template,
            (Some(_), Some(false)) => Connection::None(Some(ConnState::Invalid)),
            (Some(_), None) => Connection::Template,
            (Some(ConnState::Invalid), Some(true)) => Connection::None(Some(ConnState::Invalid)),
            (Some(state), Some(true)) => Connection::Here(state),
        }
    }

    pub(super) fn fulfils(&mut self, set: &PacketSet, condition: &Asked) -> Truth {
        match condition {
            Asked::Field { condition, marks, is_match } => self.has(set, condition, marks, *is_match),
            Asked::DestinationLocal { negated } => {
                self.read.destination = true;
                Ok(Some(self.destination_local != *negated))
            }
            Asked::Syn(matches_syn) => {
                let tcp = Condition::protocol(Protocol::Tcp);
                let is_tcp = asked_values(set, tcp.field, &tcp.values, true)?;
                Ok(match set.state {
                    _ if is_tcp != Some(true) => is_tcp,
                    ConnState::New | ConnState::Related => Some(*matches_syn),
                    ConnState::Established | ConnState::Invalid => None,
                })
            }
            Asked::Nothing(holds) => Ok(*holds),
        }
    }

    fn has(&mut self, set: &PacketSet, condition: &Condition, marks: &[Mark], is_match: bool) -> Truth {
        let Condition { field, negated, values } = condition;
        Ok(match self.load(set, *field) {
            Loaded::Sent => asked_values(set, *field, values, !negated)?,
            Loaded::OneOf(range) => {
                let has = Intervals::from(range).all_among(values);
                has.map(|has| has != *negated).or_else(|| condition.constant_answer())
            }
            Loaded::Mark(mark) => {
                // The first group of bits that splits the set is the divider.
                for bits in marks {
                    if mark_has(set, mark, *bits, !negated)? == Some(!negated) {
                        return Ok(Some(!negated));
                    }
                }
                Some(*negated)
            }
            Loaded::Nothing => Some(*negated && is_match && !matches!(field, Field::Connmark(_))),
            Loaded::Unknown => condition.constant_answer(),
        })
    }

    pub(super) fn is_sent(&mut self, set: &PacketSet, field: Field) -> bool {
        matches!(self.load(set, field), Loaded::Sent)
    }

    fn load(&mut self, set: &PacketSet, field: Field) -> Loaded {
        let one = |number: u128| Loaded::OneOf(Interval::one(number));
        let sent = |is_sent: bool| if is_sent { Loaded::Sent } else { Loaded::Unknown };
        self.read.add(TouchedFields::of(field));
        match field {
            Field::InInterface => self.arrives_at.load(Interval::one),
            Field::OutInterface => self.leaves_by.load(Interval::one),
            Field::Family => one(family_number(set.family).into()),
            // Conditions on the other family's header are not modelled.
            Field::Source(of) | Field::Destination(of) if of != set.family => Loaded::Unknown,
            Field::Source(_) | Field::SourcePort => sent(self.source_sent),
            Field::Destination(_) => self.destination.load(|address| Interval::one(number(address))),
            Field::DestinationPort => self.destination_port.load(PortRange::interval),
            Field::Protocol => Loaded::Sent,
            // `nft_meta_get_eval_skugid` in `nft_meta.c`.
            Field::Uid | Field::Gid => self.owner,
            Field::ConnState => match self.connection() {
                Connection::Here(state) | Connection::None(Some(state)) => one(state_bit(state).into()),
                Connection::None(None) => one(UNTRACKED_BIT.into()),
                Connection::Template => Loaded::Unknown,
            },
            Field::Mark(_) => self.mark.map_or(Loaded::Unknown, Loaded::Mark),
            Field::Connmark(_) => match self.connection() {
                Connection::Here(_) => self.connmark.map_or(Loaded::Unknown, Loaded::Mark),
                Connection::None(_) => Loaded::Nothing,
                Connection::Template => Loaded::Unknown,
            },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A field has one of these values, or a mark one of these bit groups. `is_match` is true for iptables, where "not this
    /// owner" holds for a packet without a socket (`xt_owner.c`, `owner_mt`); an nf_tables rule then fails.
    Field {
        condition: Condition,
        marks: Vec<Mark>,
        is_match: bool,
    },
    DestinationLocal {
        negated: bool,
    },
    Syn(bool),
    /// No field; the constant result, or `None` if unknown.
    Nothing(Option<bool>),
}

impl Asked {
    pub(super) fn of(condition: &ListedCondition) -> Self {
        let field = |condition: Condition, is_match| {
            let values = condition.values.joined();
            let marks = match condition.field {
                Field::Mark(mask) | Field::Connmark(mask) => bits_of(&values, mask),
                _ => Vec::new(),
            };
            Self::Field { condition: Condition { values, ..condition }, marks, is_match }
        };
        match condition {
            ListedCondition::Known(known) => {
                known.condition().map_or(Self::Nothing(Some(true)), |condition| field(condition, true))
            }
            ListedCondition::Nft(condition) => field(condition.clone(), false),
            ListedCondition::Protocol(operand) => match operand.value() {
                Some(protocol) => {
                    let negated = operand.is_negated();
                    field(Condition { negated, ..Condition::protocol(*protocol) }, true)
                }
                None => Self::Nothing(Some(operand.is_negated())),
            },
            ListedCondition::DestinationLocal(operand) => {
                Self::DestinationLocal { negated: operand.is_negated() }
            }
            ListedCondition::TcpFlags { matches_syn, .. } => Self::Syn(*matches_syn),
            ListedCondition::Always(_) => Self::Nothing(Some(true)),
            ListedCondition::Unknown(_) => Self::Nothing(None),
        }
    }
}

/// Result of a condition on a packet set: `None` if unknown, an error if the condition splits the set.
pub(super) type Truth = Result<Option<bool>, Divider>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loaded {
    Sent,
    OneOf(Interval),
    Mark(MarkNow),
    /// No value: a rule that tests the field fails (`NFT_BREAK`).
    Nothing,
    Unknown,
}

/// Tests whether the packets are sent with one of the values or, unless `is_positive`, with none.
pub(super) fn asked_values(set: &PacketSet, field: Field, values: &Intervals, is_positive: bool) -> Truth {
    answer(set.have(field, values), is_positive, || By::Values(field, values.clone()))
}

fn answer(have: Option<bool>, is_positive: bool, by: impl FnOnce() -> By) -> Truth {
    match have {
        Some(have) => Ok(Some(have == is_positive)),
        None => Err(Divider { by: by(), is_positive }),
    }
}

pub(super) fn mark_has(set: &PacketSet, mark: MarkNow, bits: Mark, is_positive: bool) -> Truth {
    match mark.sent_bits(bits) {
        None => Ok(Some(!is_positive)),
        Some(bits) if mark.of_connection => {
            answer(set.connmark().have(bits), is_positive, || By::Connmark(bits))
        }
        Some(bits) => answer(set.mark().have(bits), is_positive, || By::Mark(bits)),
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TouchedFields {
    pub(super) source: bool,
    /// Address and port, and whether the packet is for this machine.
    pub(super) destination: bool,
    pub(super) owner: bool,
    /// State and zone of the connection.
    pub(super) connection: bool,
    pub(super) mark: u32,
    pub(super) connmark: u32,
}

impl TouchedFields {
    pub(super) fn of(field: Field) -> Self {
        let none = Self::default();
        match field {
            Field::Source(_) | Field::SourcePort => Self { source: true, ..none },
            Field::Destination(_) | Field::DestinationPort => Self { destination: true, ..none },
            Field::Uid | Field::Gid => Self { owner: true, ..none },
            Field::ConnState => Self { connection: true, ..none },
            Field::Mark(mask) => Self { mark: mask, ..none },
            Field::Connmark(mask) => Self { connmark: mask, connection: true, ..none },
            Field::InInterface | Field::OutInterface | Field::Family | Field::Protocol => none,
        }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.source |= more.source;
        self.destination |= more.destination;
        self.owner |= more.owner;
        self.connection |= more.connection;
        self.mark |= more.mark;
        self.connmark |= more.connmark;
    }

    pub(super) fn common(self, other: Self) -> Self {
        Self {
            source: self.source && other.source,
            destination: self.destination && other.destination,
            owner: self.owner && other.owner,
            connection: self.connection && other.connection,
            mark: self.mark & other.mark,
            connmark: self.connmark & other.connmark,
        }
    }
}
