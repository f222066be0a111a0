//! Golden tests of all answers about some configurations; `UPDATE_GOLDENS=1` rewrites `answers/NAME.txt`.

mod live;
mod manifests;
mod overview;
mod questions;
mod trace;

use crate::explain::{
    Arrival, IncomingPacket, OutgoingPacket, PodContext, Route, Routes, RuleView, Sender, explain,
    usual_packet, written,
};
use crate::finding::reports;
use crate::lint;
use crate::live_proxy;
use crate::probe::{Call, ProbeContext, calls, proofs};
use crate::random_tests::configured;
use crate::status::{self, CaptureStatus, InstalledRules, Observation, Record, Socket};
use crate::{Basis, Subject, compare, painted, picture, plain};
use mesh::settings::Setting;
use mesh::sources::{Dialect, NullHost, Raw};
use mesh::{Capture, Mesh};
use rules::finding::{Code, Finding};
use rules::simulate::{Packet, Routing, View};
use rules::{ByFamily, Family, Gid, Port, Protocol, Uid, parse, render};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

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

/// Routes of a typical pod, without a route for UDP to 192.0.2.10.
struct OneInterface<'a>(&'a PodContext);

impl Routes for OneInterface<'_> {
    fn leaving(&self, packet: &OutgoingPacket) -> Result<Route, String> {
        if packet.to.ip() == address("192.0.2.10") && packet.protocol == Protocol::Udp {
            return Err("there is no route to it".to_owned());
        }
        self.0.leaving(packet)
    }

    fn arriving(&self, packet: &IncomingPacket<'_>) -> Result<Arrival, String> {
        self.0.arriving(packet)
    }

    fn address_at(&self, interface: &str, family: Family) -> Result<IpAddr, String> {
        self.0.address_at(interface, family)
    }
}

struct Example {
    raw: Raw,
    capture: Capture,
    pod: PodContext,
    rule_views: Vec<RuleView>,
}

impl Example {
    fn of(mesh: Mesh, flags: ExampleFlags) -> Self {
        let (raw, capture) = configured(mesh, flags).expect("valid flags");
        let pod = PodContext::new(ADDRESSES.map(address), Some(&*capture));
        let rule_views =
            capture.families().map(|family| RuleView::of_config(&*capture, family, &pod)).collect();
        Self { raw, capture, pod, rule_views }
    }

    fn rule_view(&self, family: Family) -> Option<&RuleView> {
        self.rule_views.iter().find(|rule_view| rule_view.family == family)
    }

    fn packet(&self, sender: Sender, protocol: Protocol, to: &str) -> Packet {
        let to: SocketAddr = to.parse().expect("an address and a port");
        usual_packet(sender, &self.pod, protocol, to)
    }

    fn answers(&self) -> String {
        let dialect = Dialect::of(&self.raw);
        let sections = [
            ("explain", self.explanations(&dialect)),
            ("lint", self.lint()),
            ("picture", self.picture(&dialect).text(WIDTH)),
            ("summary", self.picture(&dialect).summary().text(WIDTH)),
            ("probe", self.probe()),
            ("status", self.status()),
            ("trace", trace::ways_of(self)),
            ("path", self.path()),
        ];
        sections.iter().map(|(title, text)| format!("==== {title}\n{}\n", plain(text))).collect()
    }

    fn picture(&self, dialect: &Dialect) -> picture::Picture {
        picture::of(&self.capture, dialect, &self.pod)
    }

