//! Address families and networks.

use crate::{intervals::Interval, number::decimal};
use ipnetwork::IpNetwork;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{fmt, str::FromStr};

/// An address family; the kernel keeps the two families' rules separate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// IPv4 is always captured.
    pub fn captured(ipv6: bool) -> impl Iterator<Item = Self> {
        Self::BOTH.into_iter().filter(move |family| *family == Self::V4 || ipv6)
    }

    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }

    pub fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByFamily<T> {
    pub v4: T,
    pub v6: T,
}

impl<T> ByFamily<T> {
    pub fn get(&self, family: Family) -> &T {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    pub fn get_mut(&mut self, family: Family) -> &mut T {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Family, &T)> {
        [(Family::V4, &self.v4), (Family::V6, &self.v6)].into_iter()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    #[error("is not an IP address with a prefix length")]
    Address,
    #[error("has no prefix length; write {0}/{1} for the single address")]
    NoLength(IpAddr, u8),
    #[error("has an invalid prefix length; expected 0 to {0}")]
    Length(u8),
    /// The part after the slash is this number with leading zeros, which other parsers read as octal or refuse.
    #[error("has zeros before its prefix length; write /{0}")]
    LeadingZero(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr(IpNetwork);

impl Cidr {
    pub fn host(address: IpAddr) -> Self {
        Self(IpNetwork::from(address))
    }

    /// The network of `length` bits around `address`; `None` if the family has fewer bits.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let network = IpNetwork::new(address, length).ok()?;
        IpNetwork::new(network.network(), length).ok().map(Self)
    }

    pub fn address(&self) -> IpAddr {
        self.0.ip()
    }

    pub fn length(&self) -> u8 {
        self.0.prefix()
    }

    pub fn family(&self) -> Family {
        Family::of(self.address())
    }

    /// False for the other family.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(address)
    }

    pub fn is_host(&self) -> bool {
        self.length() == self.family().bits()
    }

    pub fn is_everything(&self) -> bool {
        self.length() == 0
    }

    pub fn interval(&self) -> Interval {
        let first = number(self.address());
        let host_bits = u32::from(self.family().bits() - self.length());
        let last = first | 1u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1);
        Interval { first, last }
    }

    /// Parses `ADDRESS/LENGTH`; the boolean is true if host bits were set.
    pub fn parse_noting_host_bits(text: &str) -> Result<(Self, bool), CidrError> {
        let Some((address, length)) = text.split_once('/') else {
            let address = text.parse().map_err(|_| CidrError::Address)?;
            return Err(CidrError::NoLength(address, Family::of(address).bits()));
        };
        let address: IpAddr = address.parse().map_err(|_| CidrError::Address)?;
        let bits = Family::of(address).bits();
        let cidr = decimal(length).and_then(|length| Self::new(address, length));
        let cidr = cidr.ok_or(CidrError::Length(bits))?;
        if length.len() > 1 && length.starts_with('0') {
            return Err(CidrError::LeadingZero(cidr.length()));
        }
        Ok((cidr, cidr.address() != address))
    }
}

pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

pub fn address(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from_bits(u32::try_from(number).unwrap_or_default()).into(),
        Family::V6 => Ipv6Addr::from_bits(number).into(),
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        Self::parse_noting_host_bits(text).map(|(cidr, _)| cidr)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(), self.length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(&str, bool), CidrError>) {
        let parsed = Cidr::parse_noting_host_bits(text).map(|(cidr, host)| (cidr.to_string(), host));
        assert_eq!(parsed, expected.map(|(text, host)| (text.to_owned(), host)), "{text:?}");
    }

    #[test]
    fn networks_are_canonical_and_strict() {
        check("10.0.0.0/8", Ok(("10.0.0.0/8", false)));
        check("10.1.2.3/8", Ok(("10.0.0.0/8", true)));
        check("2001:DB8:0::/32", Ok(("2001:db8::/32", false)));
        check("::6/128", Ok(("::6/128", false)));
        check("10.0.0.0/33", Err(CidrError::Length(32)));
        check("10.0.0.0/+8", Err(CidrError::Length(32)));
        check("10.0.0.0/255.0.0.0", Err(CidrError::Length(32)));
        check("10.0.0.0/", Err(CidrError::Length(32)));
        check("10.0.0.0/08", Err(CidrError::LeadingZero(8)));
        check("::/00", Err(CidrError::LeadingZero(0)));
        check("0.0.0.0/0", Ok(("0.0.0.0/0", false)));
        check("010.0.0.0/8", Err(CidrError::Address));
        check("localhost/8", Err(CidrError::Address));
        check("10.0.0.1", Err(CidrError::NoLength("10.0.0.1".parse().expect("address"), 32)));
    }
}
