//! The names of what can hold rules: the same in flags, logs, JSON and code.

use std::fmt;

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

    /// The variant of this name, which may lack `iptables-`.
    pub fn named(text: &str) -> Option<Self> {
        match text {
            "iptables-legacy" | "legacy" => Some(Self::Legacy),
            "iptables-nft" | "nft" => Some(Self::Nft),
            _ => None,
        }
    }
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
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iptables(variant) => variant.fmt(f),
            Self::Nftables => f.write_str("nftables"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for variant in Variant::ALL {
            let name = variant.to_string();
            assert_eq!(Variant::named(&name), Some(variant));
            assert_eq!(name.strip_prefix("iptables-").and_then(Variant::named), Some(variant));
        }
        assert_eq!(Variant::named("iptables"), None);
    }
}
