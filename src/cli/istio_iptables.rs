//! The drop-in for `istio-iptables`.

use super::run::{ResolvedCall, Run, RunMode};
use super::{Exit, change, diff, render, verify};
use mesh::Capture;
use sidecar_init::{
    engine::{EngineError, OnDrift, Preference},
    sys::namespace,
};
use std::error::Error;

pub(super) fn run(call: &ResolvedCall) -> Exit {
    let ResolvedCall { capture, run, .. } = call;
    if matches!(run.mode, RunMode::Apply | RunMode::Clean) {
        match namespace::is_host() {
            Some(false) => {}
            Some(true) => tracing::warn!(target: "iptables", "this is the machine's own network namespace"),
            None => tracing::warn!(
                target: "iptables",
                "this may be the machine's own network namespace: /proc is needed to know"
            ),
        }
    }
    let done = match run.mode {
        RunMode::Preview(form) => return render::preview(&**capture, form),
        RunMode::PreviewClean => return change::preview_removal(run, run.mesh.ownership()),
        RunMode::Clean => return change::exit(change::remove(run, run.mesh.ownership())),
        RunMode::Apply => {
            // Rules of ours that differ are an error, unless they may be reconciled.
            let on_drift = if run.reconcile { OnDrift::Replace } else { OnDrift::Refuse };
            let run = Run { backend: run.backend.preferring(Preference::Iptables), ..run.clone() };
            let done = change::set(&run, "istio-iptables", capture, on_drift);
            change::exit(done.map_err(|error| match error.downcast() {
                Ok(refusal) => explained(&run, capture, *refusal),
                Err(other) => other,
            }))
        }
        RunMode::Nothing => Exit::Done,
    };
    if done == Exit::Done { verify::validated(call) } else { done }
}

/// A refusal with what would change.
fn explained(run: &Run, capture: &Capture, refusal: EngineError) -> Box<dyn Error> {
    match refusal {
        EngineError::Drift(compared) => diff::refused(run, capture, compared).into(),
        other => other.into(),
    }
}
