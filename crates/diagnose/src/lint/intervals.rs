//! Networks and ranges of ports as intervals of numbers, which can be compared.

use rules::nft::Interval;
use rules::{Cidr, PortRange};
use std::net::IpAddr;

pub(crate) fn addresses(cidr: &Cidr) -> Interval {
    let first = match cidr.address() {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    };
    let host_bits = u32::from(cidr.family().bits() - cidr.length());
    let last = first | 1u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1);
    Interval { first, last }
}

pub(crate) fn ports(range: &PortRange) -> Interval {
    Interval { first: range.first().number().into(), last: range.last().number().into() }
}
