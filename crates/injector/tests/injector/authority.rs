//! `serve --self-signed` against the played API server: replicas that start at once, rotation, repair, faults, a kill.

use data_encoding::BASE64;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use testkit::cluster::{Cluster, Fault};
use testkit::{running::Running, until, word};

pub(super) const NAMESPACE: &str = "sidecar-injector";
pub(super) const SECRET: &str = "sidecar-injector-ca";
pub(super) const CONFIGURATION: &str = "sidecar-injector";
const WEBHOOKS: &str = "mutatingwebhookconfigurations";

/// One replica.
pub(super) struct Replica {
    child: Running,
    log: PathBuf,
}

impl Replica {
    /// Starts one with these flags besides.
    pub(super) fn start(cluster: &Cluster, name: &str, flags: &[&str]) -> Self {
        Self::start_as(cluster, &cluster.kubeconfig(), name, flags)
    }

    /// The same by another kubeconfig.
    fn start_as(cluster: &Cluster, kubeconfig: &Path, name: &str, flags: &[&str]) -> Self {
        let log = cluster.file(&format!("{name}.log"));
        let child = Command::new(env!("CARGO_BIN_EXE_sidecar-injector"))
            .args(["serve", "--self-signed", "--address", "127.0.0.1:0", "--drain", "0"])
            .args(["--log_as_json", "--log_output_level", "debug", "--kubeconfig"])
            .arg(kubeconfig)
            .args(flags)
            .stderr(File::options().create(true).append(true).open(&log).expect("a log"))
            .spawn()
            .expect("the program starts");
        Self { child: Running(child), log }
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }

    /// Where it serves, once it does.
    pub(super) fn address(&mut self) -> SocketAddr {
        let mut found = None;
        until("it serves", || {
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none(), "it has ended: {}", self.log());
            let log = self.log();
            let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut addresses = lines.filter_map(|line| line["address"].as_str()?.parse().ok());
            found = addresses.next();
            found.is_some()
        });
        found.expect("it serves")
    }

    fn signal(&self, name: &str) {
        let (signal, id) = (format!("-{name}"), self.child.id().to_string());
        assert!(Command::new("kill").args([signal, id]).status().expect("kill starts").success());
    }

    /// Ends it as the kubelet does.
    pub(super) fn stop(mut self) {
        self.signal("TERM");
        let status = self.child.wait().expect("a child");
        assert!(status.success(), "{status}: {}", self.log());
    }
}

/// A cluster where pods of the namespace `shop` are to be injected.
pub(super) fn cluster() -> Cluster {
    let cluster = Cluster::start();
    cluster.namespace(NAMESPACE, &json!({}));
    cluster.namespace("shop", &json!({ "istio-injection": "enabled" }));
    cluster.put(&configuration("sidecar-injector"));
    cluster
}

pub(super) fn configuration(service: &str) -> Value {
    json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": CONFIGURATION },
        "webhooks": [{ "name": "namespace.sidecar-injector.istio.io", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "timeoutSeconds": 10,
            "clientConfig": { "service": { "name": service, "namespace": NAMESPACE, "path": "/inject", "port": 443 } },
            "rules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"] }],
            "namespaceSelector": { "matchLabels": { "istio-injection": "enabled" } } }] })
}

/// What the webhook trusts.
pub(super) fn bundle(cluster: &Cluster) -> String {
    let found = cluster.find(WEBHOOKS, "", CONFIGURATION).unwrap_or_default();
    let text = found["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap_or_default().to_owned();
    String::from_utf8(BASE64.decode(text.as_bytes()).expect("base64")).expect("text")
}

/// A text in the Secret.
pub(super) fn stored(cluster: &Cluster, key: &str) -> String {
    let secret = cluster.find("secrets", NAMESPACE, SECRET).unwrap_or_default();
    let text = secret["data"][key].as_str().unwrap_or_default().to_owned();
    String::from_utf8(BASE64.decode(text.as_bytes()).expect("base64")).expect("text")
}

/// kubectl creates a pod, for which the webhook has to be called.
pub(super) fn create(cluster: &Cluster, name: &str) {
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "shop" },
        "spec": { "containers": [{ "name": "application", "image": "example/application" }] } });
    let file = cluster.file(&format!("{name}.json"));
    fs::write(&file, pod.to_string()).expect("written");
    let before = cluster.state().reviews.len();
    let (succeeded, shown) = cluster.kubectl(&["create", "--validate=false", "-f", word(&file)]);
    assert!(succeeded, "{shown}");
    let pod = cluster.find("pods", "shop", name).expect("a pod");
    let containers = pod["spec"]["containers"].as_array().expect("a list");
    assert!(containers.iter().any(|container| container["name"] == "istio-proxy"), "it is injected");
    assert!(cluster.state().reviews.len() > before, "nobody was asked about {name}");
}

