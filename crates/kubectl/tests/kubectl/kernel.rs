//! The routes to the kernel, and what its documents may be: `status`, `trace`, `diff`, ephemeral containers, bad output.

use crate::fake::{CONTAINER, Fake, explanation};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn status() -> Value {
    let row = |verdict: &str, recipient: &str, port: Option<u16>, text: &str, option: &str| {
        json!({ "part": "inbound", "text": text, "verdict": verdict, "recipient": recipient, "port": port,
            "option": option, "kinds": [] })
    };
    json!({
        "version": 1, "capturing": true, "summary": "inbound traffic is captured over IPv4, by nftables",
        "directions": ["inbound"], "meshes": ["istio"], "families": ["ipv4"], "made": null, "hits": [],
        "held_by": [{ "mesh": "istio", "backend": "nftables", "families": ["ipv4"], "rule_count": 20, "program": "sidecar-init", "made": null }],
        "rows": [row("not_captured", "application", None, "TCP port 15090", "-d"),
            row("captured", "Envoy", Some(15006), "all other TCP", "-b")],
        "listeners": [{ "meshes": [], "port": 15006, "protocol": "tcp", "purposes": [], "families": [], "by": [], "text": "envoy" }],
        "findings": [{ "level": "warning", "code": "SI999", "subject": null, "text": "a rule comes first", "remedy": "sidecar-init apply" }],
    })
}

#[test]
fn the_status_of_a_pod_is_shown() {
    let mut fake = Fake::with_agent();
    fake.object("exec *sidecar-init status *", &status());
    let ran = fake.run(&["status", "pod/web-0", "-n", "shop"]).with(0);
    let text = ran.stdout.split_once(":\n").expect("a basis").1;
    let expected = "Inbound traffic is captured over IPv4, by nftables.\n\nFindings\nwarning  SI999 a rule comes first\n               \
                    -> sidecar-init apply\n\nInto the pod\n  not captured --> application        TCP port 15090 (-d)\n  \
                    captured     ==> Envoy 15006        all other TCP (-b)\n\nListeners\n  15006/tcp envoy\n\nMade\n    20 rules in nftables, IPv4, by sidecar-init\n    the table has \
                    no note of when it was made, or by what\n";
    assert_eq!(text, expected);
    assert!(ran.stdout.starts_with("by the kernel of pod shop/web-0 on node worker-1"), "{}", ran.stdout);
    let document = fake.run(&["status", "web-0", "-o", "json"]).with(0).json();
    assert_eq!(document["kernel"], status());

    for (capturing, level, finding, code) in [
        (json!(true), "warning", "SI059", 3),
        (json!(false), "warning", "SI047", 3),
        (Value::Null, "failure", "SI045", 1),
        (json!(true), "failure", "SI056", 1),
    ] {
        let mut other = status();
        other["capturing"] = capturing;
        (other["findings"][0]["level"], other["findings"][0]["code"]) = (json!(level), json!(finding));
        let mut fake = Fake::with_agent();
        fake.answer("exec *sidecar-init status *", &other.to_string(), "", code);
        fake.run(&["status", "web-0"]).with(code);
    }
}

#[test]
fn packets_are_shown_as_they_come() {
    let mut fake = Fake::with_agent();
    let packet = json!({
        "version": 1, "time": "2026-01-01T00:00:00Z", "hook": "OUTPUT", "in_interface": null, "out_interface": "eth0",
        "protocol": "tcp", "source": "10.1.2.3", "source_port": 40000, "destination": "10.0.0.5", "destination_port": 443,
        "mark": 0, "uid": 1000, "uid_here": null, "verdict": "captured", "port": 15001,
        "rules": [{ "table": "nat", "chain": "OUTPUT", "position": 1, "text": "-j ISTIO_OUTPUT", "rule": "outbound", "options": ["-i"] }],
        "summary": "goes to port 15001", "reason": "-i",
    });
    fake.answer("exec *sidecar-init trace *", &format!("{packet}\n{packet}\n"), "", 0);
    let call = "trace web-0 --for 30s --count 2 --enable --verdict captured --proto tcp --destination 443";
    let ran = fake.run(&call.split(' ').collect::<Vec<_>>()).with(0);
    let shown = "2026-01-01T00:00:00Z tcp 10.1.2.3:40000 -> 10.0.0.5:443 out eth0 uid 1000\n  nat OUTPUT\n    1 -j \
                 ISTIO_OUTPUT   # outbound (-i)\n  => captured: goes to port 15001, because -i\n";
    assert_eq!(ran.stdout.matches(shown).count(), 2, "{}", ran.stdout);
    let call = fake.calls().pop().expect("a call");
    let expected = format!(
        "trace --network-namespace {CONTAINER} --format json --for=30000ms --count=2 --enable --proto=tcp \
         --destination=443 --verdict=captured"
    );
    assert!(call.ends_with(&expected), "{call}");
    let ran = fake.run(&["trace", "web-0", "-o", "json"]).with(0);
    assert_eq!(ran.stdout, format!("{packet}\n{packet}\n"));
    // It always has an end.
    assert!(fake.calls().pop().is_some_and(|call| call.contains("--for=60000ms")));

    let mut fake = Fake::with_agent();
    fake.answer("exec *", &format!("{packet}\nnonsense\n"), "", 0);
    let ran = fake.run(&["trace", "web-0"]).with(1);
    assert!(
        ran.stdout.contains("=> captured") && ran.stderr.contains("printed a line that is not JSON"),
        "{}",
        ran.stderr
    );
}

