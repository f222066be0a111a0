//! `sidecar-init probe` compares real connections with what flags or rules expect, and `--run-validation` uses it to prove
//! that capture works.

mod judgement;
mod summary;

#[cfg(test)]
pub(in crate::cli) use summary::ProbeReport;

use super::manifest::{self, Subject};
use super::noted::{self, NotedSettings};
use super::rule_views::from_kernel;
use super::run::{self, Format, ResolvedCall, Run};
use super::{Exit, host::System, logging::Stdout, report};
use diagnose::explain::PodContext;
use diagnose::probe::{self, ProbeContext, Route};
use diagnose::{Basis, status};
use judgement::{Judgement, judge};
use mesh::Problems;
use mesh::sources::Dialect;
use mesh::{CapturePolicy, OWNERS, Proxy};
use rules::simulate::Verdict;
use rules::{Family, Gid, Protocol, Uid};
use sidecar_init::{
    engine::{self, DeliveryPorts, Outcomes, Probe, ProbeTrial},
    sys::{address, dial, route_lookup},
};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    slice, thread,
    time::{Duration, Instant},
};

/// The zones of conntrack: the default one, and those of the policy's rules for DNS.
const ZONES: [u16; 3] = [0, 1, 2];
/// How often a validation tries again.
const RETRY: Duration = Duration::from_secs(1);
/// An attempt with less time than this shows nothing but that no answer has come yet.
const MIN_ATTEMPT: Duration = Duration::from_millis(500);

struct JudgedCall {
    call: probe::Call,
    judgement: Judgement,
    /// Why the rules that are there do otherwise, where that is known.
    now: Option<String>,
}

pub(super) fn run(subjects: &[Subject]) -> Result<Exit, Problems> {
    let subject = manifest::only(subjects)?;
    if let Some(basis) = subject.described() {
        return by_settings(subject, &basis);
    }
    match noted::settings(subject)? {
        Ok(NotedSettings::Found(noted, basis)) => by_settings(&noted, &basis),
        Ok(NotedSettings::Unknown(_) | NotedSettings::NoRules) => by_rules(subject),
        Err(exit) => Ok(exit),
    }
}

/// Probes by the rules of a configuration.
fn by_settings(subject: &Subject, basis: &Basis) -> Result<Exit, Problems> {
    let call = run::resolve(&subject.raw, &System::of(&subject.raw), subject.before.clone())?;
    manifest::begin(slice::from_ref(subject), &call.logging, [&call.warnings], Stdout::Answer)?;
    let tried = || {
        let pod = pod(Some(&*call.capture))?;
        let calls = probe::calls(&*call.capture, &facts(&call.run, &pod, subject.dialect()));
        let tried = attempt(listeners(&*call.capture), calls, call.run.validation.timeout)?;
        Ok((pod, tried))
    };
    let (pod, mut tried) = match tried() {
        Ok(tried) => tried,
        Err(error) => return Ok(failed(&error)),
    };
    let mut differences = None;
    if tried.iter().any(|one| one.judgement.is_wrong()) {
        look_at_rules(&call.run, &pod, &mut tried);
        if call.run.format == Format::Text {
            differences = compare(&call);
        }
    }
    Ok(print(call.run.format, basis, &tried, differences.as_deref()))
}

/// Probes by the existing rules, whose settings are not known.
fn by_rules(subject: &Subject) -> Result<Exit, Problems> {
    let (run, logging) = run::resolve_run(&subject.raw, subject.before.clone())?;
    manifest::begin(slice::from_ref(subject), &logging, [], Stdout::Answer)?;
    let tried = || {
        let pod = pod(None)?;
        let rule_views = from_kernel(&run, &pod).map_err(io::Error::other)?;
        let proxies = rule_views.iter().map(|rule_view| status::proxy(&rule_view.view));
        let proxy =
            proxies.reduce(|one, other| if one.uids.is_empty() { other } else { one }).unwrap_or_default();
        let pod = pod.with_proxy(&proxy);
        let calls = probe::calls_by_rules(&rule_views, &facts(&run, &pod, Dialect::default()));
        match calls.is_empty() {
            true => Ok(Vec::new()),
            false => attempt(listeners_of(&calls, &proxy), calls, run.validation.timeout),
        }
    };
    let basis = Basis::Rules { namespace: subject.namespace() };
    Ok(match tried() {
        Ok(tried) => print(run.format, &basis, &tried, None),
        Err(error) => failed(&error),
    })
}

fn failed(error: &io::Error) -> Exit {
    report::failure(error, Exit::Failed)
}

