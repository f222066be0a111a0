//! Rule targets: the packet's next step, the changed fields, and the hooks where the kernel accepts the target.

use crate::{ChainName, Comment, Hook, LogLevel, LogPrefix, Mark, Port, PortRange, Table, Zone};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    Accept,
    Drop,
    Return,
    Jump(ChainName),
    /// Walks another owner's chain, such as Docker's `DOCKER_OUTPUT`, and continues unless that chain decides. The rule set does
    /// not make the chain; without it, iptables refuses the rule. Listings and [`crate::Rule::canonical`] have an ordinary jump.
    JumpForeign(ChainName),
    /// NAT to the local machine at this port, or at one of these ports. Table `nat` only.
    Redirect(PortRange),
    /// Hands the packet unchanged to a local transparent socket at `port`, and marks it. `mangle`, PREROUTING only.
    Tproxy {
        port: Port,
        mark: Mark,
    },
    /// Sets the packet's mark in the bits of the mask. Table `mangle` only.
    SetMark(Mark),
    /// Sets the mark of the packet's connection in the bits of the mask, if it has a connection. Table `mangle` only.
    SetConnmark(Mark),
    SaveMark,
    RestoreMark,
    /// Puts the connection in a separate conntrack zone. Table `raw` only.
    SetZone(Zone),
    /// Reports the packet to the listeners of an NFLOG group and continues.
    Nflog {
        group: u16,
        prefix: Comment,
    },
    /// Writes a line about the packet to the kernel's log and continues. From network namespaces other than the first, the kernel
    /// accepts such lines only with `net.netfilter.nf_log_all_netns`.
    Log {
        prefix: LogPrefix,
        level: LogLevel,
    },
}

/// Fields that rules change before later rules match: earlier knowledge of these fields becomes invalid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteSet {
    pub mark: bool,
    pub connmark: bool,
    /// A zone gives a packet a connection template (`xt_ct_target`), which changes its state and connection mark.
    pub zone: bool,
}

impl WriteSet {
    pub const NOTHING: Self = Self { mark: false, connmark: false, zone: false };
    pub const ANYTHING: Self = Self { mark: true, connmark: true, zone: true };

    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            mark: self.mark || other.mark,
            connmark: self.connmark || other.connmark,
            zone: self.zone || other.zone,
        }
    }
}

/// Formats the target in `iptables` syntax.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accept => f.write_str("-j ACCEPT"),
            Self::Drop => f.write_str("-j DROP"),
            Self::Return => f.write_str("-j RETURN"),
            Self::Jump(chain) | Self::JumpForeign(chain) => write!(f, "-j {chain}"),
            Self::Redirect(ports) => write!(f, "-j REDIRECT --to-ports {}", ports.dashed()),
            Self::Tproxy { port, mark: Mark { value, mask } } => {
                write!(f, "-j TPROXY --tproxy-mark {value}/{mask:#x} --on-port {port}")
            }
            Self::SetMark(mark) if mark.is_whole() => write!(f, "-j MARK --set-mark {mark}"),
            Self::SetMark(mark) => write!(f, "-j MARK --set-xmark {mark}"),
            Self::SetConnmark(Mark { value, mask }) => {
                write!(f, "-j CONNMARK --set-xmark {value:#x}/{mask:#x}")
            }
            Self::SaveMark => f.write_str("-j CONNMARK --save-mark"),
            Self::RestoreMark => f.write_str("-j CONNMARK --restore-mark"),
            Self::SetZone(zone) => write!(f, "-j CT --zone {zone}"),
            Self::Nflog { group, prefix } => {
                write!(f, "-j NFLOG --nflog-prefix \"{prefix}\" --nflog-group {group}")
            }
            Self::Log { prefix, level } => {
                let quote = if prefix.is_word() { "" } else { "\"" };
                let level = level.number();
                write!(f, "-j LOG --log-prefix {quote}{prefix}{quote} --log-level {level}")
            }
        }
    }
}

impl Target {
    pub fn decides(&self) -> bool {
        matches!(self, Self::Accept | Self::Drop | Self::Return | Self::Redirect(_) | Self::Tproxy { .. })
    }

    pub fn chain(&self) -> Option<&ChainName> {
        match self {
            Self::Jump(chain) | Self::JumpForeign(chain) => Some(chain),
            _ => None,
        }
    }

