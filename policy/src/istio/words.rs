//! Short words for the matches, targets and chains that the policy uses.

use crate::settings::Setting;
use rules::{
    Chain, ChainName, Cidr, ConnState, ConnStates, Gid, Hook, InterfaceName, Mark, Match, Negatable, Port,
    PortRange, PortSet, Protocol, Target, Uid,
};

/// A chain by its name: a base chain or one of ours.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Base(Hook),
    Own(&'static str),
}

pub(super) const PREROUTING: Place = Place::Base(Hook::Prerouting);
pub(super) const OUTPUT: Place = Place::Base(Hook::Output);
pub(super) const INBOUND: Place = own("ISTIO_INBOUND");
pub(super) const OUTBOUND: Place = own("ISTIO_OUTPUT");
pub(super) const TO_OUTBOUND_LISTENER: Place = own("ISTIO_REDIRECT");
pub(super) const TO_INBOUND_LISTENER: Place = own("ISTIO_IN_REDIRECT");

pub(super) const fn own(name: &'static str) -> Place {
    Place::Own(name)
}

impl From<Place> for Chain {
    fn from(place: Place) -> Self {
        match place {
            Place::Base(hook) => Self::Base(hook),
            Place::Own(name) => Self::User(chain(name)),
        }
    }
}

fn chain(name: &'static str) -> ChainName {
    name.parse().expect("names in the policy are valid")
}

pub(super) fn jump(place: Place) -> Target {
    match place {
        Place::Own(name) => Target::Jump(chain(name)),
        Place::Base(_) => unreachable!("base chains are not jumped to"),
    }
}

pub(super) fn tcp() -> Match {
    Match::Protocol(Protocol::Tcp)
}

pub(super) fn udp() -> Match {
    Match::Protocol(Protocol::Udp)
}

pub(super) fn from_interface(name: &InterfaceName) -> Match {
    Match::InInterface(Negatable::Is(name.clone()))
}

pub(super) fn to_interface(name: &InterfaceName) -> Match {
    Match::OutInterface(Negatable::Is(name.clone()))
}

pub(super) fn from_loopback() -> Match {
    from_interface(&InterfaceName::loopback())
}

pub(super) fn to_loopback() -> Match {
    to_interface(&InterfaceName::loopback())
}

pub(super) fn from(cidr: Cidr) -> Match {
    Match::Source(Negatable::Is(cidr))
}

pub(super) fn to(cidr: Cidr) -> Match {
    Match::Destination(Negatable::Is(cidr))
}

pub(super) fn not_to(cidr: Cidr) -> Match {
    Match::Destination(Negatable::Not(cidr))
}

pub(super) fn port(port: Port) -> Match {
    Match::DestinationPort(Negatable::Is(port.into()))
}

pub(super) fn not_port(port: Port) -> Match {
    Match::DestinationPort(Negatable::Not(port.into()))
}

pub(super) fn from_port(port: Port) -> Match {
    Match::SourcePort(Negatable::Is(port.into()))
}

pub(super) fn not_ports(ports: [Port; 2]) -> Match {
    let set = PortSet::new(ports.map(PortRange::from)).expect("two ports fit into one match");
    Match::DestinationPorts(Negatable::Not(set))
}

/// Up to this many items of a list become a rule each, as upstream writes them; more are packed.
const ONE_RULE_EACH: usize = 15;

/// The matches that together cover a list of ports: one an item, or as few as the kernel allows.
pub(super) fn each_port(ports: &[PortRange]) -> Vec<Match> {
    if ports.len() <= ONE_RULE_EACH {
        ports.iter().map(|&range| Match::DestinationPort(Negatable::Is(range))).collect()
    } else {
        let packed = PortSet::pack(ports.iter().copied());
        packed.into_iter().map(|set| Match::DestinationPorts(Negatable::Is(set))).collect()
    }
}

pub(super) fn mark(mark: Mark) -> Match {
    Match::Mark(Negatable::Is(mark))
}

pub(super) fn not_mark(mark: Mark) -> Match {
    Match::Mark(Negatable::Not(mark))
}

pub(super) fn connmark(mark: Mark) -> Match {
    Match::Connmark(Negatable::Is(mark))
}

pub(super) fn state<const N: usize>(states: [ConnState; N]) -> Match {
    Match::ConnState(Negatable::Is(ConnStates::new(states).expect("at least one state")))
}

pub(super) fn not_group(gid: Gid) -> Match {
    Match::GidOwner(Negatable::Not(gid))
}

pub(super) fn group(gid: Gid) -> Match {
    Match::GidOwner(Negatable::Is(gid))
}

/// An owner of the proxy's traffic: a user or a group. Rules treat them alike.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    User(Uid),
    Group(Gid),
}

impl Owner {
    pub(super) fn is(self) -> Match {
        match self {
            Self::User(uid) => Match::UidOwner(Negatable::Is(uid.into())),
            Self::Group(gid) => group(gid),
        }
    }

    pub(super) fn is_not(self) -> Match {
        match self {
            Self::User(uid) => Match::UidOwner(Negatable::Not(uid.into())),
            Self::Group(gid) => not_group(gid),
        }
    }

    /// The setting that names such owners.
    pub(super) fn setting(self) -> Setting {
        match self {
            Self::User(_) => Setting::ProxyUid,
            Self::Group(_) => Setting::ProxyGid,
        }
    }
}
