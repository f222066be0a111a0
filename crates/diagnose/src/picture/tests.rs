//! Properties of pictures of random configurations and packets: each arrow agrees with the simulator about its packets, and
//! all text is legible.

use super::drawing::{Area, Drawing, DrawingItem, Fill, LineEnd};
use super::layout::drawing;
use super::{Picture, PictureFlow, of};
use crate::explain::{PodContext, RuleView, explain};
use crate::lint::tests::{nothing, packet, parsed};
use crate::pod_packets::samples;
use crate::random_tests::up_to;
use mesh::istio::CaptureConfig;
use mesh::settings::mapping;
use mesh::sources::{Dialect, Given, Raw, Source};
use mesh::{Capture, Mesh};
use proptest::{collection::vec, prelude::*};
use rules::simulate::{Direction, Packet, walk};
use rules::{ConnState, Family, Protocol};
use std::ptr;
use testkit::scope;

fn annotations() -> Dialect {
    let named = |row: &'static mapping::AnnotationRow| {
        let source = Source::Preset(row.setting.row().annotations[0].to_owned());
        (row.setting, Given { value: String::new(), source })
    };
    Dialect::of(&Raw::of(mapping::TABLE.iter().map(named)))
}

impl Area {
    fn meets(&self, other: &Self) -> bool {
        self.x < other.x + other.width
            && other.x < self.x + self.width
            && self.y < other.y + other.height
            && other.y < self.y + self.height
    }

    fn holds(&self, other: &Self) -> bool {
        self.x <= other.x
            && self.y <= other.y
            && other.x + other.width <= self.x + self.width
            && other.y + other.height <= self.y + self.height
    }
}

/// Illegible parts: text on text, text across a border, an arrow through text or through a box.
fn faults(drawing: &Drawing) -> Vec<String> {
    let mut faults = Vec::new();
    let texts: Vec<(Area, String)> = drawing
        .items
        .iter()
        .filter_map(|item| match item {
            DrawingItem::Text(text) => Some((text.area(), format!("{:?}", text.pieces))),
            DrawingItem::Box(..) | DrawingItem::Line(_) => None,
        })
        .collect();
    for (at, (area, text)) in texts.iter().enumerate() {
        for (other, words) in &texts[at + 1..] {
            if area.meets(other) {
                faults.push(format!("{text} lies on {words}"));
            }
        }
    }
    for item in &drawing.items {
        match item {
            DrawingItem::Box(fill, edge) => {
                let crossed = texts.iter().filter(|(area, _)| edge.meets(area) && !edge.holds(area));
                faults.extend(crossed.map(|(_, text)| format!("{text} crosses the border of {fill:?}")));
            }
            DrawingItem::Line(line) => {
                let half = if line.end == LineEnd::Turn { 7 } else { 1 };
                let (x, width) = (line.from.min(line.to), line.from.abs_diff(line.to));
                let way = Area { x, y: line.y - half, width, height: 2 * half };
                let hit = texts.iter().filter(|(area, _)| area.meets(&way));
                faults.extend(hit.map(|(_, text)| format!("an arrow runs through {text}")));
                let boxes = drawing.items.iter().filter_map(|item| match item {
                    DrawingItem::Box(fill @ (Fill::Place | Fill::Proxy), area) => Some((fill, area)),
                    DrawingItem::Box(..) | DrawingItem::Line(_) | DrawingItem::Text(_) => None,
                });
                let hit = boxes.filter(|(_, area)| area.meets(&way));
                faults.extend(hit.map(|(fill, _)| format!("an arrow runs through {fill:?}")));
            }
            DrawingItem::Text(_) => {}
        }
    }
    let page = Area { x: 0, y: 0, width: drawing.width, height: drawing.height };
    faults.extend(
        texts.iter().filter(|(area, _)| !page.holds(area)).map(|(_, text)| format!("{text} leaves the page")),
    );
    faults
}

fn check(picture: &Picture) {
    assert_eq!(faults(&drawing(picture)), [""; 0]);
    let svg = picture.svg();
    assert!(svg.len() < 40_000, "{} bytes", svg.len());
    for width in [80, 100] {
        let plain = crate::plain(&picture.text(width));
        let long = plain.lines().find(|line| line.len() > width);
        assert_eq!(long, None, "{plain}");
    }
}

/// A packet's picture contains only its part, and fits beside a sentence.
fn check_way(picture: &Picture) {
    check(picture);
    let height = drawing(picture).height;
    assert!(height <= 300, "{height} pixels: {}", picture.text(80));
}

fn flow_of<'a>(picture: &'a Picture, packet: &Packet) -> Option<&'a PictureFlow> {
    picture.at(packet).map(|(panel, flow)| &picture.panels[panel].flows[flow])
}

