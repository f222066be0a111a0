//! `trace` against the kernel: the rules that connections meet are reported packet by packet.

use crate::support::namespace;
use crate::support::program::BINARY;
use crate::support::setting::backends;
use crate::support::wait;

use namespace::{Namespace, join};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const TABLE: &str = "sidecar_init_trace";
const LISTENS: &str = "reading NFLOG group 1337";
const WITHOUT: &str = "no rule logs to NFLOG; using kernel tracing";
const TRACES: &str = "tracing packets with the table inet sidecar_init_trace";

/// A pod and a peer at 10.77.0.3 and fd77::3.
fn pods() -> (Namespace, Namespace) {
    let (pod, peer) = (Namespace::new(), Namespace::new());
    join((&pod, "eth0", ["10.77.0.2/24", "fd77::2/64"]), (&peer, "eth0", ["10.77.0.3/24", "fd77::3/64"]));
    (pod, peer)
}

struct Started {
    child: Child,
    printed: BufReader<std::process::ChildStderr>,
    output: String,
}

fn start(pod: &Namespace, until: &str, more: &[&str]) -> Started {
    let mut command = Command::new(BINARY);
    command.args(["trace", "--network-namespace", &pod.path()]).args(more);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut printed = BufReader::new(child.stderr.take().expect("standard error is piped"));
    let mut output = String::new();
    while !output.contains(until) {
        assert_ne!(printed.read_line(&mut output).expect("a line"), 0, "the trace has ended: {output}");
    }
    Started { child, printed, output }
}

impl Started {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("the trace runs");
    }

    fn finish(mut self) -> (String, String) {
        let (mut text, mut rest) = (String::new(), self.output);
        self.child.stdout.take().expect("standard output is piped").read_to_string(&mut text).expect("UTF-8");
        self.printed.read_to_string(&mut rest).expect("UTF-8");
        let status = self.child.wait().expect("the trace ends");
        assert!(status.success(), "{status}: {rest}{text}");
        (text, rest)
    }

    fn packets(self) -> Vec<Value> {
        let (text, _) = self.finish();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

fn apply(pod: &Namespace, more: &[&str]) {
    let flags = ["apply", "-i", "*", "-b", "*", "-d", "15090", "--dual-stack"];
    pod.stdout(BINARY, &[&flags[..], more].concat());
}

/// Connects to `to`, where no proxy listens: packets meet the rules before the refusal.
fn call(from: &Namespace, to: &str) {
    from.run(|| TcpStream::connect(to).expect_err("nothing listens"));
}

fn field<'a>(packet: &'a Value, name: &str) -> Vec<&'a str> {
    let rules = packet["rules"].as_array().expect("a list");
    rules.iter().filter_map(|rule| rule[name].as_str()).collect()
}

#[test]
fn logged_rules_are_reported_packet_by_packet() {
    for backend in backends() {
        for (to, source) in [("10.77.0.3:443", "10.77.0.2"), ("[fd77::3]:443", "fd77::2")] {
            let (pod, _peer) = pods();
            apply(&pod, &["--backend", backend, "--iptables-trace-logging"]);
            let filters = ["--destination", to, "--proto", "tcp", "--count", "1", "--output", "json"];
            let started = start(&pod, LISTENS, &filters);
            call(&pod, "127.0.0.1:9");
            call(&pod, to);
            let packets = started.packets();
            let [packet] = &packets[..] else { panic!("{packets:?}") };
            let names = ["outbound", "outbound-network", "to-outbound-listener"];
            assert_eq!(field(packet, "rule"), names, "{backend}: {packet}");
            assert_eq!((&packet["source"], &packet["hook"]), (&source.into(), &"OUTPUT".into()));
            assert_eq!((&packet["uid"], &packet["in_interface"]), (&0.into(), &Value::Null));
            assert_eq!((&packet["protocol"], &packet["destination_port"]), (&"tcp".into(), &443.into()));
            assert_eq!(packet["rules"][1]["options"][0], "--istio-service-cidr");
            assert_eq!(
                (&packet["verdict"], &packet["port"]),
                (&"captured".into(), &15001.into()),
                "{packet}"
            );
        }
    }
}

