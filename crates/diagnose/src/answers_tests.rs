//! Everything that is said of a few configurations, whole: the answers of each are in `answers/NAME.txt`.
//! `UPDATE_GOLDENS=1` writes them; a change of words is read there.

use crate::explain::{
    Arrival, Arriving, Leaving, PodContext, Route, Routes, RuleView, Sender, explain, matrix, usual,
    usual_cases, written,
};
use crate::lint;
use crate::overview::{NamespaceLabel, NamespaceRow};
use crate::probe::{Call, ProbeContext, calls, proofs};
use crate::random::configured;
use crate::status::{InstalledRules, Observation, Record, Socket, status};
use crate::trace::{self, of_walk};
use crate::{Basis, Subject, compare, picture, plain};
use mesh::sources::{Dialect, NullHost, Raw};
use mesh::{Capture, Mesh};
use rules::finding::NamespaceFinding;
use rules::report::{PacketBytes, Traced, TracedStep};
use rules::simulate::{At, Direction, Packet, Routing, View};
use rules::{ByFamily, Family, Gid, Port, Protocol, Uid};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};
use std::{env, fs, path::Path};

const WIDTH: usize = 80;
const ADDRESSES: [&str; 2] = ["10.1.0.9", "fd00:1::9"];

type ExampleFlags = &'static [(&'static str, &'static str)];

const CASES: &[(&str, Mesh, ExampleFlags)] = &[
    (
        "istio",
        Mesh::Istio,
        &[
            ("istio-inbound-ports", "*"),
            ("istio-service-cidr", "*"),
            ("istio-local-exclude-ports", "15090,15021,15020"),
        ],
    ),
    (
        "istio-lists",
        Mesh::Istio,
        &[
            ("istio-inbound-ports", "80,8443"),
            ("istio-service-cidr", "10.0.0.0/8,fd00::/8"),
            ("istio-service-exclude-cidr", "10.1.0.0/16"),
            ("istio-outbound-ports", "5000-5010"),
            ("istio-local-outbound-ports-exclude", "22,5432"),
            ("istio-exclude-interfaces", "net1"),
            ("kube-virt-interfaces", "vm0"),
            ("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", "5"),
            ("capture-all-dns", "true"),
            ("redirect-dns", "true"),
            ("drop-invalid", "true"),
            ("dual-stack", "true"),
        ],
    ),
    (
        "istio-tproxy",
        Mesh::Istio,
        &[
            ("istio-inbound-ports", "*"),
            ("istio-local-exclude-ports", "22"),
            ("istio-service-cidr", "*"),
            ("istio-inbound-interception-mode", "TPROXY"),
            ("dual-stack", "true"),
        ],
    ),
    (
        "linkerd",
        Mesh::Linkerd,
        &[
            ("inbound-ports-to-ignore", "4190,4191"),
            ("outbound-ports-to-ignore", "443,4567-4570"),
            ("subnets-to-ignore", "10.2.0.0/16"),
            ("ipv6", "true"),
        ],
    ),
    (
        "kuma",
        Mesh::Kuma,
        &[
            ("kuma-dp-user", "5678"),
            ("ip-family-mode", "ipv4"),
            ("exclude-inbound-ports", "1900"),
            ("exclude-outbound-ips", "10.3.0.0/16"),
            ("exclude-outbound-ports-for-uids", "tcp:22,80:1001"),
            ("redirect-dns", "true"),
            ("vnet", "docker0:172.17.0.0/16"),
        ],
    ),
    ("ambient", Mesh::Ambient, &[("dns-capture", "true"), ("reroute-virtual-interfaces", "vm0")]),
];

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The routes of a typical pod, without one for UDP to 192.0.2.10.
struct OneInterface<'a>(&'a PodContext);

impl Routes for OneInterface<'_> {
    fn leaving(&self, packet: &Leaving) -> Result<Route, String> {
        if packet.to.ip() == address("192.0.2.10") && packet.protocol == Protocol::Udp {
            return Err("there is no route to it".to_owned());
        }
        self.0.leaving(packet)
    }

    fn arriving(&self, packet: &Arriving<'_>) -> Result<Arrival, String> {
        self.0.arriving(packet)
    }
}

/// What is known of a configuration.
struct Example {
    raw: Raw,
    capture: Capture,
    pod: PodContext,
    scenes: Vec<RuleView>,
}

impl Example {
    fn of(mesh: Mesh, flags: ExampleFlags) -> Self {
        let (raw, capture) = configured(mesh, flags).expect("valid flags");
        let pod = PodContext::new(ADDRESSES.map(address), Some(&*capture));
        let scenes = capture.families().map(|family| RuleView::of_config(&*capture, family, &pod)).collect();
        Self { raw, capture, pod, scenes }
    }

    /// The rules of a family, if that is captured.
    fn scene(&self, family: Family) -> Option<&RuleView> {
        self.scenes.iter().find(|scene| scene.family == family)
    }

