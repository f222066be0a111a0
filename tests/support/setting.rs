//! The dimensions that scenes are repeated over, and the macros that make one `#[test]` of each combination,
//! named so that a failure says where it happened: `outbound::excluded_port::nft_v6_tproxy`.

use std::fmt;

use super::scope;

/// What holds the rules: one of the two implementations of iptables, or our own table of nf_tables.
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

    /// Those that a test goes through: of iptables the legacy variant too where everything is tried.
    pub(crate) fn tried() -> &'static [Variant] {
        let all = &[Variant::Native, Variant::Nft, Variant::Legacy];
        if scope::all() { all } else { &all[..2] }
    }

    /// The name that `--backend` knows it by.
    pub(crate) fn backend(self) -> &'static str {
        match self {
            Variant::Legacy => "iptables-legacy",
            Variant::Nft => "iptables-nft",
            Variant::Native => "nftables",
        }
    }

    /// The flags that ask for it.
    pub(crate) fn flags(self) -> &'static [&'static str] {
        match self {
            Variant::Legacy => &["--force-iptables-binary", "legacy"],
            Variant::Nft => &["--force-iptables-binary", "nft"],
            Variant::Native => &["--native-nftables"],
        }
    }

    /// A program of this variant of iptables: `action` is empty, `-save` or `-restore`.
    pub(crate) fn program(self, family: Family, action: &str) -> String {
        assert_ne!(self, Variant::Native, "no program of iptables is involved");
        let stem = match family {
            Family::V4 => "iptables",
            Family::V6 => "ip6tables",
        };
        format!("{stem}-{}{action}", self.name())
    }
}

/// The names of the backends that a test goes through.
pub(crate) fn backends() -> impl Iterator<Item = &'static str> {
    Variant::tried().iter().map(|variant| variant.backend())
}

/// The address family that the traffic of a test belongs to. The pod itself always has both.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Family; 2] = [Family::V4, Family::V6];
}

/// How inbound traffic is brought to the proxy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    Redirect,
    Tproxy,
}

impl Mode {
    /// The name that `--istio-inbound-interception-mode` knows it by.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Redirect => "REDIRECT",
            Mode::Tproxy => "TPROXY",
        }
    }
}

/// One combination.
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

/// Plays each scene, a `fn(Setting)`, in every variant, family and mode.
macro_rules! in_every_setting {
    ($($scene:ident),+ $(,)?) => {
        $crate::support::setting::scenes! { ($($scene)+) (
            legacy_v4_redirect: Legacy V4 Redirect, legacy_v4_tproxy: Legacy V4 Tproxy,
            legacy_v6_redirect: Legacy V6 Redirect, legacy_v6_tproxy: Legacy V6 Tproxy,
            nft_v4_redirect: Nft V4 Redirect, nft_v4_tproxy: Nft V4 Tproxy,
            nft_v6_redirect: Nft V6 Redirect, nft_v6_tproxy: Nft V6 Tproxy,
            native_v4_redirect: Native V4 Redirect, native_v4_tproxy: Native V4 Tproxy,
            native_v6_redirect: Native V6 Redirect, native_v6_tproxy: Native V6 Tproxy,
        ) }
    };
}

/// Plays each scene in every variant and family in REDIRECT mode.
macro_rules! in_every_redirect_setting {
    ($($scene:ident),+ $(,)?) => {
        $crate::support::setting::scenes! { ($($scene)+) (
            legacy_v4: Legacy V4 Redirect, legacy_v6: Legacy V6 Redirect,
            nft_v4: Nft V4 Redirect, nft_v6: Nft V6 Redirect,
            native_v4: Native V4 Redirect, native_v6: Native V6 Redirect,
        ) }
    };
}

/// Plays each scene in every variant and family in TPROXY mode.
macro_rules! in_every_tproxy_setting {
    ($($scene:ident),+ $(,)?) => {
        $crate::support::setting::scenes! { ($($scene)+) (
            legacy_v4: Legacy V4 Tproxy, legacy_v6: Legacy V6 Tproxy,
            nft_v4: Nft V4 Tproxy, nft_v6: Nft V6 Tproxy,
            native_v4: Native V4 Tproxy, native_v6: Native V6 Tproxy,
        ) }
    };
}

macro_rules! scenes {
    (($($scene:ident)+) $settings:tt) => {$(
        mod $scene {
            $crate::support::setting::tests! { $scene $settings }
        }
    )+};
}

macro_rules! tests {
    ($scene:ident ($($name:ident: $variant:ident $family:ident $mode:ident,)+)) => {$(
        $crate::support::setting::attributed! { $variant
            fn $name() {
                use $crate::support::setting::{Family, Mode, Setting, Variant};
                super::$scene(Setting { variant: Variant::$variant, family: Family::$family, mode: Mode::$mode });
            }
        }
    )+};
}

/// One pass over the kernel's parts is of nf_tables and of one variant of iptables.
macro_rules! attributed {
    (Legacy $test:item) => {
        #[test]
        #[ignore = "packets meet the same rules by iptables-nft"]
        $test
    };
    ($variant:ident $test:item) => {
        #[test]
        $test
    };
}

pub(crate) use {
    attributed, in_every_redirect_setting, in_every_setting, in_every_tproxy_setting, scenes, tests,
};
