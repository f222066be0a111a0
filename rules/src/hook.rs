//! Points where the kernel calls rules: the hooks on a packet's path, and the iptables tables with chains there.

use std::fmt;

/// iptables tables, in the order in which a hook calls them (priorities -300 to 50 in `linux/netfilter_ipv4.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Before conntrack.
    Raw,
    /// Marks and TPROXY.
    Mangle,
    /// Addresses and REDIRECT; sees only the first packet of a connection. Source NAT hooks come last.
    Nat,
    Filter,
    Security,
}

impl Table {
    pub const ALL: [Self; 5] = [Self::Raw, Self::Mangle, Self::Nat, Self::Filter, Self::Security];

    /// In restore text order.
    pub const LISTED: [Self; 5] = [Self::Filter, Self::Mangle, Self::Nat, Self::Raw, Self::Security];

    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Mangle => "mangle",
            Self::Nat => "nat",
            Self::Filter => "filter",
            Self::Security => "security",
        }
    }

    /// Hooks with a base chain in this table (`iptables(8)`).
    pub fn hooks(self) -> &'static [Hook] {
        use Hook::{Forward, Input, Output, Postrouting, Prerouting};
        match self {
            Self::Raw => &[Prerouting, Output],
            Self::Mangle => &[Prerouting, Input, Forward, Output, Postrouting],
            Self::Nat => &[Prerouting, Input, Output, Postrouting],
            Self::Filter | Self::Security => &[Input, Forward, Output],
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A point in the kernel's packet path where a base chain starts, in the order of the kernel's numbers (`NF_INET_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// After arrival, before routing.
    Prerouting,
    /// Routed to this machine.
    Input,
    /// Routed through this machine.
    Forward,
    /// Made by this machine.
    Output,
    /// About to leave.
    Postrouting,
}

impl Hook {
    pub const ALL: [Self; 5] =
        [Self::Prerouting, Self::Input, Self::Forward, Self::Output, Self::Postrouting];

    pub fn name(self) -> &'static str {
        match self {
            Self::Prerouting => "PREROUTING",
            Self::Input => "INPUT",
            Self::Forward => "FORWARD",
            Self::Output => "OUTPUT",
            Self::Postrouting => "POSTROUTING",
        }
    }
}
