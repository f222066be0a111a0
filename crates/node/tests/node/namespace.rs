//! Repair in a real network namespace, which a process of the test stands in for the pod's.

use super::scene::{Scene, broken, healthy, uid};
use serde_json::json;
use sidecar_init::sys::namespace;
use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use testkit::{command, running::Running, until, word};

/// A namespace with an interface, an address and a way out, held by a process.
pub(crate) struct Sandbox {
    child: Running,
}

impl Sandbox {
    pub(crate) fn new(address: &str) -> Self {
        let script = format!(
            "ip link set lo up && ip link add eth0 type veth peer name peer && ip addr add {address}/24 dev eth0 && \
             ip link set peer up && ip link set eth0 up && ip route add default dev eth0 && exec sleep 600"
        );
        let child = Command::new("unshare").args(["--net", "sh", "-c", &script]).spawn().expect("unshare");
        let sandbox = Self { child: Running(child) };
        let comm = format!("/proc/{}/comm", sandbox.child.id());
        until("the namespace is ready", || {
            fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "sleep")
        });
        sandbox
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.child.id()).into()
    }

    /// The rules of nf_tables; handles of objects left out.
    fn rules(&self) -> String {
        let path = format!("--net={}", self.path().display());
        crate::note::without_note(&command("nsenter", &[&path, "nft", "list", "ruleset"]))
    }

    /// A `/proc` that holds process 1 and this one, in the control group of a pod.
    fn proc(&self, folder: &Path, uid: &str) -> PathBuf {
        let proc = folder.join("proc");
        for (id, group) in
            [(1, "0::/init.scope"), (self.child.id(), &*format!("0::/kubepods/pod{uid}/pause"))]
        {
            let process = proc.join(id.to_string());
            fs::create_dir_all(&process).expect("a folder");
            fs::write(process.join("cgroup"), group).expect("written");
            symlink(format!("/proc/{id}/ns"), process.join("ns")).expect("a link");
        }
        proc
    }

    /// Whether a connection to somewhere else arrives at the proxy's port.
    fn captures(&self) -> bool {
        let connect = || {
            let proxy = TcpListener::bind("127.0.0.1:15001").expect("a port");
            proxy.set_nonblocking(true).expect("a socket");
            let to = "198.51.100.7:80".parse().expect("an address");
            TcpStream::connect_timeout(&to, Duration::from_secs(1)).is_ok() && proxy.accept().is_ok()
        };
        namespace::within(&self.path(), connect).expect("a namespace")
    }
}

pub(crate) fn with_address(mut pod: serde_json::Value, address: &str) -> serde_json::Value {
    pod["status"]["podIP"] = address.into();
    pod["status"]["podIPs"] = json!([{ "ip": address }]);
    pod
}

#[test]
fn a_pod_is_repaired_once_a_failure_and_its_traffic_captured() {
    let scene = Scene::new();
    let sandbox = Sandbox::new("10.213.1.7");
    let proc = sandbox.proc(&scene.cluster.folder, &uid("web"));
    assert!(!sandbox.captures(), "nothing has set rules yet");

    let program = scene.start(&["--watch", "--proc", word(&proc), "--metrics", "127.0.0.1:15514"]);
    until("pods are listed", || scene.cluster.count("watch", "pods") > 0);
    scene.cluster.put(&with_address(broken("web", 1), "10.213.1.7"));
    until("an event tells of the repair", || !scene.cluster.all("events").is_empty());
    assert!(sandbox.captures(), "the rules are there:\n{}", sandbox.rules());
    let rules = sandbox.rules();
    assert!(rules.contains("table inet sidecar_init") && rules.contains("9999"), "{rules}");
    let event = scene.cluster.all("events")[0].clone();
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Normal"), &json!("SidecarRepairDone")),
        "{event}"
    );
    assert_eq!(event["regarding"]["uid"], uid("web"));

    // Told again of the same failure it does nothing; of the next, it looks again and finds all in place.
    scene.cluster.put(&with_address(broken("web", 1), "10.213.1.7"));
    scene.cluster.put(&with_address(broken("web", 2), "10.213.1.7"));
    until("it has looked again", || program.log().contains("in its namespace already"));
    assert_eq!(sandbox.rules(), rules);
    assert_eq!(program.log().matches("\"action\":\"repair\"").count(), 2, "{}", program.log());

    scene.cluster.put(&with_address(healthy("web"), "10.213.1.7"));
    until("it has recovered", || program.log().contains("not broken any more"));
    let metrics = get("127.0.0.1:15514", "/metrics");
    for line in
        ["sidecar_node_repairs_total{action=\"repair\",outcome=\"done\"} 2", "sidecar_node_recovered_total 1"]
    {
        assert!(metrics.contains(line), "{metrics}");
    }
    assert!(get("127.0.0.1:15514", "/readyz").starts_with("HTTP/1.1 200"));
    assert!(program.log().lines().all(|line| line.starts_with('{')), "each line is JSON: {}", program.log());
    assert_eq!(program.stop(), Some(0));
}

