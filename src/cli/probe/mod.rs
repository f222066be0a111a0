//! `sidecar-init probe`: what really becomes of connections, against what the flags say. And what `--run-validation`
//! asks for, by the same means.

mod judgement;
mod told;

#[cfg(test)]
pub(in crate::cli) use told::Report;

use super::manifest::{self, Subject};
use super::run::{self, Call, Format, Run};
use super::{Exit, explain, host::System, logging::Stdout, report};
use judgement::{Judgement, judge};
use policy::explain::Pod;
use policy::mesh::{Mesh, Policy};
use policy::probe::{self, Facts, Way};
use policy::settings::{self, Topic};
use policy::sources::{Dialect, Raw};
use policy::{Problems, Setting};
use rules::{Family, Gid, Protocol, Uid};
use sidecar_init::{
    engine::{self, Choice, Listener, Outcomes, Preference, Probe, Trial},
    sys::{address, dial, way},
};
use std::{
    io,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

/// The zones of conntrack: that of everybody, and those of the policy's rules for DNS.
const ZONES: [u16; 3] = [0, 1, 2];
/// How often a validation tries again.
const RETRY: Duration = Duration::from_secs(1);

/// A call that was tried.
struct Tried {
    call: probe::Call,
    judgement: Judgement,
    /// Why the rules that are there do otherwise, where that can be told.
    now: Option<String>,
}

/// Runs the command.
pub(super) fn run(subjects: &[Subject]) -> Result<Exit, Problems> {
    let subject = manifest::only(subjects)?;
    let call = run::resolve(&subject.raw, &System, subject.before.clone())?;
    manifest::begin(subjects, &call.logging, [&call.warnings], Stdout::Answer)?;
    let says = subject.title.is_some() || says_what_to_capture(&subject.raw);
    let facts = match facts(&call, subject.dialect()) {
        Ok(facts) => facts,
        Err(error) => return Ok(report::failure(&error, Exit::Failed)),
    };
    let calls = if says { probe::calls } else { probe::proofs };
    let calls = calls(&*call.capture, &facts);
    let mut tried = match attempt(&*call.capture, calls, call.run.validation.timeout) {
        Ok(tried) => tried,
        Err(error) => return Ok(report::failure(&error, Exit::Failed)),
    };
    let mut differences = None;
    if tried.iter().any(|one| one.judgement.is_wrong()) {
        look_at_rules(&call.run, &facts.pod, &mut tried);
        if says && call.run.format == Format::Text {
            differences = compare(&call);
        }
    }
    let printed = match call.run.format {
        Format::Text => report::text(&told::text(&tried, says, differences.as_deref())),
        Format::Data(encoding) => report::data(encoding, &told::Report::new(&tried)),
    };
    Ok(match printed {
        Exit::Done => exit(&tried),
        failed => failed,
    })
}

/// 126 where something is not as the flags say, and 1 where nothing could be tried.
fn exit(tried: &[Tried]) -> Exit {
    if tried.iter().any(|one| one.judgement.is_wrong()) {
        Exit::ValidationFailed
    } else if tried.iter().any(|one| one.judgement.is_right()) {
        Exit::Done
    } else {
        Exit::Failed
    }
}

/// Whether any flag or variable says what to capture, so that more is known than that a proxy is there.
fn says_what_to_capture(raw: &Raw) -> bool {
    let mut of_capture = settings::all().filter(|row| row.topic == Topic::Capture);
    // Whoever names the default says no more than who says nothing; the others capture by themselves.
    let says =
        |setting| raw.get(setting).is_some() && (setting != Setting::Mesh || raw.mesh() != Mesh::default());
    of_capture.any(|row| says(row.setting))
}

/// What is asked of the namespace before anything is tried. The addresses are its own, whatever is declared: others would be
/// somebody else's.
fn facts(call: &Call, dialect: Dialect) -> io::Result<Facts<'static>> {
    // The address from which the proxy calls the application is nobody's to call.
    let passthrough = call.capture.proxy().passthrough(Family::V6);
    let addresses = address::all()?.into_iter().filter(|own| Some(*own) != passthrough);
    let (uid, gid) = dial::owner();
    let own = Uid::new(uid).zip(Gid::new(gid)).expect("the kernel keeps the last number for nobody");
    Ok(Facts {
        pod: Pod::new(addresses, Some(&*call.capture)),
        own,
        port: call.run.validation.probe_port,
        way: &|to| {
            let way = way::to(to).ok()?;
            Some(Way { interface: way.interface, source: way.source })
        },
        dialect,
    })
}

/// Tries all calls at once.
fn attempt(config: &dyn Policy, calls: Vec<probe::Call>, timeout: Duration) -> io::Result<Vec<Tried>> {
    let trial = |call: &probe::Call| Trial {
        protocol: call.protocol,
        owner: (call.owner.0.number(), call.owner.1.number()),
        from: call.from,
        to: call.to,
        patient: call.is_captured(),
    };
    let what = Probe {
        trials: calls.iter().map(trial).collect(),
        listeners: listeners(config),
        zones: ZONES.to_vec(),
        timeout,
    };
    let Outcomes { each, asked } = engine::probe(&what)?;
    let tried = calls.into_iter().zip(each).map(|(call, outcome)| {
        let judgement = judge(&call, outcome, asked);
        Tried { call, judgement, now: None }
    });
    Ok(tried.collect())
}

