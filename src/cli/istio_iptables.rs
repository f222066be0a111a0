//! The drop-in for `istio-iptables`.

use super::run::{Call, Mode};
use super::{Exit, change, render, report};
use policy::istio::Interception;
use policy::istio::defaults::{PASSTHROUGH_V4, PASSTHROUGH_V6};
use sidecar_init::{
    engine::{self, OnDrift, Options, Preference, Validate},
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
        Mode::Preview(form) => return render::preview(capture, form),
        Mode::PreviewClean => return change::preview_removal(run),
        Mode::Clean => return exit(change::remove(run)),
        Mode::Apply => {
            // Rules of ours that are not as wanted are an error, unless they may be reconciled.
            let on_drift = if run.reconcile { OnDrift::Replace } else { OnDrift::Refuse };
            let choice = run.backend.choice(Preference::Iptables);
            exit(change::set(run, "istio-iptables", capture, &Options { choice, on_drift, anew: run.force }))
        }
        Mode::Nothing => Exit::Done,
    };
    if done == Exit::Done { validated(call) } else { done }
}

/// Proves by real connections that capture works, where that is asked for.
pub(super) fn validated(call: &Call) -> Exit {
    let Some(what) = validation(call) else { return Exit::Done };
    match engine::validate(&what) {
        Ok(()) => {
            tracing::info!(target: "validation", "capture works");
            Exit::Done
        }
        Err(error) => report::failure(&error, Exit::ValidationFailed),
    }
}

fn exit(done: Result<change::Report, Box<dyn std::error::Error>>) -> Exit {
    match done {
        Ok(report) => report.exit(),
        Err(error) => report::failure(&*error, Exit::Failed),
    }
}

fn validation(call: &Call) -> Option<Validate> {
    let Call { capture, run, .. } = call;
    let what = run.validation?;
    if capture.interception == Interception::None {
        return None;
    }
    Some(Validate {
        listeners: vec![
            capture.outbound_listener.first().number(),
            capture.inbound_listener.first().number(),
        ],
        probe_port: what.probe_port.number(),
        owner: (
            capture.proxy_uids.first().map_or(0, |uid| uid.number()),
            capture.proxy_gids.first().map_or(0, |gid| gid.number()),
        ),
        passthrough: (PASSTHROUGH_V4, capture.ipv6.then_some(PASSTHROUGH_V6)),
        timeout: what.timeout,
    })
}
