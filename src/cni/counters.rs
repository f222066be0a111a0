//! Counters of calls and repairs, their outcomes and durations, stored in the state directory for metrics; and the container
//! that is repaired, seen from the node.
//!
//! `counters.json` is read, changed and put in place under a separate lock.

use super::files::{self, Durability, Links, UnreadableFile};
use super::protocol::Places;
use super::watch::{TRACE_TIMEOUT, within};
use mesh::{Host, sources::name_servers};
use nix::fcntl::{Flock, FlockArg};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use serde::{Deserialize, Serialize};
use sidecar_init::sys::{address, process};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, io, net::IpAddr, os::unix::fs::OpenOptionsExt, time::Duration};

const FILE: &str = "counters.json";
const LOCK: &str = "counters.lock";
/// The limit of the file; real ones have a few kilobytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// The upper bounds of the histogram's buckets, in milliseconds. What takes longer is in one more.
pub(super) const BOUNDS: [u32; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CniCounters {
    pub(super) verbs: BTreeMap<String, CallCounters>,
}

/// The name under which repairs are counted, beside the verbs.
pub(super) const REPAIR: &str = "repair";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CallCounters {
    pub(super) outcomes: BTreeMap<String, u64>,
    pub(super) milliseconds: f64,
    /// Calls in each bucket of [`BOUNDS`], and those beyond.
    pub(super) buckets: Vec<u64>,
}

/// Waits for the lock in turn, however long that takes.
pub(super) fn count(folder: &Path, verb: &str, outcome: &str, took: Duration) -> io::Result<()> {
    files::make_folder(folder)?;
    let _held = lock(folder)?;
    let mut counters = read(folder)?;
    counters.add(verb, outcome, took);
    let text = serde_json::to_vec(&counters).expect("our own data has text keys and finite numbers");
    files::put(folder, FILE, &text, Durability::MayBeLost)
}

/// Reads the counters. A file that is missing, torn by a failure of the machine, or not ours counts as empty.
///
/// # Errors
/// When it can't be read, which may pass.
pub(super) fn read(folder: &Path) -> io::Result<CniCounters> {
    let text = match files::read(&folder.join(FILE), MAX_BYTES, Links::Refused) {
        Err(absent) if absent.is_absence() => Vec::new(),
        Err(UnreadableFile::Io(error)) => return Err(error),
        other => other.unwrap_or_default(),
    };
    Ok(serde_json::from_slice(&text).unwrap_or_default())
}

fn lock(folder: &Path) -> io::Result<Flock<fs::File>> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    // A pipe without a reader is an error, not a reason to wait.
    let file = options.custom_flags(O_NONBLOCK | O_NOFOLLOW).open(folder.join(LOCK))?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error.into())
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RepairTarget {
    Process(u32),
    Namespace(PathBuf),
}

impl RepairTarget {
    pub(crate) fn namespace(&self) -> PathBuf {
        match self {
            Self::Process(id) => Path::new("/proc").join(id.to_string()).join("ns/net"),
            Self::Namespace(path) => path.clone(),
        }
    }
}

/// Answers for a thread in the container's network namespace and on the node's file system.
impl Host for RepairTarget {
    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        address::all()
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        match self {
            Self::Process(id) => Ok(name_servers(&process::read_as(
                &Path::new("/proc").join(id.to_string()),
                "etc/resolv.conf",
            )?)),
            Self::Namespace(_) => Err(io::Error::other("a namespace has none; name a process with --pid")),
        }
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
    fn a_call_is_in_one_bucket() {
        let mut counters = CniCounters::default();
        for (milliseconds, bucket) in [(0, 0), (1, 0), (3, 2), (5_000, 11), (60_000, 12)] {
            counters.add("ADD", "captured", Duration::from_millis(milliseconds));
            assert!(counters.verbs["ADD"].buckets[bucket] > 0, "{milliseconds}");
        }
        assert_eq!(counters.verbs["ADD"].outcomes["captured"], 5);
        assert_eq!(counters.verbs["ADD"].buckets.iter().sum::<u64>(), 5);
    }

    #[test]
    fn counters_that_can_not_be_read_do_not_start_again() {
        let too_long = "a".repeat(5_000);
        let error = read(Path::new(&too_long)).expect_err("no counters");
        assert_eq!(error.raw_os_error(), Some(nix::libc::ENAMETOOLONG));
        assert_eq!(read(Path::new("/nonexistent")).expect("none yet"), CniCounters::default());
    }
}