#[test]
fn packets_that_nothing_reads_are_not_waited_for() {
    let mut fake = Fake::with_agent();
    let packet = json!({ "version": 1, "time": "2026-01-01T00:00:00Z", "hook": "OUTPUT", "mark": 0, "rules": [],
        "verdict": "captured", "summary": "goes there", "reason": "-i" });
    fake.answer("exec *", &format!("{packet}\n"), "", 0);
    // A trace that reports the packet each second, for ever.
    fs::copy(fake.file("kubectl"), fake.file("once")).expect("copied");
    let script = "#!/bin/sh\nhere=$(dirname \"$0\")\n\"$here/once\" \"$@\" || exit\n\
                  case \"$*\" in *exec*) sleep 1; exec \"$0\" \"$@\" ;; esac\n";
    fs::write(fake.file("kubectl"), script).expect("written");
    let mut command = fake.command(&["trace", "web-0"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the plugin starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert!(line.starts_with("by the kernel of pod shop/web-0"), "{line}");
    let start = Instant::now();
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

fn diff(equal: bool) -> Value {
    let rules = json!([
        { "side": "both", "text": "-A X -j A", "reason": null },
        { "side": "from", "text": "-A X -j B", "reason": "extra" },
        { "side": "to", "text": "-A X -j C", "reason": "missing" },
    ]);
    let end = |verdict: &str| json!({ "verdict": verdict, "summary": "goes there", "reason": "it is" });
    let traffic = json!({ "direction": "inbound", "families": ["ipv4"], "protocols": ["tcp"] });
    let changes = json!([{ "text": "inbound TCP to port 80", "traffic": traffic, "example": "tcp", "old": end("captured"),
        "new": end("not_captured") }]);
    let parts = json!([{ "part": "ipv4 nat X (iptables-nft)", "rules": rules }]);
    let some = |what: Value| if equal { json!([]) } else { what };
    json!({
        "version": 1, "from": "the rules", "to": "Pod web-0", "equal": equal, "backend": "nftables", "complete": true,
        "changes": some(changes), "parts": some(parts), "before": [], "others": [],
    })
}

#[test]
fn the_manifest_is_compared_with_the_kernel() {
    let mut fake = Fake::with_agent();
    fake.answer(
        "exec *sidecar-init diff *",
        &diff(false).to_string(),
        "command terminated with exit code 3\n",
        3,
    );
    let ran = fake.run(&["diff", "web-0"]).with(3);
    assert!(ran.stdout.contains("against its manifest"), "{}", ran.stdout);
    let expected = "from the rules to Pod web-0:\ninbound TCP to port 80: captured -> not captured\n  before captured: goes there, \
                    because it is\n  after  not captured: goes there, because it is\n@@ ipv4 nat X (iptables-nft)\n -A X -j A\n\
                    --A X -j B  # extra\n+-A X -j C  # missing\n";
    assert!(ran.stdout.ends_with(expected), "{}", ran.stdout);
    let input: Value = serde_json::from_str(&fake.input()).expect("JSON");
    assert_eq!(input["spec"], crate::fake::pod("web-0")["spec"]);
    assert!(
        !input.to_string().contains("managedFields") && !input.to_string().contains("last-applied"),
        "{input}"
    );
    assert!(
        fake.calls().pop().is_some_and(|call| call.contains(" -c repair -i -- ") && call.ends_with(" -f -"))
    );

    let mut same = Fake::with_agent();
    same.object("exec *", &diff(true));
    let ran = same.run(&["diff", "web-0"]).with(0);
    assert!(ran.stdout.ends_with("Rules are in place (nftables)\n"), "{}", ran.stdout);
    assert_eq!(same.run(&["diff", "web-0", "-o", "json"]).with(0).json()["kernel"], diff(true));
}

/// Its standard input has no end, so the manifest is an argument.
#[test]
fn an_ephemeral_container_is_given_the_manifest_as_an_argument() {
    let mut with_others = crate::fake::pod("web-0");
    with_others["spec"]["ephemeralContainers"] = json!([{ "name": "before", "args": ["x"] }]);
    let mut fake = Fake::with(&with_others, &[]);
    fake.object("debug *", &diff(true));
    let words = ["diff", "web-0", "--image", "registry/init:1", "--yes"];
    fake.run(&words).with(0);
    let call = fake.calls().pop().expect("a call");
    let (start, manifest) = call.split_once(" -f ").expect("a manifest");
    assert!(start.contains(" --quiet --attach ") && start.ends_with(" diff --format json"), "{start}");
    let manifest: Value = serde_json::from_str(manifest).expect("JSON");
    assert_eq!(manifest["spec"], crate::fake::pod("web-0")["spec"]);

    with_others["metadata"]["annotations"]["note"] = json!("x".repeat(128 << 10));
    let fake = Fake::with(&with_others, &[]);
    let ran = fake.run(&words).with(2);
    let expected = "--image: \"registry/init:1\" can't be given the pod's manifest, which has ";
    assert!(ran.stderr.contains(expected) && ran.stderr.contains("less than 131072"), "{}", ran.stderr);
    assert!(fake.calls().iter().all(|call| !call.starts_with("debug")));

    let failing = Fake::without_agent();
    failing.run(&words).with(1).tells(" diff --format json -f '{..}': failed");
}

#[test]
fn an_ephemeral_container_is_added_with_a_confirmation_alone() {
    let mut fake = Fake::without_agent();
    fake.object("debug *", &explanation("captured", Some(15006), "it is"));
    let ran = fake.run(&["explain", "web-0", "8080", "--image", "registry/init:1"]).with(2);
    let expected = "--image: \"registry/init:1\" would add an ephemeral container to the pod, which needs a confirmation, and \
                    there is no terminal; add --yes";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    assert!(fake.calls().iter().all(|call| !call.starts_with("debug")));

    let ran = fake.run(&["explain", "web-0", "8080", "--image", "registry/init:1", "--yes"]).with(0);
    let basis = ran.stdout.split("captured:").next().expect("a basis").replace("\n  ", " ");
    let expected = "by the kernel of pod shop/web-0 on node worker-1, through an ephemeral container of registry/init:1:\n";
    assert_eq!(basis, expected);
    let call = fake.calls().pop().expect("a call");
    let parts = [
        "debug -n shop web-0 --profile=netadmin --quiet --attach --container=sidecar-capture-",
        " --image=registry/init:1 --target=istio-proxy -- /usr/local/bin/sidecar-init explain --format json --live 8080",
    ];
    assert!(call.starts_with(parts[0]) && call.ends_with(parts[1]), "{call}");
}

/// What the plugin shows and how it ends, at a terminal where somebody types this line.
fn typed(fake: &Fake, words: &[&str], line: &str) -> (Option<i32>, String) {
    let plain = fake.command(words);
    let program = plain.get_program().to_str().expect("a path");
    let path =
        plain.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value).expect("a PATH");
    let mut command = Command::new("script");
    command.args([
        "--quiet",
        "--return",
        "--command",
        &format!("{program} {}", words.join(" ")),
        "/dev/null",
    ]);
    command.env("PATH", path).env_remove("KUBECTL").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("script");
    child.stdin.take().expect("a pipe").write_all(line.as_bytes()).expect("the line is taken");
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn an_ephemeral_container_is_added_when_somebody_says_yes() {
    let mut fake = Fake::without_agent();
    fake.object("debug *", &status());
    let question = "Add an ephemeral container of registry/init:1 with NET_ADMIN to pod shop/web-0? It can't be removed while \
                    the pod exists. [y/N] ";
    for (line, is_added) in [("y\n", true), ("yes\n", true), ("n\n", false), ("\n", false), ("sure\n", false)]
    {
        let (code, shown) = typed(&fake, &["status", "web-0", "--image", "registry/init:1"], line);
        assert!(shown.contains(question), "{line:?}: {shown}");
        let calls = fake.calls();
        let debugs = calls.iter().filter(|call| call.starts_with("debug")).count();
        assert_eq!(debugs, usize::from(is_added), "{line:?}: {code:?} {shown} {calls:?}");
        assert_eq!(
            shown.contains("an ephemeral container was declined"),
            !is_added,
            "{line:?}: {code:?} {shown}"
        );
    }
}

/// kubectl debug prints the log of a container that has ended before it was attached to.
#[test]
fn the_log_of_an_ephemeral_container_is_an_answer() {
    let words = ["status", "web-0", "--image", "registry/init:1", "--yes"];
    for log in [
        format!("{}\n", status()),
        format!("legacy tables can't be read\n{}\n", status()),
        format!("{:#}\nlegacy tables can't be read\n", status()),
    ] {
        let mut fake = Fake::without_agent();
        fake.answer("debug *", &log, "", 0);
        let ran = fake.run(&words).with(0);
        assert!(ran.stdout.contains("Inbound traffic is captured over IPv4"), "{}", ran.stdout);
        let remark = if log.contains("legacy") { "note: legacy tables can't be read\n" } else { "" };
        assert_eq!(ran.stderr, remark);
    }
    let error = json!({ "message": "it is refused", "causes": [], "exit_code": 1 });
    let error = json!({ "version": 1, "error": error, "problems": [] });
    let mut fake = Fake::without_agent();
    fake.answer("debug *", &format!("{error}\n"), "", 0);
    assert_eq!(fake.run(&words).with(1).stderr, "error: sidecar-init in pod shop/web-0: it is refused\n");
}

#[test]
fn questions_about_the_kernel_alone_need_a_way_to_it() {
    for command in ["status", "trace", "diff"] {
        let ran = Fake::without_agent().run(&[command, "web-0"]).with(1);
        for part in
            ["the kernel of pod shop/web-0 can't be reached: no node agent runs on node worker-1", "--image"]
        {
            assert!(ran.stderr.contains(part), "{command}: {}", ran.stderr);
        }
    }
    let mut on_host = crate::fake::pod("web-0");
    on_host["spec"]["hostNetwork"] = json!(true);
    let mut fake = Fake::new();
    fake.object("get pod web-0*", &on_host);
    let ran = fake.run(&["status", "web-0"]).with(1);
    assert!(ran.stderr.ends_with(" network namespace (hostNetwork)\n"), "no agent helps: {}", ran.stderr);
}

#[test]
fn bad_output_is_an_error() {
    let mut wrong = explanation("captured", Some(15006), "it is");
    wrong["version"] = json!(2);
    let mut old = wrong.clone();
    old["version"] = json!(0);
    let mut formless = explanation("captured", Some(15006), "it is");
    formless["trace"] = json!("none");
    for (output, expected) in [
        ("", "printed no JSON"),
        ("captured\n", "printed no JSON"),
        ("{\"version\":1}{}", "printed no JSON"),
        ("{}", "printed a document without a version"),
        (
            &*wrong.to_string(),
            "printed a document of version 2, and this plugin reads version 1; update kubectl-capture\n",
        ),
        (
            &*old.to_string(),
            "printed a document of version 0, and this plugin reads version 1: the tail; update the node agents",
        ),
        (&*formless.to_string(), "printed a document of another form"),
    ] {
        let mut fake = Fake::with_agent();
        fake.answer("exec *", output, "first\nthe tail\n", 0);
        let ran = fake.run(&["explain", "web-0", "8080"]).with(1);
        assert!(ran.stderr.contains(expected) && ran.stdout.is_empty(), "{output}: {}", ran.stderr);
        assert!(!expected.ends_with("no JSON") || ran.stderr.contains(": the tail"), "{}", ran.stderr);
    }
    let mut fake = Fake::with_agent();
    fake.answer("exec *", "{\"version\":1}", "", 0);
    for command in ["status", "diff"] {
        let ran = fake.run(&[command, "web-0"]).with(1);
        assert!(ran.stderr.contains("of another form"), "{command}: {}", ran.stderr);
    }
}

#[test]
fn what_the_program_in_the_cluster_says_is_passed_on() {
    let mut fake = Fake::with_agent();
    let error = json!({
        "version": 1, "error": { "message": "1 problem in the input", "causes": [], "exit_code": 2 },
        "problems": [{ "option": "--network-namespace", "value": "containerd://0", "message": "is not a network namespace" }],
    });
    fake.answer("exec *", "", &format!("{error}\ncommand terminated with exit code 2\n"), 2);
    let ran = fake.run(&["status", "web-0"]).with(1);
    let expected = "error: sidecar-init in pod kube-system/sidecar-node-x7k2p: 1 problem in the input: --network-namespace: \
                    \"containerd://0\" is not a network namespace\n";
    assert_eq!(ran.stderr, expected);

    let mut fake = Fake::with_agent();
    fake.answer(
        "exec *",
        &status().to_string(),
        "Defaulted container \"x\"\nlegacy tables can't be read\n",
        0,
    );
    let ran = fake.run(&["status", "web-0"]).with(0);
    assert_eq!(ran.stderr, "note: legacy tables can't be read\n");
}
