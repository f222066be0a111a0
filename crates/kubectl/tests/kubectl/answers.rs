//! `explain`: answers by the kernel, by the manifest, and where both disagree.

use crate::fake::{CONTAINER, Fake, agent, explanation, pod, several};
use serde_json::json;
use testkit::command_line::Ended;

const REASON: &str = "-b '*' captures all other inbound ports";

fn plain(ran: &Ended) -> String {
    ran.stdout.replace("\n  ", " ")
}

#[test]
fn the_kernel_answers_through_the_nodes_agent() {
    let mut fake = Fake::with_agent();
    fake.object("exec *", &explanation("captured", Some(15006), REASON));
    let ran = fake.run(&["explain", "web-0", "8080"]).with(0);
    let expected = "by the kernel of pod shop/web-0 on node worker-1, through agent kube-system/sidecar-node-x7k2p:\n\
                    captured: goes there, because -b '*' captures all other inbound ports\n\
                    The manifest agrees.\n";
    assert!(plain(&ran).starts_with(expected), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("nat ISTIO_IN_REDIRECT\n+   1 -p tcp -j REDIRECT   # -z <- decides\n"),
        "{}",
        ran.stdout
    );
    let calls = fake.calls();
    let exec = format!(
        "exec -n kube-system sidecar-node-x7k2p -c repair -- /usr/local/bin/sidecar-init explain --network-namespace \
         {CONTAINER} --format json --live 8080"
    );
    assert_eq!(calls.last(), Some(&exec));
}

#[test]
fn both_reasons_are_shown_where_kernel_and_manifest_disagree() {
    let mut fake = Fake::with_agent();
    fake.object("exec *", &explanation("not_captured", None, "no rule captures it"));
    let ran = fake.run(&["explain", "web-0", "8080"]).with(0);
    let text = plain(&ran);
    assert!(text.contains("not captured: goes there, because no rule captures it"), "{text}");
    let manifest = "the manifest disagrees: captured: goes to the proxy's inbound port 15006, because -b '*' captures all \
                    other inbound ports";
    assert!(text.contains(manifest), "{text}");

    let document = fake.run(&["explain", "web-0", "8080", "-o", "json"]).with(0).json();
    let answer = &document["answers"][0];
    assert_eq!(answer["agree"], false);
    assert_eq!(
        (&answer["kernel"]["verdict"], &answer["manifest"]["verdict"]),
        (&json!("not_captured"), &json!("captured"))
    );
    assert_eq!(
        (&document["version"], &document["pod"], &document["node"]),
        (&json!(1), &json!("shop/web-0"), &json!("worker-1"))
    );

    // The kernel's is what is expected.
    for (expected, code) in [("captured", 3), ("not-captured", 0)] {
        fake.run(&["explain", "web-0", "8080", "--expect", expected]).with(code);
    }
}

#[test]
fn an_unknown_verdict_contradicts_nothing_and_is_not_as_expected() {
    let mut fake = Fake::with_agent();
    fake.object("exec *", &explanation("unknown", None, "a rule is not understood"));
    let ran = fake.run(&["explain", "web-0", "8080"]).with(0);
    assert!(!ran.stdout.contains("agrees"), "{}", ran.stdout);
    let manifest = "by the manifest: captured: goes to the proxy's inbound port 15006";
    assert!(plain(&ran).contains(manifest), "{}", ran.stdout);
    fake.run(&["explain", "web-0", "8080", "--expect", "captured"]).with(3);
    fake.run(&["explain", "web-0", "8080", "--expect", "not-captured"]).with(3);
}

#[test]
fn several_packets_are_explained_at_once() {
    let mut fake = Fake::with_agent();
    let documents = [
        explanation("captured", Some(15006), REASON),
        explanation("not_captured", None, "-d leaves it alone"),
    ];
    fake.answer("exec *", &several(&documents).to_string(), "", 3);
    // The ports that the pod declares.
    let ran = fake.run(&["explain", "web-0"]).with(0);
    assert!(ran.stdout.contains("== 8080\n") && ran.stdout.contains("== 15090\n"), "{}", ran.stdout);
    assert!(fake.calls().last().is_some_and(|call| call.ends_with("--live 8080 15090")));

    let mut short = Fake::with_agent();
    short.object("exec *", &explanation("captured", Some(15006), REASON));
    short.run(&["explain", "web-0"]).with(1).tells("printed 1 answers to 2 questions");
}

#[test]
fn packets_are_described_to_both() {
    let mut fake = Fake::with_agent();
    fake.object("exec *", &explanation("not_captured", None, "it is the proxy's"));
    let call = "explain web-0 10.0.0.5:443 -o json --sender proxy --proto tcp --uid 1337 --gid 1337 \
                --direction outbound --source 10.1.2.3";
    let document = fake.run(&call.split(' ').collect::<Vec<_>>()).with(0).json();
    assert_eq!(document["answers"][0]["manifest"]["verdict"], "not_captured");
    let calls = fake.calls();
    let expected = "--live --as=proxy --direction=outbound --proto=tcp --source=10.1.2.3 --uid=1337 --gid=1337 10.0.0.5:443";
    assert!(calls[2].ends_with(expected), "{calls:?}");
}

