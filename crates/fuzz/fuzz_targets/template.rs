//! Fuzzes Go templates rendered for a pod: no panic, termination, and no pod value read as YAML.
#![no_main]

use injection::sidecar::Sidecar;
use injection::template::{TemplateContext, go};
use injection::{AdmissionContext, Configuration};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use std::sync::LazyLock;

static CONFIGURATION: LazyLock<Configuration> = LazyLock::new(Configuration::default);

fuzz_target!(|text: &str| {
    let Ok(template) = go::Template::read("input", text) else { return };
    let pod = json!({
        "metadata": {"name": "web-0", "labels": {"app": "web"}, "annotations": {"x": "v\"\nprivileged: true", "y": "plain"}},
        "spec": {"containers": [{"name": "web", "image": "web", "ports": [{"containerPort": 80}]}]},
    });
    let admission = AdmissionContext::default();
    let sidecar =
        Sidecar::of(&pod, &admission, &CONFIGURATION.values, &CONFIGURATION.mesh).expect("a valid pod");
    let context = TemplateContext {
        pod: &pod,
        admission: &admission,
        sidecar: &sidecar,
        values: &CONFIGURATION.values,
        mesh: &CONFIGURATION.mesh,
    };
    if let Ok(patch) = template.render(&context, &mut Vec::new()) {
        // A pod's value may be part of a string; a field must come from the template.
        assert!(text.contains("privileged") || !has_key(&patch, "privileged"), "{patch}");
    }
});

fn has_key(value: &Value, name: &str) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(key, value)| key == name || has_key(value, name)),
        Value::Array(items) => items.iter().any(|item| has_key(item, name)),
        _ => false,
    }
}
