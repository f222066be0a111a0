//! iptables as a backend: `iptables-save` to read, `iptables-restore` to commit.

mod programs;

use super::{Error, Result, Variant};
use crate::sys::exec::{self, ExecError};
use crate::sys::{process, xtables};
use rules::{Family, Listing, Table, TableChange, Version, parse, render, saved};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, ffi::OsStr, fs, io, time::Duration};

pub use programs::{Programs, find};

/// Limits and version of the iptables programs, and the legacy programs' shared lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    pub wait: u32,
    pub file: Option<PathBuf>,
    /// The iptables version, if known; read only when needed.
    pub version: Option<Version>,
    /// Time limit of each program, including its wait for the lock.
    pub timeout: Duration,
}

impl Default for Lock {
    fn default() -> Self {
        Self { wait: 0, file: None, version: None, timeout: exec::TIMEOUT }
    }
}

impl Lock {
    /// The programs lock only their standard input: a node's pods share the lock file, and we hold the namespace's own lock.
    pub fn on_node(wait: u32) -> Self {
        Self { wait, file: Some(PathBuf::from("/proc/self/fd/0")), ..Self::default() }
    }
}

/// A family's tables to list in our namespace. iptables-legacy tables with only empty accepting chains are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundTables {
    pub tables: Vec<Table>,
    /// False if the kernel's list of legacy tables can't be read: the programs then list only tables passed by name.
    pub(super) is_listed: bool,
}

pub const CAPTURING: [Table; 3] = [Table::Raw, Table::Mangle, Table::Nat];

/// Reads the list in `/proc` (root only), else tests for `unlisted` tables, which may create them ([`xtables::holds_anything`]).
pub fn legacy_tables(family: Family, unlisted: &[Table]) -> io::Result<FoundTables> {
    let file = match family {
        Family::V4 => "/proc/thread-self/net/ip_tables_names",
        Family::V6 => "/proc/thread-self/net/ip6_tables_names",
    };
    let list = fs::read_to_string(file).ok();
    let may_be_there = |table: &Table| match &list {
        Some(list) => list.lines().any(|name| name == table.name()),
        None => unlisted.contains(table),
    };
    let mut tables = Vec::new();
    for table in Table::ALL.into_iter().filter(may_be_there) {
        if xtables::holds_anything(family, table.name())? {
            tables.push(table);
        }
    }
    Ok(FoundTables { tables, is_listed: list.is_some() })
}

pub(super) const COUNTERS: &[&str] = &["-c"];
pub(super) const NO_COUNTERS: &[&str] = &[];

pub(super) struct Shown {
    pub(super) listing: Listing,
    /// Tables missing from the listing because the program can't show them, each with the reason.
    pub(super) unlistable: BTreeMap<Table, String>,
}

