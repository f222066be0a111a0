//! Outcomes of settings: each mesh's configurations in `configurations/MESH.txt`, and refusals. `UPDATE_GOLDENS=1` writes the
//! files.

mod machines;
mod read_back;
mod refused;
mod scenarios;

use mesh::limit::{Caution, CautionContext};
use mesh::preview::{self, Preview};
use mesh::settings::{self, Setting, SettingRow, Topic};
use mesh::sources::{Host, Raw};
use mesh::{Capture, CapturePart, Mesh, MeshEntry, Problems, Resolved, ambient, istio, linkerd, resolve};
use rules::finding::Code;
use rules::simulate::{Direction, Packet};
use rules::{ConnState, Family, Gid, Protocol, Uid};
use std::io;
use std::net::IpAddr;

struct Machine;

impl Host for Machine {
    fn user(&self, name: &str) -> io::Result<Option<Uid>> {
        Ok(if name == "web" { Uid::new(1002) } else { None })
    }

    fn group(&self, name: &str) -> io::Result<Option<Gid>> {
        Ok(if name == "java" { Gid::new(202) } else { None })
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(["10.1.0.9", "fd00:1::9"].map(|text| text.parse().expect("an address")).to_vec())
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        Ok(["10.200.0.1", "fd00::a"].map(|text| text.parse().expect("an address")).to_vec())
    }
}

/// Settings of a call: on each line a flag or variable and its value; a value in double quotes is JSON.
fn raw(call: &str) -> Raw {
    let lines = call.lines().filter(|line| !line.starts_with('#'));
    let words = lines.map(|line| {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        let quoted = value.starts_with('"').then(|| serde_json::from_str(value).expect("a text"));
        (name, quoted.unwrap_or_else(|| value.to_owned()))
    });
    let words: Vec<(&str, String)> = words.collect();
    let named = words.iter().find(|(name, _)| *name == "mesh");
    let mesh = named.map_or(Mesh::Istio, |(_, mesh)| mesh.parse().expect("a mesh"));
    let setting = |name: &str| {
        let is_named = |row: &&SettingRow| row.name() == name || row.variables.contains(&name);
        let row = settings::all().find(|row| row.setting.is_for(mesh) && is_named(row));
        row.unwrap_or_else(|| panic!("{mesh} has no {name}")).setting
    };
    let (variables, flags): (Vec<_>, Vec<_>) =
        words.into_iter().partition(|(name, _)| setting(name).row().long != *name);
    let flags = flags.into_iter().map(|(name, value)| (setting(name), value));
    let value = |name: &str| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| value.into());
    Raw::new(flags, |row| row.setting.is_for(mesh), value)
}

fn resolved(call: &str) -> Result<(Raw, Resolved), Problems> {
    let raw = raw(call);
    resolve(&raw, &Machine, Vec::new()).map(|resolved| (raw, resolved))
}

/// Cautions that apply; [`Code::NoEffect`] only if the setting is given.
fn cautions(
    raw: &Raw,
    capture: &Capture,
    captures_inbound: bool,
    drops_invalid: bool,
) -> Vec<&'static Caution> {
    let (proxy, lists) = (&capture.proxy(), &capture.lists());
    let facts = CautionContext { raw, proxy, lists, captures_inbound, drops_invalid };
    let is_given = |caution: &&Caution| caution.code != Code::NoEffect || facts.has(caution.setting);
    let all = capture.mesh().entry().cautions.iter();
    all.filter(is_given).filter(|caution| (caution.applies)(&facts)).collect()
}

fn described(call: &str) -> String {
    let (raw, Resolved { capture, warnings }) =
        resolved(call).unwrap_or_else(|problems| panic!("{call}: {problems}"));
    let mesh = raw.mesh();
    let (proxy, lists) = (capture.proxy(), capture.lists());
    let option = |setting: Setting| setting.row().option();
    assert_eq!(mesh::istio::of(&capture).is_some(), mesh == Mesh::Istio);
    let mut text = String::new();
    warnings.iter().for_each(|warning| text += &format!("warning: {warning}\n"));
    for (captures_inbound, drops_invalid) in [(true, false), (true, true), (false, false)] {
        for caution in cautions(&raw, &capture, captures_inbound, drops_invalid) {
            let level = if caution.is_warning { "warning" } else { "note" };
            let of =
                format!("{level} {}, inbound: {captures_inbound}, dropped: {drops_invalid}", caution.code);
            text += &format!(
                "caution: {of}: {}: {}; {}\n",
                option(caution.setting),
                caution.text,
                caution.remedy
            );
        }
    }
    for item in &lists {
        text += &format!(
            "{}: {} as {:?}, {:?} of {:?}, captured: {}\n",
            option(item.setting),
            item.selector,
            item.selector,
            item.selector.condition(),
            item.selector.family(),
            item.captured
        );
    }
    let passthrough = Family::BOTH.map(|family| proxy.passthrough(family));
    text += &format!("captures nothing: {}\n", capture.facts().captures_nothing);
    text += &format!(
        "{proxy:?}\n{passthrough:?}\n{:?}\n{:?}\n",
        capture.facts().routing,
        capture.facts().stale_flows
    );
    text += &format!("{:?}\n{:?}\n", capture.without_ipv6(&raw, false), capture.without_ipv6(&raw, true));
    for form in [Preview::Restore, Preview::Commands, Preview::Nft] {
        text += &format!("---- {form:?}\n{}", preview::print(&*capture, form).text);
    }
    let v4 = capture.without(CapturePart::Ipv6);
    assert!(!v4.ipv6() && v4.desired().v6.is_none(), "{v4:?}");
    assert_eq!(v4.rules(Family::V4), capture.rules(Family::V4));
    let without = capture.without(CapturePart::Dns);
    text += &format!("---- without DNS\n{}", preview::print(&*without, Preview::Restore).text);
    if let Capture::Linkerd(config) = &capture {
        for family in capture.families() {
            let commands = linkerd::commands(config, family).join("\n");
            text += &format!("---- of proxy-init, {family}\n{commands}\n");
        }
    }
    for family in capture.families() {
        text += &read_back::all_read_back(&capture, family);
    }
    text
}

