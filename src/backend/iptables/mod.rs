//! iptables as a backend: `iptables-save` to read, `iptables-restore` to commit.

mod failure;
mod programs;

pub use programs::{Programs, find};

use super::{Error, Variant};
use crate::sys::exec;
use rules::{Family, Listing, Table, TableChange, Version, parse, render};
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

/// How to hold the lock that legacy programs share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// Seconds to wait for it.
    pub wait: u32,
    /// Another file than `/run/xtables.lock` to lock.
    pub file: Option<PathBuf>,
    /// The version of iptables, where it is known; it is asked only if it matters.
    pub version: Option<Version>,
}

/// Whether the kernel holds legacy tables of this family in our namespace. Asking creates none, where
/// `iptables-legacy-save -t TABLE` would create the table.
pub fn legacy_tables_exist(family: Family) -> bool {
    let file = match family {
        Family::V4 => "/proc/thread-self/net/ip_tables_names",
        Family::V6 => "/proc/thread-self/net/ip6_tables_names",
    };
    fs::read(file).is_ok_and(|names| !names.is_empty())
}

/// Reads all tables of one family, with the rules of other programs as far as they are understood.
pub(super) fn listing(programs: &Programs, family: Family) -> Result<Listing, Error> {
    let program = programs.save(family)?;
    let output = exec::run(program, &[], &[], "").map_err(|error| failure::explain(error, programs, ""))?;
    let incompatible = output.stdout.lines().find_map(incompatible);
    if let Some(table) = incompatible {
        return Err(Error::Incompatible { program: program.display().to_string(), table });
    }
    parse::listing(&output.stdout, family)
        .map_err(|source| Error::Output { program: program.display().to_string(), source })
}

/// The table that a remark of iptables (nft) says it can't show. The program ends with success all the same.
fn incompatible(line: &str) -> Option<Table> {
    let (name, rest) = line.strip_prefix("# Table `")?.split_once('\'')?;
    rest.contains("is incompatible").then(|| Table::ALL.into_iter().find(|table| table.name() == name))?
}

/// Commits changes of one family's tables in one run of the program, each table on its own.
pub(super) fn commit(
    programs: &Programs,
    lock: &Lock,
    family: Family,
    changes: &[TableChange],
) -> Result<(), Error> {
    let program = programs.restore(family)?;
    let script: String = changes.iter().map(render::iptables::change).collect();
    // Zero, or no flag at all, means to wait for ever to the programs of 1.8.9: they set no alarm then.
    let wait = format!("--wait={}", lock.wait.max(1));
    let arguments: &[&str] = if programs.waits() { &["--noflush", &wait] } else { &["--noflush"] };
    let file = lock.file.as_deref().filter(|_| programs.moves_lock(lock.version)).map(Path::as_os_str);
    let variables: Vec<(&str, &OsStr)> = file.into_iter().map(|file| ("XTABLES_LOCKFILE", file)).collect();
    exec::run(program, arguments, &variables, &script)
        .map(drop)
        .map_err(|error| failure::explain(error, programs, &script))
}
