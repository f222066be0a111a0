//! Strategic merge by `kubectl`, without a cluster.

use serde_json::{Deserializer, Value, json};
use std::{
    io::Write,
    process::{Command, Stdio},
};

const NUMBER: &str = "example/number";

/// Results of one call of `kubectl` for pods and a patch; `None` for a refusal.
pub(crate) fn patched(pods: &[Value], patch: &Value) -> Vec<Option<Value>> {
    let mut items = pods.to_vec();
    for (number, pod) in items.iter_mut().enumerate() {
        pod["metadata"]["annotations"][NUMBER] = number.to_string().into();
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let mut child = Command::new("kubectl")
        .args(["patch", "--local", "--type=strategic", "-o", "json", "-f", "-", "-p", &patch.to_string()])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl");
    child.stdin.take().expect("a pipe").write_all(list.to_string().as_bytes()).expect("a reader");
    let output = child.wait_with_output().expect("an end");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || stderr.contains("rror"), "{stderr}");
    let mut found = vec![None; pods.len()];
    for printed in Deserializer::from_slice(&output.stdout).into_iter::<Value>() {
        let mut printed = printed.expect("JSON");
        let number = printed["metadata"]["annotations"][NUMBER].take();
        let number = number.as_str().and_then(|number| number.parse::<usize>().ok());
        found[number.expect("the number of a pod")] = Some(printed);
    }
    found
}

/// Without empty fields: `kubectl` prints its own types.
pub(crate) fn without(value: Value, is_empty: fn(&Value) -> bool) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, without(value, is_empty)));
            Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(|item| without(item, is_empty)).collect()),
        other => other,
    }
}
