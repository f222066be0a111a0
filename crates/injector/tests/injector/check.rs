//! `check` before and after an installation: all findings of a cluster in one run, and no change.

use super::installation::{Kubelet, NAMESPACE, WEBHOOKS, available, run};
use crate::PROGRAM;
use serde_json::{Value, json};
use testkit::cluster::Cluster;
use testkit::word;

const INSTALL: &str = "sidecar-injector manifests --image example/injector:1 --proxy-image example/proxy:1 | kubectl apply -f -";

/// The exit code, and each finding as `topic level: text`.
fn check(cluster: &Cluster, flags: &[&str]) -> (Option<i32>, Vec<String>) {
    check_as(word(&cluster.kubeconfig()), flags)
}

fn check_as(kubeconfig: &str, flags: &[&str]) -> (Option<i32>, Vec<String>) {
    let words = [&["check", "-o", "json", "--kubeconfig", kubeconfig], flags].concat();
    let output = PROGRAM.run(&words);
    let shown = output.json();
    let findings = shown["findings"].as_array().expect("findings").iter().map(|one| {
        let text = |field: &str| one[field].as_str().expect("a text");
        assert!(text("level") == "ok" || one["remedy"].is_string(), "a remedy: {one}");
        format!("{} {}: {}", text("topic"), text("level"), text("text"))
    });
    (output.code, findings.collect())
}

fn has(findings: &[String], text: &str) {
    assert!(findings.iter().any(|finding| finding.contains(text)), "{text}: {findings:#?}");
}

/// istiod's configuration, as far as it matters here.
fn istiod(name: &str, path: &str) -> Value {
    json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": name },
        "webhooks": [{ "name": "namespace.sidecar-injector.istio.io", "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": { "service": { "name": "istiod", "namespace": "istio-system", "path": path } },
            "rules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"] }],
            "namespaceSelector": { "matchLabels": { "istio-injection": "enabled" } } }] })
}

#[test]
fn an_empty_cluster_can_take_the_injector_and_is_not_changed() {
    let cluster = Cluster::start();
    let before = cluster.version();
    let (code, findings) = check(&cluster, &["--operator", "--environment-tag"]);
    assert_eq!(code, Some(0), "{findings:#?}");
    assert!(findings.iter().all(|finding| finding.contains(" ok: ")), "{findings:#?}");
    has(&findings, "cluster ok: the API server is v1.31.0");
    has(&findings, "rights ok: you may apply all");
    has(&findings, "names ok: all names are free");
    has(&findings, "webhooks ok: sidecar-injector.environment-tag is called behind sidecar-injector");
    has(&findings, "server ok: Deployment sidecar-injector/sidecar-injector is not there");
    assert_eq!(cluster.version(), before);
}

#[test]
fn all_that_hinders_an_installation_is_found_at_once() {
    let cluster = Cluster::start();
    cluster.put(&istiod("istio-sidecar-injector", "/inject"));
    cluster.put(&istiod("a-mutator", "/mutate"));
    cluster.put(&json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "sidecar-injector", "namespace": NAMESPACE } }));
    let (code, findings) = check(&cluster, &[]);
    assert_eq!(code, Some(3), "{findings:#?}");
    has(
        &findings,
        "names fail: ConfigMap sidecar-injector/sidecar-injector is there already, an object of another owner",
    );
    has(
        &findings,
        "webhooks fail: namespace of istio-sidecar-injector also injects pods of namespace of sidecar-injector: \
                    a pod without labels in a namespace istio-injection=enabled",
    );
    has(&findings, "webhooks ok: a-mutator is called for pods, too");
    // Another revision has other names, and other pods.
    let (code, findings) = check(&cluster, &["--revision", "canary"]);
    assert_eq!(code, Some(0), "{findings:#?}");
    has(&findings, "webhooks ok: istio-sidecar-injector injects other pods");
    let (code, findings) = check(&cluster, &["--istio-names"]);
    assert_eq!(code, Some(3));
    has(&findings, "names fail: MutatingWebhookConfiguration istio-sidecar-injector is there already");
    cluster.put(&istiod("zz-late", "/inject"));
    let (_, findings) = check(&cluster, &["--environment-tag"]);
    has(&findings, "webhooks fail: sidecar-injector.environment-tag is called before zz-late");
}

