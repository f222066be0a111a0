//! The log: a line of JSON for each call, to a file that is rotated by size, or to the journal; with the warnings of the engine
//! and of the mesh.

use super::protocol::{LogTarget, Places};
use crate::events::{Log, log_to};
use diagnose::trace::utc;
use nix::fcntl::{Flock, FlockArg};
use nix::libc::O_NONBLOCK;
use serde::Serialize;
use std::fmt::{Debug, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use std::{ffi::OsString, os::unix::net::UnixDatagram, path::Path};
use tracing::field::{Field, Visit};
use tracing::{Event, level_filters::LevelFilter};

/// The outcome of a failed call, in the log and in counters.
pub(super) const FAILED: &str = "failed";

/// Fields without a value are omitted.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct LogEntry {
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
}

/// The journal's socket (`systemd.journal-fields(7)`, "Native Journal Protocol").
const JOURNAL: &str = "/run/systemd/journal/socket";

pub(super) fn write(places: &Places, line: &LogEntry, took: Duration) -> io::Result<()> {
    #[derive(Serialize)]
    struct Timed<'a> {
        time: String,
        #[serde(flatten)]
        line: &'a LogEntry,
        milliseconds: f64,
    }
    let milliseconds = (took.as_secs_f64() * 1e6).round() / 1e3;
    let timed = Timed { time: utc(SystemTime::now()), line, milliseconds };
    let mut text = serde_json::to_string(&timed).expect("our own data has text keys and finite numbers");
    match &places.log {
        LogTarget::None => Ok(()),
        LogTarget::Journal => {
            // A field ends with its line, and JSON on one line has no other.
            let failed = line.outcome == FAILED;
            let priority = if failed { 3 } else { 6 };
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
    // A pipe without a reader is an error, not a reason to wait.
    let open =
        || OpenOptions::new().create(true).append(true).mode(0o600).custom_flags(O_NONBLOCK).open(path);
    let mut file = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), super::files::make_folder)?;
            open()?
        }
        other => other?,
    };
    file.write_all(line)?;
    let size = file.metadata().map(|found| found.len());
    let rotated = size.and_then(|size| if size >= most { rotate(path, file) } else { Ok(()) });
    if let Err(error) = rotated {
        // The line is written. Only the runtime's log is left.
        let path = path.display();
        let _ = writeln!(io::stderr(), "sidecar-init cni: {path} can't be renamed to {path}.1: {error}");
    }
    Ok(())
}

/// Renames a file to `PATH.1`, replacing the previous one. Calls that have it open write to it still, so no line is lost; of
/// calls that find it too long at the same time, one renames it.
fn rotate(path: &Path, file: File) -> io::Result<()> {
    let Ok(held) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { return Ok(()) };
    let (opened, named) = match (held.metadata()?, fs::metadata(path)) {
        // Another call has renamed it.
        (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        (opened, named) => (opened, named?),
    };
    if !opened.is_file() || (opened.dev(), opened.ino()) != (named.dev(), named.ino()) {
        return Ok(());
    }
    let mut aside = OsString::from(path);
    aside.push(".1");
    fs::rename(path, aside)
}

static COLLECTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

pub(super) fn collect_warnings() {
    log_to(Collector);
}

pub(super) fn warnings() -> Vec<String> {
    COLLECTED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

struct Collector;

impl Log for Collector {
    fn level(&self, _: &str) -> LevelFilter {
        self.max_level()
    }

    fn max_level(&self) -> LevelFilter {
        LevelFilter::WARN
    }

    fn write(&self, event: &Event<'_>) {
        let mut text = WarningText(String::new());
        event.record(&mut text);
        COLLECTED.lock().unwrap_or_else(PoisonError::into_inner).push(text.0);
    }
}

struct WarningText(String);

impl Visit for WarningText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        written.expect("a text takes whatever is written to it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_where_the_log_can_not_be_rotated() {
        let folder = testkit::folder::Folder::new("cni-log");
        let path = folder.join("cni.log");
        fs::create_dir_all(folder.join("cni.log.1")).expect("a folder in its way");
        append(&path, b"line\n", 1).expect("it is written");
        assert_eq!(fs::read(&path).expect("the log"), b"line\n");
    }
}
