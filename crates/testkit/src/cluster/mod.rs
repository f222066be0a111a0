//! A server that plays the API server of Kubernetes over HTTPS, for any resource: versions, watches with bookmarks,
//! preconditions, all four kinds of patches, field managers, refusals, and faults on demand. For pods it calls webhooks
//! as the real one does, and looks at what they make of them by Pod Security Standards. It has a garbage collector, and grants
//! service accounts what their roles do.
//!
//! ```text
//! let cluster = Cluster::start();
//! cluster.put(&json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a", "namespace": "shop" } }));
//! program.arg("--kubeconfig").arg(cluster.kubeconfig());        // or kubectl
//! cluster.fault("patch", "leases", Fault::Refuse(409));         // the next one of this kind
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

/// The server, and a folder for the files of a test, which goes with it.
pub struct Cluster {
    pub address: SocketAddr,
    pub folder: Folder,
    pub authority: Authority,
    shared: Arc<Shared>,
}

impl Cluster {
    /// Starts one, with the namespaces `default` and `kube-system`. Whoever speaks to it needs a certificate, or a token.
    pub fn start() -> Self {
        // Tests may run in an empty network namespace of their own, where loopback is down.
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
                // A connection that the client ends is not a fault of ours.
                thread::spawn(move || serve::connection(stream, config, &shared));
            }
        });
        cluster
    }

    /// A kubeconfig for this server; its user has a certificate and may do everything.
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

    /// A kubeconfig for this server with these credentials, in the place of the one before.
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

    /// True where kubectl succeeded, with its output on both streams.
    pub fn kubectl(&self, arguments: &[&str]) -> (bool, String) {
        let out = Command::new("kubectl")
            // A flag wins.
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

    /// A namespace comes, or gets other labels.
    pub fn namespace(&self, name: &str, labels: &Value) {
        self.put(&json!({ "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "labels": labels } }));
    }

    /// An object comes, or is changed, as by somebody else; no webhook is asked. Its namespace comes with it.
    pub fn put(&self, object: &Value) -> Value {
        let mut state = self.state();
        let stored = state.place(object);
        state.collect();
        drop(state);
        self.shared.changed.notify_all();
        stored
    }

    /// An object by its resource's plural name; cluster-wide ones have the namespace "".
    pub fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        self.state().find(plural, namespace, name).cloned()
    }

    pub fn all(&self, plural: &str) -> Vec<Value> {
        self.state().all(plural).cloned().collect()
    }

    /// Deletes an object, as by somebody else.
    pub fn remove(&self, plural: &str, namespace: &str, name: &str) {
        let mut state = self.state();
        state.delete(plural, namespace, name);
        state.collect();
        drop(state);
        self.shared.changed.notify_all();
    }

    /// A fault for the next request of this verb for this resource (plural).
    pub fn fault(&self, verb: &'static str, plural: &'static str, fault: Fault) {
        self.state().faults.push((verb, plural, fault));
    }

    /// The same for as many of them.
    pub fn faults(&self, count: usize, verb: &'static str, plural: &'static str, fault: Fault) {
        self.state().faults.extend([(verb, plural, fault)].repeat(count));
    }

    /// A fault for all requests of this verb for this resource (plural), until it is calm.
    pub fn storm(&self, verb: &'static str, plural: &'static str, fault: Fault) {
        self.state().storms.push((verb, plural, fault));
    }

    pub fn calm(&self) {
        self.state().storms.clear();
    }

    /// All open watches end in the middle of a line.
    pub fn cut(&self) {
        self.state().cuts += 1;
        self.shared.changed.notify_all();
    }

    /// Tells watches how far they have come.
    pub fn bookmark(&self) {
        self.state().bookmark();
        self.shared.changed.notify_all();
    }

    /// Something happens to an object that no watch of a test is about.
    pub fn happen_elsewhere(&self) {
        self.state().version += 1;
    }

    /// Forgets the past: a watch that has not come this far has to list again.
    pub fn forget(&self) {
        self.state().forget();
    }

    /// Forgets the past, for all watches.
    pub fn compact(&self) {
        self.state().compact();
    }

    /// The one token that may do everything.
    pub fn admit(&self, token: &str) {
        self.state().administrator = Some(token.to_owned());
    }

    pub fn count(&self, verb: &str, plural: &str) -> usize {
        let state = self.state();
        state.requests.iter().filter(|(access, _)| access.verb == verb && access.resource == plural).count()
    }

    /// The address of a Service: webhooks that name it are called there.
    pub fn route(&self, namespace: &str, service: &str, address: SocketAddr) {
        self.state().services.insert((namespace.to_owned(), service.to_owned()), address);
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Cluster {
    /// A kubeconfig of a service account, which may do what roles grant it. Its token is in a file, as in a pod.
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

    /// The rules of a service account in the whole cluster, in the place of the ones before.
    pub fn grant(&self, namespace: &str, name: &str, rules: &Value) {
        let of = |kind: &str| json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": name } });
        let (mut role, mut binding) = (of("ClusterRole"), of("ClusterRoleBinding"));
        role["rules"] = rules.clone();
        binding["roleRef"] = json!({ "kind": "ClusterRole", "name": name });
        binding["subjects"] = json!([{ "kind": "ServiceAccount", "namespace": namespace, "name": name }]);
        self.put(&role);
        self.put(&binding);
    }

    /// Requests so far, by group, resource and verb.
    pub fn requested(&self) -> BTreeSet<Rule> {
        let rule = |access: &Access| (access.group.clone(), access.resource.clone(), access.verb.to_owned());
        self.state().requests.iter().map(|(access, _)| rule(access)).collect()
    }

    /// The file holds another token from now on, and the one before is refused.
    pub fn exchange_token(&self, namespace: &str, name: &str) {
        let mut state = self.state();
        state.version += 1;
        let token = format!("token-{}", state.version);
        let owner = (namespace.to_owned(), name.to_owned());
        // Before it is known, so that no request meets a token that is neither the old one nor the new one.
        fs::write(self.file(&format!("{namespace}-{name}.token")), &token).expect("written");
        state.tokens.retain(|_, known| *known != owner);
        state.tokens.insert(token, owner);
    }
}
