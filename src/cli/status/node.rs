//! `sidecar-init status --all`: every network namespace of a node at a glance.

use super::{NamespaceObserver, StatusFailure};
use crate::cli::{report, run::Run};
#[cfg(test)]
use diagnose::status::FindingReport;
use diagnose::status::{CaptureStatus, InstalledRules, serialize_findings};
use diagnose::{Style, fold};
use rules::finding::{FindingLevel, NamespaceFinding};
use serde::Serialize;
use sidecar_init::sys::lookup::{self, FoundNamespace, LookupPlaces};
use std::{
    collections::BTreeMap,
    io,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

/// So many namespaces are read at a time: most of it is waiting for the kernel, or for programs of iptables.
const AT_ONCE: usize = 16;

/// A namespace that takes longer is reported as unknown, and does not hold up the others.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of a network namespace, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
enum NamespaceState {
    /// It could not be read.
    Unknown,
    /// Its rules were changed since they were made.
    Drifted,
    /// Rules of other programs decide about packets first.
    Overruled,
    /// It is captured, and something fails, such as a listener that is missing.
    Failing,
    /// Outbound or inbound traffic alone is captured.
    Partial,
    Captured,
    NotCaptured,
}

impl NamespaceState {
    fn of(status: &CaptureStatus) -> Self {
        let has = |topic: &str| {
            status
                .findings
                .iter()
                .any(|finding| finding.topic == topic && finding.level == FindingLevel::Fail)
        };
        let captures = |direction: &str| {
            status.captured.iter().any(|part| part.direction == direction || part.direction == "both")
        };
        let is_changed =
            status.held_by.iter().filter_map(|held| held.made.as_ref()).any(|made| made.changed_since);
        match () {
            () if is_changed || has("drift") => Self::Drifted,
            () if !status.capturing => Self::NotCaptured,
            () if has("foreign") => Self::Overruled,
            () if status.findings.iter().any(|finding| finding.level == FindingLevel::Fail) => Self::Failing,
            () if !captures("outbound") || !captures("inbound") => Self::Partial,
            () => Self::Captured,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Drifted => "drifted",
            Self::Overruled => "overruled",
            Self::Failing => "failing",
            Self::Partial => "partial",
            Self::Captured => "captured",
            Self::NotCaptured => "not captured",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Captured => Style::Captured,
            Self::NotCaptured => Style::Quiet,
            Self::Partial => Style::Passing,
            Self::Unknown | Self::Drifted | Self::Overruled | Self::Failing => Style::Dropped,
        }
    }
}

/// A network namespace of the node.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NamespaceRow {
    /// The pod's name as its containers know it, a name of `ip netns`, the first digits of a container's id, or a process.
    name: String,
    /// A container in it, by its whole id; null without one.
    container: Option<String>,
    /// unknown, drifted, overruled, failing, partial, captured or not-captured.
    #[cfg_attr(test, schemars(with = "String"))]
    state: NamespaceState,
    /// The meshes that capture traffic, values of `--mesh`.
    meshes: Vec<&'static str>,
    /// The families with captured traffic.
    families: Vec<&'static str>,
    /// The rules that are installed.
    held_by: Vec<InstalledRules>,
    /// Warnings and failures; why it could not be read, where it is unknown.
    #[serde(serialize_with = "serialize_findings")]
    #[cfg_attr(test, schemars(with = "Vec<FindingReport<'static>>"))]
    findings: Vec<NamespaceFinding>,
}

impl NamespaceRow {
    fn of(name: String, container: Option<String>, status: CaptureStatus) -> Self {
        let state = NamespaceState::of(&status);
        let CaptureStatus { meshes, families, held_by, findings, .. } = status;
        Self { name, container, state, meshes, families, held_by, findings }
    }

    /// The finding that its state comes from.
    fn reason(&self) -> Option<&NamespaceFinding> {
        let topic = match self.state {
            NamespaceState::Drifted => "drift",
            NamespaceState::Overruled => "foreign",
            NamespaceState::Unknown | NamespaceState::Failing | NamespaceState::Partial => "",
            NamespaceState::Captured | NamespaceState::NotCaptured => return None,
        };
        self.findings.iter().min_by_key(|one| (one.topic != topic, one.level != FindingLevel::Fail))
    }

    fn unknown(name: String, container: Option<String>, why: String) -> Self {
        let findings =
            vec![NamespaceFinding::fail("rules", why, "look at it alone with --network-namespace")];
        let (meshes, families, held_by) = (Vec::new(), Vec::new(), Vec::new());
        Self { name, container, state: NamespaceState::Unknown, meshes, families, held_by, findings }
    }
}

/// The node at a glance.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct Overview {
    /// The network namespaces, the worst first.
    namespaces: Vec<NamespaceRow>,
}