/// Reads all tables of one family, including other programs' rules that can be parsed. If the nft program fails because of one
/// table, lists the tables one by one.
pub(super) fn listing(
    programs: &Programs,
    family: Family,
    there: &FoundTables,
    counters: &[&str],
) -> Result<Shown> {
    let save_one = |table: &Table| save(programs, family, &[counters, &["-t", table.name()]].concat());
    let mut all = Shown { listing: Listing::empty(family), unlistable: BTreeMap::new() };
    if programs.variant == Variant::Legacy {
        let text = match there.is_listed {
            true => save(programs, family, counters)?,
            false => there.tables.iter().map(save_one).collect::<Result<String>>()?,
        };
        return Ok(Shown { listing: understood(programs, family, &text)?, ..all });
    }
    let failure = match save(programs, family, counters) {
        Err(Error::Program { source, .. }) if !there.tables.is_empty() => source,
        text => return shown(programs, family, &text?),
    };
    if !matches!(&failure, ExecError::Status { status, .. } if status.code().is_some()) {
        all.unlistable.extend(there.tables.iter().map(|table| (*table, failure.to_string())));
        return Ok(all);
    }
    for table in &there.tables {
        match save_one(table) {
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

/// A brief reason for the failure.
fn complaint(failure: &ExecError) -> String {
    match failure {
        ExecError::Status { stderr, .. } => {
            let first = stderr.lines().map(str::trim).find(|line| !line.is_empty());
            format!("it failed: {}", first.unwrap_or_default())
        }
        other => other.to_string(),
    }
}

fn shown(programs: &Programs, family: Family, text: &str) -> Result<Shown> {
    let made_with_nft = |table| (table, "it has rules made with nft".to_owned());
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

fn save(programs: &Programs, family: Family, arguments: &[&str]) -> Result<String> {
    let output = programs.runner.run(programs.save(family)?, arguments);
    output.map_err(|error| explain(error, programs, ""))
}

fn understood(programs: &Programs, family: Family, text: &str) -> Result<Listing> {
    let program = programs.save(family)?.display().to_string();
    parse::listing(text, family).map_err(|source| Error::Output { program, source })
}

/// Starts the program that commits changes to a family's tables. Without input, it changes nothing and holds no lock.
pub(super) fn writer(programs: &Programs, lock: &Lock, family: Family) -> Result<exec::Waiting> {
    let program = programs.restore(family)?;
    // Must be below the program's time limit. Through iptables 1.8.9, 0 or none means forever.
    let wait = u64::from(lock.wait).min(lock.timeout.as_secs().saturating_sub(1)).max(1);
    let wait = format!("--wait={wait}");
    let arguments: &[&str] = if programs.waits { &["--noflush", &wait] } else { &["--noflush"] };
    let file = lock.file.as_deref().filter(|_| programs.moves_lock(lock.version)).map(Path::as_os_str);
    let variables: Vec<(&str, &OsStr)> = file.into_iter().map(|file| ("XTABLES_LOCKFILE", file)).collect();
    let waiting = programs.runner.start(program, arguments, &variables);
    waiting.map_err(|error| explain(error, programs, ""))
}

pub(super) fn commit(writer: exec::Waiting, programs: &Programs, changes: &[TableChange]) -> Result<()> {
    let script: String = changes.iter().map(render::iptables::change).collect();
    writer.finish(&script).map(drop).map_err(|error| explain(error, programs, &script))
}

pub(super) fn explain(error: ExecError, programs: &Programs, script: &str) -> Error {
    let hint = match &error {
        ExecError::Status { stderr, .. } if is_conflict(stderr) => {
            return Error::Conflict { source: error.into() };
        }
        ExecError::Start { .. } => format!("{} can't be run", programs.variant),
        ExecError::Late { .. } => format!("{} did not finish", programs.variant),
        ExecError::Long { .. } => format!("{} printed too much", programs.variant),
        ExecError::Status { stderr, status, .. } => hint(stderr, status.code(), programs.variant, script),
    };
    Error::Program { hint, source: error }
}

/// Lock that legacy programs share (`XT_LOCK_NAME` in iptables), unless `XTABLES_LOCKFILE` names another.
const LOCK: &str = "/run/xtables.lock";

fn is_conflict(stderr: &str) -> bool {
    stderr.contains("Resource temporarily unavailable") && !stderr.contains("lock")
        || stderr.contains("Interrupted system call should be restarted")
}

/// iptables' exit status if the lock is held (`RESOURCE_PROBLEM` in xtables.h).
const NO_LOCK: i32 = 4;

fn hint(stderr: &str, code: Option<i32>, variant: Variant, script: &str) -> String {
    let says = |text: &str| stderr.contains(text);
    let module = format!("modprobe {}", module(stderr, variant));
    if let Some((_, rest)) = stderr.split_once("can't open lock file") {
        let file = rest.split(':').next().map(str::trim).filter(|file| !file.is_empty()).unwrap_or(LOCK);
        format!("{variant} can't open its lock file {file}: requires root and an existing folder")
    } else if says("xtables lock") || (code == Some(NO_LOCK) && says("lock")) {
        let (who, how, or_end) = match process::lock_holder(Path::new(LOCK)) {
            Some(id) => (format!("process {id} holds"), "", ", or end it"),
            None => ("another program held".to_owned(), ", for too long", ""),
        };
        format!(
            "{who} the iptables lock, {LOCK} (or XTABLES_LOCKFILE){how}; raise --lock-wait, and \
             --timeout if that is shorter{or_end}"
        )
    } else if says("Permission denied") || says("Operation not permitted") {
        format!("{variant} may not change rules here: CAP_NET_ADMIN and CAP_NET_RAW are required")
    } else if says("unable to initialize table") {
        // The restore programs do not print the reason.
        format!(
            "{variant} can't use its table: CAP_NET_ADMIN and CAP_NET_RAW are missing, or the kernel has no such table; \
             try {module} on the node, or another backend"
        )
    } else if says("can't initialize") || says("does not exist") && says("Table") {
        format!("the kernel has no tables for {variant}; try {module} on the node, or another backend")
    } else if let Some(line) =
        failed_line(stderr).and_then(|number| script.lines().nth(number.checked_sub(1)?))
    {
        format!("{variant} refused {line:?}")
    } else {
        format!("{variant} failed")
    }
}

fn module(stderr: &str, variant: Variant) -> String {
    if variant == Variant::Nft {
        return "nf_tables".to_owned();
    }
    let family = if stderr.contains("ip6tables") { "ip6table" } else { "iptable" };
    let is_named = |table: &Table| {
        let name = table.name();
        [format!("table '{name}'"), format!("table `{name}'")].iter().any(|named| stderr.contains(named))
    };
    let table = Table::ALL.into_iter().find(is_named).unwrap_or(Table::Nat);
    format!("{family}_{}", table.name())
}

/// Parses `line 7 failed`, `line 7: ...` or `at line: 7`.
fn failed_line(stderr: &str) -> Option<usize> {
    let (_, rest) = stderr.rsplit_once("at line: ").or_else(|| stderr.rsplit_once("line "))?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stderr: &str, code: i32, expected: &str) {
        let script = "*nat\n-A OUTPUT -j NOWHERE\nCOMMIT\n";
        let hint = hint(stderr, Some(code), Variant::Nft, script);
        assert!(hint.contains(expected), "{hint:?}");
    }

    #[test]
    fn errors_of_both_variants_are_parsed() {
        check(
            "iptables-restore v1.8.9 (nf_tables): Couldn't load target `NOWHERE'\nError occurred at line: 2\n",
            2,
            "refused \"-A OUTPUT -j NOWHERE\"",
        );
        check(
            "iptables-restore v1.6.1: iptables-restore: unable to initialize table 'nat'\n\nError occurred at line: 1\n",
            2,
            "CAP_NET_RAW are missing, or the kernel has no such table",
        );
        check("iptables-restore: line 2 failed\n", 1, "refused \"-A OUTPUT -j NOWHERE\"");
        check(
            "iptables-restore v1.8.9 (nf_tables): \nline 2: RULE_APPEND failed (Invalid argument): rule in chain OUTPUT\n",
            4,
            "refused",
        );
        check(
            "Another app is currently holding the xtables lock; still 1s 0us time ahead to have a chance to grab the lock...\n",
            4,
            "lock",
        );
        check("Fatal: can't open lock file /run/xtables.lock: Permission denied\n", 4, "existing folder");
        check("Fatal: can't open lock file /tmp/x: No such file or directory\n", 4, "lock file /tmp/x: ");
        check(
            "Could not fetch rule set generation id: Permission denied (you must be root)\n",
            4,
            "CAP_NET_ADMIN",
        );
    }

    #[test]
    fn module_matches_table_and_family() {
        for (stderr, module) in [
            ("iptables-restore: unable to initialize table 'nat'\n", "iptable_nat"),
            ("ip6tables-restore: unable to initialize table 'mangle'\n", "ip6table_mangle"),
            ("iptables: can't initialize iptables table `raw': Table does not exist\n", "iptable_raw"),
        ] {
            let hint = hint(stderr, Some(3), Variant::Legacy, "");
            assert!(hint.contains(&format!("try modprobe {module} on the node")), "{hint:?}");
        }
    }
}
