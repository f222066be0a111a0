//! `sidecar-init verify` compares real connections with flags or rules; `--run-validation` tests capture with such connections.

mod summary;

#[cfg(test)]
pub(in crate::cli) use summary::VerifyReport;

use super::manifest::{self, NotedSettings, Subject};
use super::report::{self, Format};
use super::run::{self, ResolvedCall, Run};
use super::{Exit, RunResult, host::System, live::from_kernel, logging::Stdout};
use diagnose::explain::{PodContext, explain};
use diagnose::probe::{self, ProbeContext, Route};
use diagnose::{Basis, live_proxy};
use mesh::{CapturePolicy, OWNERS, Proxy, sources::Dialect};
use rules::simulate::{LOOPBACK, Verdict};
use rules::{Family, Gid, Uid};
use sidecar_init::engine::{
    self, ConnectionOutcome, DeliveryPorts, NoResult, Outcomes, Probe, ProbeEvidence, ProbeObservation,
    ProbeTrial,
};
use sidecar_init::sys::{address, dial, link, namespace, route_lookup};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use std::{error::Error, io, slice, thread};

/// Conntrack zones: the default one, and the zones in the policy's DNS rules.
const ZONES: [u16; 3] = [0, 1, 2];
const RETRY: Duration = Duration::from_secs(1);
/// Minimum time for an attempt; a shorter one proves only that no answer has come yet.
const MIN_ATTEMPT: Duration = Duration::from_millis(500);

struct JudgedCall {
    call: probe::Call,
    judgement: Judgement,
    now: Option<String>,
}

pub(super) fn run(subjects: &[Subject]) -> RunResult {
    let subject = manifest::only(subjects)?;
    if let Some(basis) = subject.described() {
        return by_settings(subject, &basis);
    }
    match manifest::settings(subject)? {
        NotedSettings::Found(noted, basis) => by_settings(&noted, &basis),
        NotedSettings::Unknown(_) | NotedSettings::NoRules => by_rules(subject),
    }
}

fn by_settings(subject: &Subject, basis: &Basis) -> RunResult {
    let call = run::resolve(&subject.raw, &System::of(&subject.raw), subject.before.clone())?;
    manifest::begin(slice::from_ref(subject), &call.run, [&call.warnings], Stdout::Answer)?;
    let ResolvedCall { capture, run, .. } = &call;
    let pod = pod(Some(&**capture))?;
    let calls = probe::calls(&**capture, &facts(run, &pod, subject.dialect()));
    let mut tried = attempt(calls, &capture.proxy(), run.probe_timeout)?;
    let is_wrong = tried.iter().any(|one| one.judgement.is_wrong());
    if is_wrong {
        look_at_rules(run, &pod, &mut tried);
    }
    let differs = is_wrong && run.format == Format::Text && rules_differ(&call);
    print(run.format, basis, &tried, differs)
}

/// Tries calls that prove capture. Failed calls are repeated until the time limit: another program may be about to set rules.
fn proofs(ResolvedCall { capture, run, .. }: &ResolvedCall) -> io::Result<Vec<JudgedCall>> {
    let pod = pod(Some(&**capture))?;
    let mut calls = probe::proofs(&**capture, &facts(run, &pod, Dialect::default()));
    let (end, mut settled) = (Instant::now() + run.probe_timeout, Vec::new());
    while !calls.is_empty() {
        let start = Instant::now();
        let limit = RETRY.min(end.saturating_duration_since(start));
        let tried = attempt(calls, &capture.proxy(), limit)?;
        let (wrong, others): (Vec<_>, Vec<_>) = tried.into_iter().partition(|one| one.judgement.is_wrong());
        settled.extend(others);
        let Some(pause) = pause(start.elapsed(), end.saturating_duration_since(Instant::now())) else {
            settled.extend(wrong);
            break;
        };
        if !wrong.is_empty() {
            thread::sleep(pause);
        }
        calls = wrong.into_iter().map(|one| one.call).collect();
    }
    Ok(settled)
}

fn by_rules(subject: &Subject) -> RunResult {
    let (run, ()) = run::begin(&subject.raw, subject.before.clone(), run::ANSWER, |_| ())?;
    let pod = pod(None)?;
    let rule_views = from_kernel(&run, &pod).map_err(io::Error::other)?;
    let proxy = live_proxy(rule_views.iter().map(|rule_view| &rule_view.view));
    let pod = pod.with_proxy(&proxy);
    let calls = probe::calls_by_rules(&rule_views, &facts(&run, &pod, Dialect::default()));
    let tried = match calls.is_empty() {
        true => Vec::new(),
        false => attempt(calls, &proxy, run.probe_timeout)?,
    };
    print(run.format, &Basis::Rules { namespace: subject.namespace() }, &tried, false)
}

