//! Changes that this injector would make to a cluster's injected pods: each is injected again and compared by meaning, without
//! the API server's defaults, the order of fields and variables, and spellings of quantities and JSON strings.

mod difference;
mod filled;

pub use difference::PodDifference;

use crate::admission::{AdmissionContext, Namespaces};
use crate::configuration::Configuration;
use crate::decision::DecisionReason;
use crate::pipeline::pod::PodSpecList;
use crate::pipeline::{InjectionOutcome, InjectionStatus, PROXY, inject};
use mesh::Problems;
use serde_json::Value;

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
    /// The pod would run without a proxy.
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
        // The pod itself shows if its kubelet runs native sidecars.
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
