//! `sidecar-init status`: what is captured here, the listeners, and the traffic so far.

mod node;
mod screen;

use super::run::{self, Format, Run};
use super::scenes::local_marks;
use super::{Exit, logging::Stdout, report, start_logging};
use diagnose::status::{self, CaptureStatus, Observation, Record, Socket};
use mesh::Mesh;
use mesh::sources::{Raw, SettingReader, duration};
use mesh::{Problems, RuleReason, Setting};
use nix::libc;
pub(super) use node::Overview;
use rules::finding::NamespaceFinding;
use rules::simulate::Routing;
use rules::{ByFamily, Family, Ownership, Protocol};
use screen::Screen;
use sidecar_init::{
    backend::{self, Kernel, nftables},
    engine::{self, Maker, OwnRules},
    sys::{
        listener::{self, ListeningSocket, SocketHolder, Transport},
        wait::{Requests, Woken},
    },
};
use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::{Duration, Instant},
};

/// The default time between two readings.
const INTERVAL: Duration = Duration::from_secs(2);
/// Reading iptables starts programs, which a shorter interval would keep busy.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Why the status can't be shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum StatusFailure {
    #[error("what is here can't be read")]
    Read(#[from] backend::Error),
    #[error("the status can't be shown any more")]
    Show(#[from] io::Error),
}

pub(super) fn run(raw: &Raw, problems: Vec<mesh::InputProblem>) -> Result<Exit, Problems> {
    let mut reader = SettingReader::new(raw, problems);
    let (run, logging) = run::read(&mut reader);
    let watches = reader.switch(Setting::StatusWatch);
    let enough = |text: &str| duration::parse(text).filter(|time| *time >= MIN_INTERVAL);
    let interval =
        reader.one_of(Setting::StatusInterval, "a duration from 100ms, such as 500ms or 2s", enough);
    if let (Some(given), false) = (raw.get(Setting::StatusInterval), watches) {
        reader.whole(&given.source, "is of use with --watch alone; give that, too");
    }
    let all = reader.switch(Setting::StatusAll);
    if let (true, Some(given)) =
        (all, raw.get(Setting::NetworkNamespace).filter(|given| !given.value.is_empty()))
    {
        reader.whole(&given.source, "contradicts --all, which reads every namespace; give one of them");
    }
    reader.finish()?;
    start_logging(raw, &logging, Stdout::Answer)?;
    let shown = match (all, watches) {
        (true, true) => watch_all(&run, interval.unwrap_or(INTERVAL)),
        (true, false) => all_once(&run),
        (false, true) => watch(&run, interval.unwrap_or(INTERVAL)),
        (false, false) => once(&run),
    };
    Ok(match shown {
        Ok(exit) => exit,
        Err(StatusFailure::Show(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(failure) => report::failure(&failure, Exit::Failed),
    })
}

/// The findings about the existing rules.
pub(super) fn findings(run: &Run) -> Result<Vec<NamespaceFinding>, StatusFailure> {
    Ok(NamespaceObserver::open(run)?.look()?.findings)
}

fn once(run: &Run) -> Result<Exit, StatusFailure> {
    let status = NamespaceObserver::open(run)?.look()?;
    Ok(match run.format {
        Format::Text => report::text(&status.text(report::width())),
        Format::Data(encoding) => report::data(encoding, &status),
    })
}

fn all_once(run: &Run) -> Result<Exit, StatusFailure> {
    let overview = Overview::read(run)?;
    let printed = match run.format {
        Format::Text => report::text(&overview.text(report::width())),
        Format::Data(encoding) => report::data(encoding, &overview),
    };
    Ok(match printed {
        Exit::Done if overview.has_drifted() => Exit::Drift,
        exit => exit,
    })
}

/// The same, until a signal ends it.
fn watch_all(run: &Run, interval: Duration) -> Result<Exit, StatusFailure> {
    let requests = Requests::take()?;
    let mut screen = Screen::open(run.format, interval)?;
    loop {
        let overview = Overview::read(run)?;
        screen.show(&overview, Overview::text)?;
        if requests.pause(Instant::now() + interval)? == Woken::Asked {
            return Ok(Exit::Done);
        }
    }
}

/// Repeats until a signal ends it.
fn watch(run: &Run, interval: Duration) -> Result<Exit, StatusFailure> {
    let requests = Requests::take()?;
    let mut observer = NamespaceObserver::open(run)?;
    let mut screen = Screen::open(run.format, interval)?;
    let mut last: Option<(CaptureStatus, Instant)> = None;
    loop {
        let (mut status, now) = (observer.look()?, Instant::now());
        if let Some((earlier, then)) = &last {
            status.rate(earlier, now.duration_since(*then).as_secs_f64());
        }
        screen.show(&status, CaptureStatus::text)?;
        last = Some((status, now));
        if requests.pause(now + interval)? == Woken::Asked {
            return Ok(Exit::Done);
        }
    }
}

/// Looks at one network namespace, for all meshes alike, or for one.
struct NamespaceObserver {
    kernel: Kernel,
    owner: Ownership,
    only: Option<Mesh>,
    /// Who holds which socket: known sockets are not looked for again.
    holders: BTreeMap<u64, Option<SocketHolder>>,
}

impl NamespaceObserver {
    fn open(run: &Run) -> Result<Self, StatusFailure> {
        // Of a mesh that is named, its own alone.
        let owner = run.named();
        let only = run.names_mesh.then_some(run.mesh);
        Ok(Self { kernel: run.open_for(owner)?, owner, only, holders: BTreeMap::new() })
    }

    fn look(&mut self) -> Result<CaptureStatus, StatusFailure> {
        let seen = engine::status(&mut self.kernel, &self.owner, &RuleReason::origin_of)?;
        let mut findings = seen.findings;
        let addresses = seen.addresses.unwrap_or_else(|error| {
            findings.push(unseen("addresses", &error));
            Vec::new()
        });
        let ports = status::ports(&seen.views);
        let sockets = match seen.listeners {
            Ok(all) => {
                let there: Vec<ListeningSocket> =
                    all.into_iter().filter(|one| ports.contains(&one.port)).collect();
                Some(self.sockets(&there, &addresses))
            }
            Err(error) => {
                findings.push(unseen("listeners", &error));
                None
            }
        };
        let routing = |family: Family| Routing {
            local_marks: local_marks(&seen.routing, family),
            addresses: addresses.clone(),
        };
        let routing = ByFamily { v4: routing(Family::V4), v6: routing(Family::V6) };
        Ok(status::status(Observation {
            views: &seen.views,
            routing: &routing,
            addresses: &addresses,
            sockets: sockets.as_deref(),
            held: seen.held.iter().map(rules_of).collect(),
            only: self.only,
            findings,
        }))
    }

    fn sockets(&mut self, listeners: &[ListeningSocket], addresses: &[IpAddr]) -> Vec<Socket> {
        self.holders.retain(|inode, _| listeners.iter().any(|listener| listener.inode == *inode));
        let is_new = |listener: &&ListeningSocket| !self.holders.contains_key(&listener.inode);
        let new: Vec<u64> = listeners.iter().filter(is_new).map(|listener| listener.inode).collect();
        if !new.is_empty() {
            let mut found = listener::holders(&new);
            self.holders.extend(new.into_iter().map(|inode| (inode, found.remove(&inode))));
        }
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let socket = |listener: &ListeningSocket| Socket {
            protocol: match listener.transport {
                Transport::Tcp => Protocol::Tcp,
                Transport::Udp => Protocol::Udp,
            },
            port: listener.port,
            hears: addresses.iter().chain(&loopback).copied().filter(|own| listener.hears(*own)).collect(),
            uid: listener.uid,
            process: self.holders.get(&listener.inode).and_then(|holder| {
                let SocketHolder { id, name, .. } = holder.as_ref()?;
                Some((*id, name.clone()))
            }),
            is_transparent: listener.is_transparent,
        };
        listeners.iter().map(socket).collect()
    }
}

fn unseen(topic: &'static str, error: &io::Error) -> NamespaceFinding {
    let remedy = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "look as root",
        _ => "see the kernel's log",
    };
    NamespaceFinding::warn(topic, format!("{topic} can't be listed: {error}"), remedy)
}

fn rules_of(held: &OwnRules) -> status::InstalledRules {
    let OwnRules { owner, place, families, rules, maker, record } = held;
    let predecessor = owner.predecessor.map_or("another program", |predecessor| predecessor.name);
    let program = match maker {
        Maker::Owner => "sidecar-init".to_owned(),
        Maker::Either => format!("sidecar-init or {predecessor}, which writes the same"),
        Maker::Predecessor => predecessor.to_owned(),
    };
    // The default mesh is not named.
    let program = match owner.mesh == Mesh::default().name() {
        true => program,
        false => format!("{program}, for {}", owner.name),
    };
    let families = families.iter().copied().map(report::family).collect();
    let made = record.as_ref().map(|(record, is_as_made)| record_of(record, *is_as_made));
    status::InstalledRules {
        mesh: owner.mesh,
        backend: place.clone(),
        families,
        rules: *rules,
        program,
        made,
    }
}

fn record_of(record: &nftables::TableRecord, is_as_made: bool) -> Record {
    let nftables::TableRecord { made, settings_digest, rules_digest, settings } = record;
    Record {
        program_version: made.version.clone(),
        command: made.command.clone(),
        at: made.at.clone(),
        settings: settings.clone(),
        settings_digest: settings_digest.clone(),
        rules_digest: rules_digest.clone(),
        changed_since: !is_as_made,
    }
}