#[test]
fn clients_that_say_nothing_hold_up_no_other() {
    let scene = Scene::new();
    let sandbox = Sandbox::new("10.213.9.7");
    let proc = sandbox.proc(&scene.cluster.folder, &uid("web"));
    let address = "127.0.0.1:15515";
    let program = scene.start(&["--watch", "--proc", word(&proc), "--metrics", address]);
    until("it listens", || TcpStream::connect(address).is_ok());
    let _silent: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    let start = Instant::now();
    assert!(get(address, "/healthz").starts_with("HTTP/1.1 200"));
    // Each may say nothing for 10 s, and at most 64 are open at once.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let open = fs::read_dir(format!("/proc/{}/fd", program.id())).expect("it runs").count();
    assert!(open < 100, "{open} descriptors");
    assert_eq!(program.stop(), Some(0));
}

/// A pod of another mesh than Istio's, by its own words.
#[test]
fn a_pod_of_linkerd_is_repaired_with_its_own_rules() {
    let scene = Scene::new();
    let sandbox = Sandbox::new("10.213.6.7");
    let proc = sandbox.proc(&scene.cluster.folder, &uid("web"));
    let mut pod = with_address(broken("web", 1), "10.213.6.7");
    pod["metadata"]["annotations"] = json!({
        "linkerd.io/proxy-version": "edge-26.8.1", "config.linkerd.io/skip-inbound-ports": "9999",
    });
    pod["spec"]["initContainers"] = json!([{ "name": "sidecar-validation", "image": "i" }]);
    pod["spec"]["containers"] =
        json!([{ "name": "linkerd-proxy", "image": "p" }, { "name": "app", "image": "a" }]);
    pod["status"]["initContainerStatuses"][0]["name"] = "sidecar-validation".into();
    scene.cluster.put(&pod.clone());
    let (code, log) = scene.run(&["--proc", word(&proc)]);
    assert_eq!(code, Some(0), "{log}");
    let rules = sandbox.rules();
    assert!(rules.contains("table inet sidecar_init_linkerd") && rules.contains("9999"), "{rules}{log}");
    // Beside another mesh nothing is set.
    pod["metadata"]["annotations"] = json!({ "kuma.io/sidecar-injected": "true" });
    pod["spec"]["containers"][0]["name"] = "kuma-sidecar".into();
    pod["status"]["initContainerStatuses"][0]["restartCount"] = 2.into();
    scene.cluster.put(&pod);
    let (code, log) = scene.run(&["--proc", word(&proc)]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("Kuma was requested") && log.contains("clean --mesh linkerd"), "{log}");
    assert_eq!(sandbox.rules(), rules);
}

#[test]
fn where_no_process_tells_the_addresses_do() {
    let scene = Scene::new();
    let (sandbox, _other) = (Sandbox::new("10.213.2.7"), Sandbox::new("10.213.2.8"));
    scene.cluster.put(&with_address(broken("web", 1), "10.213.2.7"));
    let (code, log) = scene.run(&[]);
    assert_eq!(code, Some(0), "{log}");
    assert!(sandbox.captures(), "{log}");
    assert!(!_other.captures(), "another pod's namespace is untouched");
}

#[test]
fn two_namespaces_that_may_be_the_pods_are_left_alone() {
    let scene = Scene::new();
    let sandboxes = [Sandbox::new("10.213.3.7"), Sandbox::new("10.213.3.7")];
    scene.cluster.put(&with_address(broken("web", 1), "10.213.3.7"));
    let (code, log) = scene.run(&[]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("more than one namespace may be the pod's"), "{log}");
    for sandbox in &sandboxes {
        assert_eq!(sandbox.rules(), "");
    }
    let event = scene.cluster.all("events")[0].clone();
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Warning"), &json!("SidecarRepairFailed")),
        "{event}"
    );
}

/// A process of the pod with this uid is in a namespace with the first address, and the API server reports the second one for
/// the pod `web`.
fn check_not_believed(pod_of_process: &str, address: &str, reported: &str) {
    let scene = Scene::new();
    let sandbox = Sandbox::new(address);
    let proc = sandbox.proc(&scene.cluster.folder, &uid(pod_of_process));
    scene.cluster.put(&with_address(broken("web", 1), reported));
    let (code, log) = scene.run(&["--proc", word(&proc)]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("no process of the pod and no namespace with its addresses"), "{log}");
    assert_eq!(sandbox.rules(), "");
}

#[test]
fn a_process_in_the_pods_group_with_a_foreign_address_is_not_believed() {
    check_not_believed("web", "10.213.4.7", "10.213.4.9");
}

#[test]
fn an_address_that_another_pod_has_by_now_is_not_believed() {
    check_not_believed("b", "10.213.8.7", "10.213.8.7");
}

#[test]
fn bad_annotations_are_told_and_nothing_is_touched() {
    let scene = Scene::new();
    let sandbox = Sandbox::new("10.213.5.7");
    let proc = sandbox.proc(&scene.cluster.folder, &uid("web"));
    let mut pod = with_address(broken("web", 1), "10.213.5.7");
    pod["metadata"]["annotations"]["traffic.sidecar.istio.io/excludeInboundPorts"] = "99999".into();
    scene.cluster.put(&pod);
    let (code, log) = scene.run(&["--proc", word(&proc)]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("excludeInboundPorts") && log.contains("99999"), "{log}");
    assert_eq!(sandbox.rules(), "");
}

pub(crate) fn get(address: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}
