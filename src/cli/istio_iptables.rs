//! The drop-in for `istio-iptables`.

use super::run::{Call, Mode, Preview};
use super::{Exit, change, report};
use policy::istio::defaults::{PASSTHROUGH_V4, PASSTHROUGH_V6};
use policy::istio::{self, CaptureConfig, Interception};
use rules::{Checked, Family, render};
use sidecar_init::{
    engine::{self, OnDrift, Options, Preference, Validate},
    sys::namespace,
};

/// Runs the command.
pub(super) fn run(call: &Call) -> Exit {
    let Call { capture, run, .. } = call;
    if namespace::is_host() && matches!(run.mode, Mode::Apply | Mode::Clean) {
        tracing::warn!(target: "iptables", "this is the machine's own network namespace");
    }
    let done = match run.mode {
        Mode::Preview(form) => return print(capture, form),
        Mode::Clean => return exit(change::remove(run)),
        Mode::Apply => {
            // Rules of ours that are not as wanted are an error, unless they may be reconciled.
            let on_drift = if run.reconcile { OnDrift::Replace } else { OnDrift::Refuse };
            let choice = run.backend.choice(Preference::Iptables);
            exit(change::set(run, capture, &Options { choice, on_drift, anew: run.force }))
        }
        Mode::Nothing => Exit::Done,
    };
    match (done, validation(call)) {
        (Exit::Done, Some(what)) => match engine::validate(&what) {
            Ok(()) => {
                tracing::info!(target: "validation", "capture works");
                Exit::Done
            }
            Err(error) => report::failure(&error, Exit::ValidationFailed),
        },
        (done, _) => done,
    }
}

fn exit<T>(done: Result<T, Box<dyn std::error::Error>>) -> Exit {
    match done {
        Ok(_) => Exit::Done,
        Err(error) => report::failure(&*error, Exit::Failed),
    }
}

/// Prints the rules.
pub(super) fn print(capture: &CaptureConfig, form: Preview) -> Exit {
    let each = |text: fn(&Checked) -> String| -> String {
        capture.families().map(|family| text(&istio::rules(capture, family))).collect()
    };
    report::text(&match form {
        Preview::Restore => each(restore),
        Preview::Commands => each(render::iptables::commands),
        Preview::Nft => {
            let table = istio::desired(capture).nft_table();
            format!("# nft -f\n{}", table.as_ref().map(render::nft::script).unwrap_or_default())
        }
    })
}

fn restore(rules: &Checked) -> String {
    let header = match rules.rules().family {
        Family::V4 => "# iptables-restore\n",
        Family::V6 => "# ip6tables-restore\n",
    };
    format!("{header}{}", render::iptables::restore(rules))
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
