//! The end of a call: it comes when the work is done, or when its time is up, whatever the work waits for.
//!
//! A thread of its own waits for that time. Whoever is first to answer does so; the other one keeps still. Where time is
//! up the process ends as a killed one does: a change that was on its way is completed by the next ADD or removed by DEL.

use super::{
    Done, FAILED, counters,
    log::{self, Line},
    protocol::{Code, Fault, Places, TIMEOUT, Verb, Version},
    warnings,
};
use std::{
    io::{self, Write},
    process,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// What a call is known to be so far.
pub(super) struct Progress {
    pub(super) timeout: Duration,
    pub(super) version: Version,
    pub(super) verb: Option<Verb>,
    /// Where traces are left; nowhere before that is known.
    pub(super) places: Option<Places>,
    pub(super) line: Line,
}

/// A call that will end.
pub(super) struct Watch {
    started: Instant,
    progress: Mutex<Progress>,
    changed: Condvar,
    /// How the process ends, once somebody has answered.
    exit: AtomicI32,
}

/// No exit code.
const UNANSWERED: i32 = -1;
/// How long leaving a trace may hold up the end of a call: no pod waits for numbers.
const PATIENCE: Duration = Duration::from_secs(1);

impl Watch {
    pub(super) fn start() -> Arc<Self> {
        let progress = Progress {
            timeout: TIMEOUT,
            version: Version::LATEST,
            verb: None,
            places: None,
            line: Line::default(),
        };
        let watch = Arc::new(Self {
            started: Instant::now(),
            progress: Mutex::new(progress),
            changed: Condvar::new(),
            exit: AtomicI32::new(UNANSWERED),
        });
        let guard = Arc::clone(&watch);
        // Without it, the call goes on unwatched.
        let _ = thread::Builder::new().spawn(move || guard.guard());
        watch
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what has become known.
    pub(super) fn note(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress());
        self.changed.notify_one();
    }

    /// Prints the answer and says how the process is to end. Does not return if time was up before.
    pub(super) fn answer(&self, outcome: &Result<Done, Fault>) -> i32 {
        let version = self.progress().version;
        let (text, exit) = match outcome {
            Ok(done) => (done.answer.clone().unwrap_or_default(), 0),
            Err(fault) => (fault.json(version), 1),
        };
        if !self.is_first(exit) {
            loop {
                thread::park();
            }
        }
        print(&text);
        exit
    }

    /// Whether nobody else answers; then the process ends so.
    fn is_first(&self, exit: i32) -> bool {
        self.exit.compare_exchange(UNANSWERED, exit, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Leaves a line in the log and counts the call.
    pub(super) fn leave_traces(&self, outcome: &Result<Done, Fault>) {
        let (outcome, reason, details) = match outcome {
            Ok(done) => (done.outcome, done.reason.clone(), String::new()),
            Err(fault) => (FAILED, fault.msg.clone(), fault.details.clone()),
        };
        let took = self.started.elapsed();
        let (places, verb, line) = {
            let progress = self.progress();
            let (Some(places), Some(verb)) = (progress.places.clone(), progress.verb) else { return };
            let warnings = warnings::collected();
            (places, verb, Line { outcome, reason, details, warnings, ..progress.line.clone() })
        };
        let count = {
            let folder = places.state.clone();
            move || counters::count(&folder, verb.name(), outcome, took)
        };
        for left in [log::write(&places, &line, took), within(PATIENCE, count)] {
            if let Err(error) = left {
                // The runtime's log is what is left to tell it.
                let _ = writeln!(io::stderr(), "sidecar-init cni: no trace can be left: {error}");
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
        let msg = format!("time is up: the call took longer than {:?} (timeout)", progress.timeout);
        drop(progress);
        let fault =
            Fault::new(Code::TryAgain, msg, "what it waited for: standard input, a lock, or the kernel");
        if self.is_first(1) {
            print(&fault.json(self.progress().version));
            let watch = Arc::clone(&self);
            // That they are not left is no reason to stay.
            let _ = within(PATIENCE, move || {
                watch.leave_traces(&Err(fault));
                Ok(())
            });
        }
        process::exit(self.exit.load(Ordering::Acquire));
    }
}

/// Does `work` on a thread of its own, and leaves it there if it takes too long.
fn within(time: Duration, work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    let (done, wait) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        // Nobody may be waiting any more.
        let _ = done.send(work());
    })?;
    wait.recv_timeout(time).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn print(text: &str) {
    // Where nobody listens, the exit code still speaks.
    let _ = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
}
