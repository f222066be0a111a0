//! What `explain` says of a call is what becomes of it: real calls at random, by each backend and in both families, against
//! the walk through the rules as they were made and through those that stand in the kernel.

use crate::meshes::ambient::scene::{
    APP, LOOPBACK, OUTSIDE, POD, PROBE, Place, RESOLVER, SERVICE, STUB, Scene, config, everywhere, live,
};
use crate::meshes::ambient::ztunnel::{At, MARK};
use crate::support::namespace::Namespace;
use crate::support::pod::machine_behind;
use crate::support::random::Random;
use crate::support::traffic::{Call, Protocol};
use diagnose::explain::{self, PodContext};
use mesh::CapturePolicy;
use rules::simulate::{Direction, Packet, Verdict, View};
use rules::{ConnState, Gid, Uid};
use std::net::SocketAddr;

/// Calls of each kind of sender in each scene.
const CALLS: usize = 16;

/// A virtual machine behind the pod, and the way to it.
const MACHINE: Place = Place::of(["10.79.0.2", "fd79::2"]);

#[derive(Clone, Copy, Debug)]
enum Sender {
    Application,
    Outside,
    Machine,
}

/// A call, who makes it, and where it goes.
#[derive(Debug)]
struct Experiment {
    sender: Sender,
    call: Call,
    to: Place,
}

impl Experiment {
    fn random(random: &mut Random, scene: &Scene, sender: Sender) -> Experiment {
        let to = match sender {
            Sender::Application => random.of(&[POD, LOOPBACK, STUB, SERVICE, RESOLVER, PROBE]),
            Sender::Outside => POD,
            Sender::Machine => random.of(&[SERVICE, RESOLVER]),
        };
        let protocol = random.of(&[Protocol::Tcp, Protocol::Tcp, Protocol::Udp]);
        // Nobody answers datagrams at the tunnel's port.
        let ports: &[u16] = if protocol == Protocol::Tcp { &[53, 80, 8080, 15008] } else { &[53, 8080] };
        let from = match sender {
            Sender::Outside => random.of(&[None, Some(SERVICE), Some(PROBE)]),
            Sender::Application | Sender::Machine => None,
        };
        let mark = match sender {
            Sender::Application => random.of(&[None, None, Some(MARK), Some(0xab000 | MARK), Some(0x538)]),
            Sender::Outside | Sender::Machine => None,
        };
        let from = from.map(|place| place.at(scene.family, 0));
        let call = Call { protocol, identity: APP, from, mark, to: to.at(scene.family, random.of(ports)) };
        Experiment { sender, call, to }
    }

    /// Whether ztunnel itself listens there.
    fn is_to_tunnel(&self) -> bool {
        self.to.is_in_pod() && self.call.to.port() == At::Tunnel as u16
    }

    /// As the walk needs it.
    fn packet(&self, scene: &Scene) -> Packet {
        let at = |place: Place| place.at(scene.family, 40_000);
        let source = match self.sender {
            Sender::Application if self.to.is_in_pod() => at(self.to),
            Sender::Application => at(POD),
            Sender::Outside => self.call.from.map_or(at(OUTSIDE), |from| SocketAddr::new(from.ip(), 40_000)),
            Sender::Machine => at(MACHINE),
        };
        let arrives = |interface: &str, local| Direction::Inbound { interface: interface.to_owned(), local };
        let direction = match self.sender {
            Sender::Application => Direction::Outbound {
                interface: if self.to.is_in_pod() { "lo" } else { "eth0" }.to_owned(),
                uid: Uid::new(APP.uid).expect("a user"),
                gid: Gid::new(APP.gid).expect("a group"),
            },
            Sender::Outside => arrives("eth0", true),
            Sender::Machine => arrives("vm0", false),
        };
        let protocol = match self.call.protocol {
            Protocol::Tcp => rules::Protocol::Tcp,
            Protocol::Udp => rules::Protocol::Udp,
        };
        let destination = self.call.to;
        let mark = self.call.mark.unwrap_or(0);
        Packet { direction, protocol, source, destination, mark, connmark: 0, state: ConnState::New }
    }
}

