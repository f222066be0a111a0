//! Checks the system calls of running programs, traced by `strace`, against a seccomp profile of `docker/cni/seccomp`.
//! `scripts/seccomp` sets `SECCOMP_LOGS`, a folder for the traces, and `SECCOMP_PROGRAMS`, a folder with other builds.

use crate::until;
use serde_json::Value;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

const LOGS: &str = "SECCOMP_LOGS";
const PROGRAMS: &str = "SECCOMP_PROGRAMS";

/// Command for a program with this profile, traced if `SECCOMP_LOGS` is set.
pub fn command(profile: &str, program: &Path) -> Command {
    match env::var_os(LOGS) {
        Some(folder) => traced(program, &new_log(Path::new(&folder), profile)),
        None => Command::new(program),
    }
}

pub struct TracedPrograms {
    profile: &'static str,
    folder: PathBuf,
    logs: RefCell<Vec<PathBuf>>,
}

impl TracedPrograms {
    /// `folder` holds the traces unless `SECCOMP_LOGS` is set.
    pub fn new(profile: &'static str, folder: &Path) -> Self {
        let folder = env::var_os(LOGS).map_or_else(|| folder.to_owned(), PathBuf::from);
        fs::create_dir_all(&folder).expect("a folder");
        Self { profile, folder, logs: RefCell::default() }
    }

    pub fn command(&self, program: &Path) -> Command {
        let log = new_log(&self.folder, self.profile);
        let command = traced(program, &log);
        self.logs.borrow_mut().push(log);
        command
    }

    /// Panics with each call that the profile lacks. The programs must have ended.
    #[track_caller]
    pub fn check(&self) {
        let allowed = allowed(self.profile);
        let (mut called, mut missing) = (BTreeSet::new(), BTreeMap::new());
        for log in self.logs.borrow().iter() {
            let trace = finished(log);
            for (name, line) in trace.lines().filter_map(|line| Some((name(line)?, line))) {
                called.insert(name.to_owned());
                if !allowed.contains(name) {
                    missing.entry(name.to_owned()).or_insert_with(|| line.to_owned());
                }
            }
        }
        assert!(called.len() > 20, "{called:?}");
        let lines: Vec<&str> = missing.values().map(String::as_str).collect();
        let names: Vec<&str> = missing.keys().map(String::as_str).collect();
        assert!(names.is_empty(), "{} lacks {}\n{}", self.profile, names.join(" "), lines.join("\n"));
    }
}

fn new_log(folder: &Path, profile: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    folder.join(format!("{profile}.{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// Traces a program. The child process is the program itself, with its signals and exit code: with `-D`, the tracer is a
/// grandchild. `PATH` is empty, as in the images.
fn traced(program: &Path, log: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-q", "-e", "signal=none", "-E", "PATH=/nowhere", "-o"]).arg(log);
    match env::var_os(PROGRAMS) {
        Some(folder) => command.arg(Path::new(&folder).join(program.file_name().expect("a name"))),
        None => command.arg(program),
    };
    command
}

/// The trace of an ended program; the tracer ends a moment later.
fn finished(log: &Path) -> String {
    let mut trace = String::new();
    until("the trace is complete", || {
        trace = fs::read_to_string(log).unwrap_or_default();
        trace.ends_with('\n') && trace.lines().last().is_some_and(|line| line.contains(" +++ "))
    });
    trace
}

/// Name of the call on a trace's line: `4711  openat(AT_FDCWD, ..`.
fn name(line: &str) -> Option<&str> {
    let (name, _) = line.split_whitespace().nth(1)?.split_once('(')?;
    Some(name)
}

fn allowed(profile: &str) -> BTreeSet<String> {
    let path = format!("docker/cni/seccomp/{profile}.json");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = here.ancestors().map(|folder| folder.join(&path)).find(|file| file.is_file());
    let text = fs::read_to_string(file.unwrap_or_else(|| panic!("{path} is missing"))).expect("UTF-8");
    let read: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let groups = read["syscalls"].as_array().expect("groups of calls");
    let names = groups.iter().flat_map(|group| group["names"].as_array().expect("names"));
    names.map(|name| name.as_str().expect("a name").to_owned()).collect()
}
