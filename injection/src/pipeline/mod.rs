//! From a pod to an injected pod.

mod workload;

pub use workload::Workload;

use crate::configuration::Configuration;
use crate::decision::Decision;
use policy::{Problem, Problems};
use serde_json::Value;
use std::collections::BTreeMap;

/// A namespace, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// What is known around a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// Where it will run: the pod's own, else the request's.
    pub namespace: Namespace,
    /// Who makes it, where that is known otherwise than by the pod: the object of a manifest that holds its template.
    pub workload: Option<Workload>,
    /// Variables that the path of the request sets, in its order.
    pub variables: Vec<(String, String)>,
    /// Whether its kubelet can run native sidecars, as far as nobody says otherwise (Kubernetes 1.33 and newer).
    pub native_sidecars: bool,
}

/// What becomes of a pod.
#[derive(Clone, Debug)]
pub enum Outcome {
    Skipped(Decision),
    Injected(Box<Injected>),
}

/// A pod that was injected.
#[derive(Clone, Debug)]
pub struct Injected {
    pub decision: Decision,
    pub pod: Value,
    /// What is odd, for whoever made the pod.
    pub warnings: Vec<String>,
}

/// Injects a pod, if it is to be.
///
/// # Errors
/// Every problem with what the pod says.
pub fn inject(pod: &Value, around: &Around, configuration: &Configuration) -> Result<Outcome, Problems> {
    let _ = (pod, around, configuration);
    Err(Problems(vec![Problem::of("pod", "is not injected yet")]))
}
