//! Traces of a call: a JSON line in a file that is rotated by size, or in the journal, and counters for metrics.

use super::files::{self, Durability, Links, UnreadableFile};
use super::protocol::{LogTarget, Places};
use super::watch::{TRACE_TIMEOUT, within};
use crate::events::{EventText, Log, log_to};
use nix::fcntl::{Flock, FlockArg};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{collections::BTreeMap, ffi::OsString, os::unix::net::UnixDatagram, path::Path};
use tracing::{Event, level_filters::LevelFilter};

pub(super) const FAILED: &str = "failed";

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct LogEntry {
    pub(super) time: String,
    pub(super) verb: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) container: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interface: Option<String>,
    pub(super) outcome: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) details: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
    pub(super) milliseconds: f64,
}

/// The journal's socket (`systemd.journal-fields(7)`, "Native Journal Protocol").
const JOURNAL: &str = "/run/systemd/journal/socket";

pub(super) fn write_line(places: &Places, line: &LogEntry) -> io::Result<()> {
    let mut text = serde_json::to_string(line).expect("our own data has text keys and finite numbers");
    match &places.log {
        LogTarget::None => Ok(()),
        LogTarget::Journal => {
            // A newline ends a field, and the JSON contains none.
            let priority = if line.outcome == FAILED { 3 } else { 6 };
            let message = format!("PRIORITY={priority}\nSYSLOG_IDENTIFIER=sidecar-cni\nMESSAGE={text}\n");
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.send_to(message.as_bytes(), JOURNAL).map(drop)
        }
        LogTarget::File(path) => {
            text.push('\n');
            append(path, text.as_bytes(), places.log_max_bytes)
        }
    }
}

/// Appends in one system call, so that lines of concurrent calls are not mixed.
fn append(path: &Path, line: &[u8], most: u64) -> io::Result<()> {
    path.parent().map_or(Ok(()), files::make_folder)?;
    let mut options = OpenOptions::new();
    // A pipe without a reader is an error, not a reason to wait.
    let mut file = options.create(true).append(true).mode(0o600).custom_flags(O_NONBLOCK).open(path)?;
    file.write_all(line)?;
    let size = file.metadata().map(|found| found.len());
    let rotated = size.and_then(|size| if size >= most { rotate(path, file) } else { Ok(()) });
    if let Err(error) = rotated {
        let path = path.display();
        let _ = writeln!(io::stderr(), "sidecar-init cni: {path} can't be renamed to {path}.1: {error}");
    }
    Ok(())
}

/// Renames a file to `PATH.1`. Calls that have it open still write to it; of several calls that find it too long, one renames it.
fn rotate(path: &Path, file: File) -> io::Result<()> {
    let Ok(held) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { return Ok(()) };
    let (opened, named) = (held.metadata()?, files::present(fs::metadata(path))?);
    if !opened.is_file()
        || named.is_none_or(|named| (opened.dev(), opened.ino()) != (named.dev(), named.ino()))
    {
        return Ok(());
    }
    let mut aside = OsString::from(path);
    aside.push(".1");
    fs::rename(path, aside)
}

static COLLECTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

pub(super) fn collect_warnings() {
    let write = |event: &Event<'_>| {
        let mut text = EventText::default();
        event.record(&mut text);
        let text = text.text.trim_start().to_owned();
        COLLECTED.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    };
    log_to(Log { level: LevelFilter::WARN, scopes: Vec::new(), write });
}

pub(super) fn warnings() -> Vec<String> {
    COLLECTED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

const FILE: &str = "counters.json";
const LOCK: &str = "counters.lock";
/// Size limit of the file; real ones have a few kilobytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// Upper bounds of the histogram's buckets, in milliseconds. Longer calls have one more bucket.
pub(super) const BOUNDS: [u32; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CniCounters {
    pub(super) verbs: BTreeMap<String, CallCounters>,
}

pub(super) const REPAIR: &str = "repair";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CallCounters {
    pub(super) outcomes: BTreeMap<String, u64>,
    pub(super) milliseconds: f64,
    pub(super) buckets: Vec<u64>,
}

pub(super) fn count(folder: &Path, verb: &str, outcome: &str, took: Duration) -> io::Result<()> {
    files::make_folder(folder)?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    // A pipe without a reader is an error, not a reason to wait.
    let file = options.custom_flags(O_NONBLOCK | O_NOFOLLOW).open(folder.join(LOCK))?;
    let _held = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error)?;
    let mut counters = read_counters(folder)?;
    counters.add(verb, outcome, took);
    let text = serde_json::to_vec(&counters).expect("our own data has text keys and finite numbers");
    files::put(folder, FILE, &text, Durability::MayBeLost)
}

/// Reads the counters. A missing file, one torn by a machine failure, and another program's file count as empty.
pub(super) fn read_counters(folder: &Path) -> io::Result<CniCounters> {
    let text = match files::read(&folder.join(FILE), MAX_BYTES, Links::Refused) {
        Err(UnreadableFile::Io(error)) => return Err(error),
        other => other.ok().flatten().unwrap_or_default(),
    };
    Ok(serde_json::from_slice(&text).unwrap_or_default())
}

impl CniCounters {
    fn add(&mut self, verb: &str, outcome: &str, took: Duration) {
        let calls = self.verbs.entry(verb.to_owned()).or_default();
        *calls.outcomes.entry(outcome.to_owned()).or_default() += 1;
        let milliseconds = took.as_secs_f64() * 1e3;
        calls.milliseconds += milliseconds;
        calls.buckets.resize(BOUNDS.len() + 1, 0);
        let bucket =
            BOUNDS.iter().position(|bound| milliseconds <= f64::from(*bound)).unwrap_or(BOUNDS.len());
        calls.buckets[bucket] += 1;
    }
}

/// Counts a repair, in the given state directory or the default one, if it exists.
pub(crate) fn count_repair(state: Option<&Path>, outcome: &'static str, took: Duration) -> io::Result<()> {
    let folder = state.map_or_else(|| Places::default().state, Path::to_owned);
    if !folder.is_dir() {
        return Ok(());
    }
    within(TRACE_TIMEOUT, move || count(&folder, REPAIR, outcome, took))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_line_is_written_if_the_log_can_not_be_rotated() {
        let folder = testkit::folder::Folder::new("cni-log");
        let path = folder.join("cni.log");
        fs::create_dir_all(folder.join("cni.log.1")).expect("a folder in its way");
        append(&path, b"line\n", 1).expect("it is written");
        assert_eq!(fs::read(&path).expect("the log"), b"line\n");
    }

    #[test]
    fn each_call_is_in_one_bucket() {
        let mut counters = CniCounters::default();
        for (milliseconds, bucket) in [(0, 0), (1, 0), (3, 2), (5_000, 11), (60_000, 12)] {
            counters.add("ADD", "captured", Duration::from_millis(milliseconds));
            assert!(counters.verbs["ADD"].buckets[bucket] > 0, "{milliseconds}");
        }
        assert_eq!(counters.verbs["ADD"].outcomes["captured"], 5);
        assert_eq!(counters.verbs["ADD"].buckets.iter().sum::<u64>(), 5);
    }

    #[test]
    fn unreadable_counters_are_not_reset() {
        let too_long = "a".repeat(5_000);
        let error = read_counters(Path::new(&too_long)).expect_err("no counters");
        assert_eq!(error.raw_os_error(), Some(nix::libc::ENAMETOOLONG));
        assert_eq!(read_counters(Path::new("/nonexistent")).expect("none yet"), CniCounters::default());
    }
}
