//! iptables as a backend: `iptables-save` to read, `iptables-restore` to commit.

mod failure;
mod programs;

pub use programs::{Programs, find};

use super::{Error, Variant};
use crate::sys::exec::{self, ExecError};
use crate::sys::xtables;
use rules::{Family, Listing, Table, TableChange, Version, parse, render, saved};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, ffi::OsStr, fs, io, time::Duration};

/// Limits and version of the programs of iptables, and the lock that those of the legacy variant share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Seconds to wait for the lock.
    pub wait: u32,
    /// Another file than `/run/xtables.lock` to lock.
    pub file: Option<PathBuf>,
    /// The version of iptables, where it is known; it is read only if it matters.
    pub version: Option<Version>,
    /// How long each program may take, the wait for the lock included.
    pub timeout: Duration,
}

impl Default for Lock {
    fn default() -> Self {
        Self { wait: 0, file: None, version: None, timeout: exec::TIMEOUT }
    }
}

impl Lock {
    /// On a node all pods share the file system, and with it the lock that each would wait for. We hold the namespace's
    /// own, so the program may lock whatever is its alone: its standard input.
    pub fn on_node(wait: u32) -> Self {
        Self { wait, file: Some(PathBuf::from("/proc/self/fd/0")), ..Self::default() }
    }
}

/// Legacy tables of one family in our namespace that hold more than empty chains which accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyTables {
    names: Vec<String>,
    /// False if the kernel's list of them can't be read: the programs then know of no table that is not named.
    is_listed: bool,
}

pub const CAPTURING: [Table; 3] = [Table::Raw, Table::Mangle, Table::Nat];

/// The list in `/proc` names those that are there, so that asking for them creates none. Root alone may read it; for
/// everybody else, and without `/proc`, those of `unlisted` are asked for, which may make them, empty (see
/// [`xtables::holds_anything`]).
pub fn legacy_tables(family: Family, unlisted: &[Table]) -> io::Result<LegacyTables> {
    let file = match family {
        Family::V4 => "/proc/thread-self/net/ip_tables_names",
        Family::V6 => "/proc/thread-self/net/ip6_tables_names",
    };
    let list = fs::read_to_string(file);
    let is_listed = list.is_ok();
    let candidates: Vec<&str> = match &list {
        Ok(list) => list.lines().collect(),
        Err(_) => unlisted.iter().map(|table| table.name()).collect(),
    };
    let mut names = Vec::new();
    for name in candidates {
        if xtables::holds_anything(family, name)? {
            names.push(name.to_owned());
        }
    }
    Ok(LegacyTables { names, is_listed })
}

impl LegacyTables {
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn contains(&self, table: Table) -> bool {
        self.names.iter().any(|name| name == table.name())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counters {
    Leave,
    List,
}

impl Counters {
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Leave => &[],
            Self::List => &["-c"],
        }
    }
}

/// Reads legacy tables of one family, with the rules of other programs as far as they are understood.
pub(super) fn legacy_listing(
    programs: &Programs,
    family: Family,
    tables: &LegacyTables,
    counters: Counters,
) -> Result<Listing, Error> {
    if tables.is_listed {
        return understood(programs, family, &save(programs, family, counters.words())?);
    }
    let mut text = String::new();
    for name in &tables.names {
        text.push_str(&save(programs, family, &[counters.words(), &["-t", name]].concat())?);
    }
    understood(programs, family, &text)
}

pub(super) struct Shown {
    pub(super) listing: Listing,
    /// The tables that it does not show, or not so that they can be read, each with the reason.
    pub(super) unlistable: BTreeMap<Table, String>,
}

impl From<Listing> for Shown {
    fn from(listing: Listing) -> Self {
        Self { listing, unlistable: BTreeMap::new() }
    }
}

