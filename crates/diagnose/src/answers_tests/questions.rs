//! Each question's packet, or its problems.

use super::{ADDRESSES, OneInterface, address, check, raw};
use crate::explain::{
    Arrival, EndpointNames, IncomingPacket, OutgoingPacket, PacketQuery, PodContext, QuestionContext, Route,
    Routes, RuleView, Sender, explain, packet, usual_packet,
};
use crate::random_tests::configured;
use mesh::Mesh;
use mesh::settings::Setting;
use mesh::sources::{Raw, SettingReader};
use rules::simulate::{Outcome, Verdict};
use rules::{Family, Protocol};
use std::fmt::Write;
use std::io;
use std::net::IpAddr;

type PacketWords = &'static [(Setting, &'static str)];

const QUESTIONS: &[PacketWords] = &[
    &[(Setting::Destination, "192.0.2.7:80")],
    &[(Setting::Destination, "[2001:db8::7]:80"), (Setting::Sender, "proxy")],
    &[(Setting::Destination, "[::ffff:192.0.2.7]:80")],
    &[(Setting::Destination, "0.0.0.0:80")],
    &[(Setting::Destination, "[::]:80"), (Setting::SenderUid, "5")],
    &[(Setting::Destination, "127.0.0.9:80"), (Setting::SenderGid, "7")],
    &[(Setting::Destination, "10.1.0.9:80"), (Setting::Sender, "app")],
    &[(Setting::Destination, "192.0.2.10:53"), (Setting::Protocol, "udp")],
    &[
        (Setting::Destination, "192.0.2.10:53"),
        (Setting::Protocol, "udp"),
        (Setting::OutInterface, "net1"),
        (Setting::PacketSource, "10.5.0.1:53"),
        (Setting::PacketMark, "0x539"),
        (Setting::CtState, "ESTABLISHED"),
        (Setting::SenderUid, "5"),
        (Setting::SenderGid, "6"),
    ],
    &[(Setting::Destination, "8080")],
    &[(Setting::Destination, "8080"), (Setting::PacketSource, "10.5.0.1")],
    &[(Setting::Destination, "8080"), (Setting::Direction, "outbound")],
    &[(Setting::Destination, "10.1.0.9:8080"), (Setting::Sender, "external")],
    &[(Setting::Destination, "192.0.2.7:80"), (Setting::Direction, "inbound"), (Setting::InInterface, "vm0")],
    &[(Setting::Destination, "[2001:db8::7]:80"), (Setting::InInterface, "vm0")],
    &[(Setting::Destination, "reviews:9080")],
    &[(Setting::Destination, "http://reviews/")],
    &[(Setting::Destination, "only-v6:80")],
    &[(Setting::Destination, "http://[2001:db8::7]/")],
    &[(Setting::Destination, "reviews")],
    &[(Setting::Destination, "nowhere:80")],
    &[(Setting::Destination, "broken:80")],
    &[(Setting::Destination, "elsewhere:80")],
    &[(Setting::Destination, "10.0.0.5:0")],
    &[],
    &[
        (Setting::Sender, "me"),
        (Setting::Direction, "up"),
        (Setting::Protocol, "sctp"),
        (Setting::PacketMark, "4294967296"),
        (Setting::CtState, "old"),
        (Setting::PacketSource, "here"),
        (Setting::SenderUid, "4294967295"),
        (Setting::SenderGid, "-1"),
        (Setting::OutInterface, "a/b"),
        (Setting::Destination, "192.0.2.7:80"),
    ],
    &[
        (Setting::Destination, "8080"),
        (Setting::Sender, "external"),
        (Setting::SenderUid, "5"),
        (Setting::SenderGid, "5"),
        (Setting::OutInterface, "eth0"),
    ],
    &[
        (Setting::Destination, "192.0.2.7:80"),
        (Setting::Sender, "external"),
        (Setting::Direction, "outbound"),
        (Setting::InInterface, "eth0"),
        (Setting::PacketSource, "2001:db8::1"),
    ],
    &[(Setting::Destination, "192.0.2.7:80"), (Setting::OutInterface, "eth+")],
];

struct NoRoutes;

impl Routes for NoRoutes {
    fn leaving(&self, _: &OutgoingPacket) -> Result<Route, String> {
        Err("the network is unreachable".to_owned())
    }

