//! Answers of a real kernel: what runs in containers is the real `sidecar-init`, in a network namespace. `kubectl exec` is
//! played by a script here; in [`websocket`] it is the real one.

#[expect(dead_code, reason = "a module of the other test program, of which this needs a part")]
#[path = "../kubectl/fake.rs"]
mod fake;
#[path = "../kubectl/played.rs"]
mod played;
mod websocket;

use fake::{CONTAINER, Fake, pod};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    thread,
};
use testkit::{command, command_line::Ended, pod_namespace::PodNamespace, program_beside, word};

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

fn pod_namespace() -> PodNamespace {
    PodNamespace::new("10.1.2.3")
}

/// The rules of the manifest are set, as the plugin does when the pod starts.
fn apply(namespace: &PodNamespace) {
    let pod = pod("web-0").to_string();
    let words = ["apply", "-f", &pod, "--backend", "nftables", "--network-namespace", &namespace.path()];
    command(word(program()), &words);
}

/// The rules of inbound traffic are removed, as by another program.
fn change_rules(namespace: &PodNamespace) {
    namespace.command(&["nft", "flush", "chain", "inet", "sidecar_init", "nat_ISTIO_INBOUND"]);
}

/// The namespace goes.
fn end(namespace: &mut PodNamespace) {
    namespace.0.kill().expect("it runs");
    namespace.0.wait().expect("it ends");
}

/// A pod's network namespace, and a kubectl that leads to it.
struct Scene {
    namespace: PodNamespace,
    fake: Fake,
}

impl Scene {
    fn new() -> Self {
        let namespace = pod_namespace();
        let fake = Fake::with_agent();
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

    fn run(&self, words: &[&str]) -> Ended {
        self.fake.run(words)
    }
}

#[track_caller]
fn check_equality(diff: &Ended) {
    let expected = "The rules are as the manifest describes them (nftables).\n";
    assert!(diff.stdout.ends_with(expected), "{}", diff.stdout);
}

/// What is shown once the rules are changed.
#[track_caller]
fn check_drift(status: &Ended, diff: &Ended) {
    assert!(
        status.stdout.contains("our table was") && status.stdout.contains("changed"),
        "{}",
        status.stdout
    );
    let parts = ["nat_ISTIO_INBOUND", "# missing"];
    assert!(parts.iter().all(|part| diff.stdout.contains(part)), "{}", diff.stdout);
}

/// A pod's rules: none, those of its manifest, changed ones; then the namespace goes.
#[test]
fn the_life_of_a_pod() {
    let mut scene = Scene::new();
    let ran = scene.run(&["explain", "web-0", "8080"]).with(0);
    for part in [
        "as it was sent, because it meets no rule\n",
        "the manifest disagrees: captured: goes to the proxy's inbound port 15006",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    scene.run(&["explain", "web-0", "8080", "--expect", "captured"]).with(3);
    let document = scene.run(&["status", "web-0", "-o", "json"]).with(0).json();
    assert_eq!(document["kernel"]["capturing"], false);
    let ran = scene.run(&["diff", "web-0"]).with(3);
    assert!(ran.stdout.contains("The rules differ") && ran.stdout.contains("# missing"), "{}", ran.stdout);

    apply(&scene.namespace);
    let ends = |words: &[&str]| {
        let document = scene.run(&[&["explain", "web-0", "-o", "json"], words].concat()).with(0).json();
        let answers = document["answers"].as_array().expect("a list").iter();
        let end = |answer: &Value| {
            let kernel = &answer["kernel"];
            (
                answer["agree"] == true,
                kernel["verdict"].as_str().expect("a verdict").to_owned(),
                kernel["port"].as_u64(),
            )
        };
        answers.map(end).collect::<Vec<_>>()
    };
    let expected = [("redirect", Some(15006)), ("redirect", Some(15001)), ("pass", None)];
    let expected = expected.map(|(verdict, port)| (true, verdict.to_owned(), port));
    assert_eq!(ends(&["8080", "10.0.0.5:443", "15090"]), expected);
    let ran = scene.run(&["explain", "web-0", "8080", "--expect", "captured"]).with(0);
    let parts = ["The manifest agrees.", "<- decides"];
    assert!(parts.iter().all(|part| ran.stdout.contains(part)), "{}", ran.stdout);
    let proxy = ["explain", "web-0", "10.0.0.5:443", "--sender", "proxy", "--expect", "not-captured"];
    scene.run(&proxy).with(0);
    let ran = scene.run(&["status", "web-0"]).with(0);
    for part in ["outbound and inbound traffic is captured over IPv4", "\nCaptured\n", "\nExcluded\n"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    check_equality(&scene.run(&["diff", "web-0"]).with(0));

    change_rules(&scene.namespace);
    let agree: Vec<bool> = ends(&["8080", "10.0.0.5:443"]).iter().map(|(agree, ..)| *agree).collect();
    assert_eq!(agree, [false, true]);
    check_drift(&scene.run(&["status", "web-0"]).with(0), &scene.run(&["diff", "web-0"]).with(3));

    end(&mut scene.namespace);
    let start = "error: sidecar-init in pod kube-system/sidecar-node-x7k2p: ";
    let stderr = scene.run(&["status", "web-0"]).with(1).stderr;
    assert!(stderr.starts_with(start) && stderr.contains("--network-namespace"), "{stderr}");
}

#[test]
fn packets_are_traced() {
    let scene = Scene::new();
    apply(&scene.namespace);
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
