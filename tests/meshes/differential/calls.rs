//! Random packets: as a call that a socket makes, and as the simulator takes them.

use crate::support::address::Place;
use crate::support::pod::APP;
use crate::support::setting::Family;
use crate::support::traffic::{Call, Identity, Protocol};
use crate::support::{configurations::Configuration, random::Random};
use rules::simulate::{self, Direction};
use rules::{ConnState, Gid, Uid};
use std::net::SocketAddr;

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sender {
    /// A process of the pod, with user and group.
    Process(u32, u32),
    /// The same from the address of the proxy's deliveries.
    FromSix(u32, u32),
    /// A host outside.
    Outside,
    /// The virtual machine.
    Vm,
}

/// The first packet of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) from: Sender,
    pub(crate) protocol: Protocol,
    pub(crate) place: Place,
    pub(crate) port: u16,
}

const ALL_PLACES: [Place; 8] = [
    Place::Pod,
    Place::PodSecondNic,
    Place::Loopback,
    Place::Six,
    Place::Neighbour,
    Place::SecondNeighbour,
    Place::Service,
    Place::Elsewhere,
];

impl Packet {
    pub(crate) fn random(random: &mut Random, configuration: &Configuration) -> Packet {
        let (uid, gid) = (random.of(&[0, 1000, 1337, 2000]), random.of(&[0, 1000, 1337, 2000]));
        let own = [Place::Pod, Place::PodSecondNic];
        let (from, places): (Sender, &[Place]) = match random.of(&[0, 0, 0, 0, 1, 2, 2, 3]) {
            0 if random.one_in(6) => (Sender::Process(uid, gid), &[Place::Resolver]),
            1 => (Sender::FromSix(uid, gid), &[Place::Pod, Place::Loopback, Place::Six]),
            2 => (Sender::Outside, &own),
            3 if configuration.has_vm() => {
                (Sender::Vm, &[Place::VmGateway, Place::Pod, Place::Service, Place::Elsewhere])
            }
            _ => (Sender::Process(uid, gid), &ALL_PLACES),
        };
        let protocol = random.of(&[Protocol::Tcp, Protocol::Tcp, Protocol::Udp]);
        let port = random.of(&[8080, 8080, 9080, 9050, 53, 15008, 443]);
        Packet { from, protocol, place: random.of(places), port }
    }

    pub(crate) fn to(&self, family: Family) -> SocketAddr {
        self.place.at(family, self.port)
    }

    pub(crate) fn call(&self, family: Family) -> Call {
        let (identity, from) = match self.from {
            Sender::Process(uid, gid) => (Identity { uid, gid }, None),
            Sender::FromSix(uid, gid) => (Identity { uid, gid }, Some(Place::Six.at(family, 0))),
            Sender::Outside | Sender::Vm => (APP, None),
        };
        Call { protocol: self.protocol, identity, from, mark: None, to: self.to(family) }
    }

    /// The packet as the simulator takes it. Whence it comes is known from the map of addresses.
    pub(crate) fn simulated(&self, family: Family) -> simulate::Packet {
        let local = self.place.is_in_pod();
        let (direction, source) = match self.from {
            Sender::Process(uid, gid) => (self.out(uid, gid), self.usual_source(family)),
            Sender::FromSix(uid, gid) => (self.out(uid, gid), Place::Six.at(family, 0)),
            Sender::Outside => {
                let (interface, source) = match self.place {
                    Place::PodSecondNic => ("net1", Place::SecondNeighbour),
                    _ => ("eth0", Place::Neighbour),
                };
                (Direction::Inbound { interface: interface.to_owned(), local }, source.at(family, 0))
            }
            Sender::Vm => {
                let text = if family == Family::V4 { "10.79.0.2:0" } else { "[fd79::2]:0" };
                (Direction::Inbound { interface: "vm0".to_owned(), local }, text.parse().expect("an address"))
            }
        };
        // The kernel picks a port from its range, which holds none that a rule names.
        let source = SocketAddr::new(source.ip(), 40_000);
        simulate::Packet {
            direction,
            protocol: match self.protocol {
                Protocol::Tcp => rules::Protocol::Tcp,
                Protocol::Udp => rules::Protocol::Udp,
            },
            source,
            destination: self.to(family),
            mark: 0,
            connmark: 0,
            state: ConnState::New,
        }
    }

    fn out(&self, uid: u32, gid: u32) -> Direction {
        let interface = match self.place {
            place if place.is_in_pod() => "lo",
            Place::SecondNeighbour => "net1",
            _ => "eth0",
        };
        let (uid, gid) = (Uid::new(uid).expect("a user"), Gid::new(gid).expect("a group"));
        Direction::Outbound { interface: interface.to_owned(), uid, gid }
    }

    fn usual_source(&self, family: Family) -> SocketAddr {
        let own = match (self.place, family) {
            (Place::Six, Family::V4) => Place::Loopback,
            (Place::SecondNeighbour, _) => Place::PodSecondNic,
            (place, _) if place.is_in_pod() => place,
            _ => Place::Pod,
        };
        own.at(family, 0)
    }
}