fn print(format: Format, basis: &Basis, tried: &[JudgedCall], differs: bool) -> RunResult {
    let answer = summary::VerifyReport::new(basis, tried);
    report::answer(format, &answer, || summary::text(basis, tried, differs))?;
    Ok(exit(tried))
}

/// Returns 3 if a connection had an unexpected outcome, and 1 if nothing is captured or testable.
fn exit(tried: &[JudgedCall]) -> Exit {
    let any = |is: fn(&Judgement) -> bool| tried.iter().any(|one| is(&one.judgement));
    match (any(Judgement::is_wrong), any(Judgement::is_right)) {
        (true, _) => Exit::Drift,
        (false, true) => Exit::Done,
        (false, false) => Exit::Failed,
    }
}

/// The pod with its real addresses: declared addresses could belong to another host.
fn pod(config: Option<&dyn CapturePolicy>) -> io::Result<PodContext> {
    // The proxy's source address for calls to the application is not a destination.
    let passthrough = match config {
        Some(config) => config.proxy().passthrough(Family::V6).into_iter().collect(),
        None => OWNERS.iter().filter_map(|owner| owner.address.map(IpAddr::V6)).collect::<Vec<_>>(),
    };
    let addresses = address::all()?.into_iter().filter(|own| !passthrough.contains(own));
    Ok(PodContext::new(addresses, config))
}

fn facts(run: &Run, pod: &PodContext, dialect: Dialect) -> ProbeContext<'static> {
    let (uid, gid) = dial::owner();
    let own = Uid::new(uid).zip(Gid::new(gid)).expect("no process has the number -1 (setresuid(2))");
    ProbeContext {
        pod: pod.clone(),
        own,
        port: run.probe_port,
        route: &|to| {
            let route = route_lookup::to(to).ok()?;
            Some(Route { source: route.source, ..Route::by(route.interface) })
        },
        dialect,
    }
}

fn attempt(calls: Vec<probe::Call>, proxy: &Proxy, timeout: Duration) -> io::Result<Vec<JudgedCall>> {
    let trial = |call: &probe::Call| ProbeTrial {
        protocol: call.protocol,
        owner: (call.owner.0.number(), call.owner.1.number()),
        from: call.from,
        to: call.to,
        patient: call.is_captured(),
    };
    let (trials, listeners) = (calls.iter().map(trial).collect(), listeners(&calls, proxy));
    let what = Probe { trials, listeners, zones: ZONES.to_vec(), timeout };
    let Outcomes { each, conntrack_readable } = engine::probe(&what)?;
    let lo_is_down = link::is_down(LOOPBACK);
    let tried = calls.into_iter().zip(each).map(|(call, outcome)| {
        let judgement = match lo_is_down && call.is_within_pod() {
            true => Judgement::NoResult("lo is down: ip link set lo up".to_owned()),
            false => judge(&call, outcome, conntrack_readable),
        };
        JudgedCall { call, judgement, now: None }
    });
    Ok(tried.collect())
}

fn listeners(calls: &[probe::Call], proxy: &Proxy) -> Vec<DeliveryPorts> {
    // User and group of a listening proxy; this process's own if the rules identify the proxy by neither.
    let (uid, gid) = dial::owner();
    let (uids, gids) = (proxy.uids.first(), proxy.gids.first());
    let owner = (uids.map_or(uid, |uid| uid.number()), gids.map_or(gid, |gid| gid.number()));
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
            None => found.push(DeliveryPorts { protocol: call.protocol, ports, transparent, owner }),
        }
    }
    found
}

fn look_at_rules(run: &Run, pod: &PodContext, tried: &mut [JudgedCall]) {
    let rule_views = match from_kernel(run, pod) {
        Ok(rule_views) => rule_views,
        Err(error) => {
            tracing::info!(target: "validation", "the existing rules can't be read: {error}");
            return;
        }
    };
    for one in tried.iter_mut().filter(|one| one.judgement.is_wrong()) {
        let packet = &one.call.packet;
        if let Some(rule_view) = rule_views.iter().find(|rule_view| rule_view.family == packet.family()) {
            one.now = Some(explain(&rule_view.view, &rule_view.routing, packet).sentence());
        }
    }
}

fn rules_differ(call: &ResolvedCall) -> bool {
    let compared = call.run.session(call.capture.owner()).map_err(engine::EngineError::from);
    let compared = compared.and_then(|mut session| session.check(&call.capture.desired()));
    compared.is_ok_and(|compared| !compared.differences.is_empty())
}

