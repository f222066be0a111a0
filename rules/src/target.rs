//! What a rule does with a packet.

use crate::{ChainName, Comment, LogLevel, LogPrefix, Mark, Port, PortRange, Zone};

/// The action of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Ends the walk through this table: the packet passes.
    Accept,
    /// Ends the packet.
    Drop,
    /// Back to the calling chain; in a base chain, its policy.
    Return,
    /// Walks a user-defined chain, then continues with the next rule.
    Jump(ChainName),
    /// Walks a user-defined chain that somebody else keeps, such as Docker's `DOCKER_OUTPUT`, then continues with the next
    /// rule, if that chain lets it. The rule set does not make the chain; iptables refuses the rule where it is absent.
    /// The kernel lists it as any other jump, and so does [`crate::Rule::canonical`].
    JumpForeign(ChainName),
    /// NAT to the local machine at this port, or at one of these ports. Table `nat` only.
    Redirect(PortRange),
    /// Hands the packet to a local transparent socket at `port` without changing it, and marks it.
    /// Table `mangle`, hook PREROUTING only.
    Tproxy {
        /// Port of the transparent listener.
        port: Port,
        /// Mark by which the policy rule recognises the packet.
        mark: Mark,
    },
    /// Sets the packet's mark in the bits of the mask. Table `mangle` only.
    SetMark(Mark),
    /// Sets the mark of the packet's connection in the bits of the mask, if it has a connection. Table `mangle` only.
    SetConnmark(Mark),
    /// Copies the packet's mark to its connection. Table `mangle` only.
    SaveMark,
    /// Copies the connection's mark to the packet. Table `mangle` only.
    RestoreMark,
    /// Puts the connection in a conntrack zone of its own. Table `raw` only.
    SetZone(Zone),
    /// Reports the packet to the listeners of an NFLOG group and continues.
    Nflog {
        /// NFLOG group number.
        group: u16,
        /// Text that names the rule to the listener.
        prefix: Comment,
    },
    /// Writes a line about the packet to the kernel's log and continues. From a network namespace other than the first
    /// one the kernel takes such lines only where `net.netfilter.nf_log_all_netns` says so.
    Log {
        /// What the line starts with.
        prefix: LogPrefix,
        level: LogLevel,
    },
}

/// What rules change of a packet while rules behind them still look at it: what was known of these before says nothing
/// afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writes {
    pub mark: bool,
    pub connmark: bool,
    /// With its zone a packet gets a template of a connection (`xt_ct_target` in `xt_CT.c`), by which its state and its
    /// connection's mark are other than before.
    pub zone: bool,
}

impl Writes {
    pub const NOTHING: Self = Self { mark: false, connmark: false, zone: false };
    pub const ANYTHING: Self = Self { mark: true, connmark: true, zone: true };

    /// What the one or the other changes.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            mark: self.mark || other.mark,
            connmark: self.connmark || other.connmark,
            zone: self.zone || other.zone,
        }
    }
}

impl Target {
    /// What the rule itself changes; what a chain changes that it jumps to, [`crate::model::Written`] knows.
    pub fn writes(&self) -> Writes {
        match self {
            Self::SetMark(_) | Self::RestoreMark | Self::Tproxy { .. } => {
                Writes { mark: true, ..Writes::NOTHING }
            }
            Self::SetConnmark(_) | Self::SaveMark => Writes { connmark: true, ..Writes::NOTHING },
            // Whatever its owner puts there.
            Self::JumpForeign(_) => Writes::ANYTHING,
            Self::SetZone(_) => Writes { zone: true, ..Writes::NOTHING },
            Self::Accept
            | Self::Drop
            | Self::Return
            | Self::Jump(_)
            | Self::Redirect(_)
            | Self::Nflog { .. }
            | Self::Log { .. } => Writes::NOTHING,
        }
    }

    /// Whether a packet that matches may continue with the next rule.
    pub fn continues(&self) -> bool {
        match self {
            Self::Jump(_)
            | Self::JumpForeign(_)
            | Self::SetMark(_)
            | Self::SetConnmark(_)
            | Self::SaveMark
            | Self::RestoreMark
            | Self::SetZone(_)
            | Self::Nflog { .. }
            | Self::Log { .. } => true,
            Self::Accept | Self::Drop | Self::Return | Self::Redirect(_) | Self::Tproxy { .. } => false,
        }
    }
}