    /// One packet per reason; the first per verdict also lists all rules that it meets.
    fn explanations(&self, dialect: &Dialect) -> String {
        let (mut known, mut verdicts, mut text) = (BTreeSet::new(), BTreeSet::new(), String::new());
        let drawn = self.picture(dialect);
        for (part, packet) in
            drawn.panels.iter().flat_map(|panel| panel.examples.iter().map(|one| (panel.part, one)))
        {
            let Some(rule_view) = self.rule_view(packet.family()) else { continue };
            let explained = explain(&rule_view.view, &rule_view.routing, packet).in_words_of(dialect);
            if !known.insert((explained.end().words(), explained.reason())) {
                continue;
            }
            let flags = written(packet, &self.pod, true).unwrap_or_else(|| "no flags".to_owned());
            let report = explained.report();
            if verdicts.insert((
                report.end.verdict.word(),
                report.end.transparent,
                report.end.port,
                part.title(),
            )) {
                let decided_by = serde_json::to_string(&report.decided_by).expect("JSON");
                let (head, way) = (painted(&report.head(), WIDTH), painted(&report.way(true), WIDTH));
                let _ = writeln!(text, "{flags}\n{head}\n{way}{decided_by}\n");
            } else {
                let rule = report.decided_by.and_then(|decided| decided.rule);
                let _ = writeln!(text, "{flags}: {} [{rule:?}]", explained.sentence());
            }
        }
        text
    }

    fn lint(&self) -> String {
        let subject = Subject::of_flags(self.raw.clone(), Vec::new(), |_| Box::new(NullHost));
        let findings = lint::all(&subject, &[], lint::lint(&self.raw, &self.capture, &[]));
        lint::text(&reports(&findings), WIDTH)
    }

    fn probe(&self) -> String {
        let own = (Uid::new(1000).expect("a user"), Gid::new(1000).expect("a group"));
        let route = |to: IpAddr| {
            Some(Route {
                source: self.pod.addresses.iter().copied().find(|own| own.is_ipv4() == to.is_ipv4()),
                ..Route::by("eth0".to_owned())
            })
        };
        let port = Port::new(8888).expect("a port");
        let facts =
            ProbeContext { pod: self.pod.clone(), own, port, route: &route, dialect: Dialect::of(&self.raw) };
        let line = |call: &Call| {
            let stays = if call.is_within_pod() { " (stays)" } else { "" };
            let captured = if call.is_captured() { "captured" } else { "not captured" };
            let Call { caller, protocol, packet, to, because, .. } = call;
            format!("{caller} {protocol} {} -> {to}{stays}: {captured}, because {because}\n", packet.source)
        };
        let proofs: String = proofs(&*self.capture, &facts).iter().map(line).collect();
        let all: String = calls(&*self.capture, &facts).iter().map(line).collect();
        format!("{proofs}--\n{all}")
    }

    fn rules(&self) -> ByFamily<RuleView> {
        let none = |family| RuleView { family, view: View::empty(family), routing: Routing::default() };
        let of = |family| self.rule_view(family).cloned().unwrap_or_else(|| none(family));
        ByFamily { v4: of(Family::V4), v6: of(Family::V6) }
    }

    fn observed(&self) -> CaptureStatus {
        let addresses = ADDRESSES.map(address);
        let socket = |port: u16, uid| Socket {
            protocol: Protocol::Tcp,
            port,
            hears: vec![addresses[0]],
            is_bound: false,
            uid,
            gid: Some(uid),
            process: Some((42, "envoy".to_owned())),
            is_transparent: Some(false),
        };
        let held = InstalledRules { mesh: self.capture.mesh().name().into(), ..held() };
        status::status(&Observation {
            rules: &self.rules(),
            addresses: &addresses,
            sockets: Some(&[socket(15001, 1337), socket(15006, 0)]),
            processes: &[],
            held: vec![held],
            only: None,
            findings: vec![Finding::warning(Code::OthersFirst, "", "of the engine", "do this")],
        })
    }

    /// Status as text, with and without observed facts, and as JSON; then facts only from rules.
    fn status(&self) -> String {
        let rules = self.rules();
        let observed = self.observed();
        let unseen = status::status(&Observation {
            rules: &rules,
            addresses: &[],
            sockets: None,
            processes: &[],
            held: Vec::new(),
            only: Some(self.capture.mesh()),
            findings: Vec::new(),
        });
        let mut text = format!("{}--\n{}", observed.text(WIDTH, true), unseen.text(WIDTH, false));
        let _ = writeln!(text, "--\n{}", serde_json::to_string(&observed).expect("JSON"));
        let _ = writeln!(text, "listens at {:?}", status::ports(&rules));
        for (family, one) in rules.iter() {
            let _ = writeln!(text, "{family}: {:?}", live_proxy([&one.view]));
        }
        text
    }