    fn answers(&self) -> String {
        let dialect = Dialect::of(&self.raw);
        let sections = [
            ("matrix", self.matrix(&dialect)),
            ("explain", self.explanations(&dialect)),
            ("lint", self.lint()),
            ("picture", picture::of(&self.capture, &dialect).text(WIDTH)),
            ("summary", picture::of(&self.capture, &dialect).summary().text(WIDTH)),
            ("probe", self.probe()),
            ("status", self.status()),
            ("trace", self.traced()),
        ];
        sections.iter().map(|(title, text)| format!("==== {title}\n{}\n", plain(text))).collect()
    }

    fn matrix(&self, dialect: &Dialect) -> String {
        let scenes: Vec<&RuleView> = self.scenes.iter().collect();
        let cases = usual_cases(&self.pod, &OneInterface(&self.pod), Some(&*self.capture));
        matrix(&scenes, &cases, dialect, WIDTH)
    }

    /// A packet for each reason that is given; the first of each verdict with all rules that it meets.
    fn explanations(&self, dialect: &Dialect) -> String {
        let (mut known, mut verdicts, mut text) = (BTreeSet::new(), BTreeSet::new(), String::new());
        for case in usual_cases(&self.pod, &self.pod, Some(&*self.capture)) {
            let (Some(scene), Some(packet)) = (self.scene(case.family), &case.packet) else { continue };
            let explained = explain(&scene.view, &scene.routing, packet).in_words_of(dialect);
            if !known.insert((explained.verdict(), explained.reason())) {
                continue;
            }
            let flags = written(packet, &self.pod, true).unwrap_or_else(|| "no flags".to_owned());
            let report = explained.report();
            if verdicts.insert((report.verdict, report.port, case.direction)) {
                let report = serde_json::to_string(&report.decided_by).expect("JSON");
                let _ = writeln!(text, "{flags}\n{}{report}\n", explained.text(WIDTH));
            } else {
                let rule = report.decided_by.and_then(|decided| decided.rule);
                let _ = writeln!(text, "{flags}: {} [{rule:?}]", explained.sentence());
            }
        }
        text
    }

    fn lint(&self) -> String {
        let subject = Subject::of_flags(self.raw.clone(), Vec::new(), |_| Box::new(NullHost));
        lint::text(&lint::items(&subject, &[], &lint::lint(&self.raw, &self.capture, &[])), WIDTH)
    }

    fn probe(&self) -> String {
        let own = (Uid::new(1000).expect("a user"), Gid::new(1000).expect("a group"));
        let way = |to: IpAddr| {
            Some(Route {
                interface: "eth0".to_owned(),
                source: self.pod.addresses.iter().copied().find(|own| own.is_ipv4() == to.is_ipv4()),
            })
        };
        let port = Port::new(8888).expect("a port");
        let facts =
            ProbeContext { pod: self.pod.clone(), own, port, way: &way, dialect: Dialect::of(&self.raw) };
        let line = |call: &Call| {
            let stays = if call.stays() { " (stays)" } else { "" };
            let captured = if call.is_captured() { "captured" } else { "not captured" };
            let Call { caller, protocol, packet, to, because, .. } = call;
            format!("{caller} {protocol} {} -> {to}{stays}: {captured}, because {because}\n", packet.source)
        };
        let proofs: String = proofs(&*self.capture, &facts).iter().map(line).collect();
        let all: String = calls(&*self.capture, &facts).iter().map(line).collect();
        format!("{proofs}--\n{all}")
    }

    fn status(&self) -> String {
        let view =
            |family| self.scene(family).map_or_else(|| View::empty(family), |scene| scene.view.clone());
        let views = ByFamily { v4: view(Family::V4), v6: view(Family::V6) };
        let routing = |family| self.scene(family).map(|scene| scene.routing.clone()).unwrap_or_default();
        let routing = ByFamily { v4: routing(Family::V4), v6: routing(Family::V6) };
        let addresses = ADDRESSES.map(address);
        let socket = |port: u16, uid| Socket {
            protocol: Protocol::Tcp,
            port,
            hears: vec![addresses[0]],
            uid,
            process: Some((42, "envoy".to_owned())),
            is_transparent: Some(false),
        };
        let record = Record {
            program_version: "0.1.0".to_owned(),
            command: "apply".to_owned(),
            at: "2026-03-01T00:00:00Z".to_owned(),
            settings: None,
            settings_digest: "1".to_owned(),
            rules_digest: "2".to_owned(),
            changed_since: false,
        };
        let held = InstalledRules {
            mesh: self.capture.mesh().name(),
            backend: "nftables".to_owned(),
            families: vec!["ipv4"],
            rules: 9,
            program: "sidecar-init".to_owned(),
            made: Some(record),
        };
        let seen = Observation {
            views: &views,
            routing: &routing,
            addresses: &addresses,
            sockets: Some(&[socket(15001, 1337), socket(15006, 0)]),
            held: vec![held],
            only: None,
            findings: vec![NamespaceFinding::warn("example", "of the engine".to_owned(), "do this")],
        };
        let status = status(seen);
        let text = status.text(WIDTH);
        let label = NamespaceLabel { name: "web".to_owned(), pod: None, container: None, is_named: true };
        let row = NamespaceRow::new(label, status);
        format!("{text}\n{} {}\n", row.state.name(), row.mesh())
    }