#[test]
fn replicas_that_start_at_once_share_one_authority() {
    let cluster = cluster();
    let names = ["a", "b", "c"];
    let mut replicas = names.map(|name| Replica::start(&cluster, name, &[]));
    let addresses = replicas.each_mut().map(Replica::address);
    until("the webhook trusts it", || bundle(&cluster) == stored(&cluster, "ca.crt"));
    assert_eq!(bundle(&cluster).matches("BEGIN CERTIFICATE").count(), 1);
    for (name, address) in names.iter().zip(addresses) {
        cluster.route(NAMESPACE, "sidecar-injector", address);
        create(&cluster, name);
    }
    let made = replicas.iter().filter(|replica| replica.log().contains("an authority is made")).count();
    assert_eq!(made, 1, "who came second took the first one's");
    let secret = cluster.find("secrets", NAMESPACE, SECRET).expect("a Secret");
    assert_eq!(secret["metadata"]["generation"], 1, "it was written once");
    for replica in replicas {
        replica.stop();
    }
}

#[test]
fn a_kill_loses_no_authority() {
    let cluster = cluster();
    let mut replica = Replica::start(&cluster, "first", &[]);
    replica.address();
    let authority = stored(&cluster, "ca.crt");
    until("the webhook trusts it", || bundle(&cluster) == authority);
    drop(replica);
    let version =
        cluster.find(WEBHOOKS, "", CONFIGURATION).expect("it")["metadata"]["resourceVersion"].clone();
    let mut replica = Replica::start(&cluster, "second", &[]);
    cluster.route(NAMESPACE, "sidecar-injector", replica.address());
    create(&cluster, "web");
    assert_eq!(stored(&cluster, "ca.crt"), authority);
    let found = cluster.find(WEBHOOKS, "", CONFIGURATION).expect("it");
    assert_eq!(found["metadata"]["resourceVersion"], version, "nothing had to be written");
    replica.stop();
}

#[test]
fn authorities_follow_each_other_while_pods_are_created() {
    let cluster = cluster();
    let short = ["--ca-lifetime", "9s", "--certificate-lifetime", "3s"];
    let mut replicas = ["a", "b"].map(|name| Replica::start(&cluster, name, &short));
    let addresses = replicas.each_mut().map(Replica::address);
    until("the webhook trusts it", || !bundle(&cluster).is_empty());
    let (mut signers, mut pods) = (std::collections::BTreeSet::new(), 0_usize);
    until("three authorities have signed", || {
        cluster.route(NAMESPACE, "sidecar-injector", addresses[pods % 2]);
        create(&cluster, &format!("pod-{pods}"));
        pods += 1;
        signers.insert(stored(&cluster, "ca.crt"));
        signers.len() >= 3
    });
    assert!(pods >= 3, "{pods}");
    for replica in replicas {
        assert!(
            replica.log().contains("the next authority is announced") || replica.log().contains("was first")
        );
        replica.stop();
    }
}

#[test]
fn what_somebody_spoils_is_repaired() {
    let cluster = cluster();
    let mut replica = Replica::start(&cluster, "one", &[]);
    cluster.route(NAMESPACE, "sidecar-injector", replica.address());
    let authority = stored(&cluster, "ca.crt");
    let repaired = |what: &str| {
        until(what, || bundle(&cluster) == authority && stored(&cluster, "ca.crt") == authority);
    };
    repaired("the webhook trusts it");
    cluster.put(&configuration("sidecar-injector"));
    repaired("a replaced configuration has its bundle again");
    cluster.remove(WEBHOOKS, "", CONFIGURATION);
    cluster.put(&configuration("sidecar-injector"));
    repaired("so has one that was deleted and made anew");
    cluster.remove("secrets", NAMESPACE, SECRET);
    repaired("a deleted Secret is back");
    let secret = |data: Value| {
        json!({ "apiVersion": "v1", "kind": "Secret", "data": data,
            "metadata": { "name": SECRET, "namespace": NAMESPACE } })
    };
    cluster.put(&secret(json!({ "ca.crt": "bm8=", "ca.key": "bm8=" })));
    repaired("a spoilt Secret is whole again");
    cluster.put(&secret(json!({})));
    repaired("so is an empty one");
    create(&cluster, "web");

    // Webhooks of other Services are other people's.
    cluster.put(&configuration("another"));
    cluster.put(&secret(json!({})));
    repaired_alone(&cluster, &authority);
    replica.stop();
}

fn repaired_alone(cluster: &Cluster, authority: &str) {
    until("the Secret is whole again", || stored(cluster, "ca.crt") == authority);
    assert_eq!(bundle(cluster), "", "it is not ours");
}

/// Whatever goes wrong at first, in the end a pod is created.
fn survives(verb: &'static str, plural: &'static str, fault: Fault) {
    let cluster = cluster();
    cluster.fault(verb, plural, fault);
    let mut replica = Replica::start(&cluster, "one", &[]);
    cluster.route(NAMESPACE, "sidecar-injector", replica.address());
    until("the webhook trusts it", || {
        let kept = bundle(&cluster);
        !kept.is_empty() && kept == stored(&cluster, "ca.crt")
    });
    assert!(cluster.state().faults.is_empty(), "{verb} {plural}: the fault has been met");
    create(&cluster, "web");
    replica.stop();
}

