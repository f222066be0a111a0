//! Names that go into rules verbatim: chains, interfaces, comments.
//!
//! Each type admits a strict alphabet, so that no name can ever end an argument, a quote or a line of
//! restore text.

use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("is empty")]
    Empty,
    /// The kernel has no room for it.
    #[error("is longer than {0} bytes")]
    TooLong(usize),
    /// A character outside the alphabet of the type.
    #[error("contains {0:?}")]
    Character(char),
    /// The first character has a special meaning to the tools that read the text.
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

/// A type of texts that [`admit`] has let through.
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
    };
}
pub(crate) use text;

text! {
    /// The name of a user-defined chain, such as `ISTIO_OUTPUT`.
    ChainName
}

impl ChainName {
    /// Longest name in bytes: `XT_EXTENSION_MAXNAMELEN` (29) less the terminating NUL
    /// (`linux/netfilter/x_tables.h`).
    pub const LONGEST: usize = 28;
}

impl FromStr for ChainName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        admit(text, Self::LONGEST, |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))?;
        match text.chars().next() {
            Some(c @ ('-' | '.' | ':')) => Err(NameError::Start(c)),
            _ if RESERVED.contains(&text) => Err(NameError::Reserved),
            _ => Ok(Self(text.to_owned())),
        }
    }
}

/// Base chains, and targets that a rule of ours may have: `-j NAME` would not mean the chain.
const RESERVED: [&str; 16] = [
    "ACCEPT",
    "CONNMARK",
    "CT",
    "DROP",
    "FORWARD",
    "INPUT",
    "LOG",
    "MARK",
    "NFLOG",
    "OUTPUT",
    "POSTROUTING",
    "PREROUTING",
    "QUEUE",
    "REDIRECT",
    "RETURN",
    "TPROXY",
];

text! {
    /// The name of a network interface, or a prefix of names where it ends in `+` (`br+` is `br0`, `br-lan`, ..).
    ///
    /// Names are matched when a packet passes, so that an interface which appears later matches as well.
    InterfaceName
}

impl InterfaceName {
    /// Longest name in bytes: `IFNAMSIZ` (16) less the terminating NUL (`linux/if.h`).
    pub const LONGEST: usize = 15;

    pub fn loopback() -> Self {
        Self("lo".to_owned())
    }

    /// The part before `+`, where the name is a prefix.
    pub fn prefix(&self) -> Option<&str> {
        self.0.strip_suffix('+')
    }

    pub fn covers(&self, interface: &str) -> bool {
        match self.prefix() {
            Some(prefix) => interface.starts_with(prefix),
            None => interface == self.0,
        }
    }
}

impl FromStr for InterfaceName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
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
            _ => Ok(Self(text.to_owned())),
        }
    }
}

text! {
    /// A comment on a rule, or the prefix of its NFLOG messages. Words without quotes or backslashes.
    Comment
}

impl Comment {
    /// Longest comment in bytes: `XT_MAX_COMMENT_LEN` (256) less the terminating NUL (`linux/netfilter/xt_comment.h`).
    pub const LONGEST: usize = 255;

    /// Longest prefix of NFLOG messages in bytes: 64 with the NUL (`linux/netfilter/xt_NFLOG.h`).
    pub const LONGEST_PREFIX: usize = 63;

    /// True if texts between quotes may hold the character, in every language that rules are written in.
    pub(crate) fn admits(c: char) -> bool {
        c.is_ascii_alphanumeric() || " _-.,:;/=+*()".contains(c)
    }
}

impl FromStr for Comment {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        admit(text, Self::LONGEST, Self::admits)?;
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &Result<(), NameError>) {
        assert_eq!(&text.parse::<InterfaceName>().map(|_| ()), expected, "{text:?}");
    }

    #[test]
    fn interface_names_are_what_the_kernel_takes_and_no_more() {
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
}
