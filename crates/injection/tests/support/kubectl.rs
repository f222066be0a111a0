//! Strategic merge as `kubectl` does it, without a cluster.

use serde_json::Value;
use std::{
    io::Write,
    process::{Command, Stdio},
};

/// What `kubectl` makes of a pod and a patch; `None` where it refuses.
pub(crate) fn patched(pod: &Value, patch: &Value) -> Option<Value> {
    let mut child = Command::new("kubectl")
        .args(["patch", "--local", "--type=strategic", "-o", "json", "-f", "-", "-p", &patch.to_string()])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl");
    child.stdin.take().expect("a pipe").write_all(pod.to_string().as_bytes()).expect("a reader");
    let output = child.wait_with_output().expect("an end");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || stderr.contains("rror"), "{stderr}");
    output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// Without the fields that are empty: `kubectl` prints what it has read into its own types.
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
