//! Each template is filled for a plain pod when a configuration is loaded, so that a missing function or field is reported
//! then, and not by every pod that is refused.
//!
//! What a template refuses on purpose (`fail`) is not a problem: it may want another pod. The built-in
//! templates need no trial.

use crate::admission::{AdmissionContext, Namespace, Workload};
use crate::configuration::Configuration;
use crate::sidecar::Sidecar;
use crate::template::{InjectionTemplate, TemplateContext, go};
use mesh::{InputProblem, Problems};
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateTrial {
    /// Its name in the configuration.
    pub template: String,
    /// Whether pods that name no template get it: then its problems are those of nearly every pod.
    pub is_default: bool,
    /// Why it makes no patch of a plain pod.
    pub problems: Vec<InputProblem>,
    /// Warnings about the patch.
    pub warnings: Vec<String>,
}

/// Fills each template for a plain pod. Templates without problems and warnings are left out.
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
    let (pod, admission) = plain(native_sidecars);
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

fn plain(native_sidecars: bool) -> (Value, AdmissionContext) {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "plain-0-", "namespace": "default", "labels": {"app": "plain"}},
        "spec": {
            "serviceAccountName": "default",
            "containers": [{"name": "plain", "image": "plain:1", "ports": [{"containerPort": 80, "protocol": "TCP"}]}],
        },
    });
    let workload = Workload {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        name: "plain".to_owned(),
        namespace: "default".to_owned(),
    };
    let namespace = Namespace { name: "default".to_owned(), ..Namespace::default() };
    (
        pod,
        AdmissionContext {
            namespace,
            workload: Some(workload),
            native_sidecars,
            ..AdmissionContext::default()
        },
    )
}