/// Each packet meets a rule with the limit's reason, once matching the rule's conditions, once not.
fn limits(mesh: Mesh) -> String {
    let (own, outside, loopback) = ("10.1.0.9:4000", "192.0.2.1:80", "127.0.0.53:53");
    let leaving = |interface: &str| Direction::Outbound {
        interface: interface.to_owned(),
        uid: Uid::new(1000).expect("a user"),
        gid: Gid::new(1000).expect("a group"),
    };
    let arriving = Direction::Inbound { interface: "eth0".to_owned(), local: true };
    let packets = [
        ("call", leaving("eth0"), Protocol::Tcp, 0, own, outside),
        ("marked call", leaving("eth0"), Protocol::Tcp, 0x539, own, outside),
        ("marked datagram", leaving("eth0"), Protocol::Udp, 0x539, own, outside),
        ("query to the pod", leaving("lo"), Protocol::Udp, 0, own, loopback),
        ("query to loopback", leaving("lo"), Protocol::Udp, 0, own, "127.0.0.1:53"),
        ("probe", arriving.clone(), Protocol::Tcp, 0, "169.254.7.127:4000", own),
        ("query of a machine", arriving, Protocol::Udp, 0, outside, "192.0.2.53:53"),
    ];
    let mut text = String::new();
    for limit in mesh.entry().limits {
        text += &format!("{} of {}: {:?}\n", limit.code, limit.reason.name(), limit.about_items("ITEMS"));
    }
    for (name, direction, protocol, mark, source, destination) in packets {
        let [source, destination] =
            [source, destination].map(|end| end.parse().expect("an address and a port"));
        let packet =
            Packet { direction, protocol, source, destination, mark, connmark: 0, state: ConnState::New };
        for fulfils in [true, false] {
            let met = mesh.entry().limits.iter().filter(|limit| (limit.concerns)(&packet, fulfils));
            let met: Vec<String> =
                met.map(|limit| format!("{} {}", limit.code.name(), limit.reason.name())).collect();
            text += &format!("{name}, fulfils: {fulfils}: {}\n", met.join(", "));
        }
    }
    text
}

fn file(name: &str) -> String {
    format!("{}/tests/configurations/{name}.txt", env!("CARGO_MANIFEST_DIR"))
}

fn check(name: &str, answer: impl Fn(&str) -> String) {
    testkit::sections::answers(file(name), ".expected", answer);
}

#[test]
fn configurations_are_as_written() {
    for mesh in Mesh::ALL {
        check(mesh.name(), described);
    }
}

#[test]
fn limits_are_as_written() {
    let mut text = String::new();
    for mesh in Mesh::ALL {
        let [v4, v6] = Family::BOTH.map(|family| mesh.entry().remedy_of_gap.get(family));
        let MeshEntry { keys, proxy_program, .. } = mesh.entry();
        let resolver = proxy_program.resolver.unwrap_or("the proxy");
        text += &format!("---- {mesh}, answered by {resolver}\n{v4}\n{v6}\n{keys:?}\n{}", limits(*mesh));
    }
    testkit::golden(file("limits"), &text);
}

/// Defaults in the help are also valid values.
#[test]
fn the_help_names_the_defaults() {
    let mut not_words = Vec::new();
    for row in Mesh::ALL.iter().flat_map(|mesh| mesh.settings()).filter(|row| row.topic == Topic::Capture) {
        let Some((_, default)) = row.help.split_once("[default: ") else { continue };
        let default = default.split([']', ';']).next().unwrap_or_default();
        let mesh = row.setting.mesh().expect("a setting of a mesh");
        let base = match mesh {
            Mesh::Istio if row.setting == Setting::InterceptionMode => "",
            Mesh::Istio => "istio-inbound-interception-mode TPROXY",
            Mesh::Kuma => "iptables-logs true",
            Mesh::Linkerd | Mesh::Ambient => "",
        };
        let base = format!("mesh {mesh}\n{base}\n");
        let without = resolved(base.trim()).expect("a good call").1.capture;
        let said = |word| resolved(&format!("{base}{} {word}", row.name()).replace("\n\n", "\n"));
        match default.split(", or ").find_map(|word| said(word).ok()) {
            Some((_, with)) => assert_eq!(with.capture, without, "{}", row.name()),
            None => not_words.push(default),
        }
    }
    assert_eq!(not_words, ["the numbers of --proxy-uid", "none", "none", "none", "all"]);
    for (setting, text) in [
        (Setting::RedirectDns, format!("port {}", istio::defaults::AGENT_PORT)),
        (Setting::TraceLogging, format!("group {}", istio::defaults::LOG_GROUP)),
        (Setting::ProbePort, format!("[default: {}]", istio::defaults::PROBE_PORT)),
        (Setting::EnvoyUser, format!("[default: {}]", istio::defaults::PROXY_USER)),
        (ambient::Ambient::DnsCapture, format!("port {}", ambient::defaults::DNS_LISTENER)),
    ] {
        assert!(setting.row().help.contains(&text), "{setting:?}");
    }
}
