//! Readiness and metrics over HTTP, with well-behaved and hostile clients.

use crate::cni::install::node::{LIST, Node, Running, program};
use crate::support::namespace::Namespace;
use crate::support::program::{Run, fed};
use std::{
    fs,
    io::{self, Read, Write},
    net::TcpStream,
    process::Command,
    time::{Duration, Instant},
};
use testkit::monitoring::{Exporter, check};

pub(crate) fn send(namespace: &Namespace, address: &str, request: &[u8]) -> io::Result<String> {
    namespace.run(|| {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Ok(String::from_utf8(answer).expect("UTF-8"))
    })
}

/// The program ends before the folders that it writes to are removed.
pub(crate) struct Scene {
    pub(crate) running: Running,
    pub(crate) node: Node,
    namespace: Namespace,
    address: String,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let (namespace, node) = (Namespace::new(), Node::new());
        let state = node.path("state");
        let state = state.to_str().expect("UTF-8");
        let arguments =
            ["--watch", "--metrics", "127.0.0.1:0", "--ready-address", "127.0.0.1:0", "--state-dir", state];
        let running = namespace.run(|| node.start(&arguments));
        let address = || {
            let log = running.log();
            Some(log.split_once("listening at http://")?.1.split_whitespace().next()?.to_owned())
        };
        running.until("an address", || address().is_some());
        let address = address().expect("an address");
        Self { running, node, namespace, address }
    }

    fn send(&self, request: &[u8]) -> String {
        send(&self.namespace, &self.address, request).expect("a response")
    }

    fn call(&self, verb: &str, variables: &[(&str, &str)]) -> bool {
        let configuration = format!(
            concat!(
                r#"{{"cniVersion":"1.1.0","name":"n","type":"sidecar-cni","log":"none","state_dir":"{}","#,
                r#""capture":{{"proxy-uid":1337}},"prevResult":{{"ips":[{{"address":"10.77.0.2/24"}}]}}}}"#
            ),
            self.node.path("state").display()
        );
        let mut command = Command::new(self.node.plugin());
        command.env("CNI_COMMAND", verb).envs(variables.iter().copied());
        command.env("CNI_PATH", self.node.programs());
        fed(command, configuration).succeeded()
    }

    pub(crate) fn get(&self, path: &str) -> String {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: node\r\n\r\n").as_bytes())
    }
}

#[test]
fn readiness_follows_the_entry_and_metrics_have_the_plugin_counters() {
    let scene = Scene::new();
    assert!(scene.get("/readyz").starts_with("HTTP/1.1 503 "));
    assert!(scene.get("/metrics").contains("\nsidecar_cni_installed 0\n"));
    scene.node.put("10-a.conflist", LIST);
    scene.running.until("readiness", || scene.get("/readyz").starts_with("HTTP/1.1 200 "));
    assert!(scene.call("STATUS", &[]) && scene.call("STATUS", &[]) && !scene.call("GC", &[]));
    let answer = scene.get("/metrics");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    for line in [
        r#"sidecar_cni_calls_total{verb="STATUS",outcome="ready"} 2"#,
        r#"sidecar_cni_calls_total{verb="GC",outcome="failed"} 1"#,
        r#"sidecar_cni_call_duration_seconds_count{verb="STATUS"} 2"#,
        r#"sidecar_cni_call_duration_seconds_bucket{verb="STATUS",le="+Inf"} 2"#,
        r#"sidecar_cni_installations_total{what="entry"} 1"#,
        "sidecar_cni_installed 1",
    ] {
        assert!(body.lines().any(|there| there == line), "{line} is not in\n{body}");
    }
    fs::remove_file(scene.node.configurations().join("10-a.conflist")).expect("removed");
    scene.running.until("its end", || scene.get("/readyz").starts_with("HTTP/1.1 503 "));
}

#[test]
fn alerts_and_dashboard_match_the_installer_metrics() {
    let scene = Scene::new();
    scene.node.put("10-a.conflist", LIST);
    scene.running.until("readiness", || scene.get("/readyz").starts_with("HTTP/1.1 200 "));
    let (pod, state) = (Namespace::new(), scene.node.path("state"));
    let path = pod.path();
    let container = [("CNI_CONTAINERID", "c1"), ("CNI_NETNS", &*path), ("CNI_IFNAME", "eth0")];
    assert!(!scene.call("CHECK", &container) && !scene.call("GC", &[]));
    let repair = ["cni", "repair", "--netns", &path, "--pod-ips", "10.77.0.2", "-u", "1337", "--state-dir"];
    Command::new(program()).args(repair).arg(state).outcome().with(0, "a repair");
    check(Exporter::Installer, &scene.get("/metrics"));
}

#[test]
fn unusual_requests_are_answered_or_dropped() {
    let scene = Scene::new();
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404 "),
        ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200 "),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405 "),
        ("nonsense\r\n\r\n", "400 "),
        ("\r\n\r\n", "400 "),
        ("GET /metrics SPDY\r\n\r\n", "400 "),
    ] {
        let answer = scene.send(request.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request:?}: {answer}");
        assert_eq!(answer.contains("\r\nAllow: GET, HEAD\r\n"), status == "405 ", "{request:?}: {answer}");
    }
    let head = scene.send(b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(scene.send(&vec![b'x'; 1_000_000]), "", "a head that does not end");
    assert!(scene.get("/readyz").starts_with("HTTP/1.1 503 "));
}

/// Connections that send no request or half of one, or read no response.
fn idlers(scene: &Scene, count: usize) -> Vec<TcpStream> {
    let idler = |number: usize| {
        let mut stream = TcpStream::connect(&scene.address).expect("a listener");
        let output: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /metrics HTTP/1.1\r\nHost:",
            _ => b"GET /metrics HTTP/1.1\r\n\r\n",
        };
        // The connection may have been closed in favour of later ones.
        let _ = stream.write_all(output);
        stream
    };
    scene.namespace.run(|| (0..count).map(idler).collect())
}

#[test]
fn idle_clients_delay_no_other() {
    let scene = Scene::new();
    for count in [1, 60, 500] {
        let idlers = idlers(&scene, count);
        for path in ["/readyz", "/metrics", "/readyz"] {
            let start = Instant::now();
            assert!(scene.get(path).starts_with("HTTP/1.1 "), "{path} beside {count}");
            // In sequence, sixty connections would block for minutes.
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "{path} beside {count}: {:?}",
                start.elapsed()
            );
        }
        drop(idlers);
    }
    let _idlers = idlers(&scene, 60);
    let open = || fs::read_dir(format!("/proc/{}/fd", scene.running.id())).expect("the program runs").count();
    scene.running.until("the earlier ones are closed", || open() < 100);
    scene.running.until("they are closed", || open() < 20);
}

#[test]
fn clients_that_use_every_descriptor_delay_no_other() {
    let scene = Scene::new();
    let id = scene.running.id().to_string();
    let limited = Command::new("prlimit").args(["--nofile=24", "--pid", &id]).status().expect("prlimit");
    assert!(limited.success());
    let _idlers = idlers(&scene, 60);
    let start = Instant::now();
    assert!(scene.get("/readyz").starts_with("HTTP/1.1 503 "));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn occupied_address_is_reported() {
    let scene = Scene::new();
    let node = Node::new();
    let arguments = node.arguments("install", &["--watch", "--metrics", &scene.address]);
    let printed = scene.namespace.outcome(Command::new(program()).args(arguments)).with(1, "taken").stderr;
    assert!(printed.contains(&scene.address) && printed.contains("because:"), "{printed}");
}