#[test]
fn missing_rights_are_named() {
    let cluster = Cluster::start();
    let grant = |rules: Value| cluster.grant("default", "person", &rules);
    let made = ["", "apps", "networking.k8s.io", "policy", "rbac.authorization.k8s.io"];
    grant(json!([
        { "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"] },
        { "apiGroups": made, "resources": ["*"], "verbs": ["create"] },
    ]));
    let account = cluster.account("default", "person");
    let (code, findings) = check_as(word(&account), &[]);
    assert_eq!(code, Some(3));
    has(
        &findings,
        "rights fail: you may not create mutatingwebhookconfigurations.admissionregistration.k8s.io",
    );
    has(&findings, "watch nodes (to grant it in ClusterRole sidecar-injector)");
    assert!(!findings.iter().any(|one| one.contains("create deployments")), "{findings:#?}");
    // Who may write any role and bind it needs none of its rights; one of the two is not enough.
    for (verbs, is_named) in [(json!(["escalate"]), true), (json!(["bind", "escalate"]), false)] {
        grant(json!([{ "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": verbs }]));
        let (_, findings) = check_as(word(&account), &[]);
        let text = "watch nodes (to grant it in ClusterRole sidecar-injector)";
        assert_eq!(findings.iter().any(|one| one.contains(text)), is_named, "{findings:#?}");
    }

    // Without any right, nothing is known, and that is said.
    let (code, findings) = check_as(word(&cluster.account("default", "nobody")), &[]);
    assert_eq!(code, Some(3));
    has(&findings, "webhooks warn: webhook configurations can't be listed: ");
    has(&findings, "names warn: Namespace sidecar-injector can't be read: ");
    has(&findings, "server warn: the Deployment can't be read: ");
}

/// A cluster with the injector, whose server runs.
fn installed() -> (Cluster, Kubelet) {
    let cluster = Cluster::start();
    let mut kubelet = Kubelet::default();
    run(&cluster, INSTALL);
    kubelet.follow(&cluster);
    (cluster, kubelet)
}

#[test]
fn an_installation_that_works_is_found_to_work_and_is_not_changed() {
    let (cluster, _kubelet) = installed();
    let before = cluster.all("pods").len();
    let (code, findings) = check(&cluster, &[]);
    assert_eq!(code, Some(0), "{findings:#?}");
    has(&findings, "names ok: 11 objects are of this installation, 0 names are free");
    has(
        &findings,
        "server ok: Deployment sidecar-injector/sidecar-injector is available, 2 of 2 pods are ready",
    );
    has(
        &findings,
        "certificates ok: caBundle of sidecar-injector is that of Secret sidecar-injector/sidecar-injector-ca",
    );
    has(&findings, "certificates ok: the authority's certificate is valid until ");
    has(&findings, "roles ok: system:serviceaccount:sidecar-injector:sidecar-injector has all ");
    has(&findings, "injection ok: a pod in namespace default (dry run) was injected by revision default");
    assert_eq!(cluster.all("pods").len(), before, "a dry run stores nothing");
    let review = cluster.state().reviews.last().cloned().expect("a review").1;
    assert_eq!(review["request"]["dryRun"], true);

    // As people see it.
    let output = run(&cluster, "sidecar-injector check");
    for line in
        ["Your rights\n  ok   you may apply", "Injection\n  ok   a pod in", "no failures, no warnings\n"]
    {
        assert!(output.contains(line), "{line}: {output}");
    }

    // The rights of the operator were not asked for.
    let account = "system:serviceaccount:sidecar-injector:sidecar-injector-environment";
    let (code, findings) = check(&cluster, &["--operator"]);
    assert_eq!(code, Some(0), "{findings:#?}");
    assert!(!findings.iter().any(|finding| finding.contains(account)), "not installed yet: {findings:#?}");
    run(&cluster, &INSTALL.replace("manifests", "manifests --operator"));
    let (code, findings) = check(&cluster, &["--operator"]);
    assert_eq!(code, Some(0), "{findings:#?}");
    has(&findings, "roles ok: system:serviceaccount:sidecar-injector:sidecar-injector has all ");
    has(&findings, &format!("roles ok: {account} has all "));
    cluster.remove("clusterrolebindings", "", "sidecar-injector-environment");
    let (code, findings) = check(&cluster, &["--operator"]);
    assert_eq!(code, Some(3), "{findings:#?}");
    has(&findings, &format!("roles fail: {account} may not list virtualenvironments.env.alibaba.com; "));
}