/// Compares handles and verdicts of `nft monitor trace` with the reported rules.
#[test]
fn trace_needs_no_flags_and_names_the_rules_of_nft() {
    for backend in ["nftables", "iptables-nft"] {
        for (to, family) in [("10.77.0.3:443", "ip"), ("[fd77::3]:443", "ip6")] {
            let (pod, _peer) = pods();
            apply(&pod, &["--backend", backend]);
            let started = start(&pod, TRACES, &["--enable", "--destination", to, "--output", "json"]);
            let mut monitor = pod.run(|| {
                let mut nft = Command::new("nft");
                nft.args(["monitor", "trace"]).stdout(Stdio::piped()).spawn().expect("nft is installed")
            });
            let mut oracle = BufReader::new(monitor.stdout.take().expect("piped"));
            // The monitor reports no readiness, so connections are made until it sees one.
            let lines = thread::scope(|scope| {
                let reader = scope.spawn(move || until_the_end(&mut oracle));
                let deadline = Instant::now() + Duration::from_secs(30);
                while !reader.is_finished() && Instant::now() < deadline {
                    call(&pod, to);
                    thread::sleep(Duration::from_millis(20));
                }
                monitor.kill().expect("our child");
                monitor.wait().expect("nft ends");
                reader.join().expect("no panic")
            });
            started.signal(Signal::SIGTERM);
            let (packets, all) = (started.packets(), lines.concat());
            let of_port = |packet: &&Value| all.contains(&format!("tcp sport {} ", packet["source_port"]));
            let packet = packets.iter().find(of_port).unwrap_or_else(|| panic!("{packets:?} {all}"));
            let place = |line: &String| {
                let words: Vec<&str> = line.split_whitespace().collect();
                (words[3..5].join(" "), words[5].to_owned())
            };
            let shown: Vec<(String, String)> = lines
                .iter()
                .filter(|line| line.contains(" rule ") && !line.contains(TABLE))
                .map(place)
                .collect();
            let ours: Vec<(String, String)> = packet["rules"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|rule| {
                    let table = rule["table"].as_str().expect("a table");
                    let table =
                        if table.contains(' ') { table.to_owned() } else { format!("{family} {table}") };
                    (table, rule["chain"].as_str().expect("a chain").to_owned())
                })
                .collect();
            assert_eq!(ours, shown, "{backend}: {packet} {lines:#?}");
            assert!(ours.len() >= 3, "{packet}");
            if backend == "nftables" {
                for (name, line) in
                    field(packet, "rule").iter().zip(lines.iter().filter(|line| line.contains("comment")))
                {
                    assert!(line.contains(&format!("comment \"{name}")), "{line}: {name}");
                }
            }
            assert_eq!(
                (&packet["verdict"], &packet["port"]),
                (&"captured".into(), &15001.into()),
                "{packet}"
            );
            assert_eq!((&packet["uid"], &packet["out_interface"]), (&0.into(), &"eth0".into()), "{packet}");
        }
    }
}

/// Lines of the first packet shown from its first chain to its end.
fn until_the_end(oracle: &mut impl BufRead) -> Vec<String> {
    let (mut lines, mut id) = (Vec::<String>::new(), None);
    let mut line = String::new();
    while oracle.read_line(&mut line).expect("UTF-8") > 0 {
        let words: Vec<&str> = line.split_whitespace().collect();
        let of = words.get(2).map(|id| (*id).to_owned());
        if id.is_none() && line.contains(&format!("{TABLE} output")) {
            id.clone_from(&of);
        }
        if id.is_some() && id == of {
            lines.push(line.clone());
            if line.contains(&format!("{TABLE} postrouting policy")) {
                break;
            }
        }
        line.clear();
    }
    lines
}

