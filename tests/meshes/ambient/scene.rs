//! A pod, its ztunnel, its application, and who is outside.

use crate::meshes::ambient::ztunnel::{Given, Ztunnel};
use crate::support::namespace::Namespace;
use crate::support::pod::joined;
use crate::support::program::{Outcome, Run, binary};
use crate::support::setting::{Family, Variant};
use crate::support::traffic::{Arrival, Call, Identity, Listener, Protocol, Socket};
use mesh::RuleReason;
use mesh::ambient::OWNERSHIP;
use mesh::settings;
use mesh::sources::{NullHost, Raw};
use mesh::{Capture, CapturePolicy, Mesh, OWNERS};
use rules::nft::LiveTable;
use rules::simulate::View;
use sidecar_init::backend::{self, Kernel, iptables::Lock};
use sidecar_init::engine::{self, Choice, Options, Summary};
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, Sender, channel};

pub(crate) const APP: Identity = Identity { uid: 1000, gid: 1000 };

/// Addresses of both families.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place([&'static str; 2]);

/// The pod, and whoever calls from outside.
pub(crate) const POD: Place = Place(["10.77.0.2", "fd77::2"]);
pub(crate) const OUTSIDE: Place = Place(["10.77.0.1", "fd77::1"]);
/// Addresses outside that are no neighbour's: a service, a DNS server, and where the host's own calls come from.
pub(crate) const SERVICE: Place = Place(["10.200.0.1", "fd20::1"]);
pub(crate) const RESOLVER: Place = Place(["10.200.0.53", "fd20::53"]);
pub(crate) const PROBE: Place = Place(["169.254.7.127", "fd16:9254:7127:1337:ffff:ffff:ffff:ffff"]);
/// Within the pod: the address that counts as loopback, and one of the same network that does not, where there is any.
pub(crate) const LOOPBACK: Place = Place(["127.0.0.1", "::1"]);
pub(crate) const STUB: Place = Place(["127.0.0.53", "::1"]);

impl Place {
    /// Somewhere else.
    pub(crate) const fn of(addresses: [&'static str; 2]) -> Place {
        Place(addresses)
    }

    pub(crate) fn ip(self, family: Family) -> IpAddr {
        self.0[family as usize].parse().expect("an address")
    }

    /// The same, of a family as rules know it.
    pub(crate) fn ip_of(self, family: rules::Family) -> IpAddr {
        self.0[family as usize].parse().expect("an address")
    }

    pub(crate) fn at(self, family: Family, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip(family), port)
    }

    pub(crate) fn is_in_pod(self) -> bool {
        [POD, LOOPBACK, STUB].iter().any(|place| place.0 == self.0)
    }
}

pub(crate) struct Scene {
    pub(crate) variant: Variant,
    pub(crate) family: Family,
    pub(crate) pod: Namespace,
    pub(crate) outside: Namespace,
    arrivals: (Sender<Arrival<SocketAddr>>, Receiver<Arrival<SocketAddr>>),
    given: Receiver<Given>,
    listeners: Vec<Listener>,
    _ztunnel: Ztunnel,
}

impl Scene {
    /// A pod with these flags given, ztunnel listening.
    pub(crate) fn new(variant: Variant, family: Family, flags: &[&str]) -> Scene {
        let (pod, outside) = joined();
        for place in [SERVICE, RESOLVER, PROBE] {
            outside.ip(&format!("addr add {} dev lo\naddr add {} dev lo nodad", place.0[0], place.0[1]));
        }
        let (note, given) = channel();
        let ztunnel = Ztunnel::start(&pod, family == Family::V6, &note);
        let arrivals = channel();
        let listeners = Vec::new();
        let scene = Scene { variant, family, pod, outside, arrivals, given, listeners, _ztunnel: ztunnel };
        let output = scene.run(&[&["apply"], flags].concat());
        output.with(0, &format!("{flags:?} by {}", variant.name()));
        scene
    }

