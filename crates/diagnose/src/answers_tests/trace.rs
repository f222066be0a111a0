//! Traces of packets, from the kernel's reports of the rules met.

use super::{Example, WIDTH, check};
use crate::explain::{Sender, explain};
use crate::plain;
use crate::trace::{self, Block, of_reports, of_walk};
use mesh::Mesh;
use rules::report::{NflogMessage, PacketSnapshot, TraceEvent, TraceEventKind};
use rules::simulate::{At, Direction, Packet, Routing, View};
use rules::{Family, Protocol};
use std::fmt::Write;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_772_323_200)
}

struct TracedRules<'a>(&'a Example);

impl trace::Rules for TracedRules<'_> {
    fn view(&self, _: Family) -> &View {
        &self.0.rule_views[0].view
    }

    fn routing(&self, _: Family) -> Routing {
        self.0.rule_views[0].routing.clone()
    }

    fn chain(&self, of: Family, _: u8, table: &str, chain: &str) -> Option<usize> {
        let is_it = |one: &rules::simulate::ViewChain| one.table == table && one.chain == chain;
        self.view(of).chains().iter().position(is_it)
    }

    fn rule(&self, of: Family, family: u8, table: &str, chain: &str, handle: u64) -> Option<At> {
        let at = At { chain: self.chain(of, family, table, chain)?, rule: usize::try_from(handle).ok()? };
        self.view(of).rule(at).map(|_| at)
    }
}

