//! One configuration in force, and the question whether kernel and simulator agree about a packet.

use super::calls::{Packet, Sender};
use crate::support::address::Place;
use crate::support::configurations::{self, Configuration};
use crate::support::namespace::Namespace;
use crate::support::pod::{Answerer, Pod};
use crate::support::setting::{Family, Setting, Variant};
use crate::support::traffic::{Arrival, Protocol};
use diagnose::explain;
use mesh::CapturePolicy;
use rules::simulate::{Direction, Routing, Verdict, View, walk};
use rules::{ConnState, Mark, parse};
use std::fmt;

/// A pod whose rules are set, with the same rules for the simulator.
pub(crate) struct Scene {
    pod: Pod,
    printed: String,
    /// The rules as the policy made them, and as iptables lists them.
    views: Vec<(&'static str, View)>,
    routing: Routing,
}

/// What the two said.
pub(crate) struct Disagreement(String);

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Scene {
    pub(crate) fn new(setting: Setting, configuration: &Configuration) -> Scene {
        let mut pod = Pod::new(setting);
        if configuration.has_vm() {
            pod.attach_vm();
        }
        pod.apply_with(&configuration.variables(), &[&["--dual-stack"][..], &configuration.flags()].concat());
        pod.inside.wait_for_addresses();
        let family = family(setting);
        let config = configuration.resolve(setting.mode.name());
        let policy = View::of_rules(&configurations::rules(&config, family));
        let mut views = vec![("the rules of the policy", policy)];
        // iptables lists nothing of our own table, whose packets are judged by the policy alone.
        if setting.variant != Variant::Native {
            let saved = saved(&pod, setting);
            let listing = parse::listing(&saved, family).unwrap_or_else(|error| panic!("{error}\n{saved}"));
            views.push(("the kernel's listing", View::of_listing(listing)));
        }
        let marks = config.proxy().listeners.transparent.filter(|_| config.captures_inbound());
        let printed = format!("{setting} {:?} {:?}", configuration.flags(), configuration.variables());
        Scene { pod, printed, views, routing: routing(setting.family, marks) }
    }

    /// Makes the call and compares.
    pub(crate) fn try_packet(&self, packet: &Packet) -> Result<(), Disagreement> {
        let setting = self.pod.setting;
        let landed = land(&self.pod, packet);
        let simulated = packet.simulated(setting.family);
        for (name, view) in &self.views {
            let verdict = walk(view, &self.routing, &simulated, &mut ()).verdict;
            let answered = self.answer_comes_back(view, packet);
            if !agrees(verdict, answered, &landed, packet, setting.family) {
                let report = explain::explain(view, &self.routing, &simulated).report();
                let explained = diagnose::painted(&[report.head(), report.way()].concat(), usize::MAX);
                return Err(Disagreement(format!(
                    "{}\n{packet:?}\nlanded: {landed:?}\nover {name}: {verdict:?}\n{explained}\nrules:\n{}",
                    self.printed,
                    self.pod.rules(),
                )));
            }
        }
        Ok(())
    }

    /// Whether the answer to a call that the pod forwards for its virtual machine is forwarded too. With TPROXY of all
    /// inbound ports, ISTIO_DIVERT takes it for the proxy's, and the connection never comes about.
    fn answer_comes_back(&self, view: &View, packet: &Packet) -> bool {
        if packet.from != Sender::Vm || packet.place.is_in_pod() {
            return true;
        }
        let call = packet.simulated(self.pod.setting.family);
        let answer = rules::simulate::Packet {
            direction: Direction::Inbound { interface: "eth0".to_owned(), local: false },
            source: call.destination,
            destination: call.source,
            state: ConnState::Established,
            ..call
        };
        !walk(view, &self.routing, &answer, &mut ()).stays
    }
}

/// What became of a call.
#[derive(Debug)]
struct Landed {
    /// Where it arrived; empty if nowhere.
    arrivals: Vec<Arrival<Answerer>>,
    /// Whether the caller had an answer, and from which address it called.
    answered: std::io::Result<std::net::SocketAddr>,
}

/// Makes the call with somebody at the address that is called.
fn land(pod: &Pod, packet: &Packet) -> Landed {
    let family = pod.setting.family;
    pod.listen(packet.protocol, packet.place, packet.port);
    let answered = packet.call(family).place(home(pod, packet.from));
    Landed { arrivals: pod.arrivals(), answered }
}

fn home(pod: &Pod, sender: Sender) -> &Namespace {
    match sender {
        Sender::Process(..) | Sender::FromSix(..) => &pod.inside,
        Sender::Outside => &pod.outside,
        Sender::Vm => pod.vm.as_ref().expect("the configuration has a VM"),
    }
}

/// Whether the verdict says where the call landed.
fn agrees(verdict: Verdict, answered: bool, landed: &Landed, packet: &Packet, family: Family) -> bool {
    let to = packet.to(family);
    let [arrival] = landed.arrivals.as_slice() else {
        let lost = verdict == Verdict::Drop || verdict == Verdict::Pass && !answered;
        return lost && landed.arrivals.is_empty();
    };
    let source = packet.simulated(family).source.ip();
    let comes_from = arrival.peer.ip() == source && landed.answered.as_ref().is_ok_and(|a| a.ip() == source);
    let original = packet.protocol == Protocol::Udp || arrival.original == Some(to);
    comes_from
        && match verdict {
            Verdict::Pass => arrival.listener == Answerer::Destination && arrival.local == to,
            Verdict::Redirect(ports) => original && Some(arrival.listener) == at(ports.first().number()),
            // The packet is as it was, unless `nat` rewrote it after it had been handed over.
            Verdict::Tproxy(port) => original && Some(arrival.listener) == at(port.number()),
            Verdict::Drop | Verdict::Unknown => false,
        }
}

/// Who listens at a port of the pod of the tests.
fn at(port: u16) -> Option<Answerer> {
    match port {
        15001 => Some(Answerer::Outbound),
        15006 => Some(Answerer::Inbound),
        15053 => Some(Answerer::Agent),
        _ => None,
    }
}

/// The pod's addresses, and the marks that are routed to it.
fn routing(family: Family, marks: Option<Mark>) -> Routing {
    let own = [Place::Pod, Place::PodSecondNic, Place::Six, Place::VmGateway];
    Routing {
        local_marks: marks.into_iter().collect(),
        addresses: own.map(|place| place.ip(family)).to_vec(),
    }
}

/// The kernel's listing of the setting's family.
fn saved(pod: &Pod, setting: Setting) -> String {
    pod.inside.stdout(&setting.variant.program(setting.family, "-save"), &[])
}

/// The family in the words of the rules.
fn family(setting: Setting) -> rules::Family {
    match setting.family {
        Family::V4 => rules::Family::V4,
        Family::V6 => rules::Family::V6,
    }
}
