//! Who did an owner's work before, in the same names.
//!
//! A policy says what they make, as data. What is recognised is exact: a rule that only resembles one of these forms is
//! nobody's. What is decided by more than a rule's own words stands in [`crate::inheritance`].

use crate::{ConnState, Hook, Mark, Match, Negatable, Protocol, Rule, Table, Target};

/// A program whose work the owner takes over. It leaves no comment and no routing protocol, so that all it makes beside
/// chains of the owner's prefix has to be known by its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Predecessor {
    /// For people.
    pub name: &'static str,
    /// Its rules in base chains that do not jump to chains of the owner's prefix.
    pub forms: &'static [Form],
    /// The NFLOG group to which it reports, if it does.
    pub log_group: Option<u16>,
    /// Mark and routing table of its policy rule where nobody chooses others; `None` if it makes none.
    pub policy_rule: Option<(Mark, u32)>,
    /// Its tables of nf_tables, of the family `inet`.
    pub tables: &'static [&'static str],
}

/// A form of rules: what they say, but for values that flags choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    pub table: Table,
    pub hook: Hook,
    /// All that it asks, in any order.
    pub asks: &'static [Ask],
    pub does: Deed,
    pub proof: Proof,
}

/// By what a rule of a form is known for the predecessor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    /// Nobody else makes such a rule.
    Itself,
    /// Others make such rules. It is the predecessor's in a table that holds more of it.
    Table,
    /// As [`Proof::Table`], and by its place or by another rule for the same interface.
    Place,
    /// Others make such rules. It is the predecessor's where the jumps of the table `nat` to its chains carry no comment:
    /// it comments all of its rules, by which they are known, or none.
    Bare,
}

/// One condition of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// `-p tcp`.
    Tcp,
    /// `-p udp`.
    Udp,
    /// `-s` of any network.
    From,
    /// `-d` of any network.
    To,
    /// `--sport` of this port, or of any.
    FromPort(Option<u16>),
    /// `--dport` of this port.
    ToPort(u16),
    /// `--dports` of any.
    ToPorts,
    /// `--ctstate INVALID`.
    Invalid,
    /// `-i` of any interface.
    FromInterface,
    /// `-o` of any interface.
    ToInterface,
    /// `-o lo`.
    ToLoopback,
    /// `! -d` of any network.
    NotTo,
    /// `--uid-owner` or `--gid-owner` of anybody.
    Owner,
    /// `! --uid-owner` of anybody.
    NotOwner,
    /// `-m mark` of this mark, or of any.
    Mark(Option<u32>),
    /// `-m connmark` of this mark, or of any.
    Connmark(Option<u32>),
}

/// What a form does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deed {
    Return,
    /// `-j` to a chain of this name.
    Jump(&'static str),
    /// `--to-ports` of any.
    Redirect,
    /// `--zone`.
    SetZone(u16),
    /// `--log-prefix`.
    Log(&'static str),
    Drop,
    SaveMark,
    RestoreMark,
    SetMark(u32),
}

impl Predecessor {
    /// The form of a rule in a base chain; `None` if it has none of this program's.
    pub fn form(&self, table: Table, hook: Hook, rule: &Rule) -> Option<&'static Form> {
        self.forms.iter().find(|form| (form.table, form.hook) == (table, hook) && form.fits(rule))
    }

    /// Whether a rule has one of this program's forms, wherever it stands.
    pub(crate) fn may_have_made(&self, rule: &Rule) -> bool {
        self.logs(rule) || self.forms.iter().any(|form| form.fits(rule))
    }

    /// Whether a rule reports to this program's group.
    pub fn logs(&self, rule: &Rule) -> bool {
        matches!(rule.target, Target::Nflog { group, .. } if Some(group) == self.log_group)
    }
}

/// The marks that a rule of a form looks at.
pub fn marks(rule: &Rule) -> impl Iterator<Item = u32> {
    rule.matches.iter().filter_map(|m| match m {
        Match::Mark(Negatable::Is(mark)) | Match::Connmark(Negatable::Is(mark)) => Some(mark.value),
        _ => None,
    })
}

impl Form {
    fn fits(&self, rule: &Rule) -> bool {
        let has = |ask: &Ask| rule.matches.iter().any(|m| ask.is(m));
        self.does.is(&rule.target) && self.asks.len() == rule.matches.len() && self.asks.iter().all(has)
    }
}

impl Ask {
    fn is(self, asked: &Match) -> bool {
        let marks = |wanted: Option<u32>, mark: Mark| {
            mark.is_whole() && wanted.is_none_or(|wanted| wanted == mark.value)
        };
        match (self, asked) {
            (Self::Tcp, Match::Protocol(Protocol::Tcp))
            | (Self::Udp, Match::Protocol(Protocol::Udp))
            | (Self::From, Match::Source(Negatable::Is(_)))
            | (Self::To, Match::Destination(Negatable::Is(_)))
            | (Self::ToPorts, Match::DestinationPorts(Negatable::Is(_)))
            | (Self::FromPort(None), Match::SourcePort(Negatable::Is(_)))
            | (Self::NotOwner, Match::UidOwner(Negatable::Not(_)))
            | (Self::FromInterface, Match::InInterface(Negatable::Is(_)))
            | (Self::ToInterface, Match::OutInterface(Negatable::Is(_)))
            | (Self::NotTo, Match::Destination(Negatable::Not(_)))
            | (Self::Owner, Match::UidOwner(Negatable::Is(_)) | Match::GidOwner(Negatable::Is(_))) => true,
            (Self::FromPort(Some(wanted)), Match::SourcePort(Negatable::Is(ports)))
            | (Self::ToPort(wanted), Match::DestinationPort(Negatable::Is(ports))) => {
                (ports.first().number(), ports.last().number()) == (wanted, wanted)
            }
            (Self::Invalid, Match::ConnState(Negatable::Is(states))) => {
                states.states() == [ConnState::Invalid]
            }
            (Self::ToLoopback, Match::OutInterface(Negatable::Is(name))) => name.as_str() == "lo",
            (Self::Mark(wanted), Match::Mark(Negatable::Is(mark)))
            | (Self::Connmark(wanted), Match::Connmark(Negatable::Is(mark))) => marks(wanted, *mark),
            _ => false,
        }
    }
}

impl Deed {
    fn is(self, target: &Target) -> bool {
        match self {
            Self::Return => *target == Target::Return,
            Self::Jump(name) => matches!(target, Target::Jump(chain) if chain.as_str() == name),
            Self::Redirect => matches!(target, Target::Redirect(_)),
            Self::SetZone(number) => matches!(target, Target::SetZone(zone) if zone.number() == number),
            Self::Log(text) => matches!(target, Target::Log { prefix, .. } if prefix.as_str() == text),
            Self::Drop => *target == Target::Drop,
            Self::SaveMark => *target == Target::SaveMark,
            Self::RestoreMark => *target == Target::RestoreMark,
            Self::SetMark(value) => *target == Target::SetMark(Mark::whole(value)),
        }
    }
}
