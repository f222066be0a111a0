//! The drop-in for `istio-iptables`.

use super::run::{Call, Mode};
use super::{Exit, change, probe, render, report};
use sidecar_init::{
    engine::{OnDrift, Options, Preference},
    sys::namespace,
};

/// Runs the command.
pub(super) fn run(call: &Call) -> Exit {
    let Call { capture, run, .. } = call;
    if matches!(run.mode, Mode::Apply | Mode::Clean) {
        match namespace::is_host() {
            Some(false) => {}
            Some(true) => tracing::warn!(target: "iptables", "this is the machine's own network namespace"),
            None => tracing::warn!(
                target: "iptables",
                "this may be the machine's own network namespace: without /proc, nothing tells"
            ),
        }
    }
    let done = match run.mode {
        Mode::Preview(form) => return render::preview(&**capture, form),
        Mode::PreviewClean => return change::preview_removal(run, run.mesh.ownership()),
        Mode::Clean => return exit(change::remove(run, run.mesh.ownership())),
        Mode::Apply => {
            // Rules of ours that are not as wanted are an error, unless they may be reconciled.
            let on_drift = if run.reconcile { OnDrift::Replace } else { OnDrift::Refuse };
            let choice = run.backend.choice(Preference::Iptables);
            exit(change::set(
                run,
                "istio-iptables",
                capture,
                &Options { choice, on_drift, force: run.force, known_owners: mesh::OWNERS },
            ))
        }
        Mode::Nothing => Exit::Done,
    };
    if done == Exit::Done { probe::validated(call) } else { done }
}

fn exit(done: Result<change::Report, Box<dyn std::error::Error>>) -> Exit {
    match done {
        Ok(report) => report.exit(),
        Err(error) => report::failure(&*error, Exit::Failed),
    }
}