#[test]
fn all_that_is_broken_is_found_at_once() {
    let (cluster, mut kubelet) = installed();
    cluster.namespace(
        "shop",
        &json!({ "istio-injection": "enabled",
        "pod-security.kubernetes.io/enforce": "baseline" }),
    );
    let (code, findings) = check(&cluster, &[]);
    assert_eq!(code, Some(0), "{findings:#?}");
    has(&findings, "pod-security warn: namespace shop enforces baseline");
    has(&findings, "injection warn: a pod in namespace shop (dry run) was injected, but refused: ");

    kubelet.0.clear();
    available(&cluster, "sidecar-injector", false);
    let mut configuration = cluster.find(WEBHOOKS, "", "sidecar-injector").expect("it");
    configuration["webhooks"][0]["clientConfig"]["caBundle"] = "bm8=".into();
    cluster.put(&configuration);
    cluster.remove("clusterrolebindings", "", "sidecar-injector");
    cluster.put(&json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "injector-1",
        "namespace": NAMESPACE, "labels": { "app.kubernetes.io/instance": "sidecar-injector" } },
        "status": { "containerStatuses": [{ "image": "example/injector:1",
            "state": { "waiting": { "reason": "ImagePullBackOff" } } }] } }));
    let (code, findings) = check(&cluster, &[]);
    assert_eq!(code, Some(3));
    has(&findings, "server fail: Deployment sidecar-injector/sidecar-injector is not available: by the test");
    has(&findings, "server fail: pod injector-1 can't get the image example/injector:1 (ImagePullBackOff)");
    has(&findings, "certificates fail: caBundle of sidecar-injector is not that of Secret");
    has(&findings, "roles fail: system:serviceaccount:sidecar-injector:sidecar-injector may not ");
    has(&findings, "injection fail: a pod in namespace shop (dry run) was refused: ");

    cluster
        .put(&json!({ "apiVersion": "v1", "kind": "Secret", "data": { "ca.crt": "bm8=", "ca.key": "bm8=" },
        "metadata": { "name": "sidecar-injector-ca", "namespace": NAMESPACE } }));
    let (_, findings) = check(&cluster, &[]);
    let secret = "certificates fail: Secret sidecar-injector/sidecar-injector-ca ";
    has(&findings, &format!("{secret}can't be used: key ca.crt"));
    cluster.remove("secrets", NAMESPACE, "sidecar-injector-ca");
    has(&check(&cluster, &[]).1, &format!("{secret}is not there"));

    // The webhooks are left behind without their server.
    cluster.remove("deployments", NAMESPACE, "sidecar-injector");
    let (code, findings) = check(&cluster, &[]);
    assert_eq!(code, Some(3));
    has(&findings, "is not there, but sidecar-injector calls it: no pod of it can be created");
}

#[test]
fn an_api_server_that_does_not_answer_is_no_finding() {
    let cluster = Cluster::start();
    let kubeconfig = cluster.kubeconfig();
    let text = std::fs::read_to_string(&kubeconfig).expect("a kubeconfig");
    let silent =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    std::fs::write(&kubeconfig, text.replace(&cluster.address.to_string(), &silent.to_string()))
        .expect("written");
    let ended = PROGRAM.run(&["check", "--kubeconfig", word(&kubeconfig)]).with(1);
    assert_eq!(ended.stdout, "");
    let text = ended.stderr;
    assert!(text.contains(&format!("the API server https://{silent}/ does not answer")), "{text}");
}
