//! Why a command has no answer.

use crate::failure::{CallFailure, visible};
use mesh::{InputProblem, Problems};

#[derive(Debug, thiserror::Error)]
pub(crate) enum CaptureFailure {
    /// Nothing was run that changes anything.
    #[error("{0}")]
    Input(#[from] Problems),
    #[error("{0}")]
    Call(#[from] CallFailure),
    /// The workload has no pod.
    #[error(
        "{kind} {name} has no pod in namespace {namespace}; see kubectl get pods -n {namespace} -l '{selector}'"
    )]
    NoPod { kind: &'static str, name: String, namespace: String, selector: String },
    /// `sidecar-init` in the cluster could not answer.
    #[error("sidecar-init in pod {pod}: {}", visible(.message))]
    Remote { pod: String, message: String },
    /// There is no route to the kernel, and the question is about nothing else.
    #[error("the kernel of pod {pod} can't be reached: {reason}{remedy}")]
    NoKernel { pod: String, reason: String, remedy: &'static str },
    #[error("can't be printed: {0}")]
    Print(#[from] std::io::Error),
}

impl CaptureFailure {
    pub(crate) fn input(name: &str, item: Option<&str>, text: impl Into<String>) -> Self {
        let problem = match item {
            Some(item) => InputProblem::with_item(name, item, text),
            None => InputProblem::of(name, text),
        };
        Self::Input(Problems(vec![problem]))
    }
}