    /// Changes by the rule itself; [`crate::model::ChainWrites`] includes called chains.
    pub fn writes(&self) -> WriteSet {
        match self {
            Self::SetMark(_) | Self::RestoreMark | Self::Tproxy { .. } => {
                WriteSet { mark: true, ..WriteSet::NOTHING }
            }
            Self::SetConnmark(_) | Self::SaveMark => WriteSet { connmark: true, ..WriteSet::NOTHING },
            // The foreign chain may have any rules.
            Self::JumpForeign(_) => WriteSet::ANYTHING,
            Self::SetZone(_) => WriteSet { zone: true, ..WriteSet::NOTHING },
            Self::Accept
            | Self::Drop
            | Self::Return
            | Self::Jump(_)
            | Self::Redirect(_)
            | Self::Nflog { .. }
            | Self::Log { .. } => WriteSet::NOTHING,
        }
    }

    pub fn is_report(&self) -> bool {
        matches!(self, Self::Nflog { .. } | Self::Log { .. })
    }

    pub(crate) fn reads_connmark(&self) -> bool {
        match self {
            Self::RestoreMark => true,
            // Bits outside of the mask are kept.
            Self::SetConnmark(mark) => !mark.is_whole(),
            _ => false,
        }
    }

    pub(crate) fn is_idempotent(&self) -> bool {
        match self {
            // Bits of the value outside of the mask are toggled (`mark_tg` in `xt_mark.c`, `connmark_tg_shift` in
            // `xt_connmark.c`).
            Self::SetMark(mark) | Self::SetConnmark(mark) => mark.value & !mark.mask == 0,
            _ => true,
        }
    }

    /// True if it makes the kernel track connections (`nf_ct_netns_get`).
    pub fn tracks_connections(&self) -> bool {
        let writes = self.writes();
        matches!(self, Self::Redirect(_) | Self::RestoreMark)
            || self.chain().is_none() && (writes.connmark || writes.zone)
    }

    /// True if the target works in this table's chains that these hooks reach.
    pub(crate) fn fits<'a>(&self, table: Table, hooks: impl IntoIterator<Item = &'a Hook>) -> bool {
        let only = |taken: &[Hook]| hooks.into_iter().all(|hook| taken.contains(hook));
        match self {
            Self::Accept
            | Self::Return
            | Self::Jump(_)
            | Self::JumpForeign(_)
            | Self::Nflog { .. }
            | Self::Log { .. } => true,
            // iptables refuses DROP here: only a connection's first packet passes.
            Self::Drop => table != Table::Nat,
            Self::Redirect(_) => table == Table::Nat && only(&[Hook::Prerouting, Hook::Output]),
            Self::Tproxy { .. } => table == Table::Mangle && only(&[Hook::Prerouting]),
            // The kernel accepts these in every table. Ours are in `mangle`, whose OUTPUT reroutes packets after a mark change.
            Self::SetMark(_) | Self::SetConnmark(_) | Self::SaveMark | Self::RestoreMark => {
                table == Table::Mangle
            }
            Self::SetZone(_) => table == Table::Raw,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Family, parse};

    #[test]
    fn connections_are_tracked_for_nat_for_their_marks_and_for_zones() {
        for (rules, expected) in [
            ("*nat\n-A PREROUTING -p tcp -j REDIRECT --to-ports 1", true),
            ("*mangle\n-A PREROUTING -j CONNMARK --restore-mark", true),
            ("*mangle\n-A PREROUTING -j CONNMARK --save-mark", true),
            ("*mangle\n-A PREROUTING -j CONNMARK --set-mark 0x1", true),
            ("*raw\n-A PREROUTING -j CT --zone 1", true),
            ("*mangle\n-A PREROUTING -j MARK --set-mark 0x1", false),
            ("*mangle\n-A PREROUTING -p tcp -j TPROXY --on-port 1 --tproxy-mark 0x1/0xffffffff", false),
            ("*mangle\n-A A -j RETURN\n-A PREROUTING -j A", false),
            ("*mangle\n-A PREROUTING -j DROP", false),
        ] {
            let rules = parse::restore(&format!("{rules}\nCOMMIT\n"), Family::V4).expect(rules);
            let target = &rules.statements.last().expect("a rule").rule.target;
            assert_eq!(target.tracks_connections(), expected, "{target:?}");
        }
    }
}