fn print(format: Format, basis: &Basis, tried: &[JudgedCall], differences: Option<&str>) -> Exit {
    let printed = match format {
        Format::Text => report::text(&summary::text(basis, tried, differences)),
        Format::Data(encoding) => report::data(encoding, &summary::ProbeReport::new(basis, tried)),
    };
    match printed {
        Exit::Done => exit(basis, tried),
        failed => failed,
    }
}

/// 126 where something is not as expected or nothing is captured, and 1 where nothing could be tried.
fn exit(basis: &Basis, tried: &[JudgedCall]) -> Exit {
    let captures_nothing = tried.is_empty() && matches!(basis, Basis::Rules { .. });
    if captures_nothing || tried.iter().any(|one| one.judgement.is_wrong()) {
        Exit::ValidationFailed
    } else if tried.iter().any(|one| one.judgement.is_right()) {
        Exit::Done
    } else {
        Exit::Failed
    }
}

/// The pod with its real addresses: declared ones could belong to another host.
fn pod(config: Option<&dyn CapturePolicy>) -> io::Result<PodContext> {
    // The address that the proxy calls the application from is not a destination.
    let passthrough = match config {
        Some(config) => config.proxy().passthrough(Family::V6).into_iter().collect(),
        None => OWNERS.iter().filter_map(|owner| owner.address.map(IpAddr::V6)).collect::<Vec<_>>(),
    };
    let addresses = address::all()?.into_iter().filter(|own| !passthrough.contains(own));
    Ok(PodContext::new(addresses, config))
}

/// Facts of the namespace that decide which calls are tried.
fn facts(run: &Run, pod: &PodContext, dialect: Dialect) -> ProbeContext<'static> {
    let (uid, gid) = dial::owner();
    let own = Uid::new(uid).zip(Gid::new(gid)).expect("no process has the number -1 (setresuid(2))");
    ProbeContext {
        pod: pod.clone(),
        own,
        port: run.validation.probe_port,
        route: &|to| {
            let route = route_lookup::to(to).ok()?;
            Some(Route { interface: route.interface, source: route.source })
        },
        dialect,
    }
}

fn attempt(
    listeners: Vec<DeliveryPorts>,
    calls: Vec<probe::Call>,
    timeout: Duration,
) -> io::Result<Vec<JudgedCall>> {
    let trial = |call: &probe::Call| ProbeTrial {
        protocol: call.protocol,
        owner: (call.owner.0.number(), call.owner.1.number()),
        from: call.from,
        to: call.to,
        patient: call.is_captured(),
    };
    let what = Probe { trials: calls.iter().map(trial).collect(), listeners, zones: ZONES.to_vec(), timeout };
    let Outcomes { each, conntrack_readable } = engine::probe(&what)?;
    let tried = calls.into_iter().zip(each).map(|(call, outcome)| {
        let judgement = judge(&call, outcome, conntrack_readable);
        JudgedCall { call, judgement, now: None }
    });
    Ok(tried.collect())
}

/// Where the rules deliver.
fn listeners(config: &dyn CapturePolicy) -> Vec<DeliveryPorts> {
    let proxy = config.proxy();
    let owner = owner(&proxy);
    let listeners = proxy.listeners;
    let of = |protocol, ports, transparent| DeliveryPorts { protocol, ports, transparent, owner };
    let outbound = listeners.outbound.map(|ports| of(Protocol::Tcp, ports, false));
    let inbound = listeners.inbound.map(|ports| of(Protocol::Tcp, ports, listeners.transparent.is_some()));
    let dns = listeners.dns.map(|port| [Protocol::Tcp, Protocol::Udp].map(|by| of(by, port.into(), false)));
    outbound.into_iter().chain(inbound).chain(dns.into_iter().flatten()).collect()
}

/// The same by the existing rules, for the proxy that they identify.
fn listeners_of(calls: &[probe::Call], proxy: &Proxy) -> Vec<DeliveryPorts> {
    let mut found: Vec<DeliveryPorts> = Vec::new();
    for call in calls {
        let (ports, transparent) = match call.expected {
            Verdict::Redirect(ports) => (ports, false),
            Verdict::Tproxy(port) => (port.into(), true),
            Verdict::Pass | Verdict::Drop | Verdict::Unknown => continue,
        };
        let same = |one: &&mut DeliveryPorts| (one.protocol, one.ports) == (call.protocol, ports);
        match found.iter_mut().find(same) {
            Some(one) => one.transparent |= transparent,
            None => {
                found.push(DeliveryPorts {
                    protocol: call.protocol,
                    ports,
                    transparent,
                    owner: owner(proxy),
                });
            }
        }
    }
    found
}

