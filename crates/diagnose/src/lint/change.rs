//! A piece of advice as a change of the configuration, so that it can be followed before it is given.

use mesh::Setting;
use mesh::sources::{Given, Host, Raw, Reader};
use mesh::{Capture, ListItem, Selector};
use rules::{Cidr, Family, Gid, InterfaceName, PortRange, Statement, Target, Uid, UidRange};
use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{fmt, io};

/// What to leave out of an option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Removed {
    Network(Cidr),
    Ports(PortRange),
    Interface(InterfaceName),
    Users(UidRange),
    Group(Gid),
    /// A DNS server.
    Server(IpAddr),
    /// All of it.
    Everything,
}

/// Something left out of an option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Change {
    pub(crate) setting: Setting,
    pub(crate) item: Removed,
    /// Whether the item stays once.
    pub(crate) once: bool,
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(cidr) => cidr.fmt(f),
            Self::Ports(range) => range.fmt(f),
            Self::Interface(name) => name.fmt(f),
            Self::Users(users) => users.dashed().fmt(f),
            Self::Group(gid) => gid.fmt(f),
            Self::Server(address) => address.fmt(f),
            Self::Everything => f.write_str("the option"),
        }
    }
}

impl From<Cidr> for Removed {
    fn from(cidr: Cidr) -> Self {
        Self::Network(cidr)
    }
}

impl From<PortRange> for Removed {
    fn from(range: PortRange) -> Self {
        Self::Ports(range)
    }
}

impl Removed {
    /// What a list names; `None` for what the policy itself names.
    pub(super) fn of(listed: &ListItem) -> Option<Self> {
        Some(match &listed.selector {
            Selector::Destination(cidr) | Selector::Source(cidr) => Self::Network(*cidr),
            Selector::OutboundPort(ports, _) | Selector::InboundPort(ports) => Self::Ports(*ports),
            Selector::Interface(name) | Selector::Machine(name) => Self::Interface(name.clone()),
            Selector::User(first, last) => Self::Users(UidRange::new(*first, *last)?),
            Selector::Group(gid) => Self::Group(*gid),
            Selector::Server(address) => Self::Server(*address),
            Selector::Tunnel(_) => return None,
        })
    }

    /// Whether a list's item, as it is written, says it. Where an item has parts, interfaces stand first in it and users last.
    fn is_said_by(&self, text: &str) -> bool {
        let text = text.trim();
        match self {
            Self::Network(cidr) => {
                text.parse() == Ok(*cidr) || text.parse().map(Cidr::host).ok() == Some(*cidr)
            }
            Self::Ports(range) => text.parse() == Ok(*range),
            Self::Interface(name) => {
                text.split(':').next().and_then(|text| text.parse().ok()) == Some(name.clone())
            }
            Self::Users(users) => {
                text.rsplit(':').next().and_then(|text| text.trim().parse().ok()) == Some(*users)
            }
            Self::Group(gid) => text.parse::<u32>().ok() == Some(gid.number()),
            Self::Server(address) => text.parse().ok() == Some(*address),
            Self::Everything => false,
        }
    }
}

/// A configuration with the words that say it.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) capture: Capture,
    pub(super) raw: Raw,
    /// Whether the words alone say the configuration, once that was asked: it takes reading them.
    is_all_said: OnceCell<bool>,
}

impl Said {
    pub(super) fn new(capture: Capture, raw: Raw) -> Self {
        Self { capture, raw, is_all_said: OnceCell::new() }
    }

    fn is_all_said(&self) -> bool {
        let read = || read(&self.raw, &Remembered(&self.capture)).as_ref() == Some(&self.capture);
        *self.is_all_said.get_or_init(read)
    }
}

impl Change {
    pub(crate) fn without(setting: Setting, item: impl Into<Removed>) -> Self {
        Self { setting, item: item.into(), once: false }
    }

    /// The configuration of whoever follows the advice; `None` where that can't be told from the words.
    pub(super) fn follow(&self, said: &Said) -> Option<Said> {
        if !said.is_all_said() {
            return None;
        }
        let raw = self.left_out(&said.raw)?;
        Some(Said::new(read(&raw, &Remembered(&said.capture))?, raw))
    }

    /// The words without the item.
    fn left_out(&self, raw: &Raw) -> Option<Raw> {
        let Given { value, source } = raw.get(self.setting)?;
        if self.item == Removed::Everything {
            return Some(raw.clone().without(self.setting));
        }
        // Items about users hold lists themselves.
        let separator = if matches!(self.item, Removed::Users(_)) { ";" } else { "," };
        let mut kept = !self.once;
        let mut is_left_out = |text: &&str| self.item.is_said_by(text) && std::mem::replace(&mut kept, true);
        let items: Vec<&str> = value.split(separator).collect();
        let rest: Vec<&str> = items.iter().copied().filter(|text| !is_left_out(text)).collect();
        let given = Given { value: rest.join(separator), source: source.clone() };
        (rest.len() < items.len()).then(|| Raw::of([(self.setting, given)]).over(raw.clone()))
    }
}

fn read(raw: &Raw, host: &dyn Host) -> Option<Capture> {
    let mut reader = Reader::new(raw, Vec::new());
    let capture = mesh::configure(&mut reader, host, false);
    reader.finish().ok().map(|_| capture)
}

/// The host that a configuration was made on, as far as the configuration tells. Whoever reads words by it sees whether
/// that is enough: the same words make the same configuration.
struct Remembered<'a>(&'a Capture);

impl Host for Remembered<'_> {
    fn user(&self, _: &str) -> io::Result<Option<Uid>> {
        Ok(self.0.proxy().uids.first().copied())
    }

    fn has_user(&self, uid: Uid) -> io::Result<bool> {
        Ok(self.0.proxy().uids.contains(&uid))
    }

    fn group(&self, _: &str) -> io::Result<Option<Gid>> {
        Ok(self.0.proxy().gids.first().copied())
    }

    /// Those for documentation (RFC 5737, RFC 3849), of the families that are captured; the first one may decide about IPv6.
    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        let v6 = self.0.ipv6().then_some(Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 7).into());
        Ok(v6.into_iter().chain([Ipv4Addr::new(198, 51, 100, 7).into()]).collect())
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        let server = |listed: ListItem| match listed.selector {
            Selector::Server(address) => Some(address),
            _ => None,
        };
        Ok(self.0.lists().into_iter().filter_map(server).collect())
    }

    /// Somebody else's chain, where rules lead there.
    fn has_nat_chain(&self, family: Family, name: &str) -> io::Result<bool> {
        let rules = self.0.rules(family);
        let leads = |statement: &Statement| matches!(&statement.rule.target, Target::JumpForeign(chain) if chain.as_str() == name);
        Ok(rules.rules().statements.iter().any(leads))
    }

    fn name_servers_in(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        self.name_servers()
    }
}
