//! Numbers in rules: ports, user and group ids, their ranges and sets, packet marks, conntrack zones.

use crate::intervals::Interval;
use std::{fmt, num::NonZeroU16, str::FromStr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    #[error("is not a number from 0 to {0}")]
    NoNumber(u32),
    #[error("is not a port from 1 to 65535")]
    NoPort,
    #[error("is port 0, which no connection uses")]
    PortZero,
    #[error("is a range that ends before its start")]
    Backwards,
}

/// The greatest user or group id: 2^32-1 means "none" to the kernel (`setreuid(2)`).
const GREATEST_ID: u32 = u32::MAX - 1;

pub(crate) fn decimal<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Defines a type for the numbers that are `valid`, with errors for non-numbers and for invalid numbers.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident($of:ty): $valid:pat, $no_number:expr, $invalid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($of);

        impl $name {
            pub const fn new(number: $of) -> Option<Self> {
                if matches!(number, $valid) { Some(Self(number)) } else { None }
            }

            pub const fn number(self) -> $of {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = NumberError;

            fn from_str(text: &str) -> Result<Self, NumberError> {
                Self::new(decimal(text).ok_or($no_number)?).ok_or($invalid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Bound for $name {
            fn value(self) -> u32 {
                self.0.into()
            }
        }
    };
}

const NO_ID: NumberError = NumberError::NoNumber(GREATEST_ID);

number!(Uid(u32): 0..=GREATEST_ID, NO_ID, NO_ID);
number!(Gid(u32): 0..=GREATEST_ID, NO_ID, NO_ID);
number!(Port(u16): 1.., NumberError::NoPort, NumberError::PortZero);

/// A conntrack zone other than the default one: equal tuples in different zones are different connections.
pub type Zone = NonZeroU16;

impl From<Uid> for Gid {
    /// The group with the same number: upstream's default for the proxy's group.
    fn from(uid: Uid) -> Self {
        Self(uid.0)
    }
}

/// A packet or connection mark: `value` in the bits of `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    pub value: u32,
    pub mask: u32,
}

impl Mark {
    pub const fn whole(value: u32) -> Self {
        Self { value, mask: u32::MAX }
    }

    pub fn is_whole(self) -> bool {
        self.mask == u32::MAX
    }

    /// A packet's mark after it is set, as the kernel computes it (`mark_tg` in `xt_mark.c`).
    pub fn set_in(self, before: u32) -> u32 {
        (before & !self.mask) ^ self.value
    }

    pub fn covers(self, mark: u32) -> bool {
        mark & self.mask == self.value
    }
}

impl FromStr for Mark {
    type Err = NumberError;

    /// Parses `VALUE` or `VALUE/MASK`, each decimal or `0x` hexadecimal, as in iptables.
    fn from_str(text: &str) -> Result<Self, NumberError> {
        let (value, mask) = match text.split_once('/') {
            Some((value, mask)) => (unsigned(value), unsigned(mask)),
            None => (unsigned(text), Some(u32::MAX)),
        };
        value.zip(mask).map(|(value, mask)| Self { value, mask }).ok_or(NumberError::NoNumber(u32::MAX))
    }
}

impl fmt::Display for Mark {
    /// Formats an unmasked mark in decimal, a masked mark as in listings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_whole() { self.value.fmt(f) } else { write!(f, "{:#x}/{:#x}", self.value, self.mask) }
    }
}

/// Parses a 32-bit number, decimal or `0x` hexadecimal; no sign, no space.
pub fn unsigned(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u32::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None => decimal(text),
    }
}

pub trait Bound: Copy + Ord + fmt::Display + FromStr<Err = NumberError> {
    fn value(self) -> u32;
}

pub type UidRange = Range<Uid>;
pub type PortRange = Range<Port>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range<T> {
    pub(crate) first: T,
    pub(crate) last: T,
}

impl<T: Bound> Range<T> {
    pub fn new(first: T, last: T) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    pub fn first(self) -> T {
        self.first
    }

    pub fn last(self) -> T {
        self.last
    }

    pub fn is_single(self) -> bool {
        self.first == self.last
    }

    /// Formats ports in NAT target syntax: `80` or `8000-9000`.
    pub fn dashed(self) -> String {
        self.to_string().replace(':', "-")
    }

    pub(crate) fn interval(self) -> Interval {
        Interval { first: self.first.value().into(), last: self.last.value().into() }
    }
}

impl<T: Bound> From<T> for Range<T> {
    fn from(value: T) -> Self {
        Self { first: value, last: value }
    }
}

impl<T: Bound> FromStr for Range<T> {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        text.parse().map(|value: T| value.into()).or_else(|error| match text.split_once(['-', ':']) {
            Some((first, last)) => Self::new(first.parse()?, last.parse()?).ok_or(NumberError::Backwards),
            None => Err(error),
        })
    }
}

impl<T: Bound> fmt::Display for Range<T> {
    /// Formats ports in iptables match syntax: `80` or `8000:9000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_single() { self.first.fmt(f) } else { write!(f, "{}:{}", self.first, self.last) }
    }
}