/// Reads all tables of one family, with the rules of other programs as far as they are understood. `tables` are those that
/// are there: where the program fails because of one of them, they are listed one by one.
pub(super) fn listing(
    programs: &Programs,
    family: Family,
    tables: &[Table],
    counters: Counters,
) -> Result<Shown, Error> {
    let failure = match save(programs, family, counters.words()) {
        Err(Error::Program { source, .. }) if !tables.is_empty() => source,
        text => return shown(programs, family, &text?),
    };
    let mut all = Shown::from(Listing::empty(family));
    if !matches!(&failure, ExecError::Status { status, .. } if status.code().is_some()) {
        // It was killed, or can't be run at all.
        all.unlistable.extend(tables.iter().map(|table| (*table, failure.to_string())));
        return Ok(all);
    }
    for table in tables {
        match save(programs, family, &[counters.words(), &["-t", table.name()]].concat()) {
            Err(Error::Program { source, .. }) => drop(all.unlistable.insert(*table, complaint(&source))),
            text => {
                let Shown { listing, unlistable } = shown(programs, family, &text?)?;
                all.listing.chains.extend(listing.chains);
                all.unlistable.extend(unlistable);
            }
        }
    }
    Ok(all)
}

/// The reason in a few words: complaints begin with it.
fn complaint(failure: &ExecError) -> String {
    match failure {
        ExecError::Status { stderr, .. } => {
            let first = stderr.lines().map(str::trim).find(|line| !line.is_empty());
            format!("it fails: {}", first.unwrap_or_default())
        }
        other => other.to_string(),
    }
}

fn shown(programs: &Programs, family: Family, text: &str) -> Result<Shown, Error> {
    let made_with_nft = |table| (table, "something in it was made with nft".to_owned());
    let mut unlistable: BTreeMap<Table, String> =
        text.lines().filter_map(saved::incompatible).map(made_with_nft).collect();
    let listing = match parse::listing(text, family) {
        Ok(listing) => listing,
        Err(_) if blocks(text).next().is_none() => understood(programs, family, text)?,
        Err(_) => {
            let mut listing = Listing::empty(family);
            for (table, block) in blocks(text) {
                match parse::listing(block, family) {
                    Ok(part) => listing.chains.extend(part.chains),
                    Err(error) => {
                        unlistable.insert(table, format!("its listing can't be read: {error}"));
                    }
                }
            }
            listing
        }
    };
    Ok(Shown { listing, unlistable })
}

fn blocks(text: &str) -> impl Iterator<Item = (Table, &str)> {
    text.split("\nCOMMIT\n").filter_map(|block| {
        let start = if block.starts_with('*') { 0 } else { block.find("\n*")? + 1 };
        let block = &block[start..];
        let name = block[1..].lines().next()?.trim();
        Some((Table::ALL.into_iter().find(|table| table.name() == name)?, block))
    })
}

fn save(programs: &Programs, family: Family, arguments: &[&str]) -> Result<String, Error> {
    let output = programs.runner().run(programs.save(family)?, arguments);
    Ok(output.map_err(|error| failure::explain(error, programs, ""))?.stdout)
}

fn understood(programs: &Programs, family: Family, text: &str) -> Result<Listing, Error> {
    let program = programs.save(family)?.display().to_string();
    parse::listing(text, family).map_err(|source| Error::Output { program, source })
}

/// A program that waits for the changes that it is to commit.
pub(super) struct RestoreProcess(exec::Waiting);

/// Starts the program that commits changes of one family's tables. It touches nothing, and holds no lock, before it gets
/// the first table.
pub(super) fn writer(programs: &Programs, lock: &Lock, family: Family) -> Result<RestoreProcess, Error> {
    let program = programs.restore(family)?;
    // Shorter than the program may take: it says itself that it did not get the lock. Zero, or no flag at all, means to wait
    // for ever to the programs of 1.8.9: they set no alarm then.
    let wait = u64::from(lock.wait).min(lock.timeout.as_secs().saturating_sub(1)).max(1);
    let wait = format!("--wait={wait}");
    let arguments: &[&str] = if programs.waits() { &["--noflush", &wait] } else { &["--noflush"] };
    let file = lock.file.as_deref().filter(|_| programs.moves_lock(lock.version)).map(Path::as_os_str);
    let variables: Vec<(&str, &OsStr)> = file.into_iter().map(|file| ("XTABLES_LOCKFILE", file)).collect();
    let waiting = programs.runner().start(program, arguments, &variables);
    waiting.map(RestoreProcess).map_err(|error| failure::explain(error, programs, ""))
}

/// Commits changes of one family's tables in one run of the program, each table on its own.
pub(super) fn commit(
    writer: RestoreProcess,
    programs: &Programs,
    changes: &[TableChange],
) -> Result<(), Error> {
    let script: String = changes.iter().map(render::iptables::change).collect();
    writer.0.finish(&script).map(drop).map_err(|error| failure::explain(error, programs, &script))
}
