//! The packets of a set as rules see them at one moment, and whether they fulfil a condition.

use super::marks::bits_of;
use super::set::{By, Divider, LOOPBACK, PacketSet, Way};
use super::trace::{At, CaptureKind};
use crate::field::{
    Condition, Field, Interval, Intervals, UNTRACKED_BIT, family_number, interface_number, state_bit,
};
use crate::net::number;
use crate::{ConnState, Hook, ListedCondition, Mark, PortRange, Protocol};
use std::net::IpAddr;

/// The entry of conntrack that a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// A connection, in this state.
    Here(ConnState),
    /// None: it counts as invalid, or, where it is `None`, as not tracked.
    None(Option<ConnState>),
    /// A template, which a rule before conntrack leaves there with a zone (`xt_ct_target` in `xt_CT.c`), or perhaps a connection.
    Template,
}

/// An address or a port after NAT, or an interface by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binding<T> {
    /// As it is sent.
    Sent,
    Is(T),
    Unknown,
}

impl<T> Binding<T> {
    /// The value of a packet that is sent with this one.
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
    /// The hook has none; the kernel compares with the empty name.
    pub(super) const NO_INTERFACE: Self = Self::Is(0);

    pub(super) fn loopback() -> Self {
        Self::Is(interface_number(LOOPBACK))
    }
}

/// A mark as rules have made it of one that was sent: `(mark & keep) ^ xor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarkNow {
    /// Made of the connection's mark.
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

    /// The bits that the sent mark has where this one has the others; `None` if it never has them.
    fn sent_bits(self, bits: Mark) -> Option<Mark> {
        let value = (bits.value ^ self.xor) & bits.mask;
        let mask = bits.mask & self.keep;
        (value & !mask == 0 && bits.value & !bits.mask == 0).then_some(Mark { value, mask })
    }

    pub(super) fn constant(self) -> Option<u32> {
        (self.keep == 0).then_some(self.xor)
    }
}

/// The whole moment of a walk except its place. `None` is a value that is not known, unless noted otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Now {
    /// Source address and port are as they are sent; otherwise they are not known.
    pub(super) source_sent: bool,
    pub(super) destination: Binding<IpAddr>,
    pub(super) destination_port: Binding<PortRange>,
    pub(super) destination_local: bool,
    pub(super) arrives_at: Binding<u128>,
    pub(super) leaves_by: Binding<u128>,
    /// The owner of its socket: the sender's, none, or perhaps the receiver's.
    pub(super) owner: Loaded,
    pub(super) mark: Option<MarkNow>,
    pub(super) connmark: Option<MarkNow>,
    /// `None` for a packet that conntrack does not see.
    pub(super) state: Option<ConnState>,
    /// Conntrack has seen it.
    pub(super) is_tracked: Option<bool>,
    pub(super) is_zoned: bool,
    pub(super) perhaps_zoned: bool,
    pub(super) hook: Hook,
    /// The base chain being walked does NAT.
    pub(super) in_nat: bool,
    /// The packet is for this machine.
    pub(super) stays: bool,
    /// A capture, and the rule that decided it.
    pub(super) captured: Option<(CaptureKind, At)>,
    /// The rule by which the packet was let go; true where that was in `nat`.
    pub(super) passed: Option<(bool, At)>,
    /// The rule that changed the destination, where that is not a capture.
    pub(super) translated: Option<At>,
    /// The destination is settled: later chains are not asked (`nf_nat_initialized` in `nf_nat_inet_fn`).
    pub(super) destination_done: bool,
    /// The same of the source.
    pub(super) source_done: bool,
    /// A rule has written its type of service, or perhaps.
    pub(super) tos_changed: bool,
    /// A change by rules has led to another look-up of its route.
    pub(super) rerouted: bool,
    /// A mark that a rule has set keeps it here, though its destination is elsewhere: a socket may get it.
    pub(super) taken_by_mark: bool,
    /// Such a mark perhaps keeps it here.
    pub(super) perhaps_taken: bool,
    /// The fields that rules have read, and those that they have written, where the order of chains is not known.
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
                // Of several groups of bits, the first that divides the set does.
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

    /// True if a field has the values with which the packets are sent.
    pub(super) fn is_sent(&mut self, set: &PacketSet, field: Field) -> bool {
        matches!(self.load(set, field), Loaded::Sent)
    }

    /// A field as `nf_tables` sees it.
    fn load(&mut self, set: &PacketSet, field: Field) -> Loaded {
        let one = |number: u128| Loaded::OneOf(Interval::one(number));
        let sent = |is_sent: bool| if is_sent { Loaded::Sent } else { Loaded::Unknown };
        self.read.add(TouchedFields::of(field));
        match field {
            Field::InInterface => self.arrives_at.load(Interval::one),
            Field::OutInterface => self.leaves_by.load(Interval::one),
            Field::Family => one(family_number(set.family).into()),
            // The same bytes in the header of the other family are not followed.
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

/// A condition as it is asked, made once of each rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A field has one of these values; of a mark, one of these groups of bits. `is_match` is whether iptables asks: of a packet
    /// without a socket, "not this owner" holds (`xt_owner.c`, `owner_mt`), while a rule of nf_tables ends there.
    Field {
        condition: Condition,
        marks: Vec<Mark>,
        is_match: bool,
    },
    DestinationLocal {
        negated: bool,
    },
    /// The first segment of a connection fulfils it.
    Syn(bool),
    /// No field; of every packet it holds, does not, or is not known.
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
                // A protocol that no packet here has.
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

/// Whether all packets of a set fulfil a condition, if that is known; an error where it divides them.
pub(super) type Truth = Result<Option<bool>, Divider>;

/// A value of a packet, as `nf_tables` loads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loaded {
    Sent,
    OneOf(Interval),
    Mark(MarkNow),
    /// There is none, and a rule that tests it ends there (`NFT_BREAK`).
    Nothing,
    Unknown,
}

/// Asks if the packets are sent with one of the values, or, not positive, with none of them.
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

/// Some fields, marks by their bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TouchedFields {
    pub(super) source: bool,
    /// Address and port, and whether the packet stays.
    pub(super) destination: bool,
    pub(super) owner: bool,
    /// State and zone of the connection.
    pub(super) connection: bool,
    pub(super) mark: u32,
    pub(super) connmark: u32,
}

impl TouchedFields {
    /// The fields on which the answer to a condition depends.
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
