//! A pod with a mesh's rules and foreign ones, a host outside, and the tool's answers about packets between them.

use crate::oracle::command::{self, Command};
use crate::oracle::configurations::Configuration;
use crate::oracle::grammar::{FOREIGN_PORT, PORTS};
use crate::oracle::packets::{Ears, Landing, Packet, Sent};
use crate::oracle::question::{family, question, simulated};
use crate::support::engine::kernel;
use crate::support::namespace::{Namespace, join};
use crate::support::pod::APP;
use crate::support::program;
use crate::support::setting::Family;
use crate::support::traffic::Identity;
use diagnose::explain::{self, PodContext};
use mesh::recognition::named;
use mesh::{Capture, Mesh, OWNERS};
use rules::simulate::{Outcome, Routing, Verdict, View, walk};
use rules::{ByFamily, routing::Object};
use serde_json::Value;
use sidecar_init::{engine, sys};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    pub(crate) configuration: Configuration,
    pub(crate) backend: &'static str,
    /// Foreign rules set before the mesh's rules, and afterwards.
    pub(crate) before: Vec<Command>,
    pub(crate) after: Vec<Command>,
}

pub(crate) const POD_LINK: &str = "link set eth0 address 02:00:00:00:00:02
route add default via 10.77.0.1
route add default via fd77::1
neigh replace 10.77.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent
neigh replace fd77::1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent";
pub(crate) const OUTSIDE_LINK: &str = "link set eth0 address 02:00:00:00:00:01
addr add 10.99.0.1 dev lo
addr add 10.98.0.1 dev lo
addr add 10.88.0.10 dev lo
addr add 192.0.2.1 dev lo
addr add 192.0.2.10 dev lo
addr add fd99::1 dev lo nodad
addr add fd98::1 dev lo nodad
addr add fd88::10 dev lo nodad
addr add 2001:db8::1 dev lo nodad
addr add 2001:db8::a dev lo nodad
neigh replace 10.77.0.2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent
neigh replace fd77::2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent";
/// For both namespaces: TCP Fast Open without cookies on both sides (`TFO_*` of `net/tcp.h`), a pod that forwards, and an outside
/// host that accepts packets from its own addresses.
pub(crate) const PARAMETERS: [(&str, &str); 4] = [
    ("ipv4/tcp_fastopen", "1543"),
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv4/conf/all/accept_local", "1"),
];

pub(crate) struct Scene {
    /// With only the accepted commands.
    pub(crate) setup: Setup,
    pub(crate) capture: Capture,
    pub(crate) pod: Namespace,
    outside: Namespace,
    ears: Ears,
    pub(crate) refused: Option<String>,
    pub(crate) state_before: String,
    views: ByFamily<View>,
    routes: BTreeSet<Object>,
    addresses: Vec<IpAddr>,
}

#[derive(Clone, Debug)]
pub(crate) struct Disposition {
    pub(crate) packet: Packet,
    pub(crate) source: SocketAddr,
    /// Prediction from all existing rules.
    pub(crate) predicted: Outcome,
    /// From the mesh's rules only.
    pub(crate) meant: Outcome,
    pub(crate) landings: Vec<Landing>,
}

impl Scene {
    pub(crate) fn new(setup: &Setup) -> Self {
        let (pod, outside) = (Namespace::new(), Namespace::new());
        join(
            (&pod, "eth0", ["10.77.0.2/24", "fd77::2/64"]),
            (&outside, "eth0", ["10.77.0.1/24", "fd77::1/64"]),
        );
        pod.ip(POD_LINK);
        outside.ip(OUTSIDE_LINK);
        for (parameter, value) in PARAMETERS {
            [&pod, &outside].into_iter().for_each(|namespace| namespace.set(parameter, value));
        }
        let capture = setup.configuration.capture();
        let ears = listen(&capture, &pod, &outside);
        let before = command::run(&pod, &setup.before);
        let mut scene = Self {
            setup: Setup { before, ..setup.clone() },
            capture,
            ears,
            refused: None,
            state_before: state(&pod),
            views: ByFamily { v4: View::empty(rules::Family::V4), v6: View::empty(rules::Family::V6) },
            routes: BTreeSet::new(),
            addresses: Vec::new(),
            pod,
            outside,
        };
        let applied = scene.apply();
        // Foreign rules that decide before the mesh's are a warning.
        if !matches!(applied.code, Some(0 | 3)) {
            scene.refused = Some(applied.stderr.clone());
            return scene;
        }
        scene.setup.after = command::run(&scene.pod, &setup.after);
        scene.read();
        scene
    }

    fn read(&mut self) {
        let (views, routes, addresses) = self.pod.run(|| {
            let owner = Mesh::default().ownership().union(OWNERS);
            let mut kernel = kernel(owner);
            let routes = kernel.routing().expect("routes");
            let mut view = |family| named(engine::live(&mut kernel, family).expect("rules"));
            let views = ByFamily { v4: view(rules::Family::V4), v6: view(rules::Family::V6) };
            (views, routes, sys::address::all().expect("addresses"))
        });
        (self.views, self.routes, self.addresses) = (views, routes, addresses);
    }

