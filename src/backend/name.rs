//! The names of what can hold rules: the same in flags, logs, JSON and code.

use std::{fmt, str::FromStr};

/// One of the two kernel interfaces behind iptables. Rules of both can exist side by side, and all take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// The old interface, one program for each family.
    Legacy,
    /// iptables' syntax over nf_tables.
    Nft,
}

impl Variant {
    pub const ALL: [Self; 2] = [Self::Legacy, Self::Nft];
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "iptables-legacy",
            Self::Nft => "iptables-nft",
        })
    }
}

/// What holds rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendName {
    /// The programs of a variant of iptables.
    Iptables(Variant),
    /// A table of nf_tables, over netlink.
    Nftables,
}

impl BackendName {
    pub const ALL: [Self; 3] =
        [Self::Iptables(Variant::Nft), Self::Iptables(Variant::Legacy), Self::Nftables];

    /// The variant of iptables, if it is one.
    pub fn variant(self) -> Option<Variant> {
        match self {
            Self::Iptables(variant) => Some(variant),
            Self::Nftables => None,
        }
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iptables(variant) => variant.fmt(f),
            Self::Nftables => f.write_str("nftables"),
        }
    }
}

/// A text that names no backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a backend; expected nftables, iptables-nft or iptables-legacy")]
pub struct UnknownBackend;

impl FromStr for BackendName {
    type Err = UnknownBackend;

    /// The name, or one that it had before: `native`, `nft`, `legacy`.
    fn from_str(text: &str) -> Result<Self, UnknownBackend> {
        match text {
            "nftables" | "native" => Ok(Self::Nftables),
            "iptables-nft" | "nft" => Ok(Self::Iptables(Variant::Nft)),
            "iptables-legacy" | "legacy" => Ok(Self::Iptables(Variant::Legacy)),
            _ => Err(UnknownBackend),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for name in BackendName::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert_eq!("native".parse(), Ok(BackendName::Nftables));
        assert_eq!("iptables".parse::<BackendName>(), Err(UnknownBackend));
    }
}
