//! A Kubernetes API server over HTTPS for tests, for any resource: versions, watches with bookmarks, preconditions, all four
//! kinds of patch, field managers, refusals, and faults on demand. For pods, it calls webhooks like the real server and applies
//! Pod Security Standards to the result. It has a garbage collector and RBAC for service accounts.
//!
//! ```text
//! let cluster = Cluster::start();
//! cluster.put(&json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a", "namespace": "shop" } }));
//! program.arg("--kubeconfig").arg(cluster.kubeconfig());        // or kubectl
//! cluster.fault("patch", "leases", Fault::Refuse(409));         // the next such request
//! until("it is there", || cluster.find("configmaps", "shop", "x").is_some());
//! ```

mod admission;
mod authorization;
mod collector;
mod fields;
mod kinds;
mod merge;
mod refusal;
pub mod security;
mod serve;
mod state;
mod write;

pub use admission::selects;
pub use authorization::{granted, granted_by, grants};
pub use kinds::{Access, Kinds, Rule};
pub use state::{Fault, State};

use crate::certificates::Authority;
use crate::folder::Folder;
use crate::word;
use rustls::{ServerConfig, server::WebPkiClientVerifier};
use serde_json::{Value, json};
use state::Shared;
use std::{
    collections::BTreeSet,
    fs,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::Command,
    sync::{Arc, MutexGuard},
    thread,
};

/// The server, and a folder for a test's files, removed on drop.
pub struct Cluster {
    pub address: SocketAddr,
    pub folder: Folder,
    pub authority: Authority,
    shared: Arc<Shared>,
}

