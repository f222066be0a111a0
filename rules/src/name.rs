//! Names that go into rules verbatim: chains, interfaces, comments, prefixes of log lines. Each type has a strict alphabet, so no
//! name can end an argument, a quote or a line of restore text.

use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("is empty")]
    Empty,
    #[error("is longer than {0} bytes")]
    TooLong(usize),
    #[error("contains {0:?}")]
    Character(char),
    #[error("starts with {0:?}")]
    Start(char),
    #[error("is reserved")]
    Reserved,
}

pub(crate) fn admit(text: &str, longest: usize, allowed: fn(char) -> bool) -> Result<(), NameError> {
    match text.chars().find(|&c| !allowed(c)) {
        Some(c) => Err(NameError::Character(c)),
        None if text.is_empty() => Err(NameError::Empty),
        None if text.len() > longest => Err(NameError::TooLong(longest)),
        None => Ok(()),
    }
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::check(text).map(|()| Self(text.to_owned()))
            }
        }
    };
}

text!(ChainName);

impl ChainName {
    /// Longest name in bytes: `XT_EXTENSION_MAXNAMELEN` (29) less the terminating NUL (`linux/netfilter/x_tables.h`).
    pub const LONGEST: usize = 28;

    fn check(text: &str) -> Result<(), NameError> {
        admit(text, Self::LONGEST, |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))?;
        match (text, text.chars().next()) {
            (_, Some(c @ ('-' | '.' | ':'))) => Err(NameError::Start(c)),
            // Base chains, and targets of our rules: `-j NAME` would not mean the chain.
            (
                "ACCEPT" | "CONNMARK" | "CT" | "DROP" | "FORWARD" | "INPUT" | "LOG" | "MARK" | "NFLOG"
                | "OUTPUT" | "POSTROUTING" | "PREROUTING" | "QUEUE" | "REDIRECT" | "RETURN" | "TPROXY",
                _,
            ) => Err(NameError::Reserved),
            _ => Ok(()),
        }
    }
}

text! {
    /// Name of a network interface, or a prefix of names if it ends in `+` (`br+` matches `br0`, `br-lan`, ..). Matched when a
    /// packet passes, so interfaces created later match too.
    InterfaceName
}

impl InterfaceName {
    /// Longest name in bytes: `IFNAMSIZ` (16) less the terminating NUL (`linux/if.h`).
    pub const LONGEST: usize = 15;

    pub fn loopback() -> Self {
        Self("lo".to_owned())
    }

    pub fn prefix(&self) -> Option<&str> {
        self.0.strip_suffix('+')
    }

    pub fn covers(&self, interface: &str) -> bool {
        match self.prefix() {
            Some(prefix) => interface.starts_with(prefix),
            None => interface == self.0,
        }
    }

    fn check(text: &str) -> Result<(), NameError> {
        if matches!(text, "." | "..") {
            return Err(NameError::Reserved); // dev_valid_name() in the kernel
        }
        let bare = text.strip_suffix('+').unwrap_or(text);
        admit(bare, Self::LONGEST, |c| c.is_ascii_alphanumeric() || "_-.@".contains(c))?;
        if text.len() > Self::LONGEST {
            return Err(NameError::TooLong(Self::LONGEST));
        }
        match text.chars().next() {
            Some(c @ ('-' | '.' | '@')) => Err(NameError::Start(c)),
            _ => Ok(()),
        }
    }
}

text! {
    /// A comment on a rule, or the prefix of its NFLOG messages. Contains no quotes or backslashes.
    Comment
}

impl Comment {
    /// Longest comment in bytes: `XT_MAX_COMMENT_LEN` (256) less the terminating NUL (`linux/netfilter/xt_comment.h`).
    pub const LONGEST: usize = 255;

    /// Longest prefix of NFLOG messages in bytes: 64 with the NUL (`linux/netfilter/xt_NFLOG.h`).
    pub const LONGEST_PREFIX: usize = 63;

    /// True if quoted strings may hold the character in every rule syntax.
    pub(crate) fn admits(c: char) -> bool {
        c.is_ascii_alphanumeric() || " _-.,:;/=+*()".contains(c)
    }

    fn check(text: &str) -> Result<(), NameError> {
        admit(text, Self::LONGEST, Self::admits)
    }
}

/// A level of `syslog(2)`, 0 to 7. (nf_tables uses 8 for the audit log, to which none of our rules writes.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogLevel(u32);

impl LogLevel {
    pub const DEBUG: Self = Self(7);
    const NAMES: [&str; 8] = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];

    pub fn new(number: u32) -> Option<Self> {
        (number <= Self::DEBUG.0).then_some(Self(number))
    }

    pub fn number(self) -> u32 {
        self.0
    }

    pub fn name(self) -> &'static str {
        Self::NAMES[self.0 as usize]
    }
}

impl Default for LogLevel {
    /// iptables' and nf_tables' default.
    fn default() -> Self {
        Self(4)
    }
}

text! {
    /// Prefix of a kernel log line, with the alphabet of [`crate::Comment`].
    LogPrefix
}

impl LogPrefix {
    /// Longest prefix in bytes: 30 with the NUL (`linux/netfilter/xt_LOG.h`).
    pub const LONGEST: usize = 29;

    /// True if iptables and shells read it as one word without quotes.
    pub fn is_word(&self) -> bool {
        self.0.chars().all(|c| c.is_ascii_alphanumeric() || "_-.,:/=+".contains(c))
    }

    fn check(text: &str) -> Result<(), NameError> {
        admit(text, Self::LONGEST, Comment::admits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &Result<(), NameError>) {
        assert_eq!(&text.parse::<InterfaceName>().map(|_| ()), expected, "{text:?}");
    }

    #[test]
    fn interface_names_are_exactly_the_kernels() {
        check("eth0", &Ok(()));
        check("br+", &Ok(()));
        check("veth-1.200", &Ok(()));
        check("abcdefghijklmno", &Ok(()));
        check("abcdefghijklmn+", &Ok(()));
        check("abcdefghijklmnop", &Err(NameError::TooLong(15)));
        check("abcdefghijklmno+", &Err(NameError::TooLong(15)));
        check("", &Err(NameError::Empty));
        check("+", &Err(NameError::Empty));
        check("..", &Err(NameError::Reserved));
        check("a b", &Err(NameError::Character(' ')));
        check("a/b", &Err(NameError::Character('/')));
        check("a+b", &Err(NameError::Character('+')));
        check("-j", &Err(NameError::Start('-')));
        check("!eth0", &Err(NameError::Character('!')));
    }

    #[test]
    fn a_wildcard_covers_by_prefix() {
        let bridges: InterfaceName = "br+".parse().expect("valid");
        assert!(bridges.covers("br-lan") && bridges.covers("br") && !bridges.covers("eth0"));
        assert!(InterfaceName::loopback().covers("lo") && !InterfaceName::loopback().covers("lo0"));
    }

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
        assert_eq!(LogLevel::new(7), Some(LogLevel::DEBUG));
        assert_eq!(LogLevel::new(8), None);
        assert_eq!((LogLevel::default().number(), LogLevel::default().name()), (4, "warn"));
    }
}
