//! Answers of a real kernel: what runs in containers is the real `sidecar-init`, in a network namespace. `kubectl exec` is
//! played by a script here; in [`websocket`] it is the real one.

#[expect(dead_code, reason = "a module of the other test program, of which this needs a part")]
#[path = "../kubectl/fake.rs"]
mod fake;
#[path = "../kubectl/played.rs"]
mod played;
mod websocket;

use fake::{CONTAINER, Fake, Ran, agent, list, pod, ran};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    thread,
};
use testkit::{command, program_beside, running::Running, until, word};

/// What the agent's container runs for a call of `kubectl exec`, with the pod's namespace in place of its container.
const EXEC: &str = r#"
  *" exec "* | "exec "*)
    while [ "$1" != -- ]; do shift; done
    if [ "$2 $4 $5" != "/usr/local/bin/sidecar-init --network-namespace @CONTAINER@" ]; then
      echo "unexpected: $*" >&2
      exit 9
    fi
    command=$3
    shift 5
    "@PROGRAM@" "$command" --network-namespace "@NAMESPACE@" "$@"
    status=$?
    if [ "$status" != 0 ]; then echo "command terminated with exit code $status" >&2; fi
    exit "$status"
    ;;
"#;

/// The real program, next to the plugin.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| program_beside(env!("CARGO_BIN_EXE_kubectl-capture"), "sidecar-init"))
}

/// A pod's network namespace, held by a process.
struct PodNamespace(Running);

impl PodNamespace {
    fn new() -> Self {
        let script = "ip link set lo up && ip link add eth0 type veth peer name peer && ip addr add 10.1.2.3/24 dev eth0 && \
                      ip link set peer up && ip link set eth0 up && ip route add default dev eth0 && exec sleep 600";
        let holder = Command::new("unshare").args(["--net", "sh", "-c", script]).spawn().expect("unshare");
        let comm = format!("/proc/{}/comm", holder.id());
        let namespace = Self(Running(holder));
        until("the namespace is ready", || {
            fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "sleep")
        });
        namespace
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    /// The rules of the manifest are set, as the plugin does when the pod starts.
    fn apply(&self) {
        let pod = pod("web-0").to_string();
        let words = ["apply", "-f", &pod, "--backend", "nftables", "--network-namespace", &self.path()];
        command(word(program()), &words);
    }

    /// The rules of inbound traffic are removed, as by another program.
    fn change_rules(&self) {
        let net = format!("--net={}", self.path());
        command("nsenter", &[&net, "nft", "flush", "chain", "inet", "sidecar_init", "nat_ISTIO_INBOUND"]);
    }

