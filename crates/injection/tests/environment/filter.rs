//! The EnvoyFilter that adds the header.

use super::scene::{environment, shop};
use injection::environment::routes::script;
use serde_json::json;

#[test]
fn it_is_created_where_it_is_requested() {
    let mut scene = shop();
    scene.environment = environment(&json!({"envHeader": {"autoInject": true, "name": "ali-env-mark"}}));
    let filter = scene.plan().filter.expect("asked for");
    assert_eq!(
        (&filter["apiVersion"], &filter["kind"]),
        (&json!("networking.istio.io/v1alpha3"), &json!("EnvoyFilter"))
    );
    assert_eq!(filter["metadata"]["name"], "demo");
    assert_eq!(filter["metadata"]["labels"]["envHeader"], "ali-env-mark");
    assert_eq!(filter["metadata"]["labels"]["envLabel"], "virtual-env");
    assert_eq!(filter["metadata"]["ownerReferences"][0]["uid"], "u-demo");
    let [patch] = &filter["spec"]["configPatches"].as_array().expect("patches")[..] else {
        panic!("one patch")
    };
    assert_eq!(patch["match"]["context"], "SIDECAR_OUTBOUND");
    let value = &patch["patch"]["value"];
    assert_eq!(
        (&patch["patch"]["operation"], &value["name"]),
        (&json!("INSERT_FIRST"), &json!("virtual.environment.lua"))
    );
    let text = value["typed_config"]["default_source_code"]["inline_string"].as_str().expect("a script");
    assert_eq!(text, script("ali-env-mark"));
    assert!(text.contains("local header = \"ali-env-mark\"") && text.contains("VIRTUAL_ENVIRONMENT_TAG"));
    assert!(filter["spec"].get("workloadSelector").is_none());
}

/// A label can't hold all that a header's name can.
#[test]
fn labels_are_empty_where_they_would_be_refused() {
    let mut scene = shop();
    scene.environment = environment(
        &json!({"envHeader": {"autoInject": true, "name": "x!"}, "envLabel": {"name": "example.com/env"}}),
    );
    let filter = scene.plan().filter.expect("asked for");
    let labels = json!({"app.kubernetes.io/managed-by": "sidecar-injector", "envHeader": "", "envLabel": ""});
    assert_eq!(filter["metadata"]["labels"], labels);
}