#[test]
fn packets_are_those_of_the_pods_own_users() {
    let mut pod = pod("web-0");
    pod["spec"]["initContainers"][0]["args"] = json!(["istio-iptables", "-u", "1337", "-i", "*", "--bogus"]);
    pod["spec"]["containers"].as_array_mut().expect("a list").push(json!(
        { "name": "b", "securityContext": { "runAsUser": 1337, "runAsGroup": 7 } }
    ));
    let mut fake = Fake::with(&pod, &[agent()]);
    fake.object("exec *", &explanation("captured", Some(15001), REASON));
    let ran = fake.run(&["explain", "web-0", "10.0.0.5:443"]).with(0);
    ran.clone().tells("its init container istio-init is not read: --bogus");
    for part in [
        "sent by user 1000 (assumed: the manifest sets no runAsUser), group 1000 (web)\ncaptured: ",
        "sent by user 1337, group 7 (b)\ncaptured: ",
        "the manifest disagrees: not captured: ",
    ] {
        assert!(plain(&ran).contains(part), "{part} {}", ran.stdout);
    }
    let calls = fake.calls().join("\n");
    for words in ["--live 10.0.0.5:443", "--live --uid=1337 --gid=7 10.0.0.5:443"] {
        assert!(calls.contains(words), "{words} {calls}");
    }
}

#[test]
fn the_manifest_answers_alone_where_the_kernel_can_not() {
    let reason = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut pod = pod("web-0");
        change(&mut pod);
        let fake = Fake::with(&pod, &[]);
        let document = fake.run(&["explain", "web-0", "8080", "-o", "json"]).with(0).json();
        assert!(document["answers"][0]["kernel"].is_null(), "{document}");
        document["kernel_unknown"].as_str().expect("a reason").to_owned()
    };
    assert_eq!(
        reason(&|_| {}),
        "no node agent runs on node worker-1 (pods app.kubernetes.io/name=sidecar-node in namespace kube-system), and no \
         --image is given"
    );
    assert_eq!(reason(&|pod| pod["spec"]["nodeName"] = json!(null)), "no node runs it yet");
    assert_eq!(reason(&|pod| pod["status"] = json!({})), "none of its containers runs");
    let host = reason(&|pod| pod["spec"]["hostNetwork"] = json!(true));
    assert_eq!(host, "it is in its node's network namespace (hostNetwork)");

    let fake = Fake::with_agent();
    let ran = fake.run(&["explain", "web-0", "8080", "--manifest", "--expect", "captured"]).with(0);
    let expected = "by the manifest of pod shop/web-0 alone, because --manifest is given:\n\
                    captured: goes to the proxy's inbound port 15006, because -b '*' captures all other inbound ports\n";
    assert!(plain(&ran).starts_with(expected), "{}", ran.stdout);
    assert_eq!(fake.calls().len(), 1);
}

#[test]
fn a_manifest_that_is_not_understood_is_reported_and_the_kernel_still_answers() {
    let mut broken = pod("web-0");
    broken["spec"]["initContainers"][0]["args"] = json!(["istio-iptables", "-b", "x\u{1b}[2Jy"]);
    let mut fake = Fake::with(&broken, &[crate::fake::agent()]);
    fake.object("exec *", &explanation("captured", Some(15006), REASON));
    fake.run(&["explain", "web-0", "8080"]).with(0).prints("The manifest can't be compared: 1 problem");
    // What is quoted can't move the cursor.
    fake.run(&["explain", "web-0", "8080"]).with(0).prints("\"x\\u{1b}[2Jy\"");
    let document = fake.run(&["explain", "web-0", "8080", "-o", "json"]).with(0).json();
    assert_eq!(document["manifest_problems"].as_array().map(Vec::len), Some(1), "{document}");
    fake.run(&["explain", "web-0", "8080", "--manifest"]).with(2).tells("\"x\\u{1b}[2Jy\"");
}

#[test]
fn all_problems_of_packets_are_reported_at_once() {
    let mut fake = Fake::with_agent();
    fake.fails("get service *", "Error from server (NotFound): services \"x\" not found\n");
    let ran = fake.run(&["explain", "web-0", "10.0.0.5:0", "reviews:80", "--uid", "x"]).with(2);
    for part in ["3 problems in the input", "10.0.0.5:0", "reviews:80", "--uid: \"x\""] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    let mut bare = pod("web-0");
    bare["spec"]["containers"][0]["ports"] = json!([]);
    bare["spec"]["containers"][1]["ports"] = json!([]);
    let mut fake = Fake::new();
    fake.object("get pod web-0*", &bare);
    fake.run(&["explain", "web-0"]).with(2).tells("DESTINATION: is needed, because the pod declares no port");
}
