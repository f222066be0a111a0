//! Short words for this policy's rules: its chains, lists of ports, the proxy's owners.

pub(super) use crate::writing::{
    ChainPlace, OUTPUT, PREROUTING, connmark, from, from_interface, from_loopback, from_port, group, jump,
    mark, not_group, not_mark, not_port, not_to, own, port, state, tcp, to, to_interface, to_loopback, udp,
};

use crate::settings::Setting;
use crate::writing::{any_of, not_user, ports, user};
use rules::{Gid, Match, Negatable, Port, PortRange, PortSet, Uid};

pub(super) const INBOUND: ChainPlace = own("ISTIO_INBOUND");
pub(super) const OUTBOUND: ChainPlace = own("ISTIO_OUTPUT");
pub(super) const TO_OUTBOUND_LISTENER: ChainPlace = own("ISTIO_REDIRECT");
pub(super) const TO_INBOUND_LISTENER: ChainPlace = own("ISTIO_IN_REDIRECT");

pub(super) fn not_ports(ports: [Port; 2]) -> Match {
    let set = PortSet::new(ports.map(PortRange::from)).expect("two ports fit into one match");
    Match::DestinationPorts(Negatable::Not(set))
}

/// Up to this many items of a list become a rule each, as upstream writes them; more are packed.
const ONE_RULE_EACH: usize = 15;

/// The matches that together cover a list of ports: one an item, or as few as the kernel allows.
pub(super) fn each_port(list: &[PortRange]) -> Vec<Match> {
    if list.len() <= ONE_RULE_EACH {
        list.iter().copied().map(ports).collect()
    } else {
        PortSet::pack(list.iter().copied()).into_iter().map(any_of).collect()
    }
}

/// A user or a group. Rules treat them alike.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ProxyOwner {
    User(Uid),
    Group(Gid),
}

impl ProxyOwner {
    pub(super) fn is(self) -> Match {
        match self {
            Self::User(uid) => user(uid),
            Self::Group(gid) => group(gid),
        }
    }

    pub(super) fn is_not(self) -> Match {
        match self {
            Self::User(uid) => not_user(uid),
            Self::Group(gid) => not_group(gid),
        }
    }

    pub(super) fn setting(self) -> Setting {
        match self {
            Self::User(_) => Setting::ProxyUid,
            Self::Group(_) => Setting::ProxyGid,
        }
    }
}
