//! Commands that change the namespace: `apply`, `clean`, and the change that the drop-in makes.

use super::{Exit, report};
use crate::{
    backend::{Backend, Error, Kernel, Snapshot, Step, Variant, iptables::Lock, nftables::Image},
    capture,
    config::{CaptureConfig, DnsCapture, Format, Mode, Resolved, Run, VariantChoice},
    operations::{self, Aftermath, Differences, Failure, StaleFlows, Wanted},
    sys::{namespace, route},
};
use rules::{Family, State};
use serde::Serialize;
use std::{error, path::PathBuf, time::Instant};

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
    /// The rules are not as wanted, and nobody allowed to replace them.
    #[error(
        "rules of ours are there and not as wanted; run with --reconcile to replace them. The difference:\n{0}"
    )]
    Drift(Differences),
}

/// What to do with rules of ours that are not as wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDrift {
    /// Replace them.
    Repair,
    /// Fail, unless they are merely unfinished.
    Refuse,
}

/// `sidecar-init apply`.
pub(super) fn apply(resolved: &Resolved) -> Exit {
    let Resolved { capture, run, .. } = resolved;
    if let Mode::Preview(form) = run.mode {
        return super::istio_iptables::print(capture, form);
    }
    let done = match namespace::is_host() && !run.allow_host {
        true => Err(Refused::Host.into()),
        false => change(run, Some(capture), OnDrift::Repair),
    };
    told(run, done)
}

/// `sidecar-init clean`.
pub(super) fn clean(run: &Run) -> Exit {
    told(run, change(run, None, OnDrift::Repair))
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

/// Brings the namespace to what `capture` asks for, or, without it, to nothing of ours.
pub(super) fn change(
    run: &Run,
    capture: Option<&CaptureConfig>,
    on_drift: OnDrift,
) -> Result<Summary, Box<dyn error::Error>> {
    let start = Instant::now();
    let wanted = capture.map(|capture| wanted(capture, run.native)).unwrap_or_default();
    let mut kernel = Kernel::open(lock(run))?;
    let (variant, steps) = commit(&mut kernel, run, &wanted, on_drift)?;
    let forgotten_flows = match capture.and_then(stale_flows) {
        Some(stale) => operations::forget_stale_flows(&stale).unwrap_or_else(|error| {
            tracing::warn!(target: "conntrack", %error, "flows from before the rules may pass them by");
            0
        }),
        None => 0,
    };
    let summary = Summary {
        variant: if wanted.native.is_some() { "native".to_owned() } else { variant.to_string() },
        families: capture.into_iter().flat_map(CaptureConfig::families).map(name).collect(),
        rules: wanted.tables.values().map(State::count_ours).sum::<usize>()
            + wanted.native.as_ref().map_or(0, Image::rules),
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

/// Commits what is needed and says what that was. Starts again when somebody else's change came between.
fn commit(
    kernel: &mut Kernel,
    run: &Run,
    wanted: &Wanted,
    on_drift: OnDrift,
) -> Result<(Variant, Vec<String>), Box<dyn error::Error>> {
    let mut tries = TRIES;
    loop {
        let before = kernel.read()?;
        let variant = if wanted.native.is_some() { Variant::Nft } else { choose(run, &before, kernel) };
        if on_drift == OnDrift::Refuse && !run.force {
            let differences = operations::compare(&before, wanted, variant);
            if !differences.is_empty() && !differences.unfinished {
                return Err(Refused::Drift(differences).into());
            }
        }
        tries -= 1;
        match operations::apply(kernel, &before, wanted, variant, run.force) {
            Ok(applied) => {
                // Nobody needs the empty tables that the last rule of iptables (nft) leaves behind.
                let left = |step: &Step| matches!(step, Step::Tables { variant: Variant::Nft, .. });
                if wanted.tables.is_empty() && applied.steps.iter().any(left) {
                    kernel.remove_empty_iptables_tables()?;
                }
                return Ok((variant, applied.steps.iter().map(ToString::to_string).collect()));
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

/// Which variant of iptables to work with.
pub(super) fn choose(run: &Run, snapshot: &Snapshot, kernel: &Kernel) -> Variant {
    let forced = run.variant.map(|choice| match choice {
        VariantChoice::Legacy => Variant::Legacy,
        VariantChoice::Nft => Variant::Nft,
    });
    operations::choose(snapshot, forced, || kernel.programs(Variant::Nft).is_some())
}

/// What a configuration wants of the namespace, as iptables rules or as our own table of nf_tables.
pub(super) fn wanted(config: &CaptureConfig, native: bool) -> Wanted {
    let rules = |family| State::of(capture::rules(config, family).rules());
    let routing = capture::routing(config);
    let mut routes: Vec<route::Object> = Vec::new();
    if let Some(capture::PolicyRoute { mark, table }) = routing.transparent {
        let families = [Some(route::Family::V4), routing.transparent_ipv6.then_some(route::Family::V6)];
        for family in families.into_iter().flatten() {
            let (mark, table) = (mark.value, table.number());
            routes.push(route::Object::Rule { family, mark, table });
            routes.push(route::Object::Route { family, table });
        }
    }
    routes.extend(routing.passthrough_ipv6.then_some(route::Object::Address));
    if config.ipv6 && namespace::lacks_ipv6("lo") {
        // Where no packet of IPv6 can pass, its rules do no harm and its routes are not missed.
        tracing::warn!(target: "config", "IPv6 is disabled on lo: rules are set for it, addresses and routes are not");
        routes.retain(|object| object.family() == route::Family::V4);
    }
    Wanted {
        tables: config.families().filter(|_| !native).map(|family| (family, rules(family))).collect(),
        routes: routes.into_iter().collect(),
        native: native.then(|| capture::nft_table(config)).flatten().as_ref().map(Image::of),
    }
}

/// Flows that the rules capture and that conntrack may know from before.
fn stale_flows(config: &CaptureConfig) -> Option<StaleFlows> {
    let destinations = match &config.dns {
        DnsCapture::Off => return None,
        DnsCapture::All => None,
        DnsCapture::Servers(servers) => Some(servers.iter().copied().collect()),
    };
    Some(StaleFlows {
        port: capture::DNS_PORT.number(),
        destinations,
        except_zone: capture::AGENT_ZONE.number(),
        ipv6: config.ipv6,
    })
}

/// How to lock.
pub(super) fn lock(run: &Run) -> Lock {
    // On a node all pods share the file system, and with it the lock that each would wait for. The
    // namespace's own file serves as a lock that only its users share.
    let own = || run.namespace.clone().unwrap_or_else(|| PathBuf::from("/proc/thread-self/ns/net"));
    Lock { wait: run.lock_wait, file: run.cni.then(own), version: run.iptables_version }
}
