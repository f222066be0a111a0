//! Each template is filled for a plain pod when a configuration is loaded, so that a missing function or field is reported then,
//! and not by every pod that is refused. Refusals on purpose (`fail`) are no problems: the template may want another pod.

use crate::admission::{AdmissionContext, Namespace, Workload};
use crate::configuration::Configuration;
use crate::pipeline::{TEMPLATES, inject};
use crate::sidecar::Sidecar;
use crate::template::{InjectionTemplate, TemplateContext, go};
use mesh::{InputProblem, Problems};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateTrial {
    pub template: String,
    /// Pods that name no template get it: its problems are those of nearly every pod.
    pub is_default: bool,
    pub problems: Vec<InputProblem>,
    pub warnings: Vec<String>,
}

/// Templates without problems and warnings are left out.
pub fn trial(configuration: &Configuration) -> Vec<TemplateTrial> {
    let defaults = configuration.defaults();
    let tried = configuration.templates.iter().filter_map(|(name, template)| {
        let (mut problems, mut warnings) = (Vec::new(), Vec::new());
        match template {
            InjectionTemplate::BuiltIn(_) => return None,
            InjectionTemplate::Unreadable(found) => problems.clone_from(&found.0),
            InjectionTemplate::Go(template) => {
                for native_sidecars in [false, true] {
                    for problem in filled(template, native_sidecars, configuration, &mut warnings) {
                        if !problems.contains(&problem) {
                            problems.push(problem);
                        }
                    }
                }
            }
        }
        warnings.sort_unstable();
        warnings.dedup();
        let is_default = defaults.contains(&name.as_str());
        let is_suspicious = !problems.is_empty() || !warnings.is_empty();
        is_suspicious.then(|| TemplateTrial { template: name.clone(), is_default, problems, warnings })
    });
    tried.collect()
}

fn filled(
    template: &go::Template,
    native_sidecars: bool,
    configuration: &Configuration,
    warnings: &mut Vec<String>,
) -> Vec<InputProblem> {
    let [.., pod] = plain_pods(&json!({}));
    let admission = AdmissionContext {
        namespace: Namespace { name: "default".to_owned(), ..Namespace::default() },
        workload: Some(Workload::of(&pod, "default")),
        native_sidecars,
        ..AdmissionContext::default()
    };
    let Configuration { values, mesh, .. } = configuration;
    let sidecar = match Sidecar::of(&pod, &admission, values, mesh) {
        Ok(sidecar) => sidecar,
        Err(Problems(problems)) => return problems,
    };
    let context = TemplateContext { pod: &pod, admission: &admission, sidecar: &sidecar, values, mesh };
    match template.render(&context, warnings) {
        Err(Problems(problems)) if !go::refused() => problems,
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// Injects a few plain pods with each template by itself. Built-in templates that the configuration does not use are left out.
pub fn try_templates(configuration: &Configuration) -> Vec<TemplateTrial> {
    let named = configuration.default_templates.iter().chain(configuration.aliases.values().flatten());
    let named: Vec<&String> = named.collect();
    let defaults = configuration.defaults();
    // An alias may have the name of a template, and would be tried in its place.
    let configuration = Configuration {
        rules: Configuration::default().rules,
        aliases: BTreeMap::new(),
        ..configuration.clone()
    };
    let is_used = |(name, template): &(&String, &InjectionTemplate)| {
        named.contains(name) || !matches!(template, InjectionTemplate::BuiltIn(_))
    };
    let tried = configuration.templates.iter().filter(is_used).map(|(template, _)| {
        let mut problems: Vec<InputProblem> = Vec::new();
        for pod in plain_pods(&json!({TEMPLATES: template})) {
            for native_sidecars in [false, true] {
                let admission = AdmissionContext { native_sidecars, ..AdmissionContext::default() };
                let refused = inject(&pod, &admission, &configuration).err();
                problems.extend(refused.into_iter().flat_map(|Problems(found)| found));
            }
        }
        let (is_default, problems) = (defaults.contains(&template.as_str()), Problems::first(problems));
        TemplateTrial { template: template.clone(), is_default, problems, warnings: Vec::new() }
    });
    tried.collect()
}

/// A pod of a Deployment, one by itself with nothing but a container, and one with all that agents and proxies look at.
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
