//! A pod and its surroundings: its namespace with a proxy's listeners, a second namespace for everything outside, optionally a
//! third for a virtual machine behind the pod, and calls of the binary.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::address::{Place, any};
use super::namespace::{Namespace, join};
use super::program::{BINARY, PATH, Run};
use super::setting::{Family, Mode, Setting, Variant};
use super::traffic::{Arrival, Identity, Listener, Protocol, Socket};

const OUTBOUND_PORT: u16 = 15001;
const INBOUND_PORT: u16 = 15006;
const AGENT_PORT: u16 = 15053;
pub(crate) const APP: Identity = Identity { uid: 1000, gid: 1000 };
/// Time limit of the binary's run, which waits for the iptables lock, never for the network. `timeout` enforces it, because a
/// handler of SIGCHLD would interrupt other tests.
const RUN_LIMIT: &str = "60s";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answerer {
    Outbound,
    Inbound,
    Agent,
    Destination,
}

/// Injected identity of the proxy and agent: TPROXY needs a proxy that runs as root, identified only by its group.
pub(crate) fn proxy_identity(mode: Mode) -> Identity {
    match mode {
        Mode::Redirect => Identity { uid: 1337, gid: 1337 },
        Mode::Tproxy => Identity { uid: 0, gid: 1337 },
    }
}

/// A pod; arrivals at its listeners are read by [`Pod::arrivals`].
pub(crate) struct Pod {
    pub(crate) setting: Setting,
    pub(crate) inside: Namespace,
    pub(crate) outside: Namespace,
    pub(crate) vm: Option<Namespace>,
    notes: Sender<Arrival<Answerer>>,
    noted: Receiver<Arrival<Answerer>>,
    destinations: RefCell<HashMap<(Protocol, SocketAddr), Listener>>,
    _proxy: Vec<Listener>,
}

impl Pod {
    pub(crate) fn new(setting: Setting) -> Pod {
        let (inside, outside) = joined();
        connect(&inside, &outside);
        let (notes, noted) = channel();
        let proxy = proxy(setting, &inside, &notes);
        Pod {
            setting,
            inside,
            outside,
            vm: None,
            notes,
            noted,
            destinations: RefCell::default(),
            _proxy: proxy,
        }
    }

    pub(crate) fn with(setting: Setting, flags: &[&str]) -> Pod {
        let pod = Pod::new(setting);
        pod.apply(flags);
        pod
    }

    /// Attaches a virtual machine behind the pod, at the NIC `vm0`, for which the pod forwards.
    pub(crate) fn attach_vm(&mut self) {
        self.vm = Some(machine_behind(&self.inside, &self.outside));
    }

    /// Sets the rules for both families in the setting's variant and mode, with additional flags.
    pub(crate) fn apply(&self, flags: &[&str]) {
        self.apply_with(&[], &[&["--dual-stack"], flags].concat());
    }

    /// Sets the rules with environment variables, without the flag for both families.
    pub(crate) fn apply_with(&self, environment: &[(&str, &str)], flags: &[&str]) {
        self.run(environment, &[self.setting.variant.flags(), flags].concat());
    }

    pub(crate) fn run(&self, environment: &[(&str, &str)], flags: &[&str]) {
        let mut command = Command::new("timeout");
        command.env_clear().env("PATH", PATH).envs(environment.iter().copied());
        command.args([RUN_LIMIT, BINARY, "istio-iptables", "--network-namespace", &self.inside.path()]);
        command.args(["-p", "15001", "-z", "15006", "-u", "1337", "-g", "1337"]);
        command.args(["-m", self.setting.mode.name()]).args(flags);
        command.outcome().with(0, &format!("{}: applying {flags:?} {environment:?}", self.setting));
    }

    pub(crate) fn listen(&self, protocol: Protocol, place: Place, port: u16) {
        let address = place.at(self.setting.family, port);
        let host = if place.is_in_pod() { &self.inside } else { &self.outside };
        self.answer(host, Socket { protocol, address, owner: APP }, Answerer::Destination);
    }

    pub(crate) fn answer(&self, home: &Namespace, socket: Socket, answerer: Answerer) {
        let mut listeners = self.destinations.borrow_mut();
        let listener = || Listener::start(home, socket, answerer, self.notes.clone());
        listeners.entry((socket.protocol, socket.address)).or_insert_with(listener);
    }

    pub(crate) fn arrivals(&self) -> Vec<Arrival<Answerer>> {
        self.noted.try_iter().collect()
    }

    pub(crate) fn rules(&self) -> String {
        match self.setting.variant {
            Variant::Native => self.inside.stdout("nft", &["--stateless", "list", "ruleset"]),
            variant @ (Variant::Legacy | Variant::Nft) => {
                Family::BOTH.map(|family| listing(&self.inside, variant, family)).concat()
            }
        }
    }
}

pub(crate) fn machine_behind(inside: &Namespace, outside: &Namespace) -> Namespace {
    let vm = Namespace::new();
    join((inside, "vm0", ["10.79.0.1/24", "fd79::1/64"]), (&vm, "eth0", ["10.79.0.2/24", "fd79::2/64"]));
    vm.ip("route add default via 10.79.0.1\nroute add default via fd79::1");
    inside.set("ipv4/ip_forward", "1");
    inside.set("ipv6/conf/all/forwarding", "1");
    outside.ip("route add 10.79.0.0/24 via 10.77.0.2\nroute add fd79::/64 via fd77::2");
    vm
}

pub(crate) fn joined() -> (Namespace, Namespace) {
    let (inside, outside) = (Namespace::new(), Namespace::new());
    join(
        (&inside, "eth0", ["10.77.0.2/24", "fd77::2/64"]),
        (&outside, "eth0", ["10.77.0.1/24", "fd77::1/64"]),
    );
    inside.ip("route add default via 10.77.0.1\nroute add default via fd77::1");
    (inside, outside)
}

fn connect(inside: &Namespace, outside: &Namespace) {
    join((inside, "net1", ["10.78.0.2/24", "fd78::2/64"]), (outside, "net1", ["10.78.0.1/24", "fd78::1/64"]));
    stand_for(outside, &[Place::Service, Place::Elsewhere, Place::Resolver]);
}

pub(crate) fn stand_for(host: &Namespace, places: &[Place]) {
    for place in places {
        let [v4, v6] = Family::BOTH.map(|family| place.ip(family));
        host.ip(&format!("addr add {v4} dev lo\naddr add {v6} dev lo nodad"));
    }
}

fn proxy(setting: Setting, inside: &Namespace, notes: &Sender<Arrival<Answerer>>) -> Vec<Listener> {
    let owner = proxy_identity(setting.mode);
    let start = |protocol, address, answerer| {
        Listener::start(inside, Socket { protocol, address, owner }, answerer, notes.clone())
    };
    let inbound = start(Protocol::Tcp, any(setting.family, INBOUND_PORT), Answerer::Inbound);
    if setting.mode == Mode::Tproxy {
        inbound.make_transparent();
    }
    let agent = Place::Loopback.at(setting.family, AGENT_PORT);
    vec![
        inbound,
        start(Protocol::Tcp, any(setting.family, OUTBOUND_PORT), Answerer::Outbound),
        start(Protocol::Tcp, agent, Answerer::Agent),
        start(Protocol::Udp, agent, Answerer::Agent),
    ]
}

fn listing(inside: &Namespace, variant: Variant, family: Family) -> String {
    let saved = inside.stdout(&variant.program(family, "-save"), &[]);
    let lines = saved.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(" [").next().unwrap_or(line).to_owned() + "\n").collect()
}