impl Cluster {
    /// Starts a server with the namespaces `default` and `kube-system`. Clients need a certificate or a token.
    pub fn start() -> Self {
        // Tests may run in an empty network namespace, where loopback is down.
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).output();
        assert!(up.expect("ip starts").status.success(), "loopback can't be set up");
        let folder = Folder::new("cluster");
        let authority = Authority::new("cluster");
        fs::write(folder.join("ca.crt"), &authority.pem).expect("written");
        let (certificate, key) = authority.server();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.certificate()).expect("a certificate");
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_client_cert_verifier(verifier.allow_unauthenticated().build().expect("a verifier"))
            .with_single_cert(vec![certificate], key)
            .expect("a configuration");
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let cluster = Self { address, folder, authority, shared: Arc::clone(&shared) };
        for name in ["default", "kube-system"] {
            cluster.namespace(name, &json!({}));
        }
        let config = Arc::new(config);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, shared) = (Arc::clone(&config), Arc::clone(&shared));
                // A connection ended by the client is not an error.
                thread::spawn(move || serve::connection(stream, config, &shared));
            }
        });
        cluster
    }

    pub fn kubeconfig(&self) -> PathBuf {
        let path = self.folder.join("kubeconfig");
        if path.exists() {
            return path;
        }
        let (certificate, key) = self.authority.client("tester");
        let file = |name: &str, text: &str| {
            fs::write(self.folder.join(name), text).expect("written");
            self.folder.join(name)
        };
        let (certificate, key) = (file("client.crt", &certificate), file("client.key", &key));
        self.kubeconfig_with(&json!({ "client-certificate": certificate, "client-key": key }))
    }

    /// Replaces the kubeconfig with one for these credentials.
    pub fn kubeconfig_with(&self, user: &Value) -> PathBuf {
        let path = self.folder.join("kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u", "namespace": "default" } }],
            "clusters": [{ "name": "c", "cluster": {
                "server": format!("https://{}", self.address),
                "certificate-authority": word(&self.folder.join("ca.crt")) } }],
            "users": [{ "name": "u", "user": user }],
        });
        fs::write(&path, config.to_string()).expect("written");
        path
    }

    /// Runs kubectl; returns true on success, and the output of both streams.
    pub fn kubectl(&self, arguments: &[&str]) -> (bool, String) {
        let out = Command::new("kubectl")
            // `--kubeconfig` takes precedence.
            .env("KUBECONFIG", self.kubeconfig())
            .arg("--cache-dir")
            .arg(self.folder.join("kubectl"))
            .args(arguments)
            .output()
            .expect("kubectl starts");
        let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        (out.status.success(), text.into_owned())
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    pub fn version(&self) -> u64 {
        self.state().version
    }

    pub fn namespace(&self, name: &str, labels: &Value) {
        self.put(&json!({ "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "labels": labels } }));
    }

    /// Creates or changes an object like another client, without webhooks. Its namespace is created too.
    pub fn put(&self, object: &Value) -> Value {
        let mut state = self.state();
        let stored = state.place(object);
        state.collect();
        drop(state);
        self.shared.changed.notify_all();
        stored
    }

    /// An object by its resource's plural name; a cluster-wide object's namespace is "".
    pub fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        self.state().find(plural, namespace, name).cloned()
    }

    pub fn all(&self, plural: &str) -> Vec<Value> {
        self.state().all(plural).cloned().collect()
    }

    pub fn remove(&self, plural: &str, namespace: &str, name: &str) {
        let mut state = self.state();
        state.delete(plural, namespace, name);
        state.collect();
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Injects a fault into the next request with this verb for this resource (plural).
    pub fn fault(&self, verb: &'static str, plural: &'static str, fault: Fault) {
        self.state().faults.push((verb, plural, fault));
    }

    pub fn faults(&self, count: usize, verb: &'static str, plural: &'static str, fault: Fault) {
        self.state().faults.extend([(verb, plural, fault)].repeat(count));
    }

    /// Injects a fault into all requests with this verb for this resource (plural), until `calm`.
    pub fn storm(&self, verb: &'static str, plural: &'static str, fault: Fault) {
        self.state().storms.push((verb, plural, fault));
    }

    pub fn calm(&self) {
        self.state().storms.clear();
    }

    /// Ends all open watches in the middle of a line.
    pub fn cut(&self) {
        self.state().cuts += 1;
        self.shared.changed.notify_all();
    }

    pub fn bookmark(&self) {
        self.state().bookmark();
        self.shared.changed.notify_all();
    }

    /// Advances the version by a change that no test watches.
    pub fn happen_elsewhere(&self) {
        self.state().version += 1;
    }

    /// Drops the history: a watch from an older version has to list again.
    pub fn forget(&self) {
        self.state().forget();
    }

    /// Drops the history for all watches.
    pub fn compact(&self) {
        self.state().compact();
    }

    pub fn admit(&self, token: &str) {
        self.state().administrator = Some(token.to_owned());
    }

    pub fn count(&self, verb: &str, plural: &str) -> usize {
        let state = self.state();
        state.requests.iter().filter(|(access, _)| access.verb == verb && access.resource == plural).count()
    }

    pub fn route(&self, namespace: &str, service: &str, address: SocketAddr) {
        self.state().services.insert((namespace.to_owned(), service.to_owned()), address);
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Cluster {
    /// A kubeconfig for a service account with its roles' permissions. The token is in a file, as in a pod.
    pub fn account(&self, namespace: &str, name: &str) -> PathBuf {
        let administrator = fs::read(self.kubeconfig()).expect("a kubeconfig");
        let mut config: Value = serde_json::from_slice(&administrator).expect("JSON");
        let token = self.file(&format!("{namespace}-{name}.token"));
        config["users"][0]["user"] = json!({ "tokenFile": word(&token) });
        let path = self.file(&format!("{namespace}-{name}.kubeconfig"));
        fs::write(&path, config.to_string()).expect("written");
        self.exchange_token(namespace, name);
        path
    }

    /// Replaces the cluster-wide rules of a service account.
    pub fn grant(&self, namespace: &str, name: &str, rules: &Value) {
        let of = |kind: &str| json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": name } });
        let (mut role, mut binding) = (of("ClusterRole"), of("ClusterRoleBinding"));
        role["rules"] = rules.clone();
        binding["roleRef"] = json!({ "kind": "ClusterRole", "name": name });
        binding["subjects"] = json!([{ "kind": "ServiceAccount", "namespace": namespace, "name": name }]);
        self.put(&role);
        self.put(&binding);
    }

    pub fn requested(&self) -> BTreeSet<Rule> {
        let rule = |access: &Access| (access.group.clone(), access.resource.clone(), access.verb.to_owned());
        self.state().requests.iter().map(|(access, _)| rule(access)).collect()
    }

    /// Replaces the token in the file; the previous one is refused.
    pub fn exchange_token(&self, namespace: &str, name: &str) {
        let mut state = self.state();
        state.version += 1;
        let token = format!("token-{}", state.version);
        let owner = (namespace.to_owned(), name.to_owned());
        // Written before the token becomes valid, so the file always has a valid token.
        fs::write(self.file(&format!("{namespace}-{name}.token")), &token).expect("written");
        state.tokens.retain(|_, known| *known != owner);
        state.tokens.insert(token, owner);
    }
}
