//! Changes to the pods of a cluster if this injector had made them.
//!
//! A pod that runs holds what an injector has put into it. Injected again by this configuration, it becomes what this injector
//! would have made of the same original. The two are compared by their meaning: what the API server fills in, the
//! order of fields and variables, and the ways to write a quantity or JSON within a text are no differences.

mod difference;
mod filled;

pub use difference::PodDifference;

use crate::admission::AdmissionContext;
use crate::configuration::Configuration;
use crate::decision::DecisionReason;
use crate::pipeline::pod::PodSpecList;
use crate::pipeline::{InjectionOutcome, InjectionStatus, PROXY, TEMPLATES, inject};
use crate::template::InjectionTemplate;
use crate::trial::plain_pods;
use crate::{Namespaces, decision};
use mesh::{InputProblem, Problems};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub struct PodComparison {
    pub pod: String,
    pub verdict: ComparisonVerdict,
}

#[derive(Clone, Debug)]
pub enum ComparisonVerdict {
    NotInjected,
    Same,
    Differs(Vec<PodDifference>),
    /// It would run without a proxy.
    Skipped(DecisionReason),
    Refused(Problems),
}

impl ComparisonVerdict {
    pub fn is_change(&self) -> bool {
        !matches!(self, Self::NotInjected | Self::Same)
    }
}

pub fn compare(
    pod: &Value,
    namespaces: &Namespaces,
    variables: &[(String, String)],
    configuration: &Configuration,
) -> PodComparison {
    let meta = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let namespace = namespaces.of(meta("namespace"));
    let name = if meta("name").is_empty() { meta("generateName") } else { meta("name") };
    let compared = |verdict| PodComparison { pod: format!("{}/{name}", namespace.name), verdict };
    let Some(status) = InjectionStatus::of_pod(pod) else {
        return compared(ComparisonVerdict::NotInjected);
    };
    let admission = AdmissionContext {
        // Whether its kubelet can run native sidecars, the pod shows itself.
        native_sidecars: status.has(PodSpecList::InitContainers, PROXY),
        variables: variables.to_vec(),
        workload: None,
        namespace: namespace.clone(),
        ..AdmissionContext::default()
    };
    match inject(pod, &admission, configuration) {
        Err(problems) => compared(ComparisonVerdict::Refused(problems)),
        Ok(InjectionOutcome::Skipped(decision)) => compared(ComparisonVerdict::Skipped(decision.reason)),
        Ok(InjectionOutcome::Injected(injected)) => {
            let found = difference::all(&filled::pod(pod), &filled::pod(&injected.pod));
            compared(if found.is_empty() {
                ComparisonVerdict::Same
            } else {
                ComparisonVerdict::Differs(found)
            })
        }
    }
}

#[derive(Clone, Debug)]
pub struct TriedTemplate {
    pub template: String,
    pub problems: Vec<InputProblem>,
}

/// Injects a few plain pods with each template by itself. Built-in templates that the configuration does not use are left out.
pub fn try_templates(configuration: &Configuration) -> Vec<TriedTemplate> {
    let enabled = decision::InjectionRules {
        policy: Some(decision::InjectionPolicy::Enabled),
        never: Vec::new(),
        always: Vec::new(),
    };
    let named = configuration.default_templates.iter().chain(configuration.aliases.values().flatten());
    let named: Vec<&String> = named.collect();
    // An alias may have the name of a template, and would be tried in its place.
    let configuration = Configuration { rules: enabled, aliases: BTreeMap::new(), ..configuration.clone() };
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
        TriedTemplate { template: template.clone(), problems: Problems::first(problems) }
    });
    tried.collect()
}
