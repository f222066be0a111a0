//! A piece of advice as a change of the configuration, so that it can be followed before it is given.

use crate::Setting;
use crate::istio::{CaptureConfig, DnsCapture, InboundPorts, OutboundCidrs, OwnerGroups};
use rules::{Cidr, Gid, InterfaceName, PortRange};
use std::fmt;

/// What to leave out of an option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Network(Cidr),
    Ports(PortRange),
    Interface(InterfaceName),
    Group(Gid),
    /// All of it.
    Everything,
}

/// Something left out of an option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Change {
    pub(super) setting: Setting,
    pub(super) item: Item,
    /// Whether the item stays once.
    pub(super) once: bool,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(cidr) => cidr.fmt(f),
            Self::Ports(range) => range.fmt(f),
            Self::Interface(name) => name.fmt(f),
            Self::Group(gid) => gid.fmt(f),
            Self::Everything => f.write_str("the option"),
        }
    }
}

impl From<Cidr> for Item {
    fn from(cidr: Cidr) -> Self {
        Self::Network(cidr)
    }
}

impl From<PortRange> for Item {
    fn from(range: PortRange) -> Self {
        Self::Ports(range)
    }
}

impl Change {
    pub(super) fn without(setting: Setting, item: impl Into<Item>) -> Self {
        Self { setting, item: item.into(), once: false }
    }

    /// The configuration of whoever follows the advice.
    pub(super) fn follow(&self, config: &CaptureConfig) -> CaptureConfig {
        let mut changed = config.clone();
        match (&self.item, self.setting) {
            (Item::Network(cidr), Setting::ServiceExcludeCidr) => self.cut(&mut changed.excluded_cidrs, cidr),
            (Item::Network(cidr), Setting::ServiceCidr) => {
                if let OutboundCidrs::Only(cidrs) = &mut changed.outbound_cidrs {
                    self.cut(cidrs, cidr);
                }
            }
            (Item::Ports(range), Setting::OutboundPorts) => self.cut(&mut changed.outbound_ports, range),
            (Item::Ports(range), Setting::OutboundPortsExclude) => {
                self.cut(&mut changed.excluded_outbound_ports, range);
            }
            (Item::Ports(range), Setting::InboundPorts | Setting::InboundPortsExclude) => {
                let (InboundPorts::AllBut(ranges) | InboundPorts::Only(ranges)) = &mut changed.inbound_ports;
                self.cut(ranges, range);
            }
            (Item::Interface(name), Setting::ExcludeInterfaces) => {
                self.cut(&mut changed.excluded_interfaces, name);
            }
            (Item::Interface(name), Setting::VmInterfaces) => self.cut(&mut changed.vm_interfaces, name),
            (Item::Group(gid), Setting::OwnerGroupsExclude) => {
                if let OwnerGroups::AllBut(gids) = &mut changed.owner_groups {
                    self.cut(gids, gid);
                }
            }
            (Item::Everything, Setting::OutboundPorts) => changed.outbound_ports.clear(),
            (Item::Everything, Setting::ServiceExcludeCidr) => changed.excluded_cidrs.clear(),
            (Item::Everything, Setting::RedirectDns) => changed.dns = DnsCapture::Off,
            // The others left no trace in the configuration.
            _ => {}
        }
        changed
    }

    fn cut<T: PartialEq>(&self, items: &mut Vec<T>, item: &T) {
        let mut kept = !self.once;
        items.retain(|other| other != item || !std::mem::replace(&mut kept, true));
    }
}
