//! `serve --self-signed` and the webhooks that should call it: through a Service, a URL, or not at all.

use super::authority::{
    CONFIGURATION, NAMESPACE, SECRET, bundle, cluster, configuration, create, start, stored,
};
use super::webhook::address;
use serde_json::{Value, json};
use testkit::{http::get, until};

fn calling(client: Value) -> Value {
    let mut configuration = configuration("");
    configuration["webhooks"][0]["clientConfig"] = client;
    configuration
}

#[test]
fn webhooks_that_call_by_a_url_are_served_by_that_name() {
    let cluster = cluster();
    let replica = start(&cluster, &["--name", "127.0.0.1", "--name", "injector.example"]);
    let address = address(&replica, "address");
    cluster.put(&calling(json!({ "url": format!("https://{address}/inject") })));
    until("webhook trusts the CA", || bundle(&cluster) == stored(&cluster, "ca.crt"));
    create(&cluster, "web");
    cluster.put(&calling(json!({ "url": "https://another.example/inject" })));
    cluster.put(&json!({ "apiVersion": "v1", "kind": "Secret", "data": {},
        "metadata": { "name": SECRET, "namespace": NAMESPACE } }));
    until("the Secret is whole again", || !stored(&cluster, "ca.crt").is_empty());
    assert_eq!(bundle(&cluster), "", "the webhook is another server's");
    assert_eq!(replica.stop(), Some(0));
}

#[test]
fn webhooks_that_do_not_call_are_reported_once_and_counted() {
    let cluster = cluster();
    cluster.put(&configuration("another"));
    let names = format!("{CONFIGURATION},missing");
    let flags = ["--webhook-configurations", &names, "--metrics-address", "127.0.0.1:0"];
    let replica = start(&cluster, &flags);
    let address = address(&replica, "metrics_address");
    let shown = || {
        let lines = replica.lines("the webhook configuration does not call this server").into_iter();
        lines.map(|line| format!("{}: {}", line["configuration"], line["error"])).collect::<Vec<_>>()
    };
    let get = |path: &str| get(address, path);
    until("it is ready without callers", || get("/ready").0 == 200);
    until("faults are reported", || shown().len() == 2);
    let both = shown().join("\n");
    assert!(both.contains("\"missing\": \"no webhook configuration has this name"), "{both}");
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
    replica.until_line("the webhook configuration calls this server");
    assert_eq!(shown().len(), 2, "once for each");
    assert_eq!(replica.stop(), Some(0));
}
