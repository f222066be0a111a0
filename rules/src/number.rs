//! Numbers that rules hold: ports, user and group ids, their ranges and sets, packet marks, conntrack zones.

use crate::intervals::Interval;
use std::{fmt, str::FromStr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a number from {least} to {most}")]
pub struct NumberError {
    pub least: u32,
    pub most: u32,
}

/// The greatest user or group id: 2^32-1 means "none" to the kernel (`setreuid(2)`).
const GREATEST_ID: u32 = u32::MAX - 1;

fn id(text: &str) -> Result<u32, NumberError> {
    let error = NumberError { least: 0, most: GREATEST_ID };
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(error);
    }
    text.parse().ok().filter(|&id| id <= GREATEST_ID).ok_or(error)
}

/// A type of ids: numbers of 32 bits but for the last one.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// `None` for 2^32-1, which is not an id.
            pub const fn new(id: u32) -> Option<Self> {
                if id <= GREATEST_ID { Some(Self(id)) } else { None }
            }

            pub fn number(self) -> u32 {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = NumberError;

            fn from_str(text: &str) -> Result<Self, NumberError> {
                id(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A user id, 0 to 2^32-2.
    Uid
}
id! {
    /// A group id, 0 to 2^32-2.
    Gid
}

impl From<Uid> for Gid {
    /// The group of the same number: upstream's default for the proxy's group.
    fn from(uid: Uid) -> Self {
        Self(uid.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UidRangeError {
    /// An end of it, or the only one, is not a user id.
    #[error(transparent)]
    NoUser(#[from] NumberError),
    #[error("is a range whose end lies before its start")]
    Backwards,
}

pub type UidRange = Range<Uid>;

impl Bound for Uid {
    type Error = UidRangeError;
    const BACKWARDS: UidRangeError = UidRangeError::Backwards;

    fn value(self) -> u32 {
        self.0
    }
}

/// A packet or connection mark: `value` in the bits of `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    pub value: u32,
    /// The bits that count; all of them for a plain mark.
    pub mask: u32,
}

impl Mark {
    pub const fn whole(value: u32) -> Self {
        Self { value, mask: u32::MAX }
    }

    pub fn is_whole(self) -> bool {
        self.mask == u32::MAX
    }

    /// A packet's mark once it is set, as the kernel computes it (`mark_tg` in `xt_mark.c`).
    pub fn set_in(self, before: u32) -> u32 {
        (before & !self.mask) ^ self.value
    }

    pub fn covers(self, mark: u32) -> bool {
        mark & self.mask == self.value
    }
}

impl FromStr for Mark {
    type Err = NumberError;

    /// `VALUE` or `VALUE/MASK`, each decimal or `0x` hexadecimal, as iptables takes it.
    fn from_str(text: &str) -> Result<Self, NumberError> {
        let (value, mask) = match text.split_once('/') {
            Some((value, mask)) => (unsigned(value), unsigned(mask)),
            None => (unsigned(text), Some(u32::MAX)),
        };
        value
            .zip(mask)
            .map(|(value, mask)| Self { value, mask })
            .ok_or(NumberError { least: 0, most: u32::MAX })
    }
}

impl fmt::Display for Mark {
    /// A plain mark as a decimal number, as people name them; one with a mask as listings have it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_whole() {
            true => self.value.fmt(f),
            false => write!(f, "{:#x}/{:#x}", self.value, self.mask),
        }
    }
}

/// A 32-bit number, decimal or `0x` hexadecimal; no sign, no space.
pub fn unsigned(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u32::from_str_radix(hex, 16).ok(),
        None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

/// A type of numbers of 16 bits other than 0.
macro_rules! nonzero {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u16);

        impl $name {
            /// `None` for 0.
            pub const fn new(number: u16) -> Option<Self> {
                if number == 0 { None } else { Some(Self(number)) }
            }

            pub const fn number(self) -> u16 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

nonzero! {
    /// A conntrack zone other than the default one: connections in different zones never share a tuple.
    Zone
}
nonzero! {
    /// A TCP or UDP port, 1 to 65535.
    Port
}

pub trait Bound: Copy + Ord + fmt::Display + FromStr<Err: Into<Self::Error>> {
    type Error;
    const BACKWARDS: Self::Error;

    fn value(self) -> u32;
}

/// One value, or all values from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range<T> {
    pub(crate) first: T,
    pub(crate) last: T,
}

impl<T: Bound> Range<T> {
    /// `None` if `last` lies before `first`.
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

    /// As NAT takes it, as listings of iptables have it, and as people write it: `80` or `8000-9000`.
    pub fn dashed(self) -> impl fmt::Display {
        Joined(self, '-')
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
    type Err = T::Error;

    /// `VALUE`, `FIRST-LAST` or `FIRST:LAST`.
    fn from_str(text: &str) -> Result<Self, T::Error> {
        let bound = |text: &str| text.parse::<T>().map_err(Into::into);
        // Lists are mostly of single values.
        bound(text).map(Self::from).or_else(|error| match text.split_once(['-', ':']) {
            Some((first, last)) => Self::new(bound(first)?, bound(last)?).ok_or(T::BACKWARDS),
            None => Err(error),
        })
    }
}

impl<T: Bound> fmt::Display for Range<T> {
    /// As matches of iptables take it: `80` or `8000:9000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Joined(*self, ':').fmt(f)
    }
}

struct Joined<T>(Range<T>, char);

impl<T: Bound> fmt::Display for Joined<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(range, sign) = self;
        match range.is_single() {
            true => range.first.fmt(f),
            false => write!(f, "{}{sign}{}", range.first, range.last),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    #[error("is not a port from 1 to 65535")]
    NoPort,
    #[error("is port 0, which no connection uses")]
    Zero,
    #[error("is a range whose end lies before its start")]
    Backwards,
}

impl FromStr for Port {
    type Err = PortError;

    fn from_str(text: &str) -> Result<Self, PortError> {
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(PortError::NoPort);
        }
        let number: u16 = text.parse().map_err(|_| PortError::NoPort)?;
        Self::new(number).ok_or(PortError::Zero)
    }
}

pub type PortRange = Range<Port>;

impl Bound for Port {
    type Error = PortError;
    const BACKWARDS: PortError = PortError::Backwards;

    fn value(self) -> u32 {
        self.number().into()
    }
}

impl PortRange {
    pub fn contains(self, port: u16) -> bool {
        (self.first().number()..=self.last().number()).contains(&port)
    }

    /// Slots that the range takes in a multiport match: the kernel stores both its ends.
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

    /// `None` when it is empty or takes too many slots.
    pub fn new(ranges: impl IntoIterator<Item = PortRange>) -> Option<Self> {
        let ranges: Vec<PortRange> = ranges.into_iter().collect();
        let slots: usize = ranges.iter().map(|range| range.slots()).sum();
        (1..=Self::SLOTS).contains(&slots).then_some(Self(ranges))
    }

    /// Merges the ranges and fills as few sets as it takes, in ascending order.
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

    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|range| range.contains(port))
    }
}

impl FromStr for PortSet {
    type Err = PortError;

    /// Ranges joined by commas.
    fn from_str(text: &str) -> Result<Self, PortError> {
        let ranges: Vec<PortRange> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        Self::new(ranges).ok_or(PortError::NoPort)
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

/// The same ports in ascending order, as few ranges as it takes.
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
    fn ids_stop_before_the_one_that_means_nobody() {
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
        assert_eq!((users.to_string(), users.dashed().to_string()), ("106:108".into(), "106-108".into()));
        assert_eq!(range("108-106"), Err(UidRangeError::Backwards));
        for text in ["", "-", "1-", "-1", "1-2-3", "0-4294967295", "a-b"] {
            assert!(matches!(range(text), Err(UidRangeError::NoUser(_))), "{text:?}");
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
        assert_eq!("0".parse::<Port>(), Err(PortError::Zero));
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