#[test]
fn every_end_of_a_packet_is_reported() {
    for backend in ["nftables", "iptables-nft"] {
        let (pod, peer) = pods();
        apply(&pod, &["--backend", backend]);
        pod.stdout(
            "nft",
            &["add table ip other; add chain ip other in { type filter hook input priority 0; }; \
                             add rule ip other in tcp dport 9999 drop"],
        );
        for (port, verdict, summary) in [
            ("8080", "captured", "goes to the proxy's inbound port 15006"),
            ("15090", "not_captured", "goes directly to 10.77.0.2:15090"),
        ] {
            let started =
                start(&pod, TRACES, &["--enable", "--destination", port, "--count", "1", "--output", "json"]);
            call(&peer, &format!("10.77.0.2:{port}"));
            let packets = started.packets();
            assert_eq!(packets[0]["verdict"], verdict, "{backend}: {packets:?}");
            assert!(packets[0]["summary"].as_str().expect("words").starts_with(summary), "{packets:?}");
            // The kernel reports a returning rule with another message type.
            let names_rule = packets[0]["rules"].to_string().contains("15090");
            assert_eq!(names_rule, verdict == "not_captured", "{backend}: {packets:?}");
        }
        let started = start(&pod, TRACES, &["--enable", "--proto", "udp", "--count", "1"]);
        pod.run(|| {
            let socket = std::net::UdpSocket::bind("10.77.0.2:0").expect("a port");
            socket.send_to(b"x", "10.77.0.3:5353").expect("sent");
        });
        assert!(started.finish().0.contains("because the rules that redirect do not match udp"));
        // With TPROXY, a packet without a waiting socket is dropped.
        apply(&pod, &["--backend", backend, "-m", "TPROXY"]);
        let started = start(&pod, TRACES, &["--enable", "--destination", "8080", "--count", "1"]);
        let addressed = "10.77.0.2:8080".parse().expect("an address");
        peer.run(|| TcpStream::connect_timeout(&addressed, Duration::from_millis(300)).expect_err("dropped"));
        let (text, _) = started.finish();
        assert!(text.contains("=> dropped: never arrives, because no transparent listener"), "{text}");
        pod.stdout(BINARY, &["clean"]);
        let started = start(&pod, TRACES, &["--enable", "--destination", "9999", "--count", "1"]);
        let addressed = "10.77.0.2:9999".parse().expect("an address");
        peer.run(|| TcpStream::connect_timeout(&addressed, Duration::from_millis(300)).expect_err("dropped"));
        let (text, _) = started.finish();
        assert!(text.contains("tcp dport 9999") && text.contains("=> dropped: never arrives"), "{text}");
    }
}

/// NAT sees only the first packet: `getent` sends two queries from one socket.
#[test]
fn later_packets_of_a_connection_go_where_the_first_went() {
    for backend in ["nftables", "iptables-nft"] {
        let (pod, _peer) = pods();
        apply(&pod, &["--backend", backend, "--redirect-dns", "--capture-all-dns"]);
        let filters = ["--enable", "--proto", "udp", "--count", "2", "--output", "json"];
        let started = start(&pod, TRACES, &filters);
        pod.run(|| {
            let socket = std::net::UdpSocket::bind("10.77.0.2:0").expect("a port");
            (0..2).for_each(|_| assert_eq!(socket.send_to(b"x", "10.77.0.3:53").expect("sent"), 1));
        });
        let packets = started.packets();
        let [first, second] = &packets[..] else { panic!("{backend}: {packets:?}") };
        assert_eq!(first["summary"], "goes to the agent's DNS port 15053", "{backend}");
        assert_eq!(second["summary"], "goes where the first packet of its connection went", "{backend}");
        assert_eq!(second["reason"], "nat rules see only the first packet of a connection", "{backend}");
    }
}

#[test]
fn trace_table_is_removed_and_ignored_by_other_commands() {
    let (pod, _peer) = pods();
    apply(&pod, &[]);
    let tables = || pod.stdout("nft", &["list", "tables"]);
    let before = tables();
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let mut started = start(&pod, TRACES, &["--enable"]);
        assert!(tables().contains(TABLE));
        pod.stdout(BINARY, &["diff", "-i", "*", "-b", "*", "-d", "15090", "--dual-stack"]);
        let printed = pod.output(BINARY, &["status"], "");
        assert!(!printed.stdout.contains(TABLE));
        let text = pod.stdout(BINARY, &["explain", "--live", "10.77.0.3:443"]);
        let is_captured = text.lines().nth(1).is_some_and(|line| line.starts_with("captured"));
        assert!(is_captured && !text.contains(TABLE), "{text}");
        let text = pod.output(BINARY, &["trace", "--enable"], "").with(1, "a second trace").stderr;
        assert!(text.contains("another trace --enable is running"), "{text}");
        started.signal(signal);
        started.child.wait().expect("the trace ends");
        wait::until("its table goes", || tables() == before);
    }
}

