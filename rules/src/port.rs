//! Ports, ranges of ports, and sets of ports packed as the kernel takes them.

use crate::range::{Bound, Range};
use std::{fmt, num::NonZeroU16, str::FromStr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    #[error("is not a port from 1 to 65535")]
    NoPort,
    #[error("is port 0, which no connection uses")]
    Zero,
    #[error("is a range whose end lies before its start")]
    Backwards,
}

/// A TCP or UDP port, 1 to 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(NonZeroU16);

impl Port {
    /// `None` for 0.
    pub const fn new(number: u16) -> Option<Self> {
        match NonZeroU16::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    pub const fn number(self) -> u16 {
        self.0.get()
    }
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

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One port, or all ports from the first to the last.
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

    /// In the order given.
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