/// The user and group of a listening proxy. One that rules know by neither may have any, so also those of this process.
fn owner(proxy: &Proxy) -> (u32, u32) {
    let (uid, gid) = dial::owner();
    let (uids, gids) = (proxy.uids.first(), proxy.gids.first());
    (uids.map_or(uid, |uid| uid.number()), gids.map_or(gid, |gid| gid.number()))
}

/// Asks the rules that are there about each call that went elsewhere.
fn look_at_rules(run: &Run, pod: &PodContext, tried: &mut [JudgedCall]) {
    let rule_views = match from_kernel(run, pod) {
        Ok(rule_views) => rule_views,
        Err(error) => {
            tracing::info!(target: "validation", "the rules that are there can't be read: {error}");
            return;
        }
    };
    for one in tried.iter_mut().filter(|one| one.judgement.is_wrong()) {
        let packet = &one.call.packet;
        if let Some(rule_view) = rule_views.iter().find(|rule_view| rule_view.family == packet.family()) {
            one.now =
                Some(diagnose::explain::explain(&rule_view.view, &rule_view.routing, packet).sentence());
        }
    }
}

/// How the rules differ from those that the flags make.
fn compare(call: &ResolvedCall) -> Option<String> {
    let compared = call.run.session(call.capture.owner()).ok()?.check(&call.capture.desired()).ok()?;
    Some(compared.differences.to_string()).filter(|text| !text.is_empty())
}

/// Why capture counts as not working.
#[derive(Debug, thiserror::Error)]
enum Unproven {
    #[error("whether capture works can't be tried: {0}")]
    NoResult(String),
    #[error(
        "the call to {destination} {instead} within {timeout:?}, instead of being {expected}; traffic of this pod is not \
         captured. Where a CNI plugin sets the rules, the pod may have started before the node was ready: delete the pod"
    )]
    Elsewhere { destination: SocketAddr, instead: String, expected: String, timeout: Duration },
}

/// `--run-validation`: proves by real connections that capture works. Calls that are not captured are repeated until the time
/// limit, because another program may be about to set the rules.
pub(super) fn validated(call: &ResolvedCall) -> Exit {
    if !call.run.validates || call.capture.captures_nothing() {
        return Exit::Done;
    }
    let timeout = call.run.validation.timeout;
    let end = Instant::now() + timeout;
    let pod = match pod(Some(&*call.capture)) {
        Ok(pod) => pod,
        Err(error) => return failed(&error),
    };
    let mut left = probe::proofs(&*call.capture, &facts(&call.run, &pod, Dialect::default()));
    if left.is_empty() {
        tracing::warn!(target: "validation", "the flags leave nothing to prove from inside of the pod");
        return Exit::Done;
    }
    let (mut proven, mut untried) = (false, None);
    loop {
        let start = Instant::now();
        let tried =
            match attempt(listeners(&*call.capture), left, RETRY.min(end.saturating_duration_since(start))) {
                Ok(tried) => tried,
                Err(error) => return failed(&error),
            };
        let mut wrong = Vec::new();
        for one in tried {
            match &one.judgement {
                Judgement::Right(_) => proven = true,
                Judgement::NoResult(why) => {
                    tracing::warn!(target: "validation", "{} is not tried: {why}", one.call.to);
                    untried = Some(why.clone());
                }
                Judgement::Wrong(_) => wrong.push(one),
            }
        }
        let Some(one) = wrong.first() else { break };
        let Some(pause) = pause(start.elapsed(), end.saturating_duration_since(Instant::now())) else {
            let error = Unproven::Elsewhere {
                destination: one.call.to,
                instead: summary::instead(&one.judgement),
                expected: summary::expected(&one.call),
                timeout,
            };
            return report::failure(&error, Exit::ValidationFailed);
        };
        thread::sleep(pause);
        left = wrong.into_iter().map(|one| one.call).collect();
    }
    match (proven, untried) {
        (false, Some(why)) => report::failure(&Unproven::NoResult(why), Exit::Failed),
        _ => {
            tracing::info!(target: "validation", "capture works");
            Exit::Done
        }
    }
}

/// How long to wait after an attempt that took so long, with so much time left; `None` where that is too little for another.
fn pause(taken: Duration, left: Duration) -> Option<Duration> {
    let longest = left.checked_sub(MIN_ATTEMPT)?;
    Some(RETRY.saturating_sub(taken).min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_attempt_has_time_for_an_answer() {
        let ms = Duration::from_millis;
        for (taken, left, expected) in [
            (300, 4700, Some(700)),
            (1000, 1000, Some(0)),
            (300, 700, Some(200)),
            (300, 499, None),
            (100, 0, None),
        ] {
            assert_eq!(pause(ms(taken), ms(left)), expected.map(ms), "{taken} {left}");
        }
    }
}
