//! Advice followed in Istio's configuration itself.

use crate::Setting;
use crate::istio::{CaptureConfig, DnsCapture, InboundPorts, OutboundCidrs, OwnerGroups};
use crate::lint::{Change, LeftOut};

/// The configuration of whoever follows the advice.
pub(crate) fn without(config: &CaptureConfig, change: &Change) -> CaptureConfig {
    let mut changed = config.clone();
    match (&change.item, change.setting) {
        (LeftOut::Network(cidr), Setting::ServiceExcludeCidr) => {
            cut(change, &mut changed.excluded_cidrs, cidr);
        }
        (LeftOut::Network(cidr), Setting::ServiceCidr) => {
            if let OutboundCidrs::Only(cidrs) = &mut changed.outbound_cidrs {
                cut(change, cidrs, cidr);
            }
        }
        (LeftOut::Ports(range), Setting::OutboundPorts) => cut(change, &mut changed.outbound_ports, range),
        (LeftOut::Ports(range), Setting::OutboundPortsExclude) => {
            cut(change, &mut changed.excluded_outbound_ports, range);
        }
        (LeftOut::Ports(range), Setting::InboundPorts | Setting::InboundPortsExclude) => {
            let (InboundPorts::AllBut(ranges) | InboundPorts::Only(ranges)) = &mut changed.inbound_ports;
            cut(change, ranges, range);
        }
        (LeftOut::Interface(name), Setting::ExcludeInterfaces) => {
            cut(change, &mut changed.excluded_interfaces, name);
        }
        (LeftOut::Interface(name), Setting::VmInterfaces) => cut(change, &mut changed.vm_interfaces, name),
        (LeftOut::Group(gid), Setting::OwnerGroupsExclude) => {
            if let OwnerGroups::AllBut(gids) = &mut changed.owner_groups {
                cut(change, gids, gid);
            }
        }
        (LeftOut::Everything, Setting::OutboundPorts) => changed.outbound_ports.clear(),
        (LeftOut::Everything, Setting::ServiceExcludeCidr) => changed.excluded_cidrs.clear(),
        (LeftOut::Everything, Setting::RedirectDns) => changed.dns = DnsCapture::Off,
        // The others left no trace in the configuration.
        _ => {}
    }
    changed
}

fn cut<T: PartialEq>(change: &Change, items: &mut Vec<T>, item: &T) {
    let mut kept = !change.once;
    items.retain(|other| other != item || !std::mem::replace(&mut kept, true));
}