/// Where a call landed: at which port of ztunnel's, or where it was sent.
#[derive(Debug, PartialEq)]
enum End {
    Ztunnel(u16),
    AsSent(SocketAddr),
}

/// A scene whose rules are known to the walk, too.
struct Explained {
    scene: Scene,
    machine: Namespace,
    views: [(&'static str, View); 2],
    routing: rules::simulate::Routing,
    heard: Vec<(Protocol, SocketAddr)>,
}

impl Explained {
    fn new(scene: Scene, flags: &[&str]) -> Explained {
        let machine = machine_behind(&scene.pod, &scene.outside);
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let config = config(&flags);
        let policy: &dyn CapturePolicy = &*config;
        let [v4, v6] = rules::Family::BOTH;
        let family = if scene.family == crate::support::setting::Family::V4 { v4 } else { v6 };
        let pod = PodContext::new([v4, v6].map(|of| POD.ip_of(of)), Some(policy));
        let explain::RuleView { view, routing, .. } = explain::RuleView::of_config(policy, family, &pod);
        let there = live(&scene.pod).into_iter().nth(family as usize).expect("one of each family");
        let views = [("the rules as they were made", view), ("the rules in the kernel", there)];
        Explained { scene, machine, views, routing, heard: Vec::new() }
    }

    fn land(&mut self, trial: &Experiment) -> End {
        let (protocol, to) = (trial.call.protocol, trial.call.to);
        if !trial.is_to_tunnel() && !self.heard.contains(&(protocol, to)) {
            self.scene.listen(protocol, trial.to, to.port());
            self.heard.push((protocol, to));
        }
        let home = match trial.sender {
            Sender::Application => &self.scene.pod,
            Sender::Outside => &self.scene.outside,
            Sender::Machine => &self.machine,
        };
        let variant = self.scene.variant.name();
        trial.call.place(home).unwrap_or_else(|error| panic!("{variant}: {trial:?}: {error}"));
        match self.scene.outcome() {
            (given, _) if !given.is_empty() => End::Ztunnel(given[0].at as u16),
            (_, arrived) => End::AsSent(arrived.first().expect("somebody has answered").0),
        }
    }

    fn check(&mut self, trial: &Experiment) {
        let landed = self.land(trial);
        let packet = trial.packet(&self.scene);
        for (name, view) in &self.views {
            let explained = explain::explain(view, &self.routing, &packet);
            let expected = match explained.outcome().verdict {
                Verdict::Redirect(ports) => End::Ztunnel(ports.first().number()),
                Verdict::Pass if trial.is_to_tunnel() => End::Ztunnel(At::Tunnel as u16),
                Verdict::Pass => End::AsSent(trial.call.to),
                other => panic!("{other:?}: {trial:?}"),
            };
            let variant = self.scene.variant.name();
            assert_eq!(landed, expected, "{variant}, {name}: {trial:?}\n{explained}");
        }
    }
}

fn calls_end_as_explained(seed: u64, flags: &[&str]) {
    everywhere(|variant, family| {
        let mut random = Random::new(seed ^ (variant as u64) << 32 ^ (family as u64) << 33);
        let mut explained = Explained::new(Scene::new(variant, family, flags), flags);
        for _ in 0..CALLS {
            for sender in [Sender::Application, Sender::Outside, Sender::Machine] {
                let trial = Experiment::random(&mut random, &explained.scene, sender);
                explained.check(&trial);
            }
        }
    });
}

#[test]
fn calls_of_a_pod_with_a_machine_end_as_explained() {
    calls_end_as_explained(
        crate::support::random::number("AMBIENT_SEED", 1),
        &["--ingress=false", "--reroute-virtual-interfaces=vm0"],
    );
}

#[test]
fn calls_of_a_gateway_without_dns_capture_end_as_explained() {
    calls_end_as_explained(
        crate::support::random::number("AMBIENT_SEED", 1),
        &["--ingress=true", "--dns-capture=false"],
    );
}