    /// Runs the binary for the pod.
    pub(crate) fn run(&self, words: &[&str]) -> Outcome {
        let path = self.pod.path();
        let place = ["--network-namespace", &path, "--mesh", "ambient", "--backend", self.variant.backend()];
        binary(words).args(place).outcome()
    }

    /// Sees to it that somebody answers there.
    pub(crate) fn listen(&mut self, protocol: Protocol, place: Place, port: u16) {
        let address = place.at(self.family, port);
        let host = if place.is_in_pod() { &self.pod } else { &self.outside };
        let socket = Socket { protocol, address, owner: APP };
        self.listeners.push(Listener::start(host, socket, address, self.arrivals.0.clone()));
    }

    /// A call, not yet made.
    pub(crate) fn call(&self, protocol: Protocol, to: Place, port: u16) -> Call {
        Call { protocol, identity: APP, from: None, mark: None, to: to.at(self.family, port) }
    }

    /// What became of a call that has been answered: what ztunnel was given, and whoever it has reached, each as
    /// (listener, address it came from).
    pub(crate) fn outcome(&self) -> (Vec<Given>, Vec<(SocketAddr, IpAddr)>) {
        let arrivals = self.arrivals.1.try_iter().map(|arrival| (arrival.listener, arrival.peer.ip()));
        (self.given.try_iter().collect(), arrivals.collect())
    }
}

/// What flags of the mesh say, each as `--FLAG=VALUE`.
pub(crate) fn config(flags: &[String]) -> Capture {
    let given = flags.iter().map(|flag| {
        let (name, value) = flag.trim_start_matches('-').split_once('=').expect("a flag with its value");
        let row = settings::of(Mesh::Ambient).find(|row| row.long == name).expect("a flag of the mesh");
        (row.setting, value.to_owned())
    });
    let mesh = (mesh::Setting::Mesh, Mesh::Ambient.to_string());
    let raw = Raw::new(given.chain([mesh]), |_| true, |_| None);
    mesh::resolve(&raw, &NullHost, Vec::new())
        .unwrap_or_else(|problems| panic!("{flags:?}: {problems}"))
        .capture
}

fn kernel() -> Kernel {
    Kernel::open(Lock { wait: 30, ..Lock::default() }, OWNERSHIP).expect("a namespace that can be changed")
}

/// Sets rules and routing as the binary does, without its looking at what is odd.
pub(crate) fn apply(namespace: &Namespace, capture: &Capture, variant: Variant) -> Summary {
    let choice = match variant {
        Variant::Native => Choice::Nftables,
        Variant::Nft => Choice::Iptables(Some(backend::Variant::Nft)),
        Variant::Legacy => Choice::Iptables(Some(backend::Variant::Legacy)),
    };
    let options = Options::replacing(choice, OWNERS);
    let policy: &dyn CapturePolicy = &**capture;
    let desired = policy.desired();
    let applied = namespace.run(|| engine::apply(&mut kernel(), &desired, &options));
    applied.expect("rules and routing are set")
}

/// All tables of nf_tables, as packets of each family meet them.
pub(crate) fn tables_of(namespace: &Namespace) -> [Vec<LiveTable>; 2] {
    let tables = |family| kernel().nftables_listing(family).expect("tables can be read");
    let tables = namespace.run(|| rules::Family::BOTH.map(tables));
    tables.map(|(_, tables)| tables)
}

/// All rules that stand there, by family.
pub(crate) fn live(namespace: &Namespace) -> [View; 2] {
    let view =
        |family| engine::live(&mut kernel(), family, &RuleReason::origin_of).expect("rules can be read");
    namespace.run(|| rules::Family::BOTH.map(view))
}

/// Plays a scene with each backend in each family.
pub(crate) fn everywhere(play: impl Fn(Variant, Family)) {
    for variant in Variant::tried() {
        for family in Family::BOTH {
            play(*variant, family);
        }
    }
}