/// `--run-validation`: proves by real connections that capture works.
pub(super) fn validated(call: &ResolvedCall) -> RunResult {
    if !call.run.validates || call.capture.facts().captures_nothing {
        return Ok(Exit::Done);
    }
    let tried = proofs(call)?;
    let mut untried = None;
    for one in &tried {
        match &one.judgement {
            Judgement::Right(_) => {}
            Judgement::NoResult(why) => {
                tracing::warn!(target: "validation", "{} is not tried: {why}", one.call.to);
                untried = Some(why.clone());
            }
            Judgement::Wrong(seen) => {
                let text = format!(
                    "the call to {} {} within {:?}, instead of being {}; traffic of this pod is not captured. Where a CNI \
                     plugin sets the rules, the pod may have started before the node was ready: delete the pod",
                    one.call.to,
                    summary::outcome(seen).3,
                    call.run.probe_timeout,
                    summary::expected(&one.call)
                );
                return Ok(report::failure(&*Box::<dyn Error>::from(text), Exit::ValidationFailed));
            }
        }
    }
    match (exit(&tried), untried) {
        (Exit::Failed, Some(why)) => {
            return Err(format!("capture can't be tried: {why}").into());
        }
        (Exit::Failed, None) => {
            tracing::warn!(target: "validation", "nothing to prove from inside the pod with these flags");
        }
        _ => tracing::info!(target: "validation", "capture works"),
    }
    Ok(Exit::Done)
}

/// Time to wait after an attempt that took `taken`, with `left` until the end; `None` if too little remains for another.
fn pause(taken: Duration, left: Duration) -> Option<Duration> {
    let longest = left.checked_sub(MIN_ATTEMPT)?;
    Some(RETRY.saturating_sub(taken).min(longest))
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Judgement {
    Right(ProbeObservation),
    Wrong(ProbeObservation),
    NoResult(String),
}

impl Judgement {
    fn is_right(&self) -> bool {
        matches!(self, Self::Right(_))
    }

    fn is_wrong(&self) -> bool {
        matches!(self, Self::Wrong(_))
    }
}

fn judge(call: &probe::Call, outcome: Result<ProbeObservation, NoResult>, has_conntrack: bool) -> Judgement {
    let seen = match outcome {
        Ok(_) if call.expected == Verdict::Unknown => {
            return Judgement::NoResult(format!("the expected verdict is unknown: {}", call.because));
        }
        Ok(seen) => seen,
        Err(NoResult::NoRoute(_)) if call.is_within_pod() => {
            if call.to.is_ipv6() && namespace::lacks_ipv6("lo") {
                return Judgement::NoResult("IPv6 is disabled".to_owned());
            }
            let end = ConnectionOutcome::NoAddress(call.to.ip());
            ProbeObservation { end, proof: ProbeEvidence::Answer, original: None }
        }
        Err(untried) => return Judgement::NoResult(untried.to_string()),
    };
    let seen = match (call.expected, seen.end) {
        // A TPROXY listener may have the destination's own port, so uncaptured connections arrive there too.
        (Verdict::Pass, ConnectionOutcome::Handed(Some(port))) if port == call.to.port() => {
            ProbeObservation { end: ConnectionOutcome::Passed, ..seen }
        }
        _ => seen,
    };
    let unknown = |what: &str| Judgement::NoResult(what.to_owned());
    let right = match (call.expected, seen.end) {
        (Verdict::Redirect(ports), ConnectionOutcome::Redirected(there)) => {
            ports.contains(there.port()) && seen.original.is_none_or(|original| original == call.to)
        }
        (Verdict::Tproxy(port), ConnectionOutcome::Handed(there)) => {
            there.is_none_or(|there| there == port.number())
        }
        (Verdict::Redirect(_) | Verdict::Tproxy(_), ConnectionOutcome::Accepted) => true,
        (Verdict::Tproxy(_), ConnectionOutcome::Silent | ConnectionOutcome::Nowhere) if !has_conntrack => {
            return unknown("a transparent listener requires CAP_NET_ADMIN or CAP_NET_RAW");
        }
        (Verdict::Pass, ConnectionOutcome::Passed) => true,
        // No rule rewrote the call: a listener would have received it.
        (Verdict::Pass, ConnectionOutcome::Silent) => true,
        (Verdict::Pass, ConnectionOutcome::Refused) if !has_conntrack => {
            let why = "it was refused, and only conntrack shows by which listener; CAP_NET_ADMIN is required";
            return unknown(why);
        }
        (Verdict::Drop, ConnectionOutcome::Nowhere | ConnectionOutcome::Refused) => true,
        _ => false,
    };
    if right { Judgement::Right(seen) } else { Judgement::Wrong(seen) }
}

/// Word for a proof in documents, and its description in text; a token has none.
fn words(proof: ProbeEvidence) -> (&'static str, Option<&'static str>) {
    match proof {
        ProbeEvidence::Token => ("token", None),
        ProbeEvidence::Conntrack => ("conntrack", Some("conntrack")),
        ProbeEvidence::Answer => ("answer", Some("an unknown listener answered")),
        ProbeEvidence::Silence => ("silence", Some("it reached no listener")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_attempt_has_time_for_an_answer() {
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