impl PortRange {
    pub fn contains(self, port: u16) -> bool {
        (self.first().number()..=self.last().number()).contains(&port)
    }

    /// Slots that the range takes in a multiport match: the kernel stores both ends.
    fn slots(self) -> usize {
        if self.is_single() { 1 } else { 2 }
    }
}

/// Ports for one multiport match, in the order given: at least one, at most [`PortSet::SLOTS`] slots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortSet(Vec<PortRange>);

impl PortSet {
    /// `XT_MULTI_PORTS` in `linux/netfilter/xt_multiport.h`; a range takes two.
    pub const SLOTS: usize = 15;

    /// `None` if `ranges` is empty or takes too many slots.
    pub fn new(ranges: impl IntoIterator<Item = PortRange>) -> Option<Self> {
        let ranges: Vec<PortRange> = ranges.into_iter().collect();
        let slots: usize = ranges.iter().map(|range| range.slots()).sum();
        (1..=Self::SLOTS).contains(&slots).then_some(Self(ranges))
    }

    pub fn pack(ranges: impl IntoIterator<Item = PortRange>) -> Vec<Self> {
        let mut packs: Vec<Self> = Vec::new();
        let mut free = 0;
        for range in merge(ranges) {
            match packs.last_mut() {
                Some(Self(pack)) if range.slots() <= free => pack.push(range),
                _ => {
                    packs.push(Self(vec![range]));
                    free = Self::SLOTS;
                }
            }
            free -= range.slots();
        }
        packs
    }

    pub fn ranges(&self) -> &[PortRange] {
        &self.0
    }
}

impl FromStr for PortSet {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        let ranges: Vec<PortRange> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        Self::new(ranges).ok_or(NumberError::NoPort)
    }
}

impl fmt::Display for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, range) in self.0.iter().enumerate() {
            write!(f, "{}{range}", if n == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// The same ports in ascending order, in the minimal number of ranges.
pub fn merge(ranges: impl IntoIterator<Item = PortRange>) -> Vec<PortRange> {
    let mut merged: Vec<PortRange> = ranges.into_iter().collect();
    merged.sort();
    merged.dedup_by(|next, before| {
        let touches = next.first.value() <= before.last.value() + 1;
        if touches {
            before.last = before.last.max(next.last);
        }
        touches
    });
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_exclude_the_invalid_id() {
        assert_eq!("4294967294".parse::<Uid>().map(Uid::number), Ok(4294967294));
        for text in ["4294967295", "-1", "+1", "1337x", "", "0x1"] {
            assert!(text.parse::<Uid>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn ranges_of_users_are_read_with_either_sign_and_never_backwards() {
        let range = |text: &str| text.parse::<UidRange>();
        assert_eq!(range("106-108"), range("106:108"));
        assert_eq!(range("7-7"), range("7"));
        let users = range("106-108").expect("a range");
        assert_eq!((users.to_string(), users.dashed()), ("106:108".into(), "106-108".into()));
        assert_eq!(range("108-106"), Err(NumberError::Backwards));
        for text in ["", "-", "1-", "-1", "1-2-3", "0-4294967295", "a-b"] {
            assert!(matches!(range(text), Err(NumberError::NoNumber(_))), "{text:?}");
        }
    }

    #[test]
    fn marks_read_both_bases_and_masks() {
        assert_eq!("1337".parse(), Ok(Mark::whole(1337)));
        assert_eq!("0x539/0xff".parse(), Ok(Mark { value: 1337, mask: 255 }));
        for text in ["", "0x", "x", "+1", "1/", "4294967296"] {
            assert!(text.parse::<Mark>().is_err(), "{text:?}");
        }
    }

    fn ranges(text: &str) -> Vec<PortRange> {
        text.split(',').map(|item| item.parse().expect("valid")).collect()
    }

    fn check(text: &str, expected: &[&str]) {
        let packed: Vec<String> = PortSet::pack(ranges(text)).iter().map(ToString::to_string).collect();
        assert_eq!(packed, expected, "{text:?}");
    }

    #[test]
    fn ports_are_strict() {
        for text in ["abc", "70000", "-1", "+1", "", "80 ", "9000-8000", "80-", "1-2-3", "*"] {
            assert!(text.parse::<PortRange>().is_err(), "{text:?}");
        }
        assert_eq!("0".parse::<Port>(), Err(NumberError::PortZero));
        assert_eq!("8000-9000".parse::<PortRange>(), "8000:9000".parse::<PortRange>());
    }

    #[test]
    fn sets_merge_what_touches_and_fill_fifteen_slots() {
        check("3,1,2", &["1:3"]);
        check("65535,1-65534", &["1:65535"]);
        check("80,443,80", &["80,443"]);
        check("1-10,5-7,20", &["1:10,20"]);
        check(
            "1,3,5,7,9,11,13,15,17,19,21,23,25,27,40-50,60",
            &["1,3,5,7,9,11,13,15,17,19,21,23,25,27", "40:50,60"],
        );
    }
}
