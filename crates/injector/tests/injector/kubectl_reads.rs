//! Injected manifests, parsed by kubectl.

use crate::{PROGRAM, kubectl::without};
use serde_json::Value;
use std::{path::Path, process::Command};
use testkit::{command_line::ended_with, word};

fn values(text: &str) -> Vec<Value> {
    mesh::pod::values("printed", text).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

/// Object without empty values: kubectl drops nulls and adds types' defaults.
fn without_empty(object: &Value) -> Value {
    without(object.clone(), |value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Object(fields) => fields.is_empty(),
        other => *other == 0,
    })
}

#[test]
fn kubectl_reads_the_intended_objects() {
    let files = ["deployment.yaml", "injected.yaml", "cron-job.yaml", "windows.yaml", "list.json"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support/pods");
    for file in files {
        let printed = PROGRAM.printed(&["inject", "-f", word(&root.join(file))]);
        let words = ["patch", "--local", "-o", "json", "--type=merge", "-p", "{}", "-f", "-"];
        let read = values(&ended_with(Command::new("kubectl").args(words), &printed).with(0).stdout);
        let target = values(&printed).into_iter().filter(|value| !value.is_null());
        let target: Vec<Value> = target
            .flat_map(|value| match value.get("items") {
                Some(Value::Array(items)) => items.clone(),
                _ => vec![value],
            })
            .collect();
        assert_eq!(read.len(), target.len(), "{file}");
        read.iter()
            .zip(&target)
            .for_each(|(read, target)| assert_eq!(without_empty(read), without_empty(target)));
    }
}