#[test]
fn faults_of_the_api_server_are_outlasted() {
    survives("list", "secrets", Fault::Refuse(500));
    survives("list", "secrets", Fault::Cut);
    survives("list", WEBHOOKS, Fault::Refuse(403));
    survives("list", WEBHOOKS, Fault::Slow(Duration::from_millis(300)));
    survives("watch", "secrets", Fault::Gone);
    survives("create", "secrets", Fault::Refuse(500));
    survives("create", "secrets", Fault::Lost);
    survives("create", "secrets", Fault::Refuse(409));
    survives("patch", WEBHOOKS, Fault::Refuse(429));
    survives("patch", WEBHOOKS, Fault::Lost);
    survives("patch", WEBHOOKS, Fault::Lie("<html>a proxy's page</html>"));
}

#[test]
fn answers_that_never_come_are_given_up() {
    survives("create", "secrets", Fault::Hang);
    survives("patch", WEBHOOKS, Fault::Hang);
}

#[test]
fn a_secret_whose_watch_was_silent_was_written_four_times_a_second() {
    let cluster = cluster();
    cluster.storm("watch", "secrets", Fault::Hang);
    let begun = Instant::now();
    let replica = Replica::start(&cluster, "one", &[]);
    until("it has written again and again", || cluster.count("create", "secrets") >= 5);
    // 0.25, 0.5, 1 and 2 seconds, of which the event of the webhook configuration ends one. A slow machine takes longer.
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1700), "{took:?}: {}", replica.log());
}

#[test]
fn a_signal_ends_the_wait_for_the_secret() {
    let cluster = cluster();
    cluster.fault("list", "secrets", Fault::Hang);
    let mut replica = Replica::start(&cluster, "one", &[]);
    until("it waits", || cluster.count("list", "secrets") > 0);
    replica.signal("TERM");
    until("it ends", || {
        let ended = replica.child.try_wait().expect("a child");
        assert!(ended.is_none_or(|status| status.success()), "{ended:?}: {}", replica.log());
        ended.is_some()
    });
}

#[test]
fn watches_that_end_or_are_too_old_are_taken_up_again() {
    let cluster = cluster();
    let mut replica = Replica::start(&cluster, "one", &[]);
    replica.address();
    until("the webhook trusts it", || !bundle(&cluster).is_empty());
    let authority = bundle(&cluster);
    for round in 0..2 {
        if round == 0 {
            cluster.bookmark();
        }
        let lists = cluster.count("list", WEBHOOKS);
        cluster.compact();
        cluster.cut();
        cluster.put(&configuration("sidecar-injector"));
        until("what happened meanwhile is known", || bundle(&cluster) == authority);
        until("it was listed again", || cluster.count("list", WEBHOOKS) > lists);
    }
    assert_eq!(cluster.all(WEBHOOKS).len(), 1);
    replica.stop();
}

/// A client reads a token once a minute, and was refused for as long as that.
#[test]
fn a_token_that_is_refused_is_read_again() {
    let cluster = cluster();
    cluster.put(&json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "all" }, "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }] }));
    cluster.put(&json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "all" }, "roleRef": { "kind": "ClusterRole", "name": "all" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": NAMESPACE, "name": "injector" }] }));
    let account = cluster.account(NAMESPACE, "injector");
    let mut replica = Replica::start_as(&cluster, &account, "one", &[]);
    replica.address();
    until("the webhook trusts it", || !bundle(&cluster).is_empty());
    let authority = bundle(&cluster);
    cluster.exchange_token(NAMESPACE, "injector");
    cluster.remove("secrets", NAMESPACE, SECRET);
    cluster.put(&configuration("sidecar-injector"));
    cluster.cut();
    until("both are written again", || {
        bundle(&cluster) == authority && stored(&cluster, "ca.crt") == authority
    });
    // Watches of two objects, and of what reviews need; a write or two. In a minute there were many more.
    let refused = cluster.state().unauthorized;
    assert!((1..=8).contains(&refused), "{refused}: {}", replica.log());
    replica.stop();
}

#[test]
fn flags_that_do_not_fit_are_refused() {
    let run = |arguments: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_sidecar-injector")).arg("serve").args(arguments).output();
        let out = out.expect("the program starts");
        assert!(!out.status.success());
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    assert!(run(&[]).contains("--tls-cert and --tls-key: expected both, or --self-signed"));
    let missing = run(&["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    assert!(missing.contains("--tls-cert cert.pem") && missing.contains("No such file"), "{missing}");
    assert!(run(&["--self-signed", "--namespace", "Bad_X"]).contains("--namespace: \"Bad_X\""));
    assert!(run(&["--max-connections", "0"]).contains("1..=65535"));
    assert!(run(&["--timeout", "0"]).contains("expected more than 0"));
    assert!(run(&["--self-signed", "--tls-cert", "x"]).contains("contradicts"));
    assert!(run(&["--self-signed", "--ca-lifetime", "1y"]).contains("such as 90d"));
    assert!(run(&["--self-signed", "--name", "https://a"]).contains("expected a DNS name"));
    assert!(run(&["--self-signed", "--kubeconfig", "missing.yaml"]).contains("missing.yaml can't be read: "));
    assert!(run(&["--self-signed"]).contains("not a pod of a cluster"));
}
