//! Types of the values of fields: the one table of their names, numbers, widths and byte orders, read both ways.

use crate::Family;

/// Each value is a number of a fixed width, to the kernel as to the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataType {
    InterfaceName,
    Family,
    Address(Family),
    Protocol,
    Port,
    Uid,
    Gid,
    ConnState,
    Mark,
}

struct DataTypeRow {
    name: &'static str,
    number: u32,
    width: usize,
    is_host_order: bool,
}

impl DataType {
    pub const ALL: [Self; 10] = [
        Self::InterfaceName,
        Self::Family,
        Self::Address(Family::V4),
        Self::Address(Family::V6),
        Self::Protocol,
        Self::Port,
        Self::Uid,
        Self::Gid,
        Self::ConnState,
        Self::Mark,
    ];

    /// The numbers are those of `enum datatypes` in the `datatype.h` of `nft`.
    const fn row(self) -> DataTypeRow {
        let (name, number, width, is_host_order) = match self {
            Self::Family => ("nf_proto", 2, 1, false),
            Self::Address(Family::V4) => ("ipv4_addr", 7, 4, false),
            Self::Address(Family::V6) => ("ipv6_addr", 8, 16, false),
            Self::Protocol => ("inet_proto", 12, 1, false),
            Self::Port => ("inet_service", 13, 2, false),
            Self::Mark => ("mark", 19, 4, true),
            Self::Uid => ("uid", 24, 4, true),
            Self::Gid => ("gid", 25, 4, true),
            Self::ConnState => ("ct_state", 26, 4, true),
            Self::InterfaceName => ("ifname", 41, 16, false),
        };
        DataTypeRow { name, number, width, is_host_order }
    }

    /// The name that `nft` uses.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub fn number(self) -> u32 {
        self.row().number
    }

    /// In bytes.
    pub fn width(self) -> usize {
        self.row().width
    }

    /// Registers hold the kernel's own numbers in this machine's byte order. All else, such as what is read from the
    /// packet, has its most significant byte first.
    pub fn is_host_order(self) -> bool {
        self.row().is_host_order
    }

    pub fn max(self) -> u128 {
        u128::MAX >> (128 - 8 * self.width())
    }

    /// True where lists of values are kept as ranges, not as single values.
    pub fn has_ranges(self) -> bool {
        matches!(self, Self::Address(_) | Self::Port)
    }

    /// The value as registers and sets hold it. Where ranges are compared (`is_ordered`), which the kernel does byte by byte,
    /// the most significant byte comes first.
    pub fn encode(self, value: u128, is_ordered: bool) -> Vec<u8> {
        self.key(value, is_ordered)[..self.width()].to_vec()
    }

    /// The same as the first bytes of a key, with zeros after them.
    pub fn key(self, value: u128, is_ordered: bool) -> [u8; 16] {
        let (mut key, width) = ([0; 16], self.width());
        key[..width].copy_from_slice(&value.to_be_bytes()[16 - width..]);
        if self.is_reversed(is_ordered) {
            key[..width].reverse();
        }
        key
    }

    /// The value that [`DataType::encode`] made these bytes of, or the first bytes of one.
    pub fn decode(self, bytes: &[u8], is_ordered: bool) -> u128 {
        let digit = |number: u128, byte: &u8| number << 8 | u128::from(*byte);
        match self.is_reversed(is_ordered) {
            true => bytes.iter().rev().fold(0, digit),
            false => bytes.iter().fold(0, digit),
        }
    }

    /// True where the least significant byte comes first.
    pub fn is_reversed(self, is_ordered: bool) -> bool {
        !is_ordered && self.is_host_order() && cfg!(target_endian = "little")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn values_come_back_from_their_bytes() {
        for kind in DataType::ALL {
            let numbers = [0, 1, 0x12, kind.max() / 3, kind.max() - 1, kind.max()];
            for (number, is_ordered) in numbers.into_iter().flat_map(|n| [(n, false), (n, true)]) {
                let bytes = kind.encode(number, is_ordered);
                assert_eq!(
                    (bytes.len(), kind.decode(&bytes, is_ordered)),
                    (kind.width(), number),
                    "{kind:?}"
                );
                let key = kind.key(number, is_ordered);
                assert_eq!(
                    (&key[..kind.width()], u128::from_be_bytes(key) << (8 * kind.width() - 1) << 1),
                    (&bytes[..], 0)
                );
                let in_host_order = kind.is_host_order() && !is_ordered && cfg!(target_endian = "little");
                let mut expected = number.to_be_bytes()[16 - kind.width()..].to_vec();
                if in_host_order {
                    expected.reverse();
                }
                assert_eq!(bytes, expected, "{kind:?} {number} {is_ordered}");
            }
        }
    }

    #[test]
    fn types_differ_by_name_and_number() {
        let names: BTreeSet<&str> = DataType::ALL.map(DataType::name).into();
        let numbers: BTreeSet<u32> = DataType::ALL.map(DataType::number).into();
        assert_eq!((names.len(), numbers.len()), (DataType::ALL.len(), DataType::ALL.len()));
        let of_kernel = DataType::ALL.into_iter().filter(|kind| kind.is_host_order());
        assert!(of_kernel.eq([DataType::Uid, DataType::Gid, DataType::ConnState, DataType::Mark]));
    }
}
