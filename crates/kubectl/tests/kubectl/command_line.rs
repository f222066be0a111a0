//! The command line: refusals, the manual, and what is passed on to kubectl.

use crate::fake::{Fake, agent, explanation, list, pod};
use testkit::{
    command_line::{Program, ended},
    word,
};

const PROGRAM: Program = Program { path: env!("CARGO_BIN_EXE_kubectl-capture"), name: "kubectl-capture" };

#[test]
fn refusals_have_the_style_of_all_programs() {
    for (call, expected) in [
        ("status", "POD: is required: <POD>"),
        (
            "status web --timeout soon",
            "--timeout: \"soon\" is not valid: expected a duration, such as 30s or 1m30s",
        ),
        ("explain web 80 --manifest --image x", "--manifest: contradicts --image; give one of them"),
    ] {
        assert_eq!(PROGRAM.refused(call), format!("error: 1 problem in the input\n  {expected}\n"), "{call}");
    }
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let pages = PROGRAM.manual();
    assert_eq!((pages.len(), &*pages[2].0), (8, "kubectl-capture-explain.1"));
    assert!(pages[2].1.contains("[env: KUBECTL"), "{}", pages[2].1);
}

#[test]
fn flags_of_the_connection_reach_every_call() {
    let mut fake = Fake::with_agent();
    fake.object("exec *", &explanation("captured", Some(15006), "it is"));
    let flags =
        ["--context=a b", "--kubeconfig=c", "--cluster=d", "--user=e", "--as=f", "--request-timeout=9s"];
    let words =
        [&["explain", "web-0", "8080", "-n", "shop", "--agent-namespace", "mesh"][..], &flags].concat();
    fake.run(&words).with(0);
    let calls = fake.calls();
    assert_eq!(calls.len(), 3, "{calls:?}");
    let before = "--context=a b --kubeconfig=c --cluster=d --user=e --as=f --request-timeout=9s ";
    let calls: Vec<&str> = calls.iter().map(|call| call.strip_prefix(before).expect(call)).collect();
    assert_eq!(calls[0], "get pod web-0 -n shop -o json");
    assert_eq!(
        calls[1],
        "get pods -l app.kubernetes.io/name=sidecar-node --field-selector spec.nodeName=worker-1 -n mesh -o json"
    );
    assert!(calls[2].starts_with("exec -n mesh sidecar-node-x7k2p -c repair -- "), "{calls:?}");
}

#[test]
fn another_kubectl_may_be_named() {
    let mut fake = Fake::new();
    fake.object("get pod web-0 -o json", &pod("web-0"));
    let other = word(&fake.file("kubectl")).to_owned();
    let call = ["explain", "web-0", "8080", "--manifest"];
    let with_flag = [&call[..], &["--kubectl", &other]].concat();
    let shell = "/usr/bin:/bin";
    ended(fake.command(&with_flag).env("PATH", shell)).with(0);
    ended(fake.command(&call).env("PATH", shell).env("KUBECTL", &other)).with(0);
    // A name that is empty is none.
    let ran = ended(fake.command(&call).env("PATH", "/nowhere").env("KUBECTL", "")).with(1);
    let expected = "install kubectl, or name it with --kubectl FILE or the variable KUBECTL";
    assert!(
        ran.stderr.starts_with("error: kubectl get pod web-0 -o json: can't be started: "),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}

#[test]
fn a_workload_is_one_of_its_pods() {
    let mut fake = Fake::new();
    let workload = serde_json::json!({
        "kind": "Deployment", "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "selector": { "matchLabels": { "app": "web" } } },
    });
    fake.object("get deployment web -o json", &workload);
    let mut broken = pod("web-0");
    broken["status"]["conditions"] = serde_json::json!([]);
    fake.object("get pods -l app=web -n shop -o json", &list(&[broken, pod("web-2"), pod("web-1")]));
    fake.object("get pods -l app.kubernetes.io*", &list(&[agent()]));
    fake.object("exec *", &explanation("captured", Some(15006), "it is"));
    let ran = fake.run(&["explain", "deploy/web", "8080"]).with(0);
    let expected = "by the kernel of pod shop/web-1 on node worker-1, through agent kube-system/sidecar-node-x7k2p (one of 3 pods):";
    let basis = ran.stdout.split("captured:").next().expect("a line");
    assert_eq!(basis.split_whitespace().collect::<Vec<_>>().join(" "), expected);

    let mut empty = Fake::new();
    empty.object("get deployment web -o json", &workload);
    empty.object("get pods -l app=web *", &list(&[]));
    empty
        .run(&["status", "deployment/web"])
        .with(1)
        .tells("deployment web has no pod in namespace shop; see kubectl get pods");
    empty.run(&["status", "depoyment/web"]).with(2).tells("did you mean deployment/web?");
}