    /// A packet that leaves and one that arrives, as the kernel reports the rules that they meet.
    fn traced(&self) -> String {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_772_323_200);
        let mut text = String::new();
        for (sender, to) in [
            (Sender::App, "192.0.2.1:80"),
            (Sender::Proxy, "192.0.2.1:80"),
            (Sender::External, "10.1.0.9:8080"),
        ] {
            let to: SocketAddr = to.parse().expect("an address and a port");
            let packet = usual(sender, &self.pod, &self.pod, Protocol::Tcp, to).expect("a packet");
            let scene = &self.scenes[0];
            let explained = explain(&scene.view, &scene.routing, &packet);
            let steps = explained.rules_met().map(|at| self.step(at)).collect();
            let (is_inbound, owner) = match &packet.direction {
                Direction::Inbound { .. } => (true, None),
                Direction::Outbound { uid, .. } => (false, Some(uid.number())),
            };
            let walk = trace::Walk::example(now, is_inbound, bytes(&packet), owner, steps);
            let rules = TracedRules(self);
            let block = of_walk(&walk, Some(&rules)).unwrap_or_else(|block| *block);
            text.push_str(&block.text(WIDTH));
        }
        text
    }

    fn step(&self, at: At) -> Traced {
        let chain = &self.scenes[0].view.chains()[at.chain];
        Traced {
            id: 1,
            family: 2,
            table: chain.table.to_string(),
            chain: chain.chain.clone(),
            step: TracedStep::Rule { handle: at.rule as u64, drops: false },
            mark: 0,
            seen: None,
        }
    }
}

/// Rules whose handles are their places.
struct TracedRules<'a>(&'a Example);

impl trace::Rules for TracedRules<'_> {
    fn view(&self, _: Family) -> &View {
        &self.0.scenes[0].view
    }

    fn routing(&self, _: Family) -> Routing {
        self.0.scenes[0].routing.clone()
    }

    fn chain(&self, of: Family, _: u8, table: &str, chain: &str) -> Option<usize> {
        let is_it = |one: &rules::simulate::ViewChain| one.table == table && one.chain == chain;
        self.view(of).chains().iter().position(is_it)
    }

    fn rule(&self, of: Family, family: u8, table: &str, chain: &str, handle: u64) -> Option<At> {
        Some(At { chain: self.chain(of, family, table, chain)?, rule: usize::try_from(handle).ok()? })
    }
}

/// An IPv4 packet without data.
fn bytes(packet: &Packet) -> PacketBytes {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (packet.source.ip(), packet.destination.ip()) else {
        panic!("{packet:?}")
    };
    let ports = [packet.source.port().to_be_bytes(), packet.destination.port().to_be_bytes()].concat();
    let head = [0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0];
    let packet_bytes = [&head[..], &source.octets(), &destination.octets(), &ports].concat();
    let (in_interface, out_interface) = match &packet.direction {
        Direction::Inbound { interface, .. } => (Some(interface.clone()), None),
        Direction::Outbound { interface, .. } => (None, Some(interface.clone())),
    };
    PacketBytes { packet: packet_bytes, in_interface, out_interface }
}

fn check(name: &str, answers: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/answers/{name}"));
    if env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(&file, answers).expect("the file can be written");
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    let differs = expected.lines().zip(answers.lines()).position(|(one, other)| one != other);
    assert_eq!(
        differs.map(|line| (line + 1, answers.lines().nth(line))),
        None,
        "{} is not what is said now; UPDATE_GOLDENS=1 writes it",
        file.display()
    );
    assert_eq!(expected, answers);
}

#[test]
fn answers_are_as_written() {
    for (name, mesh, flags) in CASES {
        check(&format!("{name}.txt"), &Example::of(*mesh, flags).answers());
    }
}

#[test]
fn the_first_line_names_the_basis() {
    let long = "1234567890".repeat(3);
    let basis = Basis::Noted { namespace: Some("web".to_owned()), settings: long.clone() };
    assert_eq!(plain(&basis.line(30)), format!("by the settings noted in\n  namespace web\n  ({long}):\n"));
}

#[test]
fn drawings_are_as_written() {
    for (name, mesh, flags) in &CASES[1..2] {
        let example = Example::of(*mesh, flags);
        check(&format!("{name}.svg"), &picture::of(&example.capture, &Dialect::of(&example.raw)).svg());
    }
}

#[test]
fn comparisons_are_as_written() {
    let mut text = String::new();
    for pair in [&CASES[..2], &CASES[3..5]] {
        let pod = Example::of(pair[0].1, pair[0].2).pod;
        let side = |(_, mesh, flags): &(&str, Mesh, ExampleFlags)| {
            let example = Example::of(*mesh, flags);
            compare::ComparedSide::of_capture(&example.capture, Dialect::of(&example.raw), &pod)
        };
        let compared = compare::compare(&side(&pair[0]), &side(&pair[1]), &pod);
        let _ = writeln!(
            text,
            "==== {} -> {}\n{}",
            pair[0].0,
            pair[1].0,
            plain(&compare::text(&compared, WIDTH))
        );
    }
    check("comparisons.txt", &text);
}
