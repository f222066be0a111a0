//! Names of packets: Services of the cluster.

use crate::fake::{Fake, explanation, list};
use serde_json::{Value, json};

fn service(spec: &Value) -> Value {
    json!({ "kind": "Service", "metadata": { "name": "reviews", "namespace": "shop" }, "spec": spec })
}

fn resolved(fake: &Fake, name: &str) -> String {
    let document = fake.run(&["explain", "web-0", name, "-o", "json"]).with(0).json();
    document["answers"][0]["address"].as_str().expect("an address").to_owned()
}

fn scene() -> Fake {
    let mut fake = Fake::with_agent();
    let ports = json!([{ "name": "http", "port": 9080 }, { "name": "web", "port": 80 }]);
    let spec = json!({ "clusterIP": "fd00::9", "clusterIPs": ["fd00::9", "10.96.0.9"], "ports": ports });
    fake.object("get service reviews -n shop *", &service(&spec));
    fake.object(
        "get service reviews -n other *",
        &service(&json!({ "clusterIP": "10.96.0.8", "ports": ports })),
    );
    let ports = json!([{ "name": "http", "port": 80, "targetPort": "http" }]);
    fake.object("get service peers *", &service(&json!({ "clusterIP": "None", "ports": ports })));
    let of_ipv6 = json!({
        "ports": [{ "name": "http", "port": 8080 }],
        "endpoints": [{ "addresses": ["fd00::8"] }, { "addresses": ["fd00::9"] }],
    });
    let slice = json!({
        "ports": [{ "name": "http", "port": 8080 }],
        "endpoints": [
            { "addresses": ["10.1.0.7"], "conditions": { "ready": false } },
            { "addresses": ["10.1.0.8"], "conditions": { "ready": true } },
            { "addresses": ["10.1.0.9"], "conditions": { "ready": true } },
        ],
    });
    fake.object(
        "get endpointslices.discovery.k8s.io -l kubernetes.io/service-name=peers -n shop *",
        &list(&[of_ipv6, slice]),
    );
    fake.object("exec *", &explanation("captured", Some(15001), "it is"));
    fake
}

#[test]
fn services_have_addresses_of_the_pods_family() {
    let fake = scene();
    for (name, address) in [
        ("reviews:9080", "10.96.0.9:9080"),
        ("reviews:http", "10.96.0.9:9080"),
        ("http://reviews/", "10.96.0.9:80"),
        ("reviews.other:9080", "10.96.0.8:9080"),
        ("reviews.other.svc:9080", "10.96.0.8:9080"),
        ("reviews.other.svc.cluster.local:9080", "10.96.0.8:9080"),
        ("peers:80", "10.1.0.8:80"),
        ("peers:http", "10.1.0.8:8080"),
    ] {
        assert_eq!(resolved(&fake, name), address, "{name}");
    }
    fake.run(&["explain", "web-0", "reviews:9080"])
        .with(0)
        .prints("reviews:9080 is Service shop/reviews, 10.96.0.9:9080\n");
    fake.run(&["explain", "web-0", "peers:80"])
        .with(0)
        .prints("Service shop/peers (headless, one of 2 endpoints)");
}

#[test]
fn names_that_are_no_services_are_refused() {
    let mut fake = scene();
    fake.object(
        "get service outside *",
        &service(&json!({ "type": "ExternalName", "externalName": "example.com" })),
    );
    fake.object("get service young *", &service(&json!({ "ports": [{ "port": 80 }] })));
    fake.object("get service empty *", &service(&json!({ "clusterIP": "None", "ports": [{ "port": 80 }] })));
    fake.object("get endpointslices*", &list(&[]));
    for (name, expected) in [
        (
            "nothing:80",
            "is not there: no Service nothing in namespace shop; names outside the cluster are not resolved",
        ),
        ("example.com:443", "is not there: no Service example in namespace com"),
        ("www.example.com:443", "does not name a Service (NAME, NAME.NAMESPACE or NAME.NAMESPACE.svc)"),
        ("reviews", "names no port; Service shop/reviews has 9080 (http), 80 (web)"),
        ("reviews:81", "names a port that Service shop/reviews does not have; it has 9080 (http), 80 (web)"),
        ("outside:80", "is Service shop/outside, an alias of example.com"),
        ("young:80", "is Service shop/young, which has no address yet"),
        ("empty:80", "is Service shop/empty, which is headless and has no ready endpoint"),
    ] {
        let ran = fake.run(&["explain", "web-0", name]).with(2);
        assert!(ran.stderr.contains(&format!("DESTINATION: {name:?} {expected}")), "{name}: {}", ran.stderr);
    }
}
