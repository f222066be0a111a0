//! Items of lists that lie in other items.

use super::change::{Change, Item};
use super::{Code, Finding, Idle};
use crate::Setting;
use crate::istio::{CaptureConfig, InboundPorts, OutboundCidrs};
use rules::nft::Interval;
use rules::{Cidr, Family, PortRange};
use std::cmp::Reverse;
use std::fmt::Display;
use std::net::IpAddr;

/// Looks for items that another item of the same option covers.
pub(super) fn check(config: &CaptureConfig) -> Vec<Idle> {
    let mut found = Vec::new();
    let networks = |setting, cidrs: &[Cidr]| {
        let of = |family| cidrs.iter().copied().filter(move |cidr| cidr.family() == family);
        let each = Family::BOTH.map(|family| covered(setting, &of(family).collect::<Vec<_>>(), addresses));
        each.into_iter().flatten()
    };
    found.extend(networks(Setting::ServiceExcludeCidr, &config.excluded_cidrs));
    if let OutboundCidrs::Only(cidrs) = &config.outbound_cidrs {
        found.extend(networks(Setting::ServiceCidr, cidrs));
    }
    found.extend(covered(Setting::OutboundPorts, &config.outbound_ports, ports));
    found.extend(covered(Setting::OutboundPortsExclude, &config.excluded_outbound_ports, ports));
    match &config.inbound_ports {
        InboundPorts::AllBut(excluded) => {
            found.extend(covered(Setting::InboundPortsExclude, excluded, ports));
        }
        InboundPorts::Only(included) => found.extend(covered(Setting::InboundPorts, included, ports)),
    }
    found
}

/// The items that lie in another one, in their order; of equal items, the later. One item that is as wide as any before
/// it is enough to compare with, once the items stand in the order of their starts.
fn covered<T: Copy + Display + PartialEq + Into<Item>>(
    setting: Setting,
    items: &[T],
    interval: fn(&T) -> Interval,
) -> Vec<Idle> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|at| {
        let Interval { first, last } = interval(&items[*at]);
        (first, Reverse(last), *at)
    });
    let mut widest: Option<usize> = None;
    let mut found: Vec<(usize, usize)> = Vec::new();
    for at in order {
        match widest {
            Some(wide) if interval(&items[at]).last <= interval(&items[wide]).last => found.push((at, wide)),
            Some(_) | None => widest = Some(at),
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(at, wide)| idle(setting, items[at], items[wide])).collect()
}

fn idle<T: Copy + Display + PartialEq + Into<Item>>(setting: Setting, item: T, wide: T) -> Idle {
    let once = item == wide;
    let (text, remedy) = match once {
        true => (format!("lists {item} twice"), format!("list {item} once")),
        false => (format!("lists {item}, which lies in {wide}"), format!("drop {item}")),
    };
    let finding = Finding::warning(Code::CoveredItem, &setting.row().option(), text, remedy);
    Idle { finding, change: Change { once, ..Change::without(setting, item) } }
}

pub(super) fn addresses(cidr: &Cidr) -> Interval {
    let first = match cidr.address() {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    };
    let host_bits = u32::from(cidr.family().bits() - cidr.length());
    let last = first | 1u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1);
    Interval { first, last }
}

pub(super) fn ports(range: &PortRange) -> Interval {
    Interval { first: range.first().number().into(), last: range.last().number().into() }
}
