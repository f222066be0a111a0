//! `serve --self-signed` and the webhooks that should call it: by a Service, by a URL, or not at all.

use super::authority::{
    CONFIGURATION, NAMESPACE, Replica, SECRET, bundle, cluster, configuration, create, stored,
};
use super::client::{Response, head};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
};
use testkit::cluster::Cluster;
use testkit::until;

/// A configuration whose webhook calls by this.
fn calling(client: Value) -> Value {
    let mut configuration = configuration("");
    configuration["webhooks"][0]["clientConfig"] = client;
    configuration
}

#[test]
fn webhooks_that_call_by_a_url_are_served_by_that_name() {
    let cluster = cluster();
    let mut replica = Replica::start(&cluster, "one", &["--name", "127.0.0.1", "--name", "injector.example"]);
    let address = replica.address();
    cluster.put(&calling(json!({ "url": format!("https://{address}/inject") })));
    until("the webhook trusts it", || bundle(&cluster) == stored(&cluster, "ca.crt"));
    create(&cluster, "web");
    cluster.put(&calling(json!({ "url": "https://another.example/inject" })));
    cluster.put(&json!({ "apiVersion": "v1", "kind": "Secret", "data": {},
        "metadata": { "name": SECRET, "namespace": NAMESPACE } }));
    until("the Secret is whole again", || !stored(&cluster, "ca.crt").is_empty());
    assert_eq!(bundle(&cluster), "", "it is another server's");
    replica.stop();
}

#[test]
fn webhooks_that_do_not_call_are_reported_once_and_counted() {
    let cluster = cluster();
    cluster.put(&configuration("another"));
    let names = format!("{CONFIGURATION},missing");
    let mut replica = Replica::start(&cluster, "one", &["--webhook-configurations", &names]);
    let address = replica.address();
    let shown = |replica: &Replica| {
        let log = replica.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines =
            lines.filter(|line| line["message"] == "the webhook configuration does not call this server");
        lines.map(|line| format!("{}: {}", line["configuration"], line["error"])).collect::<Vec<_>>()
    };
    let get = |path: &str| get(&cluster, address, path);
    until("it is ready without them", || get("/ready").0 == 200);
    until("both are told", || shown(&replica).len() == 2);
    let both = shown(&replica).join("\n");
    assert!(both.contains("\"missing\": \"there is no webhook configuration of this name"), "{both}");
    let expected =
        "(Service sidecar-injector/another); expected the Service sidecar-injector/sidecar-injector";
    assert!(both.contains(expected), "{both}");
    let metric = |name: &str| {
        get("/metrics").1.contains(&format!("sidecar_injector_webhooks{{configuration=\"{name}"))
    };
    assert!(metric(&format!("{CONFIGURATION}\"}} 0")) && metric("missing\"} 0"));
    let state = get("/ready?verbose").1;
    assert!(
        state.contains("[+]configuration ok") && state.contains("[-]webhooks/missing not ok: "),
        "{state}"
    );

    cluster.put(&configuration("sidecar-injector"));
    until("it calls", || metric(&format!("{CONFIGURATION}\"}} 1")));
    assert!(get("/ready?verbose").1.contains(&format!("[+]webhooks/{CONFIGURATION} ok: 1 call")));
    assert!(replica.log().contains("the webhook configuration calls this server"));
    assert_eq!(shown(&replica).len(), 2, "once for each");
    replica.stop();
}

/// The status and the text of a page of the server, by the certificate that webhooks trust.
fn get(cluster: &Cluster, address: SocketAddr, path: &str) -> (u16, String) {
    let mut roots = RootCertStore::empty();
    let authority = stored(cluster, "ca.crt");
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).expect("PEM")).expect("a certificate");
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("sidecar-injector.sidecar-injector.svc").expect("a name");
    let tls = ClientConnection::new(config.into(), name).expect("TLS");
    let mut stream = StreamOwned::new(tls, TcpStream::connect(address).expect("it listens"));
    stream.write_all(head("GET", path, &[], 0).as_bytes()).expect("a request");
    let response = Response::read(&mut stream).expect("an answer");
    (response.status, response.text())
}