    pub(crate) fn apply(&self) -> program::Outcome {
        let words = self.setup.configuration.words();
        let backend = format!("--backend={}", self.setup.backend);
        self.run_tool(&[&["apply".to_owned(), backend, "--output=json".to_owned()], &words[..]].concat())
    }

    pub(crate) fn run_tool(&self, words: &[String]) -> program::Outcome {
        self.pod.outcome(program::binary(&[]).args(words))
    }

    pub(crate) fn answer(&self, command: &str, with_flags: bool) -> (Value, Option<i32>) {
        let mut words = vec![command.to_owned(), "--output=json".to_owned()];
        words.extend(if with_flags { self.setup.configuration.words() } else { Vec::new() });
        let output = self.run_tool(&words);
        (serde_json::from_str(&output.stdout).unwrap_or(Value::Null), output.code)
    }

    /// Sends packets and reads their destinations; waits longer for packets that differ from the prediction.
    pub(crate) fn dispositions(&mut self, packets: &[Packet]) -> Vec<Disposition> {
        let mut sent: Vec<(&Packet, Sent)> = Vec::new();
        for is_inbound in [false, true] {
            let group: Vec<&Packet> =
                packets.iter().filter(|packet| packet.is_inbound == is_inbound).collect();
            let home = if is_inbound { &self.outside } else { &self.pod };
            let numbered = self.ears.send(home, &group);
            sent.extend(group.into_iter().zip(numbered).filter_map(|(packet, sent)| Some((packet, sent?))));
        }
        self.ears.settle(Duration::from_millis(40));
        let pod = PodContext::new(self.addresses.iter().copied(), None);
        let mut dispositions: Vec<Disposition> = sent
            .iter()
            .map(|(packet, sent)| Disposition {
                packet: (*packet).clone(),
                source: sent.source,
                predicted: self.predicted(packet, sent.source, &pod),
                meant: self.expected(packet, sent.source, &pod),
                landings: self.ears.landings(sent),
            })
            .collect();
        if self.has_routes() {
            for disposition in &mut dispositions {
                disposition.predicted = self.answered(disposition);
            }
        }
        if dispositions.iter().any(|disposition| !disposition.agrees(&disposition.predicted)) {
            self.ears.settle(Duration::from_millis(400));
            for (disposition, (_, sent)) in dispositions.iter_mut().zip(&sent) {
                disposition.landings = self.ears.landings(sent);
            }
        }
        dispositions
    }

    /// True if foreign policy rules or routes exist: the program then gets routes from the kernel.
    pub(crate) fn has_routes(&self) -> bool {
        let mut commands = self.setup.before.iter().chain(&self.setup.after);
        commands.any(|command| matches!(command, Command::Ip(_)))
    }

    /// The program's outcome; an answer that a packet is not sent counts as not arriving.
    fn answered(&self, disposition: &Disposition) -> Outcome {
        let answer = self.explained(&disposition.packet, disposition.source);
        let number =
            |key: &str| answer[key].as_u64().and_then(|port| rules::Port::new(u16::try_from(port).ok()?));
        let ports = number("port")
            .and_then(|first| rules::PortRange::new(first, number("last_port").unwrap_or(first)));
        let verdict = match (answer["verdict"].as_str(), ports) {
            _ if !answer["unsent"].is_null() => Verdict::Drop,
            (Some("not_captured"), _) => Verdict::Pass,
            (Some("dropped"), _) => Verdict::Drop,
            (Some("unknown"), _) => Verdict::Unknown,
            (Some("captured"), Some(ports)) if answer["transparent"] == true => {
                Verdict::Tproxy(ports.first())
            }
            (Some("captured"), Some(ports)) => Verdict::Redirect(ports),
            _ => panic!("{:?}: {answer:#}", disposition.packet),
        };
        Outcome { verdict, ..disposition.predicted }
    }

    pub(crate) fn explained(&self, packet: &Packet, source: SocketAddr) -> Value {
        let question = question(packet, source);
        let flags = question.iter().map(|(flag, value)| format!("--{flag}={value}"));
        let words = ["explain", "--live", "--output=json"].map(str::to_owned).into_iter().chain(flags);
        let output = self.run_tool(&words.collect::<Vec<_>>());
        serde_json::from_str(&output.stdout).unwrap_or_default()
    }

    fn predicted(&self, packet: &Packet, source: SocketAddr, pod: &PodContext) -> Outcome {
        let (view, routing) = self.walked(packet, pod);
        walk(view, &routing, &simulated(packet, source, pod))
    }

    fn expected(&self, packet: &Packet, source: SocketAddr, pod: &PodContext) -> Outcome {
        let scene = explain::RuleView::of_config(&*self.capture, family(packet), pod);
        walk(&scene.view, &scene.routing, &simulated(packet, source, pod))
    }

