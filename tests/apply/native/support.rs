//! A namespace for each test, and the programs that work in it.

use crate::support::namespace::Namespace;
use crate::support::program::{BINARY, stdout};
use serde_json::Value;

/// Runs `work` on a thread in a fresh network namespace, with `lo` up.
pub(crate) fn in_namespace<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    Namespace::new().run(work)
}

/// Facts that the host would be asked for otherwise.
pub(crate) const FACTS: [&str; 2] = ["--pod-ips", "10.0.0.1,fd00::1"];

pub(crate) fn native(flags: &[&str]) -> String {
    stdout(BINARY, &[&["istio-iptables", "--native-nftables", "--reconcile"], &FACTS[..], flags].concat(), "")
}

pub(crate) fn script(flags: &[&str]) -> String {
    native(&[flags, &["--dry-run"]].concat())
}

/// All of nf_tables as `nft` sees it; handles, packet counts and the note of how ours was made left out. Rules stay in order; that of chains and sets,
/// which is the one in which they were made, is of no consequence.
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
            // The order of elements without ranges is that of a hash table.
            if let Some(Value::Array(elements)) = fields.get_mut("elem") {
                elements.sort_by_key(ToString::to_string);
            }
            fields.values_mut().for_each(normalise);
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A flag's value with many items: `item(0)`, `item(1)`, ..
pub(crate) fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(",")
}

/// Ports of which no two touch.
pub(crate) fn ports(count: usize) -> String {
    list(count, |n| (20_001 + 2 * n).to_string())
}

/// Networks of which no two touch.
pub(crate) fn networks(count: usize) -> String {
    list(count, |n| format!("10.{}.{}.0/24,fd00:{:x}::/32", n / 100, 2 * (n % 100), 2 * n))
}
