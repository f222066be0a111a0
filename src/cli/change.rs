//! Commands that change the namespace: `apply`, `clean`, and the change that the drop-in makes.

use super::run::{BackendChoice, Call, Format, Mode, Preview, Run};
use super::{
    Exit, report,
    target::{self, Target, Usual},
};
use policy::istio::{self, CaptureConfig, DnsCapture};
use rules::{Family, State};
use serde::Serialize;
use sidecar_init::{
    backend::{Backend, Error, Kernel, Step, Variant, iptables::Lock, nftables::bytecode},
    operations::{self, Aftermath, Differences, Failure, StaleFlows, Wanted},
    sys::{self, namespace},
};
use std::{
    error,
    path::PathBuf,
    time::{Duration, Instant},
};

/// How often a change is planned anew when another program changes the rules at the same time.
const TRIES: u32 = 5;

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    /// The namespace is the machine's own.
    #[error(
        "this is the machine's own network namespace: capturing here would catch the traffic of everything that \
         runs on it; name the pod's with --network-namespace, or insist with --allow-host-namespace"
    )]
    Host,
    /// Tables exist that can't be read, so nobody knows whether they hold rules of ours.
    #[error(
        "tables of iptables are there and its programs are not on PATH to read them, so rules of ours may be left; \
         install iptables and clean again"
    )]
    Unreadable,
    /// The rules are not as wanted, and nobody allowed to replace them.
    #[error(
        "rules of ours are there and not as wanted; run with --reconcile to replace them. The difference:\n{0}"
    )]
    Drift(Differences),
}

/// `sidecar-init apply`.
pub(super) fn apply(call: &Call) -> Exit {
    let Call { capture, run, .. } = call;
    if let Mode::Preview(form) = run.mode {
        let native = run.backend == BackendChoice::Any && form == Preview::Restore;
        return super::istio_iptables::print(capture, if native { Preview::Nft } else { form });
    }
    let done = match namespace::is_host() && !run.allow_host {
        true => Err(Refused::Host.into()),
        false => change(run, Some(capture), Usual::Native),
    };
    told(run, done)
}

/// `sidecar-init clean`.
pub(super) fn clean(run: &Run) -> Exit {
    told(run, change(run, None, Usual::Native))
}

fn told(run: &Run, done: Result<Summary, Box<dyn error::Error>>) -> Exit {
    match done {
        Ok(summary) => match run.format {
            Format::Text => Exit::Done,
            Format::Json => report::json(&summary),
        },
        Err(error) => report::failure(&*error, Exit::Failed),
    }
}

/// What a change did, for the log and for programs.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    variant: String,
    families: Vec<&'static str>,
    rules: usize,
    changed: bool,
    steps: Vec<String>,
    forgotten_flows: usize,
    milliseconds: f64,
}

/// Brings the namespace to what `capture` asks for, or, without it, to nothing of ours. The drop-in (for which
/// iptables is usual) fails on rules of ours that are not as wanted, unless it may reconcile them or they are
/// merely unfinished.
pub(super) fn change(
    run: &Run,
    capture: Option<&CaptureConfig>,
    usual: Usual,
) -> Result<Summary, Box<dyn error::Error>> {
    let start = Instant::now();
    // Two runs at once would each add what both found missing.
    let _alone = sys::lock::hold(Duration::from_secs(run.lock_wait.into()))?;
    let mut kernel = Kernel::open(lock(run), istio::OWNERSHIP)?;
    let Committed { target, wanted, steps } = commit(&mut kernel, run, capture, usual)?;
    let forgotten_flows = match capture.and_then(stale_flows) {
        Some(stale) => operations::forget_stale_flows(&stale).unwrap_or_else(|error| {
            tracing::warn!(target: "conntrack", %error, "flows from before the rules may pass them by");
            0
        }),
        None => 0,
    };
    let summary = Summary {
        variant: target.name(),
        families: capture.into_iter().flat_map(CaptureConfig::families).map(name).collect(),
        rules: wanted.tables.values().map(|state: &State| state.count_of(&wanted.owner)).sum::<usize>()
            + wanted.native.as_ref().map_or(0, bytecode::Table::rules),
        changed: !steps.is_empty(),
        steps,
        forgotten_flows,
        milliseconds: start.elapsed().as_secs_f64() * 1e3,
    };
    let done = if capture.is_some() { "rules are in place" } else { "nothing of ours is left" };
    tracing::info!(
        target: "iptables",
        variant = summary.variant,
        families = summary.families.join(","),
        rules = summary.rules,
        changed = summary.changed,
        milliseconds = (summary.milliseconds * 1e3).round() / 1e3,
        "{done}"
    );
    Ok(summary)
}

fn name(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

/// What was committed.
struct Committed {
    target: Target,
    wanted: Wanted,
    steps: Vec<String>,
}

/// Commits what is needed and says what that was. Starts again when somebody else's change came between.
fn commit(
    kernel: &mut Kernel,
    run: &Run,
    capture: Option<&CaptureConfig>,
    usual: Usual,
) -> Result<Committed, Box<dyn error::Error>> {
    let mut tries = TRIES;
    loop {
        let before = kernel.read()?;
        let target = target::choose(run, usual, &before, kernel);
        let wanted = capture
            .map(|capture| target::wanted(capture, target))
            .unwrap_or_else(|| Wanted::nothing(istio::OWNERSHIP));
        if capture.is_none() && !before.unreadable.is_empty() {
            return Err(Refused::Unreadable.into());
        }
        if usual == Usual::Iptables && capture.is_some() && !run.reconcile && !run.force {
            let differences = operations::compare(&before, &wanted, target.variant());
            if !differences.is_empty() && !differences.unfinished {
                return Err(Refused::Drift(differences).into());
            }
        }
        tries -= 1;
        match operations::apply(kernel, &before, &wanted, target.variant(), run.force) {
            Ok(applied) => {
                // Nobody needs the empty tables that the last rule of iptables (nft) leaves behind.
                let left = |step: &Step| matches!(step, Step::Tables { variant: Variant::Nft, .. });
                if wanted.tables.is_empty() && applied.steps.iter().any(left) {
                    kernel.remove_empty_iptables_tables()?;
                }
                let steps = applied.steps.iter().map(ToString::to_string).collect();
                return Ok(Committed { target, wanted, steps });
            }
            Err(failure) if tries > 0 && came_between(&failure) => {
                tracing::debug!(target: "iptables", %failure, "somebody else changed rules; again");
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// Whether a step failed because another program changed rules at the same time.
fn came_between(failure: &Failure) -> bool {
    matches!(failure.aftermath, Aftermath::RolledBack) && matches!(&failure.source, Error::Conflict { .. })
}

/// Flows that the rules capture and that conntrack may know from before.
fn stale_flows(config: &CaptureConfig) -> Option<StaleFlows> {
    let destinations = match &config.dns {
        DnsCapture::Off => return None,
        DnsCapture::All => None,
        DnsCapture::Servers(servers) => Some(servers.iter().copied().collect()),
    };
    Some(StaleFlows {
        port: istio::defaults::DNS_PORT.number(),
        destinations,
        except_zone: istio::AGENT_ZONE.number(),
        ipv6: config.ipv6,
    })
}

/// How to lock.
pub(super) fn lock(run: &Run) -> Lock {
    // On a node all pods share the file system, and with it the lock that each would wait for. We hold the
    // namespace's own, so the program may lock whatever is its alone: its standard input.
    let own = || PathBuf::from("/proc/self/fd/0");
    Lock { wait: run.lock_wait, file: run.cni.then(own), version: run.iptables_version }
}
