//! Every network namespace of a node, several at a time.

use super::{NamespaceObserver, ObserverSettings};
use crate::sys::inventory::{self, FoundNamespace};
use crate::sys::{lookup::LookupPlaces, namespace::NamespaceId};
use diagnose::overview::{NamespaceRow, Overview, PodName};
use diagnose::status::CaptureStatus;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, error::Error, io, iter, thread};

/// Namespaces read at a time: a reading mostly waits for the kernel or iptables programs.
const AT_ONCE: usize = 16;

/// A namespace that takes longer is reported as unknown, and does not delay others.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

type NamespaceReading = (u64, Result<CaptureStatus, String>);

#[derive(Debug)]
pub struct NodeObserver {
    settings: ObserverSettings,
    places: LookupPlaces,
    done: (Sender<NamespaceReading>, Receiver<NamespaceReading>),
    next: u64,
    /// Abandoned readings that have not ended: their namespaces are not read again meanwhile.
    late: BTreeMap<u64, NamespaceId>,
}

struct RunningRead {
    since: Instant,
    row: NamespaceRow,
    id: NamespaceId,
}

impl NodeObserver {
    pub fn new(settings: ObserverSettings, places: LookupPlaces) -> Self {
        Self { settings, places, done: mpsc::channel(), next: 0, late: BTreeMap::new() }
    }

    pub fn look(&mut self) -> io::Result<Overview> {
        // Readings that have ended since the last look are no longer late.
        for (number, _) in self.done.1.try_iter() {
            self.late.remove(&number);
        }
        let mut waiting = inventory::all(&self.places)?.into_iter();
        let mut running: BTreeMap<u64, RunningRead> = BTreeMap::new();
        let mut rows = Vec::new();
        loop {
            while running.len() < AT_ONCE
                && let Some(found) = waiting.next()
            {
                let row = row(&found);
                match self.start(found) {
                    Ok((number, id)) => {
                        running.insert(number, RunningRead { since: Instant::now(), row, id });
                    }
                    Err(why) => rows.push(row.read(Err(why))),
                }
            }
            let Some(first) = running.values().map(|one| one.since).min() else { break };
            match self.done.1.recv_timeout((first + READ_TIMEOUT).saturating_duration_since(Instant::now())) {
                Ok((number, outcome)) => match running.remove(&number) {
                    Some(RunningRead { row, .. }) => rows.push(row.read(outcome)),
                    None => drop(self.late.remove(&number)),
                },
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let (given_up, kept) =
                        running.into_iter().partition(|(_, one)| one.since.elapsed() >= READ_TIMEOUT);
                    running = kept;
                    let given_up: BTreeMap<u64, RunningRead> = given_up;
                    for (number, RunningRead { row, id, .. }) in given_up {
                        self.late.insert(number, id);
                        let why = format!("reading it takes longer than {} s", READ_TIMEOUT.as_secs());
                        rows.push(row.read(Err(why)));
                    }
                }
            }
        }
        Ok(Overview::new(rows))
    }

    /// Reads a namespace in a separate thread, which remains in it. Returns the number of the reading.
    fn start(&mut self, found: FoundNamespace) -> Result<(u64, NamespaceId), String> {
        let id = found.namespace.id().map_err(|error| format!("can't be read: {error}"))?;
        if self.late.values().any(|late| *late == id) {
            return Err("an earlier reading of it has not finished".to_owned());
        }
        let (number, settings, done) = (self.next, self.settings.clone(), self.done.0.clone());
        self.next += 1;
        let work = move || {
            // A reading that sends nothing would count as late forever.
            let status = catch_unwind(AssertUnwindSafe(|| read(found, &settings))).unwrap_or_else(|_| {
                Err("reading it panicked; please report the panic in the log".to_owned())
            });
            let _ = done.send((number, status));
        };
        thread::Builder::new().spawn(work).map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok((number, id))
    }
}

fn read(found: FoundNamespace, settings: &ObserverSettings) -> Result<CaptureStatus, String> {
    found.namespace.enter().map_err(|error| format!("can't be entered: {error}"))?;
    let mut observer =
        NamespaceObserver::open(settings).map_err(|error| with_causes(&error))?.among(found.processes);
    observer.look().map_err(|error| with_causes(&error))
}

fn row(found: &FoundNamespace) -> NamespaceRow {
    let FoundNamespace { name, pod, container, is_named, .. } = found;
    let pod = pod.as_ref().map(|pod| PodName { namespace: pod.namespace.clone(), name: pod.name.clone() });
    let (container, is_sandbox) = (container.clone(), container.is_some() || *is_named);
    NamespaceRow { name: name.clone(), pod, container, is_sandbox, ..NamespaceRow::default() }
}

fn with_causes(error: &dyn Error) -> String {
    let chain = iter::successors(Some(error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