/// Kernels before 5.12 do not tie a table to a socket.
#[test]
fn table_kept_by_an_old_kernel_is_removed_by_the_next_run() {
    let pod = Namespace::new();
    let leave = || drop(pod.stdout("nft", &["add", "table", "inet", TABLE]));
    leave();
    let started = start(&pod, TRACES, &["--enable", "--for", "1ms"]);
    assert_eq!(started.finish().0, "");
    assert_eq!(pod.stdout("nft", &["list", "tables"]), "");
    leave();
    pod.stdout(BINARY, &["clean"]);
    assert_eq!(pod.stdout("nft", &["list", "tables"]), "");
}

/// Without rules that log, a trace works as with `--enable`; iptables (legacy) rules can't be traced that way.
#[test]
fn missing_log_rules_are_reported() {
    let (pod, _peer) = pods();
    let (_, output) = start(&pod, TRACES, &["--for", "1ms"]).finish();
    assert!(output.contains(WITHOUT) && output.contains("no rules exist here"), "{output}");
    for backend in ["nftables", "iptables-nft"] {
        apply(&pod, &["--backend", backend]);
        let started = start(&pod, TRACES, &["--destination", "443", "--count", "1", "--output", "json"]);
        assert!(started.output.contains(WITHOUT), "{backend}: {}", started.output);
        call(&pod, "10.77.0.3:443");
        assert_eq!(started.packets()[0]["verdict"], "captured", "{backend}");
        pod.stdout(BINARY, &["clean"]);
    }
    let (_, output) = start(&pod, TRACES, &["--enable", "--for", "1ms"]).finish();
    assert!(output.contains("no rules exist here"), "{output}");
    let (pod, _peer) = pods();
    apply(&pod, &["--backend", "iptables-legacy"]);
    let (_, output) = start(&pod, LISTENS, &["--for", "1ms"]).finish();
    assert!(output.contains("no rule logs to NFLOG, and rules of iptables"), "{output}");
    let text = pod.output(BINARY, &["trace", "--enable"], "").with(1, "trace").stderr;
    assert!(text.contains("iptables (legacy)") && text.contains("--iptables-trace-logging"), "{text}");
}

#[test]
fn rules_are_read_again_when_they_have_changed() {
    let (pod, _peer) = pods();
    apply(&pod, &["--iptables-trace-logging", "-x", "10.0.0.0/8"]);
    let filters = ["--destination", "443", "--count", "1", "--output", "json"];
    let listens = start(&pod, LISTENS, &filters);
    let traces = start(&pod, TRACES, &[&["--enable"][..], &filters].concat());
    apply(&pod, &["--iptables-trace-logging"]);
    call(&pod, "10.77.0.3:443");
    for started in [listens, traces] {
        let packets = started.packets();
        assert_eq!(packets[0]["verdict"], "captured", "{packets:?}");
    }
}

#[test]
fn trace_ends_on_signals_and_timeout() {
    let pod = Namespace::new();
    apply(&pod, &["--iptables-trace-logging"]);
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        for (until, more) in [(LISTENS, &[][..]), (TRACES, &["--enable"])] {
            let started = start(&pod, until, more);
            started.signal(signal);
            assert_eq!(started.finish().0, "");
        }
    }
    assert_eq!(start(&pod, LISTENS, &["--for", "1ms"]).finish().0, "");
}

#[test]
fn a_second_listener_is_refused() {
    let pod = Namespace::new();
    apply(&pod, &["--iptables-trace-logging"]);
    let started = start(&pod, LISTENS, &[]);
    let text = pod.output(BINARY, &["trace"], "").with(1, "trace").stderr;
    assert!(text.contains("another program may read it"), "{text}");
    started.signal(Signal::SIGTERM);
    started.finish();
}

#[test]
fn all_problems_are_reported_together() {
    let pod = Namespace::new();
    let requested = "trace --rule no --proto sctp --destination x --count 0 --for 1 --every-packet";
    let text = pod.output(BINARY, &requested.split(' ').collect::<Vec<_>>(), "").with(2, "trace").stderr;
    assert!(text.starts_with("error: 6 problems in the input"), "{text}");
}