    fn walked(&self, packet: &Packet, pod: &PodContext) -> (&View, Routing) {
        let of = family(packet);
        let marks = self.routes.iter().filter_map(|object| match object {
            Object::Rule { family, mark, table, .. } if *family == of => {
                let route = Object::Route { family: *family, table: *table };
                self.routes.contains(&route).then_some(*mark)
            }
            _ => None,
        });
        let routing = Routing { local_marks: marks.collect(), addresses: pod.addresses.clone() };
        (self.views.get(of), routing)
    }

    pub(crate) fn explanation(&self, disposition: &Disposition) -> String {
        let pod = PodContext::new(self.addresses.iter().copied(), None);
        let (view, routing) = self.walked(&disposition.packet, &pod);
        let packet = simulated(&disposition.packet, disposition.source, &pod);
        let report = explain::explain(view, &routing, &packet).report();
        diagnose::painted(&[report.head(), report.way(true)].concat(), usize::MAX)
    }

    pub(crate) fn captures_family(&self, packet: &Packet) -> bool {
        self.capture.families().any(|one| one == family(packet))
    }
}

impl Disposition {
    /// An unknown verdict agrees with everything.
    pub(crate) fn agrees(&self, outcome: &Outcome) -> bool {
        let at_proxy = |ports: rules::PortRange| {
            let is_there = |one: &Landing| {
                let port = rules::Port::new(one.listener);
                one.is_in_pod && port.is_some_and(|port| ports.contains(port.number()))
            };
            matches!(self.landings.as_slice(), [one] if is_there(one))
        };
        match outcome.verdict {
            Verdict::Unknown => true,
            Verdict::Drop => self.landings.is_empty(),
            Verdict::Redirect(ports) => at_proxy(ports),
            Verdict::Tproxy(port) => at_proxy(port.into()),
            Verdict::Pass => {
                let (to, ports) = match outcome.translated {
                    Some(to) => (to.address, (to.ports.first().number(), to.ports.last().number())),
                    None => (self.packet.to.ip(), (self.packet.to.port(), self.packet.to.port())),
                };
                let is_there = |one: &Landing| {
                    one.at.ip() == to
                        && one.listener == one.at.port()
                        && (ports.0..=ports.1).contains(&one.listener)
                };
                matches!(self.landings.as_slice(), [one] if is_there(one))
            }
        }
    }
}

pub(crate) fn proxy(capture: &Capture) -> (Identity, u32) {
    let proxy = capture.proxy();
    let uid = proxy.uids.first().map_or(APP.uid, |uid| uid.number());
    let gid = proxy.gids.first().map_or(APP.gid, |gid| gid.number());
    (Identity { uid, gid }, proxy.mark.map_or(0, |mark| mark.value))
}

fn listen(capture: &Capture, pod: &Namespace, outside: &Namespace) -> Ears {
    let mut ears = Ears::new();
    let (owner, _) = proxy(capture);
    let listeners = capture.proxy().listeners;
    let range = |ports: Option<rules::PortRange>| ports.map(|ports| ports.first().number());
    let own = [range(listeners.outbound), range(listeners.inbound), listeners.dns.map(|port| port.number())];
    let own: BTreeSet<u16> = own.into_iter().flatten().collect();
    for port in &own {
        ears.open(pod, true, *port, owner, true);
    }
    let called = PORTS.into_iter().chain([FOREIGN_PORT, 15001, 15006]).filter(|port| !own.contains(port));
    for port in called {
        ears.open(pod, true, port, APP, port == FOREIGN_PORT);
        ears.open(outside, false, port, APP, false);
    }
    for port in own {
        ears.open(outside, false, port, APP, false);
    }
    ears
}

pub(crate) fn state(namespace: &Namespace) -> String {
    let mut text = namespace.stdout("nft", &["--stateless", "list", "ruleset"]);
    for family in Family::BOTH {
        let program = crate::support::setting::Variant::Legacy.program(family, "-save");
        let saved = namespace.stdout(&program, &[]);
        let tables =
            saved.split("COMMIT\n").filter(|table| table.contains("\n-A") || table.contains(" DROP ["));
        let lines = tables.flat_map(str::lines).filter(|line| !line.starts_with('#'));
        text.extend(lines.map(|line| line.split(" [").next().unwrap_or(line).to_owned() + "\n"));
    }
    for words in ["-4 rule", "-6 rule", "-4 route show table all", "-6 route show table all", "addr show lo"]
    {
        let listed = namespace.stdout("ip", &words.split(' ').collect::<Vec<_>>());
        // The kernel adds routes of links and addresses a moment after they are up.
        let is_kernels = |line: &str| line.contains("fe80:") || line.contains("proto kernel");
        text.extend(listed.lines().filter(|line| !is_kernels(line)).map(|line| format!("{line}\n")));
    }
    text
}
