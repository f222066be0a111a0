//! Injects a few plain pods with each template of a loaded configuration, to report a missing function or field, or an invalid
//! result, before pods are refused.

use crate::pipeline::{InjectionOutcome, TEMPLATES, inject};
use crate::template::{InjectionTemplate, go};
use crate::{admission::AdmissionContext, configuration::Configuration};
use mesh::{InputProblem, Problems};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateTrial {
    pub template: String,
    pub is_built_in: bool,
    /// True for a default template, whose problems affect nearly every pod.
    pub is_default: bool,
    pub problems: Vec<InputProblem>,
    /// Deliberate refusals (`fail`): the template may expect another pod.
    pub refusals: Vec<InputProblem>,
    pub warnings: Vec<String>,
}

/// Injects each pod with each template separately. Built-in templates that the configuration does not use are left out.
pub fn trial(configuration: &Configuration) -> Vec<TemplateTrial> {
    let named = configuration.default_templates.iter().chain(configuration.aliases.values().flatten());
    let named: Vec<&String> = named.collect();
    let defaults = configuration.defaults();
    // An alias with a template's name would replace the template.
    let configuration = Configuration {
        rules: Configuration::default().rules,
        aliases: BTreeMap::new(),
        ..configuration.clone()
    };
    let mut tried = Vec::new();
    for (name, template) in &configuration.templates {
        let is_built_in = matches!(template, InjectionTemplate::BuiltIn(_));
        if is_built_in && !named.contains(&name) {
            continue;
        }
        let (mut problems, mut refusals, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
        for pod in plain_pods(&json!({TEMPLATES: name})) {
            for native_sidecars in [false, true] {
                let admission = AdmissionContext { native_sidecars, ..AdmissionContext::default() };
                match inject(&pod, &admission, &configuration) {
                    Ok(InjectionOutcome::Injected(injected)) => warnings.extend(injected.warnings),
                    Ok(InjectionOutcome::Skipped(_)) => {}
                    Err(Problems(found)) if go::refused() => refusals.extend(found),
                    Err(Problems(found)) => problems.extend(found),
                }
            }
        }
        warnings.sort_unstable();
        warnings.dedup();
        let [problems, refusals] = [problems, refusals].map(Problems::first);
        let (template, is_default) = (name.clone(), defaults.contains(&name.as_str()));
        tried.push(TemplateTrial { template, is_built_in, is_default, problems, refusals, warnings });
    }
    tried
}

/// A Deployment's pod, a bare pod with only a container, and a pod with all fields that agents and proxies read.
fn plain_pods(annotations: &Value) -> [Value; 3] {
    let container = json!({"name": "web", "image": "example.com/web:1.0"});
    let bare = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "annotations": annotations},
        "spec": {"containers": [container]},
    });
    let mut owned = bare.clone();
    owned["metadata"] = json!({
        "generateName": "web-5d8f-",
        "namespace": "default",
        "annotations": annotations,
        "labels": {"app": "web", "version": "v1", "pod-template-hash": "5d8f"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f", "uid": "1", "controller": true}],
    });
    let mut full = owned.clone();
    let probe = json!({"httpGet": {"path": "/ready", "port": "http"}});
    full["metadata"]["annotations"]["prometheus.io/port"] = "9090".into();
    full["spec"] = json!({
        "serviceAccountName": "web",
        "initContainers": [{"name": "migrate", "image": "example.com/migrate:1.0"}],
        "containers": [
            {
                "name": "web",
                "image": "example.com/web:1.0",
                "ports": [{"name": "http", "containerPort": 8080}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}],
                "readinessProbe": probe,
                "livenessProbe": {"tcpSocket": {"port": 8080}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            },
            {"name": "exporter", "image": "example.com/exporter@sha256:00"},
        ],
        "volumes": [{"name": "data", "emptyDir": {}}],
    });
    [owned, bare, full]
}
