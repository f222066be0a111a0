//! What a rule does with a packet.

use crate::{ChainName, Comment, Mark, Port, PortRange, Zone};

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
    /// Copies the packet's mark to its connection. Table `mangle` only.
    SaveMark,
    /// Copies the connection's mark to the packet. Table `mangle` only.
    RestoreMark,
    /// Puts the connection in a conntrack zone of its own. Table `raw` only.
    SetZone(Zone),
    /// Reports the packet to the listeners of an NFLOG group and continues.
    Log {
        /// NFLOG group number.
        group: u16,
        /// Text that names the rule to the listener.
        prefix: Comment,
    },
}

impl Target {
    /// Whether a packet that matches may continue with the next rule.
    pub fn continues(&self) -> bool {
        match self {
            Self::Jump(_)
            | Self::SetMark(_)
            | Self::SaveMark
            | Self::RestoreMark
            | Self::SetZone(_)
            | Self::Log { .. } => true,
            Self::Accept | Self::Drop | Self::Return | Self::Redirect(_) | Self::Tproxy { .. } => false,
        }
    }
}