    fn arriving(&self, _: &IncomingPacket<'_>) -> Result<Arrival, String> {
        Err("nothing takes it in".to_owned())
    }

    fn address_at(&self, _: &str, _: Family) -> Result<IpAddr, String> {
        Err("it has no address".to_owned())
    }
}

#[test]
fn a_redirected_call_needs_no_route_to_its_first_destination() {
    let pod = PodContext::new([address("192.0.2.7")], None);
    let to = "192.0.2.7:80".parse().expect("an address");
    let packet = usual_packet(Sender::External, &pod, Protocol::Tcp, to);
    let query = PacketQuery {
        packet,
        endpoint_names: EndpointNames::default(),
        no_route: Some("none".to_owned()),
        is_apps: false,
        open: None,
    };
    let no_route = |verdict, routes: &dyn Routes| {
        let outcome = Outcome { verdict, decided_by: None, translated: None, stays: false, is_tie: false };
        query.no_route_by(&outcome, routes)
    };
    let redirected = Verdict::Redirect("15006".parse().expect("a port"));
    assert_eq!(no_route(redirected, &pod), None);
    assert_eq!(no_route(Verdict::Pass, &pod).as_deref(), Some("none"));
    assert!(no_route(redirected, &NoRoutes).is_some_and(|why| why.contains("has no address")));
}

fn names(name: &str) -> Option<io::Result<Vec<IpAddr>>> {
    match name {
        "reviews" => Some(Ok(["fd00::9", "192.0.2.9", "192.0.2.8"].map(address).to_vec())),
        "only-v6" => Some(Ok(vec![address("fd00::9")])),
        "nowhere" => Some(Ok(Vec::new())),
        "broken" => Some(Err(io::Error::other("no server answers"))),
        _ => None,
    }
}

fn answer(words: PacketWords, pod: &PodContext, routes: &dyn Routes) -> String {
    let raw = raw(words);
    let mut reader = SettingReader::new(&raw, Vec::new());
    let question = packet(&mut reader, &QuestionContext { pod, routes, names: &names });
    let Some(question) = question else {
        return reader.finish().expect_err("a question that is not understood is a problem").to_string();
    };
    let (endpoint_names, packet) = (&question.endpoint_names, &question.packet);
    let (source, destination) = (endpoint_names.source(packet), endpoint_names.destination(packet));
    let view = RuleView::without_rules(packet.family(), pod);
    let explained =
        explain(&view.view, &view.routing, packet).with_endpoint_names(endpoint_names).of_empty(true);
    format!(
        "{source} -> {destination} by {:?}, known {:?}, lost {:?}\n  {packet:?}\n  {}\n  {}",
        endpoint_names.interface(packet),
        endpoint_names.addresses(packet),
        question.no_route,
        explained.packet_line(),
        explained.sentence(),
    )
}

#[test]
fn questions_describe_their_packets() {
    let tproxy = [("istio-inbound-interception-mode", "TPROXY"), ("proxy-uid", "99")];
    let (_, capture) = configured(Mesh::Istio, &tproxy).expect("valid flags");
    let both = PodContext::new(ADDRESSES.map(address), Some(&*capture));
    let one = PodContext::new([address(ADDRESSES[0])], None);
    let unknown = PodContext::from_settings(&Raw::default(), None, None);
    let pods: [(&str, &PodContext, &dyn Routes); 4] = [
        ("a pod of both families with a proxy", &both, &OneInterface(&both)),
        ("a pod of IPv4", &one, &one),
        ("a pod of unknown addresses", &unknown, &unknown),
        ("a machine without routes", &one, &NoRoutes),
    ];
    let mut text = String::new();
    for words in QUESTIONS {
        let flags: Vec<String> =
            words.iter().map(|(setting, value)| format!("{} {value}", setting.row().option())).collect();
        let _ = writeln!(text, "==== {}", flags.join(" "));
        let mut before = String::new();
        for (name, pod, routes) in pods {
            let answer = answer(words, pod, routes);
            if answer != before {
                let _ = writeln!(text, "{name}:\n{answer}");
            }
            before = answer;
        }
    }
    check("questions.txt", &text);
}
