//! Numbers that the kernel gives a meaning: user and group ids, packet marks, conntrack zones.

use crate::range::{Bound, Range};
use std::{fmt, num::NonZeroU16, str::FromStr};

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
            pub fn new(id: u32) -> Option<Self> {
                (id <= GREATEST_ID).then_some(Self(id))
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

/// One user, or all users from the first to the last.
pub type UidRange = Range<Uid>;

impl Bound for Uid {
    type Error = UidRangeError;
    const BACKWARDS: UidRangeError = UidRangeError::Backwards;

    fn value(self) -> u32 {
        self.0
    }
}

impl UidRange {
    pub fn contains(self, uid: Uid) -> bool {
        (self.first()..=self.last()).contains(&uid)
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

    /// A packet's mark once it is set: `(mark & !mask) ^ value`, as the kernel's `MARK` computes it (`mark_tg` in
    /// `xt_mark.c`).
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
    /// A plain mark as a decimal number, as people name them; one with a mask as listings have it, so that the bits
    /// can be seen.
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

/// A conntrack zone other than the default one: connections in different zones never share a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zone(NonZeroU16);

impl Zone {
    /// `None` for 0, the default zone.
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

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
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
        let inside = |id| users.contains(Uid::new(id).expect("an id"));
        assert!(inside(106) && inside(108) && !inside(105) && !inside(109));
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
}