/// Where the rules deliver.
fn listeners(config: &dyn Policy) -> Vec<Listener> {
    let proxy = config.proxy();
    // A proxy that is known by neither may run as anybody, and so as we do.
    let (uid, gid) = dial::owner();
    let owner = (
        proxy.uids.first().map_or(uid, |uid| uid.number()),
        proxy.gids.first().map_or(gid, |gid| gid.number()),
    );
    let listeners = proxy.listeners;
    let of = |protocol, ports, transparent| Listener { protocol, ports, transparent, owner };
    let outbound = listeners.outbound.map(|ports| of(Protocol::Tcp, ports, false));
    let inbound = listeners.inbound.map(|ports| of(Protocol::Tcp, ports, listeners.transparent.is_some()));
    let dns = listeners.dns.map(|port| [Protocol::Tcp, Protocol::Udp].map(|by| of(by, port.into(), false)));
    outbound.into_iter().chain(inbound).chain(dns.into_iter().flatten()).collect()
}

/// Asks the rules that are there about each call that went elsewhere.
fn look_at_rules(run: &Run, pod: &Pod, tried: &mut [Tried]) {
    let scenes = match explain::from_kernel(run, pod) {
        Ok(scenes) => scenes,
        Err(error) => {
            tracing::info!(target: "validation", "the rules that are there can't be read: {error}");
            return;
        }
    };
    for one in tried.iter_mut().filter(|one| one.judgement.is_wrong()) {
        let packet = &one.call.packet;
        if let Some(scene) = scenes.iter().find(|scene| scene.family == packet.family()) {
            one.now = Some(policy::explain::explain(&scene.view, &scene.routing, packet).sentence());
        }
    }
}

/// How the rules differ from those that the flags make.
fn compare(call: &Call) -> Option<String> {
    let choice: Choice = call.run.backend.choice(Preference::Nftables);
    let mut kernel = call.run.open().ok()?;
    let compared = engine::check(&mut kernel, &call.capture.desired(), choice).ok()?;
    Some(compared.differences.to_string()).filter(|text| !text.is_empty())
}

/// Why capture counts as not working.
#[derive(Debug, thiserror::Error)]
enum Unproven {
    #[error("whether capture works can't be tried: {0}")]
    Untried(String),
    #[error(
        "the call to {destination} {instead} within {timeout:?}, instead of being {expected}; traffic of this pod is not \
         captured. Where a CNI plugin sets the rules, the pod may have started before the node was ready: delete the pod"
    )]
    Elsewhere { destination: SocketAddr, instead: String, expected: String, timeout: Duration },
}

/// Proves by real connections that capture works, where that is asked for. Calls that went elsewhere are tried again until
/// time is up: somebody may be about to set the rules.
pub(super) fn validated(call: &Call) -> Exit {
    if !call.run.validates || call.capture.captures_nothing() {
        return Exit::Done;
    }
    let timeout = call.run.validation.timeout;
    let end = Instant::now() + timeout;
    let facts = match facts(call, Dialect::default()) {
        Ok(facts) => facts,
        Err(error) => return report::failure(&error, Exit::Failed),
    };
    let mut left = probe::proofs(&*call.capture, &facts);
    if left.is_empty() {
        tracing::warn!(target: "validation", "the flags leave nothing to prove from inside of the pod");
        return Exit::Done;
    }
    let (mut proven, mut untried) = (false, None);
    loop {
        let start = Instant::now();
        let tried = match attempt(&*call.capture, left, RETRY.min(end.saturating_duration_since(start))) {
            Ok(tried) => tried,
            Err(error) => return report::failure(&error, Exit::Failed),
        };
        let mut wrong = Vec::new();
        for one in tried {
            match &one.judgement {
                Judgement::Right(_) => proven = true,
                Judgement::Untried(why) => {
                    tracing::warn!(target: "validation", "{} is not tried: {why}", one.call.to);
                    untried = Some(why.clone());
                }
                Judgement::Wrong(_) => wrong.push(one),
            }
        }
        match wrong.first() {
            None => break,
            Some(one) if Instant::now() >= end => {
                let error = Unproven::Elsewhere {
                    destination: one.call.to,
                    instead: told::instead(&one.judgement),
                    expected: told::expected(&one.call),
                    timeout,
                };
                return report::failure(&error, Exit::ValidationFailed);
            }
            Some(_) => {}
        }
        let pause = RETRY.saturating_sub(start.elapsed());
        thread::sleep(pause.min(end.saturating_duration_since(Instant::now())));
        left = wrong.into_iter().map(|one| one.call).collect();
    }
    match (proven, untried) {
        (false, Some(why)) => report::failure(&Unproven::Untried(why), Exit::Failed),
        _ => {
            tracing::info!(target: "validation", "capture works");
            Exit::Done
        }
    }
}