impl Overview {
    /// Reads every network namespace but our own, several at a time.
    pub(super) fn read(run: &Run) -> Result<Self, StatusFailure> {
        let mut waiting = lookup::all(&LookupPlaces::default())?.into_iter();
        let (sender, receiver) = mpsc::channel();
        let mut running: BTreeMap<usize, (Instant, String, Option<String>)> = BTreeMap::new();
        let (mut namespaces, mut number) = (Vec::new(), 0);
        loop {
            while running.len() < AT_ONCE
                && let Some(found) = waiting.next()
            {
                running.insert(number, (Instant::now(), found.name.clone(), found.container.clone()));
                start(number, found, run.clone(), sender.clone());
                number += 1;
            }
            let Some(first) = running.values().map(|(since, ..)| *since).min() else { break };
            match receiver.recv_timeout((first + READ_TIMEOUT).saturating_duration_since(Instant::now())) {
                Ok((number, outcome)) => {
                    // What is not awaited any more was given up.
                    if let Some((_, name, container)) = running.remove(&number) {
                        namespaces.push(match outcome {
                            Ok(status) => NamespaceRow::of(name, container, status),
                            Err(why) => NamespaceRow::unknown(name, container, why),
                        });
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let late =
                        |(since, ..): &(Instant, String, Option<String>)| since.elapsed() >= READ_TIMEOUT;
                    let numbers: Vec<usize> =
                        running.iter().filter(|(_, one)| late(one)).map(|(number, _)| *number).collect();
                    for number in numbers {
                        if let Some((_, name, container)) = running.remove(&number) {
                            let why = format!("reading it takes longer than {} s", READ_TIMEOUT.as_secs());
                            namespaces.push(NamespaceRow::unknown(name, container, why));
                        }
                    }
                }
            }
        }
        namespaces.sort_by(|one, other| (one.state, &one.name).cmp(&(other.state, &other.name)));
        Ok(Self { namespaces })
    }

    /// Whether the rules of a namespace were changed since they were made.
    pub(super) fn has_drifted(&self) -> bool {
        self.namespaces.iter().any(|row| row.state == NamespaceState::Drifted)
    }

    /// The text for a terminal: how many there are of each state, and a line for each namespace.
    pub(super) fn text(&self, width: usize) -> String {
        let mut counts: BTreeMap<NamespaceState, usize> = BTreeMap::new();
        for row in &self.namespaces {
            *counts.entry(row.state).or_default() += 1;
        }
        let counts: Vec<String> =
            counts.iter().map(|(state, count)| format!("{count} {}", state.name())).collect();
        let noun = if self.namespaces.len() == 1 { "namespace" } else { "namespaces" };
        let mut text = format!("{} network {noun}", self.namespaces.len());
        if !counts.is_empty() {
            text.push_str(&format!(": {}", counts.join(", ")));
        }
        text = format!("{}\n", Style::Strong.paint(text));
        let longest = self.namespaces.iter().map(|row| row.name.chars().count()).max().unwrap_or_default();
        for row in &self.namespaces {
            let state = row.state.style().paint(format!("{:<12}", row.state.name()));
            let name = format!("{:<longest$}", row.name);
            let mut backends: Vec<&str> = row.held_by.iter().map(|held| &*held.backend).collect();
            backends.sort_unstable();
            backends.dedup();
            let made = row.held_by.iter().find_map(|held| held.made.as_ref()).map(|made| made.at.clone());
            let rest = [row.meshes.join(", "), backends.join(", "), made.unwrap_or_default()];
            let rest: Vec<String> = rest.into_iter().filter(|part| !part.is_empty()).collect();
            text.push_str(format!("{state}  {name}  {}", rest.join("  ")).trim_end());
            text.push('\n');
            if let Some(finding) = row.reason() {
                text.push_str(&fold(&format!("              {}\n", finding.text), 14, width));
            }
        }
        text
    }
}

/// Reads a namespace in a separate thread, which remains in it.
fn start(
    number: usize,
    found: FoundNamespace,
    run: Run,
    done: Sender<(usize, Result<CaptureStatus, String>)>,
) {
    let read = move || -> Result<CaptureStatus, String> {
        found.namespace.enter().map_err(|error| format!("can't be entered: {error}"))?;
        NamespaceObserver::open(&run)
            .and_then(|mut observer| observer.look())
            .map_err(|failure| [vec![failure.to_string()], report::causes(&failure)].concat().join(": "))
    };
    let work = move || {
        // The receiver is gone where all that were awaited have ended.
        let _ = done.send((number, read()));
    };
    // Without a thread, the namespace is late.
    let started: io::Result<_> = thread::Builder::new().spawn(work);
    drop(started);
}
