//! Dimensions that scenes are repeated over; a failure reports its setting.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::scope;

/// Implementation of the rules: one of the two iptables variants, or the native nf_tables table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Variant {
    Legacy,
    Nft,
    Native,
}

impl Variant {
    /// The name, and the prefix of the tests' names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Variant::Legacy => "legacy",
            Variant::Nft => "nft",
            Variant::Native => "native",
        }
    }

    /// Variants for a test; the legacy iptables variant only if everything is tested.
    pub(crate) fn tried() -> &'static [Variant] {
        let all = &[Variant::Native, Variant::Nft, Variant::Legacy];
        if scope::all() { all } else { &all[..2] }
    }

    /// The value of `--backend`.
    pub(crate) fn backend(self) -> &'static str {
        match self {
            Variant::Legacy => "iptables-legacy",
            Variant::Nft => "iptables-nft",
            Variant::Native => "nftables",
        }
    }

    pub(crate) fn flags(self) -> &'static [&'static str] {
        match self {
            Variant::Legacy => &["--force-iptables-binary", "legacy"],
            Variant::Nft => &["--force-iptables-binary", "nft"],
            Variant::Native => &["--native-nftables"],
        }
    }

    /// This variant's iptables program: `action` is empty, `-save` or `-restore`.
    pub(crate) fn program(self, family: Family, action: &str) -> String {
        assert_ne!(self, Variant::Native, "no iptables program is involved");
        let stem = match family {
            Family::V4 => "iptables",
            Family::V6 => "ip6tables",
        };
        format!("{stem}-{}{action}", self.name())
    }
}

pub(crate) fn backends() -> impl Iterator<Item = &'static str> {
    Variant::tried().iter().map(|variant| variant.backend())
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Family; 2] = [Family::V4, Family::V6];
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    Redirect,
    Tproxy,
}

impl Mode {
    pub(crate) const BOTH: [Mode; 2] = [Mode::Redirect, Mode::Tproxy];

    /// The value of `--istio-inbound-interception-mode`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Redirect => "REDIRECT",
            Mode::Tproxy => "TPROXY",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) variant: Variant,
    pub(crate) family: Family,
    pub(crate) mode: Mode,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} IP{:?} {}", self.variant.name(), self.family, self.mode.name())
    }
}

/// Plays a scene in every variant for a test, in both families and in these modes.
pub(crate) fn in_each(modes: &[Mode], scene: impl Fn(Setting)) {
    for &variant in Variant::tried() {
        for family in Family::BOTH {
            for &mode in modes {
                let setting = Setting { variant, family, mode };
                let played = catch_unwind(AssertUnwindSafe(|| scene(setting)));
                assert!(played.is_ok(), "in {setting}");
            }
        }
    }
}
