//! The iptables programs of one variant: their files and capabilities.

use super::Variant;
use crate::backend::{Error, Result};
use crate::sys::exec::{self, Runner};
use ::iptables::IPTables;
use rules::{Chain, Family, Table, Version};
use std::path::{Path, PathBuf};

/// First version whose restore program can wait for the lock (iptables release notes).
const WAITS_SINCE: Version = Version(1, 6, 2);
/// First version that takes the lock's path from `XTABLES_LOCKFILE`.
const LOCK_FILE_SINCE: Version = Version(1, 8, 6);

#[derive(Clone, Debug)]
pub struct Programs {
    pub(super) variant: Variant,
    /// Part of the programs' names after `iptables` and `ip6tables`: `-legacy`, `-nft`, or empty.
    infix: &'static str,
    pub(super) waits: bool,
    v4: Option<Pair>,
    v6: Option<Pair>,
    pub(super) runner: Runner,
}

#[derive(Clone, Debug)]
struct Pair {
    save: PathBuf,
    restore: PathBuf,
}

/// Finds the programs named after a variant, else plain `iptables` of this variant. A known `version` is not reread.
pub fn find(variant: Variant, version: Option<Version>, runner: &Runner) -> Option<Programs> {
    let runner = runner.clone();
    let infix = match variant {
        Variant::Legacy => "-legacy",
        Variant::Nft => "-nft",
    };
    let (infix, waits) = match pair("iptables", infix) {
        // Programs have had these names, and --wait, since 1.8.0; the nft variant locks nothing.
        Some(_) => (infix, variant == Variant::Legacy),
        None => {
            pair("iptables", "")?;
            let (_, version_found) = plain(variant, &runner).filter(|(found, _)| *found == variant)?;
            ("", variant == Variant::Legacy && version.unwrap_or(version_found) >= WAITS_SINCE)
        }
    };
    let [v4, v6] = ["iptables", "ip6tables"].map(|name| pair(name, infix));
    Some(Programs { variant, infix, waits, v4, v6, runner })
}

fn pair(name: &str, infix: &str) -> Option<Pair> {
    let find = |verb: &str| exec::find(&format!("{name}{infix}-{verb}"));
    Some(Pair { save: find("save")?, restore: find("restore")? })
}

/// Variant and version of plain `iptables`: before 1.8.0, always legacy.
fn plain(variant: Variant, runner: &Runner) -> Option<(Variant, Version)> {
    let program = exec::find("iptables")?;
    let complain = |error: &str| {
        let program = program.display();
        tracing::warn!(
            target: "iptables",
            "{program} does not report its version, so it can't be used as {variant}: {error}"
        );
    };
    let answer = match runner.run(&program, &["--version"]) {
        Ok(answer) => answer,
        Err(error) => {
            complain(&error.to_string());
            return None;
        }
    };
    let found = if answer.contains("(nf_tables)") { Variant::Nft } else { Variant::Legacy };
    let version = version_in(&answer);
    if version.is_none() {
        complain(&format!("it printed {:?}", answer.trim()));
    }
    Some((found, version?))
}

/// The version in the output of `--version`: `iptables v1.8.9 (legacy)`.
fn version_in(answer: &str) -> Option<Version> {
    answer.split_whitespace().nth(1)?.parse().ok()
}

impl Programs {
    /// True if the restore program takes no lock before it reads a table: since 1.8.0, like variant names.
    pub fn waits_for_input(&self) -> bool {
        !self.infix.is_empty()
    }

    pub fn version(&self) -> Option<Version> {
        version_in(&self.runner.run(&exec::find(&format!("iptables{}", self.infix))?, &["--version"]).ok()?)
    }

    /// Lists an IPv4 chain (`iptables -S`). The `iptables` crate runs the program without limits, so a limited child process
    /// calls the crate; the limits also bound the wait for the lock.
    pub fn can_list(&self, table: Table, chain: &Chain) -> Result<(), String> {
        let cmd = match self.infix {
            "-legacy" => "iptables-legacy",
            "-nft" => "iptables-nft",
            _ => "iptables",
        };
        let program = IPTables { cmd, has_check: true, has_wait: self.waits, is_numeric: true };
        let command = format!("{cmd} -t {} -S {chain}", table.name());
        let listed =
            || program.list(table.name(), chain.as_str()).map(drop).map_err(|error| error.to_string());
        self.runner.call(&command, listed).map_err(|error| error.to_string())?
    }

    /// True if the lock file can differ from the machine's. The nft variant has no lock.
    pub fn moves_lock(&self, known: Option<Version>) -> bool {
        self.variant == Variant::Legacy && known.or_else(|| self.version()) >= Some(LOCK_FILE_SINCE)
    }

    pub fn save(&self, family: Family) -> Result<&Path> {
        self.pair(family).map(|pair| pair.save.as_path())
    }

    pub fn restore(&self, family: Family) -> Result<&Path> {
        self.pair(family).map(|pair| pair.restore.as_path())
    }

    fn pair(&self, family: Family) -> Result<&Pair> {
        let (pair, name) = match family {
            Family::V4 => (&self.v4, "iptables"),
            Family::V6 => (&self.v6, "ip6tables"),
        };
        pair.as_ref().ok_or_else(|| {
            let infix = self.infix;
            Error::NoProgram(format!(
                "{family} needs {name}{infix}-save and {name}{infix}-restore on PATH; install them"
            ))
        })
    }
}
