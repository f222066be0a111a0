//! Ranges of numbers that rules name: ports and users.

use crate::intervals::Interval;
use std::{fmt, str::FromStr};

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
        match text.split_once(['-', ':']) {
            Some((first, last)) => Self::new(bound(first)?, bound(last)?).ok_or(T::BACKWARDS),
            None => bound(text).map(Self::from),
        }
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
