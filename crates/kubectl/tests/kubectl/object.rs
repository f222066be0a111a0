//! The cluster's objects in `sessions/pods.txt`, with the running pod `shop/web-0`, injected by Istio.

use serde_json::Value;
use testkit::sections;

pub(crate) fn object(name: &str) -> Value {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kubectl/sessions/pods.txt");
    let (_, text) = sections::read(file).into_iter().find(|(found, _)| found == name).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}
