//! Commands that change the namespace: `apply`, `clean`, and the change that the drop-in makes.

use super::run::{Call, Format, Mode, Preview, Run};
use super::{Exit, report};
use policy::istio::{self, CaptureConfig};
use rules::Family;
use serde::Serialize;
use sidecar_init::{
    backend::{self, Kernel, iptables::Lock},
    engine::{self, Choice, OnDrift, Options, Preference, Summary},
    sys::namespace,
};
use std::{error, path::PathBuf, time::Instant};

/// The namespace is the machine's own.
#[derive(Debug, thiserror::Error)]
#[error(
    "this is the machine's own network namespace: capturing here would catch the traffic of everything that runs on \
     it; name the pod's with --network-namespace, or insist with --allow-host-namespace"
)]
struct Host;

/// `sidecar-init apply`.
pub(super) fn apply(call: &Call) -> Exit {
    let Call { capture, run, .. } = call;
    let choice = run.backend.choice(Preference::Nftables);
    if let Mode::Preview(form) = run.mode {
        let nftables = choice == Choice::InUse(Preference::Nftables) && form == Preview::Restore;
        return super::istio_iptables::print(capture, if nftables { Preview::Nft } else { form });
    }
    let done = match namespace::is_host() && !run.allow_host {
        true => Err(Host.into()),
        false => set(run, capture, &Options { choice, on_drift: OnDrift::Replace, anew: run.force }),
    };
    told(run, done)
}

/// `sidecar-init clean`.
pub(super) fn clean(run: &Run) -> Exit {
    told(run, remove(run))
}

fn told(run: &Run, done: Result<Report, Box<dyn error::Error>>) -> Exit {
    match done {
        Ok(report) => match run.format {
            Format::Text => Exit::Done,
            Format::Json => report::json(&report),
        },
        Err(error) => report::failure(&*error, Exit::Failed),
    }
}

/// Brings the namespace to what `capture` asks for.
pub(super) fn set(
    run: &Run,
    capture: &CaptureConfig,
    options: &Options,
) -> Result<Report, Box<dyn error::Error>> {
    let start = Instant::now();
    let summary = engine::apply(&mut open(run)?, &istio::desired(capture), options)?;
    Ok(Report::new(&summary, start).logged("rules are in place"))
}

/// Removes all that is ours.
pub(super) fn remove(run: &Run) -> Result<Report, Box<dyn error::Error>> {
    let start = Instant::now();
    let summary = engine::clean(&mut open(run)?, istio::OWNERSHIP)?;
    Ok(Report::new(&summary, start).logged("nothing of ours is left"))
}

/// The namespace that we are in.
pub(super) fn open(run: &Run) -> Result<Kernel, backend::Error> {
    // On a node all pods share the file system, and with it the lock that each would wait for. We hold the
    // namespace's own, so the program may lock whatever is its alone: its standard input.
    let own = || PathBuf::from("/proc/self/fd/0");
    let lock = Lock { wait: run.lock_wait, file: run.cni.then(own), version: run.iptables_version };
    Kernel::open(lock, istio::OWNERSHIP)
}

/// What a change did, for the log and for programs.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    backend: Option<String>,
    families: Vec<&'static str>,
    rules: usize,
    changed: bool,
    steps: Vec<String>,
    forgotten_flows: usize,
    milliseconds: f64,
}

impl Report {
    fn new(summary: &Summary, start: Instant) -> Self {
        Self {
            backend: summary.backend.map(|backend| backend.to_string()),
            families: summary.families.iter().copied().map(name).collect(),
            rules: summary.rules,
            changed: !summary.steps.is_empty(),
            steps: summary.steps.iter().map(ToString::to_string).collect(),
            forgotten_flows: summary.forgotten_flows,
            milliseconds: start.elapsed().as_secs_f64() * 1e3,
        }
    }

    fn logged(self, done: &str) -> Self {
        tracing::info!(
            target: "iptables",
            backend = self.backend.as_deref().unwrap_or("none"),
            families = self.families.join(","),
            rules = self.rules,
            changed = self.changed,
            milliseconds = (self.milliseconds * 1e3).round() / 1e3,
            "{done}"
        );
        self
    }
}

/// The family in JSON and in logs.
pub(super) fn name(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}