/// IPv4 packet of this protocol without data; the ports are the first bytes after its header.
fn bytes(packet: &Packet, protocol: u8) -> PacketSnapshot {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (packet.source.ip(), packet.destination.ip()) else {
        panic!("{packet:?}")
    };
    let ports = [packet.source.port().to_be_bytes(), packet.destination.port().to_be_bytes()].concat();
    let head = [0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    let packet_bytes = [&head[..], &source.octets(), &destination.octets(), &ports].concat();
    let (in_interface, out_interface) = match &packet.direction {
        Direction::Inbound { interface, .. } => (Some(interface.clone()), None),
        Direction::Outbound { interface, .. } => (None, Some(interface.clone())),
    };
    PacketSnapshot { packet: packet_bytes, in_interface, out_interface }
}

impl Example {
    fn event(&self, at: At, kind: TraceEventKind) -> TraceEvent {
        let chain = &self.rule_views[0].view.chains()[at.chain];
        let (table, chain) = (chain.table.to_string(), chain.chain.clone());
        TraceEvent { id: 1, family: 2, table, chain, kind, mark: 0, packet: None }
    }

    fn steps(&self, packet: &Packet) -> Vec<TraceEvent> {
        let rule_view = &self.rule_views[0];
        let explained = explain(&rule_view.view, &rule_view.routing, packet);
        let event = |at: At| self.event(at, TraceEventKind::Rule { handle: at.rule as u64, drops: false });
        explained.rules_met().map(event).collect()
    }
}

fn owner(packet: &Packet) -> Option<u32> {
    match &packet.direction {
        Direction::Inbound { .. } => None,
        Direction::Outbound { uid, .. } => Some(uid.number()),
    }
}

fn walk(packet: &Packet, protocol: u8, steps: Vec<TraceEvent>) -> trace::Walk {
    let owner = owner(packet);
    trace::Walk::example(now(), owner.is_none(), bytes(packet, protocol), owner, steps)
}

fn with(mut walk: trace::Walk, change: impl FnOnce(&mut trace::Walk)) -> trace::Walk {
    change(&mut walk);
    walk
}

fn shown(block: Result<Block, Box<Block>>) -> String {
    let (word, block) = match block {
        Ok(block) => ("", block),
        Err(block) => ("not known: ", *block),
    };
    format!("{word}{}{}\n", plain(&block.text(WIDTH)), serde_json::to_string(&block).expect("JSON"))
}

pub(super) fn ways_of(example: &Example) -> String {
    let mut text = String::new();
    for (sender, to) in
        [(Sender::App, "192.0.2.1:80"), (Sender::Proxy, "192.0.2.1:80"), (Sender::External, "10.1.0.9:8080")]
    {
        let packet = example.packet(sender, Protocol::Tcp, to);
        let rules = TracedRules(example);
        let block = of_walk(&walk(&packet, 6, example.steps(&packet)), Some(&rules));
        text.push_str(&block.unwrap_or_else(|block| *block).text(WIDTH));
    }
    text
}

#[test]
fn paths_unknown_to_the_simulation_are_shown_by_the_rules_met() {
    let example = Example::of(
        Mesh::Istio,
        &[
            ("istio-inbound-ports", "*"),
            ("istio-service-cidr", "*"),
            ("istio-inbound-interception-mode", "TPROXY"),
            ("drop-invalid", "true"),
        ],
    );
    let rules = TracedRules(&example);
    let (call, arrival) = (
        example.packet(Sender::App, Protocol::Tcp, "192.0.2.1:80"),
        example.packet(Sender::External, Protocol::Tcp, "10.1.0.9:8080"),
    );
    let (called, arrived) = (example.steps(&call), example.steps(&arrival));
    let chains = example.rule_views[0].view.chains();
    let base = chains.iter().position(|chain| chain.base.is_some()).expect("a chain of the kernel's");
    let first = At { chain: base, rule: 0 };
    let policy = |drops| example.event(first, TraceEventKind::Policy { drops });
    let dropping = |mut steps: Vec<TraceEvent>| {
        let kind = &mut steps.last_mut().expect("a rule").kind;
        if let TraceEventKind::Rule { drops, .. } = kind {
            *drops = true;
        }
        steps
    };
    let elsewhere = TraceEvent { table: "inet other".to_owned(), ..policy(true) };
    let new = example.event(first, TraceEventKind::Rule { handle: 999, drops: false });
    let cases = [
        ("a call whose owner is unknown", with(walk(&call, 6, called.clone()), |walk| walk.uid = None)),
        ("it meets less than expected", walk(&call, 6, called[..1].to_vec())),
        (
            "it meets less because reports were lost",
            with(walk(&call, 6, called[..1].to_vec()), |walk| walk.is_incomplete = true),
        ),
        ("it meets nothing", walk(&call, 6, Vec::new())),
        ("a policy that accepts", walk(&call, 6, [&called[..], &[policy(false)]].concat())),
        ("dropped by a policy", walk(&call, 6, vec![policy(true)])),
        ("dropped by a policy of a chain that is new", walk(&call, 6, vec![elsewhere])),
        ("dropped by its last rule", walk(&call, 6, dropping(called.clone()))),
        ("handed to no listener", walk(&arrival, 6, dropping(arrived.clone()))),
        ("a rule that is new", walk(&call, 6, vec![new])),
        ("ICMP", walk(&call, 1, vec![policy(false)])),
        ("ICMP, dropped", walk(&call, 1, vec![policy(true)])),
        ("no headers", with(walk(&call, 6, Vec::new()), |walk| walk.first = None)),
        ("routed on", with(walk(&arrival, 6, arrived), |walk| walk.ended_in = None)),
    ];
    let mut text = String::new();
    for (name, walk) in &cases {
        let _ = writeln!(text, "==== {name}\n{}", shown(of_walk(walk, Some(&rules))));
    }
    let _ = writeln!(text, "==== no rules\n{}", shown(of_walk(&walk(&call, 6, called), None)));
    check("walks.txt", &text);
}

#[test]
fn nflog_reports_are_matched_with_simulated_walks() {
    let logging = Example::of(
        Mesh::Istio,
        &[
            ("istio-inbound-ports", "*"),
            ("istio-service-cidr", "*"),
            ("istio-service-exclude-cidr", "10.2.0.0/16"),
            ("iptables-trace-logging", "true"),
        ],
    );
    let silent = Example::of(Mesh::Istio, &[("istio-service-cidr", "*")]);
    let reports_anything = |example: &Example| trace::reports_anything(&example.rule_views[0].view);
    assert!(reports_anything(&logging) && !reports_anything(&silent));
    let report = |packet: &Packet, prefix: &str, protocol| {
        let PacketSnapshot { packet: bytes, in_interface, out_interface } = bytes(packet, protocol);
        NflogMessage {
            prefix: prefix.to_owned(),
            hook: if in_interface.is_some() { 0 } else { 3 },
            time: None,
            in_interface,
            out_interface,
            mark: 0,
            uid: owner(packet),
            gid: owner(packet),
            packet: bytes,
        }
    };
    let prefixes = |packet: &Packet| -> Vec<String> {
        let view = &logging.rule_views[0].view;
        let of_step = |event: &TraceEvent| {
            let TraceEventKind::Rule { handle, .. } = event.kind else { return None };
            let chain =
                trace::Rules::chain(&TracedRules(&logging), Family::V4, 2, &event.table, &event.chain)?;
            match &view.rule(At { chain, rule: usize::try_from(handle).ok()? })?.action {
                rules::Action::Target(rules::Target::Nflog { prefix, .. }) => Some(prefix.to_string()),
                _ => None,
            }
        };
        logging.steps(packet).iter().filter_map(of_step).collect()
    };
    let mut text = String::new();
    for (sender, to) in [
        (Sender::App, "192.0.2.1:80"),
        (Sender::App, "10.2.0.1:80"),
        (Sender::Proxy, "192.0.2.1:80"),
        (Sender::External, "10.1.0.9:8080"),
    ] {
        let packet = logging.packet(sender, Protocol::Tcp, to);
        let reports: Vec<NflogMessage> =
            prefixes(&packet).iter().map(|prefix| report(&packet, prefix, 6)).collect();
        let _ = writeln!(text, "==== {sender:?} to {to}");
        text += &shown(of_reports(&reports, now(), Some(&TracedRules(&logging))));
        text += &shown(of_reports(&reports, now(), None));
    }
    let call = logging.packet(Sender::App, Protocol::Tcp, "192.0.2.1:80");
    let timed =
        NflogMessage { time: Some(now() - Duration::from_secs(1)), ..report(&call, "outbound-network", 6) };
    let unread = NflogMessage { packet: Vec::new(), ..timed.clone() };
    for (name, reports) in [
        ("a rule that our walk does not meet", vec![report(&call, "dns", 6)]),
        ("less than our walk meets", vec![timed]),
        ("ICMP", vec![report(&call, "outbound", 1)]),
        ("no headers", vec![unread]),
        ("none", Vec::new()),
    ] {
        let reported = shown(of_reports(&reports, now(), Some(&TracedRules(&logging))));
        let _ = writeln!(text, "==== {name}\n{reported}");
    }
    check("reports.txt", &text);
}
