//! Lines that a rule writes to the kernel's log, as `LOG` does. Reports to listeners of NFLOG are another thing.

use crate::name::{NameError, admit, text};
use std::str::FromStr;

/// Importance of a line of the kernel's log: the levels of `syslog(2)`, 0 to 7. One that is not said is
/// [`LogLevel::Warning`], to iptables and to nf_tables alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    Emergency,
    Alert,
    Critical,
    Error,
    #[default]
    Warning,
    Notice,
    Info,
    Debug,
}

impl LogLevel {
    /// The most important first.
    pub const ALL: [Self; 8] = [
        Self::Emergency,
        Self::Alert,
        Self::Critical,
        Self::Error,
        Self::Warning,
        Self::Notice,
        Self::Info,
        Self::Debug,
    ];

    /// The level of this number; `None` beyond 7. (nf_tables calls 8 what goes to the audit log, which no rule of ours does.)
    pub fn new(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.number() == number)
    }

    pub fn number(self) -> u32 {
        self as u32
    }

    /// The name that `nft` uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Emergency => "emerg",
            Self::Alert => "alert",
            Self::Critical => "crit",
            Self::Error => "err",
            Self::Warning => "warn",
            Self::Notice => "notice",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

text! {
    /// The start of a line of the kernel's log. The alphabet is that of [`crate::Comment`].
    LogPrefix
}

impl LogPrefix {
    /// Longest prefix in bytes: 30 with the NUL (`linux/netfilter/xt_LOG.h`).
    pub const LONGEST: usize = 29;

    /// iptables and shells read it as one word, so that it needs no quotes.
    pub fn is_word(&self) -> bool {
        self.0.chars().all(|c| c.is_ascii_alphanumeric() || "_-.,:/=+".contains(c))
    }
}

impl FromStr for LogPrefix {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        admit(text, Self::LONGEST, crate::Comment::admits)?;
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_fit_the_kernels_room_and_stay_words() {
        let prefix = |text: &str| text.parse::<LogPrefix>();
        assert_eq!(prefix(&"x".repeat(30)), Err(NameError::TooLong(29)));
        assert_eq!(prefix(""), Err(NameError::Empty));
        assert_eq!(prefix("a\"b"), Err(NameError::Character('"')));
        assert!(prefix("PREROUTING:").is_ok_and(|prefix| prefix.is_word()));
        assert!(prefix("dropped ").is_ok_and(|prefix| !prefix.is_word()));
    }

    #[test]
    fn levels_are_those_of_syslog() {
        assert_eq!(LogLevel::new(7), Some(LogLevel::Debug));
        assert_eq!(LogLevel::new(8), None);
        assert_eq!(LogLevel::default().number(), 4);
        assert!(LogLevel::ALL.into_iter().map(LogLevel::number).eq(0..8));
    }
}
