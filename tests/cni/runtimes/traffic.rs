//! Real connections into a container and out of it, and their destinations. The proxy's two listeners and the application run in
//! the container's namespace. A program in the container, with the container's capabilities, makes the outbound calls.

use crate::cni::plugin::runtime::rules;
use crate::{
    cni::runtimes::stage::Stage,
    support::{
        namespace::Namespace,
        pod::{APP, Answerer},
        traffic::{Arrival, Call, Identity, Listener, Protocol, Socket},
    },
};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::mpsc::channel,
};

const SERVICES: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(10, 99, 0, 1), Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 1));

#[derive(Clone, Copy, Debug)]
pub(crate) struct Proxy {
    pub(crate) uid: u32,
    pub(crate) outbound: u16,
    pub(crate) inbound: u16,
}

pub(crate) const ISTIO: Proxy = Proxy { uid: 1337, outbound: 15001, inbound: 15006 };
pub(crate) const LINKERD: Proxy = Proxy { uid: 2102, outbound: 4140, inbound: 4143 };
pub(crate) const KUMA: Proxy = Proxy { uid: 5678, ..ISTIO };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CapturedBy {
    Out,
    In,
}
pub(crate) use CapturedBy::{In, Out};

/// Direction, port, and the expected listener.
pub(crate) type Case = (CapturedBy, u16, Answerer);

pub(crate) struct Container<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) inside: &'a Namespace,
    pub(crate) address: IpAddr,
    pub(crate) proxy: Proxy,
    pub(crate) run: &'a dyn Fn(&[&str]) -> String,
}

impl Container<'_> {
    /// Checks the cases with the container's programs, which have no capability.
    pub(crate) fn check(&self, cases: &[Case]) {
        self.has_no_capability();
        let outside = self.stage.outside();
        let (service, any): (IpAddr, IpAddr) = match self.address {
            IpAddr::V4(_) => (SERVICES.0.into(), Ipv4Addr::UNSPECIFIED.into()),
            IpAddr::V6(_) => (SERVICES.1.into(), Ipv6Addr::UNSPECIFIED.into()),
        };
        let at_once = if service.is_ipv6() { "nodad" } else { "" };
        outside.ip(&format!("addr replace {service} dev lo {at_once}"));
        let (notes, noted) = channel();
        let listen = |host, ip: IpAddr, port, owner, name| {
            let socket = Socket { protocol: Protocol::Tcp, address: (ip, port).into(), owner };
            Listener::start(host, socket, name, notes.clone())
        };
        let Proxy { uid, outbound: out, inbound } = self.proxy;
        let proxy = Identity { uid, gid: uid };
        let _proxy = [(out, Answerer::Outbound), (inbound, Answerer::Inbound)]
            .map(|(port, name)| listen(self.inside, any, port, proxy, name));
        for case in cases {
            let &(way, port, _) = case;
            let (host, to) = match way {
                Out => (&outside, SocketAddr::new(service, port)),
                In => (self.inside, SocketAddr::new(self.address, port)),
            };
            let _destination = listen(host, to.ip(), port, APP, Answerer::Destination);
            let answered = match way {
                Out => self.calls(to),
                In => calls(&outside, to),
            };
            let arrivals: Vec<Arrival<Answerer>> = noted.try_iter().collect();
            assert!(
                answered.is_ok() && matches!(arrivals.as_slice(), [arrival] if lands(case, to, arrival)),
                "{case:?}: the caller got {answered:?}, arrivals {arrivals:?}\nrules:\n{}\n{}",
                rules(self.inside),
                self.stage.logs(),
            );
        }
        // Not every network has a route to the host outside.
        if !cases.iter().any(|(way, ..)| *way == Out) {
            return;
        }
        // The proxy's own calls pass.
        let to = SocketAddr::new(service, 80);
        let _destination = listen(&outside, service, 80, APP, Answerer::Destination);
        let call = Call { protocol: Protocol::Tcp, identity: proxy, from: None, mark: None, to };
        let answered = call.place(self.inside);
        let arrivals: Vec<Answerer> = noted.try_iter().map(|arrival: Arrival<_>| arrival.listener).collect();
        assert_eq!(arrivals, [Answerer::Destination], "{call:?}: {answered:?}\n{}", rules(self.inside));
    }

    /// All five sets of capabilities are empty (`proc_pid_status(5)`).
    fn has_no_capability(&self) {
        let status = (self.run)(&["cat", "/proc/self/status"]);
        let sets: Vec<&str> = status.lines().filter(|line| line.starts_with("Cap")).collect();
        assert_eq!(sets.len(), 5, "{status}");
        for set in sets {
            assert!(set.ends_with("\t0000000000000000"), "{set}");
        }
    }

    fn calls(&self, to: SocketAddr) -> Result<(), String> {
        let call = format!("printf '?' | nc -w 5 {} {}", to.ip(), to.port());
        let answer = (self.run)(&["sh", "-c", &call]);
        if answer == "!" { Ok(()) } else { Err(answer) }
    }
}

/// True if the expected listener was reached; a proxy must also know the original destination.
fn lands(&(_, _, expected): &Case, to: SocketAddr, arrival: &Arrival<Answerer>) -> bool {
    arrival.listener == expected && (expected == Answerer::Destination || arrival.original == Some(to))
}

fn calls(host: &Namespace, to: SocketAddr) -> Result<(), String> {
    let call = Call { protocol: Protocol::Tcp, identity: APP, from: None, mark: None, to };
    call.place(host).map(drop).map_err(|error| error.to_string())
}
