//! The fields that chains read and write, by which it is known whether the order of two chains matters.

use crate::field::Field;

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
