//! Time limit of a call: the work or the limit ends the call, and whichever comes first writes the result. At the limit, the
//! process ends as if killed: the next ADD completes a partial change, or DEL removes it.

use super::protocol::{CniError, CniErrorCode, CniResult, CniVersion, Places, TIMEOUT};
use super::traces::{self, FAILED, LogEntry};
use diagnose::trace::utc;
use sidecar_init::sys::streams::write_stdout;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime};
use std::{process, thread};

pub(super) struct Progress {
    pub(super) timeout: Duration,
    pub(super) version: CniVersion,
    pub(super) places: Option<Places>,
    pub(super) line: LogEntry,
    /// Exit code, once a result is being written.
    exit: Option<i32>,
}

pub(super) struct TimedCall {
    started: Instant,
    progress: Mutex<Progress>,
    changed: Condvar,
}

const FAILURE: i32 = 1;
/// Longest delay of a call's end for logging and counting.
pub(super) const TRACE_TIMEOUT: Duration = Duration::from_secs(1);

impl TimedCall {
    pub(super) fn start() -> Arc<Self> {
        let progress = Progress {
            timeout: TIMEOUT,
            version: CniVersion::LATEST,
            places: None,
            line: LogEntry::default(),
            exit: None,
        };
        let (started, progress) = (Instant::now(), Mutex::new(progress));
        let watch = Arc::new(Self { started, progress, changed: Condvar::new() });
        let guard = Arc::clone(&watch);
        // Without the thread, the call has no time limit.
        let _ = thread::Builder::new().spawn(move || guard.guard());
        watch
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress());
        self.changed.notify_one();
    }

    /// Prints the result, or undoes the change. Does not return if the time limit came first.
    pub(super) fn answer(&self, outcome: CniResult<Done>) -> CniResult<Done> {
        let end = self.started + self.progress().timeout;
        if !self.is_first() {
            loop {
                thread::park();
            }
        }
        match outcome {
            Ok(mut done) => {
                // Undoing needs the namespace's lock, which is held until the answer is written.
                let undo = done.undo.take();
                write_stdout(done.answer.as_deref().unwrap_or_default(), end)
                    .map_err(|error| unanswered(&error, undo))?;
                self.progress().exit = Some(0);
                Ok(done)
            }
            Err(fault) => {
                // On failure, the exit code remains.
                let answer = fault.json(self.progress().version);
                let _ = write_stdout(&answer, end.max(Instant::now() + TRACE_TIMEOUT));
                Err(fault)
            }
        }
    }

    /// True for the first result. Until it is written, the call has failed.
    fn is_first(&self) -> bool {
        let mut progress = self.progress();
        let is_first = progress.exit.is_none();
        progress.exit.get_or_insert(FAILURE);
        is_first
    }

    pub(super) fn leave_traces(&self, outcome: &CniResult<Done>) {
        let (outcome, reason, details) = match outcome {
            Ok(done) => (done.outcome, done.reason.clone(), String::new()),
            Err(fault) => (FAILED, fault.msg.clone(), fault.details.clone()),
        };
        let took = self.started.elapsed();
        let (places, verb, line) = {
            let progress = self.progress();
            let (Some(places), Some(verb)) = (progress.places.clone(), progress.line.verb) else { return };
            let line = LogEntry {
                time: utc(SystemTime::now()),
                outcome,
                reason,
                details,
                warnings: traces::warnings(),
                milliseconds: (took.as_secs_f64() * 1e6).round() / 1e3,
                ..progress.line.clone()
            };
            (places, verb, line)
        };
        let folder = places.state.clone();
        let count = move || traces::count(&folder, verb, outcome, took);
        for left in [traces::write_line(&places, &line), within(TRACE_TIMEOUT, count)] {
            if let Err(error) = left {
                let _ =
                    writeln!(io::stderr(), "sidecar-init cni: cannot write the log or the counters: {error}");
            }
        }
    }

    fn guard(self: Arc<Self>) {
        let mut progress = self.progress();
        loop {
            let left = progress.timeout.saturating_sub(self.started.elapsed());
            if left.is_zero() {
                break;
            }
            progress = self.changed.wait_timeout(progress, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let msg = format!("the call took longer than {:?} (timeout)", progress.timeout);
        drop(progress);
        let details = "it waited for standard input, a lock, or the kernel";
        let fault = CniError::new(CniErrorCode::TryAgain, msg, details);
        if self.is_first() {
            let _ = write_stdout(&fault.json(self.progress().version), Instant::now() + TRACE_TIMEOUT);
            let watch = Arc::clone(&self);
            let _ = within(TRACE_TIMEOUT, move || {
                watch.leave_traces(&Err(fault));
                Ok(())
            });
        } else if self.progress().exit == Some(FAILURE) {
            // The result was abandoned at the time limit, and the change is being undone.
            thread::sleep(TRACE_TIMEOUT);
        }
        let exit = self.progress().exit;
        process::exit(exit.unwrap_or(FAILURE));
    }
}

fn unanswered(error: &io::Error, undo: Option<Undo>) -> CniError {
    let undone = match undo.map(|undo| undo()) {
        None => "nothing was changed",
        Some(Ok(())) => "the change is undone",
        Some(Err(_)) => "the change remains until DEL",
    };
    let msg = format!("the result can't be written to standard output; {undone}");
    let fault = CniError::caused(CniErrorCode::Io, msg, error);
    let _ = writeln!(io::stderr(), "sidecar-init cni: {}: {}", fault.msg, fault.details);
    fault
}

pub(super) fn within(
    time: Duration,
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    let (done, wait) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let _ = done.send(work());
    })?;
    wait.recv_timeout(time).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

pub(super) struct Done {
    pub(super) answer: Option<String>,
    pub(super) outcome: &'static str,
    pub(super) reason: String,
    pub(super) undo: Option<Undo>,
}

pub(super) type Undo = Box<dyn FnOnce() -> CniResult<()>>;

impl Done {
    pub(super) fn new(outcome: &'static str, reason: impl Into<String>) -> Self {
        Self { answer: None, outcome, reason: reason.into(), undo: None }
    }

    pub(super) fn answering(self, answer: String) -> Self {
        Self { answer: Some(answer), ..self }
    }
}