#[test]
fn no_other_packet_takes_the_arrow_of_the_packet_in_question() {
    let config = nothing();
    let new = Packet {
        direction: Direction::Inbound { interface: "eth0".to_owned(), local: true },
        protocol: Protocol::Tcp,
        source: parsed("192.0.2.1:40000"),
        destination: parsed("10.1.0.9:80"),
        mark: 0,
        connmark: 0,
        state: ConnState::New,
    };
    let established = Packet { state: ConnState::Established, ..new.clone() };
    let pod = PodContext::new([parsed("10.1.0.9"), parsed("fd00:1::9")], Some(&config));
    let rule_view = RuleView::of_config(&config, Family::V4, &pod);
    let picture = of(&config.clone().into(), &Dialect::default(), &pod);
    let arrow = flow_of(&picture, &new).cloned();
    assert!(arrow.is_some() && flow_of(&picture, &established).is_none());
    let with_path = picture.with_path(&explain(&rule_view.view, &rule_view.routing, &established));
    assert_eq!(with_path.path.as_ref().map(|path| path.at), Some((0, 0)));
    assert_eq!(flow_of(&with_path, &new).cloned(), arrow);
}

const OTHERS: &[Mesh] = &[Mesh::Linkerd, Mesh::Kuma, Mesh::Ambient];

/// Compares each packet's arrow with its walk, and each arrow with its example.
fn tells_the_truth(capture: &Capture, packets: &[Packet]) -> Result<(), TestCaseError> {
    let pod = PodContext::new([parsed("10.1.0.9"), parsed("fd00:1::9")], Some(&**capture));
    let picture = of(capture, &Dialect::default(), &pod);
    for family in capture.families() {
        let rule_view = RuleView::of_config(&**capture, family, &pod);
        let borders = samples(&rule_view, &pod);
        let examples = picture.panels.iter().flat_map(|panel| &panel.examples);
        let given = packets.iter().chain(examples).filter(|packet| packet.family() == family);
        for packet in given.chain(borders.iter().step_by(7)) {
            let Some(flow) = flow_of(&picture, packet) else { continue };
            let verdict = walk(&rule_view.view, &rule_view.routing, packet).verdict;
            prop_assert_eq!(flow.verdict, verdict, "{:?}\n{:?}\n{:?}", capture, packet, flow);
        }
    }
    for flow in picture.panels.iter().flat_map(|panel| &panel.flows) {
        let takes_it = |packet: &Packet| flow_of(&picture, packet).is_some_and(|taken| ptr::eq(taken, flow));
        prop_assert!(
            flow.example().is_none_or(takes_it),
            "{:?}\nits packet takes another than {:?}",
            capture,
            flow
        );
    }
    Ok(())
}

fn any() -> impl Strategy<Value = (Raw, Capture)> {
    prop_oneof![up_to(16, &[Mesh::Istio]), up_to(16, OTHERS)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scope::runs(400, 100), ..ProptestConfig::default() })]

    #[test]
    fn every_arrow_has_the_verdict_of_its_packets((_, capture) in any(), packets in vec(packet(), 100)) {
        tells_the_truth(&capture, &packets)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scope::runs(80, 40), ..ProptestConfig::default() })]

    #[test]
    fn everything_is_legible((_, capture) in any(), packets in vec(packet(), 3)) {
        let pod = PodContext::new([parsed("10.1.0.9"), parsed("fd00:1::9")], Some(&*capture));
        for dialect in [Dialect::default(), annotations()] {
            let picture = of(&capture, &dialect, &pod);
            check(&picture);
            check(&picture.clone().summary());
            for packet in &packets {
                let rule_view = RuleView::of_config(&*capture, packet.family(), &pod);
                let explained = explain(&rule_view.view, &rule_view.routing, packet).in_words_of(&dialect);
                check_way(&picture.clone().with_path(&explained));
            }
        }
    }
}

#[test]
fn long_lists_are_folded() {
    let networks = (0..1_200u32).map(|n| parsed(&format!("10.{}.{}.0/24", n / 100, n % 100 * 2)));
    let ports = |odd: u32| (1..1_200u32).map(|n| parsed(&format!("{}", n * 2 - odd))).collect::<Vec<_>>();
    let config = CaptureConfig {
        outbound_cidrs: Some(networks.collect()),
        outbound_ports: ports(1),
        excluded_outbound_ports: ports(0),
        excluded_interfaces: (0..60).map(|n| parsed(&format!("interface{n}"))).collect(),
        vm_interfaces: (0..60).map(|n| parsed(&format!("machine{n}"))).collect(),
        ..nothing()
    };
    let pod = PodContext { is_known: false, ..PodContext::with_placeholders(Vec::new(), Some(&config)) };
    let picture = of(&config.into(), &annotations(), &pod);
    check(&picture);
    let svg = picture.svg();
    for text in [
        "1,200 networks: 10.0.0.0/24, ",
        "1,199 TCP ports: 1, 3, ",
        "1,199 TCP and UDP ports: 2, 4, ",
        "60 interfaces: interface0, ",
    ] {
        assert!(svg.contains(text), "no {text:?}");
    }
}
