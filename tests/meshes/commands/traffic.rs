//! Real connections through each mesh's rules: the accepting process matches the prediction of `explain`, from the flags and from
//! the existing rules; `trace` shows the packets in the mesh's chains, and `status` names the owner.

use crate::meshes::commands::{BACKENDS, whole};
use crate::support::namespace::{Namespace, join};
use crate::support::program::{Outcome, binary};
use crate::support::scope;
use crate::support::traffic::{Arrival, Call, Identity, Listener, Protocol, Socket};
use mesh::sources::{Given, NullHost, Raw, Source};
use mesh::{Capture, Mesh, Proxy};
use mesh::{Setting, settings};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

const APPLICATION: Identity = Identity { uid: 1000, gid: 1000 };
const IPS: [&str; 2] = ["--pod-ips", "10.77.0.2,fd77::2"];
const POD: [&str; 2] = ["10.77.0.2", "[fd77::2]"];
const WORLD: [&str; 2] = ["10.77.0.3", "[fd77::3]"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Party {
    Outbound,
    Inbound,
    Dns,
    Application,
    World,
    Names,
}

fn capture(mesh: Mesh) -> Capture {
    let given = |value: &str| Given { value: value.to_owned(), source: Source::Flag("mesh") };
    let mut raw = vec![(Setting::Mesh, given(mesh.name()))];
    let flags = whole(mesh);
    for (at, word) in flags.iter().enumerate().filter(|(_, word)| word.starts_with('-')) {
        let is_meant = |row: &&settings::SettingRow| {
            word.strip_prefix("--") == Some(row.long)
                || word.strip_prefix('-') == row.short.map(String::from).as_deref()
        };
        let row = settings::of(mesh).find(is_meant).expect("a flag of the mesh");
        let value = flags.get(at + 1).filter(|next| !next.starts_with('-')).unwrap_or(&"true");
        raw.push((row.setting, given(value)));
    }
    raw.push((Setting::PodIps, given(IPS[1])));
    mesh::resolve(&Raw::of(raw), &NullHost, Vec::new()).expect("valid flags").capture
}

struct Scene {
    mesh: Mesh,
    backend: &'static str,
    proxy: Proxy,
    pod: Namespace,
    outside: Namespace,
    arrivals: Receiver<Arrival<Party>>,
    _listeners: Vec<Listener>,
}

struct Case {
    is_inbound: bool,
    call: Call,
    question: Vec<String>,
}

impl Scene {
    fn new(mesh: Mesh, backend: &'static str) -> Self {
        let (pod, outside) = (Namespace::new(), Namespace::new());
        join(
            (&pod, "eth0", ["10.77.0.2/24", "fd77::2/64"]),
            (&outside, "eth0", ["10.77.0.3/24", "fd77::3/64"]),
        );
        let proxy = capture(mesh).proxy();
        let owner = Identity {
            uid: proxy.uids.first().map_or(0, |uid| uid.number()),
            gid: proxy.gids.first().map_or(0, |gid| gid.number()),
        };
        let (note, arrivals) = channel();
        let listen = |namespace: &Namespace, protocol, address: &str, port: u16, owner, party| {
            let address = format!("{address}:{port}").parse().expect("an address");
            Listener::start(namespace, Socket { protocol, address, owner }, party, note.clone())
        };
        let port = |ports: Option<rules::PortRange>| ports.expect("a captured port").first().number();
        let listeners = &proxy.listeners;
        let mut held = vec![
            listen(&pod, Protocol::Tcp, "[::]", port(listeners.outbound), owner, Party::Outbound),
            listen(&pod, Protocol::Tcp, "[::]", port(listeners.inbound), owner, Party::Inbound),
            listen(&pod, Protocol::Tcp, "[::]", 8080, APPLICATION, Party::Application),
            listen(&outside, Protocol::Tcp, "[::]", 80, APPLICATION, Party::World),
            listen(&outside, Protocol::Udp, "10.77.0.3", 53, APPLICATION, Party::Names),
            listen(&outside, Protocol::Udp, "[fd77::3]", 53, APPLICATION, Party::Names),
        ];
        if let Some(port) = listeners.dns.map(rules::Port::number) {
            // Answers must come from the address that the query was redirected to.
            held.extend(
                ["127.0.0.1", "[::1]"]
                    .map(|address| listen(&pod, Protocol::Udp, address, port, owner, Party::Dns)),
            );
            held.push(listen(&pod, Protocol::Tcp, "[::]", port, owner, Party::Dns));
        }
        let scene = Self { mesh, backend, proxy, pod, outside, arrivals, _listeners: held };
        scene.printed(&["apply", "--backend", backend], true);
        scene
    }

    fn about(&self) -> String {
        format!("{} by {}", self.mesh, self.backend)
    }

    fn run(&self, words: &[&str], with_flags: bool) -> Outcome {
        let mut call = binary(words);
        if with_flags {
            call.args(["--mesh", self.mesh.name()]).args(whole(self.mesh)).args(IPS);
        }
        self.pod.outcome(&mut call)
    }

    fn printed(&self, words: &[&str], with_flags: bool) -> String {
        self.run(words, with_flags).with(0, &format!("{}: {words:?}", self.about())).text()
    }

    fn json(&self, words: &[&str], with_flags: bool) -> Value {
        let output = self.run(&[words, &["--output", "json"]].concat(), with_flags);
        serde_json::from_str(&output.stdout)
            .unwrap_or_else(|_| panic!("{}: {words:?}: {output:?}", self.about()))
    }

    fn cases(&self, family: usize) -> Vec<Case> {
        let at =
            |host: &str, port: u16| -> SocketAddr { format!("{host}:{port}").parse().expect("an address") };
        let (pod, world) = (POD[family], WORLD[family]);
        let id = |id: Option<u32>| id.unwrap_or(APPLICATION.uid);
        let own = Identity {
            uid: id(self.proxy.uids.first().map(|uid| uid.number())),
            gid: id(self.proxy.gids.first().map(|gid| gid.number())),
        };
        let mark = self.proxy.mark.map(|mark| mark.value);
        let of = |is_inbound, protocol, identity, mark, to: SocketAddr, who: &str| {
            let call = Call { protocol, identity, from: None, mark, to };
            let protocol = if protocol == Protocol::Tcp { "tcp" } else { "udp" };
            let mut question = vec![to.to_string(), "--proto".to_owned(), protocol.to_owned()];
            question.extend(["--sender".to_owned(), who.to_owned()]);
            if is_inbound {
                question.extend(["--source".to_owned(), world.trim_matches(['[', ']']).to_owned()]);
            }
            Case { is_inbound, call, question }
        };
        let (tcp, udp) = (Protocol::Tcp, Protocol::Udp);
        vec![
            of(false, tcp, APPLICATION, None, at(world, 80), "app"),
            of(false, tcp, own, mark, at(world, 80), "proxy"),
            of(true, tcp, APPLICATION, None, at(pod, 8080), "external"),
            of(false, udp, APPLICATION, None, at(world, 53), "app"),
            of(false, udp, own, mark, at(world, 53), "proxy"),
            of(false, tcp, APPLICATION, None, at(pod, 8080), "app"),
        ]
    }

    fn place(&self, case: &Case) -> Party {
        let from = if case.is_inbound { &self.outside } else { &self.pod };
        case.call.place(from).unwrap_or_else(|error| panic!("{}: {:?}: {error}", self.about(), case.call));
        self.arrivals.try_recv().expect("an arrival is sent before the answer").listener
    }

    fn expected(&self, answer: &Value, case: &Case) -> Party {
        let listeners = &self.proxy.listeners;
        let starts = |ports: Option<rules::PortRange>| ports.map(|ports| Value::from(ports.first().number()));
        match (answer["verdict"].as_str(), &answer["port"]) {
            (Some("captured"), port) if Some(port) == starts(listeners.outbound).as_ref() => Party::Outbound,
            (Some("captured"), port) if Some(port) == starts(listeners.inbound).as_ref() => Party::Inbound,
            (Some("captured"), port) if Some(port) == starts(listeners.dns.map(Into::into)).as_ref() => {
                Party::Dns
            }
            (Some("not_captured"), _) => match case.call.to.port() {
                80 => Party::World,
                53 => Party::Names,
                _ => Party::Application,
            },
            _ => panic!("{}: {:?}: {answer:#}", self.about(), case.call),
        }
    }
}

#[test]
fn kernel_verdicts_match_explain() {
    let all = Mesh::ALL.iter().flat_map(|mesh| BACKENDS.map(|backend| (*mesh, backend))).collect();
    for (mesh, backend) in scope::of(all, Mesh::ALL.len()) {
        let scene = Scene::new(mesh, backend);
        for family in 0..2 {
            let mut got = Vec::new();
            for case in scene.cases(family) {
                let question: Vec<&str> = case.question.iter().map(String::as_str).collect();
                let live = scene.json(&[&["explain", "--live"], &question[..]].concat(), false);
                let by_flags = scene.json(&[&["explain"], &question[..]].concat(), true);
                let party = scene.place(&case);
                let printed = [&live, &by_flags].map(|answer| scene.expected(answer, &case));
                assert_eq!(printed, [party; 2], "{}: {:?}: {live:#}", scene.about(), case.call);
                got.push(party);
            }
            let names = if scene.proxy.listeners.dns.is_some() { Party::Dns } else { Party::Names };
            let expected = [Party::Outbound, Party::World, Party::Inbound, names, Party::Names];
            assert_eq!(got[..5], expected, "{}", scene.about());
        }
        status_names_the_mesh(&scene);
        if backend != "iptables-legacy" {
            trace_shows_its_chains(&scene);
        }
    }
}

fn status_names_the_mesh(scene: &Scene) {
    let (name, about) = (scene.mesh.name(), scene.about());
    let status = scene.json(&["status"], false);
    assert_eq!(status["meshes"], Value::from(vec![name]), "{about}: {status:#}");
    assert_eq!(status["families"], Value::from(vec!["ipv4", "ipv6"]), "{about}");
    for held in status["held_by"].as_array().expect("a list") {
        assert_eq!(held["mesh"], name, "{about}: {held:#}");
    }
    assert_eq!(status["held_by"][0]["backend"], scene.backend, "{about}");
    let made = &status["held_by"][0]["made"];
    assert_eq!(&status["made"], made, "{about}");
    if scene.backend == "nftables" {
        assert_eq!((&made["command"], &made["changed_since"]), (&"apply".into(), &false.into()), "{about}");
        // Settings omit the mesh's defaults.
        let settings = made["settings"].as_str().expect("settings");
        let output: Vec<&str> = whole(scene.mesh).into_iter().filter(|word| word.starts_with('-')).collect();
        assert!(output.iter().all(|flag| settings.contains(flag)), "{about}: {settings}");
    }
    // The listeners are the proxy's, and a complete pod has no findings.
    let listeners = status["listeners"].as_array().expect("a list");
    assert!(!listeners.is_empty(), "{about}");
    for one in listeners {
        assert_eq!(one["missing"], Value::Array(Vec::new()), "{about}: {one:#}");
    }
    assert_eq!(status["findings"], Value::Array(Vec::new()), "{about}: {status:#}");
    let hits = status["hits"].as_array().expect("a list");
    let counted = |hit: &&Value| hit["fate"] == "captured" && hit["packets"].as_u64() > Some(0);
    assert!(hits.iter().filter(counted).count() >= 2, "{about}: {hits:#?}");
}

fn trace_shows_its_chains(scene: &Scene) {
    let (case, about) = (&scene.cases(0)[0], scene.about());
    let to = case.call.to.to_string();
    let words =
        ["trace", "--enable", "--output", "json", "--count", "1", "--for", "60s", "--destination", &to];
    let mut call = binary(&words);
    call.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = scene.pod.run(|| call.spawn().expect("the binary runs"));
    until_it_traces(&mut child, &about);
    scene.place(case);
    let mut text = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut text).expect("UTF-8");
    assert!(child.wait().expect("the trace ends").success(), "{about}: {text}");
    let packet: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{about}: {error}: {text}"));
    assert_eq!(scene.expected(&packet, case), Party::Outbound, "{about}: {packet:#}");
    let owner = scene.mesh.ownership();
    let rules = packet["rules"].as_array().expect("a list");
    let is_its = |rule: &&Value| {
        let (table, chain) =
            (rule["table"].as_str().unwrap_or_default(), rule["chain"].as_str().unwrap_or_default());
        table == format!("inet {}", owner.table) || owner.chains.may_include(chain)
    };
    assert!(rules.iter().any(|rule| is_its(&rule)), "{about}: {packet:#}");
    let is_named = |rule: &Value| rule["rule"].is_string() && rule["options"].is_array();
    assert!(rules.iter().filter(is_its).any(is_named), "{about}: {packet:#}");
}

fn until_it_traces(child: &mut Child, about: &str) {
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    let mut output = String::new();
    while !output.contains("tracing packets with the table") {
        assert_ne!(lines.read_line(&mut output).expect("UTF-8"), 0, "{about}: the trace has ended: {output}");
    }
    // Later output is discarded, but must not block the program.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
}
