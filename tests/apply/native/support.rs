//! A namespace for each test, and the programs that run in it.

use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, stdout};
use serde_json::Value;

pub(crate) fn in_namespace<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    Namespace::new().run(work)
}

/// Facts that would otherwise come from the host.
pub(crate) const FACTS: [&str; 2] = ["--pod-ips", "10.0.0.1,fd00::1"];

pub(crate) fn native(flags: &[&str]) -> String {
    stdout(BINARY, &[&["istio-iptables", "--native-nftables", "--reconcile"], &FACTS[..], flags].concat(), "")
}

pub(crate) fn script(flags: &[&str]) -> String {
    native(&[flags, &["--dry-run"]].concat())
}

/// The nf_tables ruleset in `nft`'s JSON, without handles, packet counts and the `made_by` chain. Rules keep their order; chains
/// and sets are sorted, as their order of creation is irrelevant.
pub(crate) fn ruleset() -> Value {
    let mut ruleset: Value =
        serde_json::from_str(&stdout("nft", &["-j", "list", "ruleset"], "")).expect("JSON");
    normalise(&mut ruleset);
    let objects = ruleset["nftables"].as_array_mut().expect("a list");
    objects.retain(|object| object["chain"]["name"] != "made_by" && object["rule"]["chain"] != "made_by");
    ruleset["nftables"].as_array_mut().expect("a list").sort_by_key(|object| match &object["rule"] {
        Value::Object(rule) => format!("rule {} {} {}", rule["family"], rule["table"], rule["chain"]),
        _ => object.to_string(),
    });
    ruleset
}

fn normalise(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !matches!(name.as_str(), "handle" | "packets" | "bytes"));
            // Elements without ranges are in hash table order.
            if let Some(Value::Array(elements)) = fields.get_mut("elem") {
                elements.sort_by_key(ToString::to_string);
            }
            fields.values_mut().for_each(normalise);
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

pub(crate) fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(",")
}

/// Ports, no two of them adjacent.
pub(crate) fn ports(count: usize) -> String {
    list(count, |n| (20_001 + 2 * n).to_string())
}

/// Networks, no two of them adjacent.
pub(crate) fn networks(count: usize) -> String {
    list(count, |n| format!("10.{}.{}.0/24,fd00:{:x}::/32", n / 100, 2 * (n % 100), 2 * n))
}