    fn path(&self) -> String {
        let rule_view = &self.rule_views[0];
        let packet = self.packet(Sender::External, Protocol::Tcp, "10.1.0.9:80");
        let listing = render::iptables::restore(&self.capture.rules(rule_view.family));
        let listing = parse::listing(&listing, rule_view.family).expect("our own text");
        let listed = RuleView::of_listing(listing, &self.pod);
        let mut text = format!("{}: {:?}\n", listed.family, listed.routing);
        let explained = explain(&listed.view, &listed.routing, &packet);
        let decision = explained.deciding_rule().map(|rule| rule.decision());
        let verdict = (explained.is_captured(), explained.end().verdict.style(), decision);
        let _ = writeln!(text, "{verdict:?}");
        let drawn = self.picture(&Dialect::of(&self.raw));
        for panel in &drawn.panels {
            let _ = writeln!(
                text,
                "{:?} {}: {} of {}",
                panel.part,
                panel.part.title(),
                panel.flows.len(),
                panel.flows.len()
            );
        }
        let _ = writeln!(text, "{:?}: {:?}", drawn.at(&packet), drawn.notes);
        let rows = drawn.with_path(&explained).of_object("Pod web").rows();
        let _ = writeln!(text, "{} x {}", rows.width, rows.height);
        rows.rows.iter().for_each(|row| text += &format!("{row:?}\n"));
        text
    }
}

pub(crate) fn record() -> Record {
    Record {
        program_version: "0.1.0".to_owned(),
        command: "apply".to_owned(),
        at: "2026-03-01T00:00:00Z".to_owned(),
        settings: None,
        settings_digest: "1".to_owned(),
        rules_digest: "2".to_owned(),
        changed_since: false,
    }
}

pub(crate) fn held() -> InstalledRules {
    InstalledRules {
        mesh: "istio".into(),
        backend: "nftables".to_owned(),
        families: vec!["ipv4".into()],
        rules: 9,
        program: "sidecar-init".to_owned(),
        made: Some(record()),
    }
}

fn raw(flags: &[(Setting, &str)]) -> Raw {
    let given = flags.iter().map(|(setting, value)| (*setting, (*value).to_owned()));
    Raw::new(given, |_| false, |_| None)
}

fn check(name: &str, answers: &str) {
    testkit::golden(format!("{}/src/answers/{name}", env!("CARGO_MANIFEST_DIR")), answers);
}

#[test]
fn answers_are_as_written() {
    for (name, mesh, flags) in CASES {
        check(&format!("{name}.txt"), &Example::of(*mesh, flags).answers());
    }
}

#[test]
fn the_first_line_names_the_basis() {
    let all = "1234567890".repeat(3);
    let basis = Basis::Noted { namespace: Some("web".to_owned()), settings: all.clone() };
    assert_eq!(plain(&basis.line(30)), format!("from the settings stored in\n  namespace web\n  ({all}):\n"));
}

#[test]
fn drawings_are_as_written() {
    for (name, mesh, flags) in &CASES[1..2] {
        let example = Example::of(*mesh, flags);
        check(&format!("{name}.svg"), &example.picture(&Dialect::of(&example.raw)).svg());
    }
}

#[test]
fn comparisons_are_as_written() {
    let mut text = String::new();
    for pair in [[0, 1], [3, 4], [5, 0], [2, 5]].map(|pair| pair.map(|at| &CASES[at])) {
        let pod = Example::of(pair[0].1, pair[0].2).pod;
        let side = |(_, mesh, flags): &(&str, Mesh, ExampleFlags)| {
            let example = Example::of(*mesh, flags);
            compare::ComparedSide::of_capture(&example.capture, Dialect::of(&example.raw), &pod)
        };
        let compared = compare::compare(&side(pair[0]), &side(pair[1]), &pod);
        let _ = writeln!(
            text,
            "==== {} -> {}\n{}",
            pair[0].0,
            pair[1].0,
            plain(&painted(&compared.lines(), WIDTH))
        );
    }
    check("comparisons.txt", &text);
}