    fn end(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A pod's network namespace, and a kubectl that leads to it.
struct Scene {
    namespace: PodNamespace,
    fake: Fake,
}

impl Scene {
    fn new() -> Self {
        let namespace = PodNamespace::new();
        let mut fake = Fake::new();
        fake.object("get pod web-0*", &pod("web-0"));
        fake.object("get pods -l *", &list(&[agent()]));
        let exec = EXEC
            .replace("@CONTAINER@", CONTAINER)
            .replace("@PROGRAM@", word(program()))
            .replace("@NAMESPACE@", &namespace.path());
        let kubectl = fake.file("kubectl");
        let script = fs::read_to_string(&kubectl).expect("the script");
        let (head, tail) = script.split_once("for answer").expect("the loop");
        fs::write(&kubectl, format!("{head}case \"$*\" in{exec}esac\nfor answer{tail}")).expect("written");
        Self { namespace, fake }
    }

    fn run(&self, words: &[&str]) -> Ran {
        ran(&mut self.fake.command(words))
    }
}

#[track_caller]
fn check_equality(diff: &Ran) {
    let expected = "The rules are as the manifest describes them (nftables).\n";
    assert!(diff.stdout.ends_with(expected), "{}", diff.stdout);
}

/// What is shown once the rules are changed.
#[track_caller]
fn check_drift(status: &Ran, diff: &Ran) {
    assert!(
        status.stdout.contains("our table was") && status.stdout.contains("changed"),
        "{}",
        status.stdout
    );
    let parts = ["nat_ISTIO_INBOUND", "# missing"];
    assert!(parts.iter().all(|part| diff.stdout.contains(part)), "{}", diff.stdout);
}

/// What is shown once the namespace is gone.
#[track_caller]
fn check_refusal(status: &Ran) {
    let start = "error: sidecar-init in pod kube-system/sidecar-node-x7k2p: ";
    let stderr = &status.stderr;
    assert!(stderr.starts_with(start) && stderr.contains("--network-namespace"), "{stderr}");
}

#[test]
fn a_captured_pod() {
    let scene = Scene::new();
    scene.namespace.apply();
    let call = ["explain", "web-0", "8080", "10.0.0.5:443", "15090", "-o", "json"];
    let document = scene.run(&call).with(0).json();
    let answers = document["answers"].as_array().expect("a list");
    let ends = answers.iter().map(|answer| {
        assert_eq!(answer["agree"], true, "{answer}");
        (answer["kernel"]["verdict"].as_str().expect("a verdict"), answer["kernel"]["port"].as_u64())
    });
    let expected = [("redirect", Some(15006)), ("redirect", Some(15001)), ("pass", None)];
    assert_eq!(ends.collect::<Vec<_>>(), expected);
    let ran = scene.run(&["explain", "web-0", "8080", "--expect", "captured"]).with(0);
    assert!(
        ran.stdout.contains("The manifest agrees.") && ran.stdout.contains("<- decides"),
        "{}",
        ran.stdout
    );
    let proxy = ["explain", "web-0", "10.0.0.5:443", "--sender", "proxy", "--expect", "not-captured"];
    scene.run(&proxy).with(0);

    let ran = scene.run(&["status", "web-0"]).with(0);
    for part in ["outbound and inbound traffic is captured over IPv4", "\nCaptured\n", "\nExcluded\n"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    check_equality(&scene.run(&["diff", "web-0"]).with(0));
}

#[test]
fn a_pod_whose_traffic_is_not_captured() {
    let scene = Scene::new();
    let ran = scene.run(&["explain", "web-0", "8080"]).with(0);
    assert!(ran.stdout.contains("as it was sent, because it meets no rule\n"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("the manifest disagrees: captured: goes to the proxy's inbound port 15006"),
        "{}",
        ran.stdout
    );
    scene.run(&["explain", "web-0", "8080", "--expect", "captured"]).with(3);
    let document = scene.run(&["status", "web-0", "-o", "json"]).with(0).json();
    assert_eq!(document["kernel"]["capturing"], false);
    let ran = scene.run(&["diff", "web-0"]).with(3);
    assert!(ran.stdout.contains("The rules differ") && ran.stdout.contains("# missing"), "{}", ran.stdout);
}

#[test]
fn a_pod_whose_rules_were_changed() {
    let scene = Scene::new();
    scene.namespace.apply();
    scene.namespace.change_rules();
    let call = ["explain", "web-0", "8080", "10.0.0.5:443", "-o", "json"];
    let document = scene.run(&call).with(0).json();
    let agree = [0, 1].map(|at| document["answers"][at]["agree"].clone());
    assert_eq!(agree, [json!(false), json!(true)]);
    check_drift(&scene.run(&["status", "web-0"]).with(0), &scene.run(&["diff", "web-0"]).with(3));
}

#[test]
fn packets_are_traced() {
    let scene = Scene::new();
    scene.namespace.apply();
    let traced = thread::scope(|scope| {
        let trace = scope.spawn(|| {
            scene.run(&["trace", "web-0", "--enable", "--count", "1", "--for", "30s", "--destination", "443"])
        });
        // The trace begins at a time that is not known. No proxy listens: the connection is refused at once.
        while !trace.is_finished() {
            let net = format!("--net={}", scene.namespace.path());
            let call = ["bash", "-c", "exec 3<>/dev/tcp/10.0.0.5/443"];
            let _ = Command::new("nsenter").arg(net).args(call).output().expect("nsenter starts");
        }
        trace.join().expect("it does not panic")
    });
    let ran = traced.with(0);
    assert!(ran.stdout.contains("-> 10.0.0.5:443") && ran.stdout.contains("=> captured"), "{}", ran.stdout);
}

#[test]
fn what_the_kernels_side_refuses_is_reported() {
    let mut scene = Scene::new();
    scene.namespace.end();
    check_refusal(&scene.run(&["status", "web-0"]).with(1));
}
