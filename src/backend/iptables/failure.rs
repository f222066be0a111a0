//! Meaning of iptables' failures: the one place that reads its complaints.

use super::{Programs, Variant};
use crate::backend::Error;
use crate::sys::{exec::ExecError, process};
use rules::Table;
use std::path::Path;

pub(super) fn explain(error: ExecError, programs: &Programs, script: &str) -> Error {
    let hint = match &error {
        ExecError::Status { stderr, .. } if is_conflict(stderr) => {
            return Error::Conflict { source: error.into() };
        }
        ExecError::Start { .. } => format!("{} can't be run", programs.variant()),
        ExecError::Late { .. } => format!("{} does not end", programs.variant()),
        ExecError::Long { .. } => format!("{} prints without end", programs.variant()),
        ExecError::Status { stderr, status, .. } => hint(stderr, status.code(), programs.variant(), script),
    };
    Error::Program { hint, source: error }
}

/// The lock that legacy programs share (`XT_LOCK_NAME` in iptables), unless `XTABLES_LOCKFILE` names another.
const LOCK: &str = "/run/xtables.lock";

/// nf_tables refuses a change that was made against an older generation of the rules.
fn is_conflict(stderr: &str) -> bool {
    // The legacy variant says the same of its lock.
    stderr.contains("Resource temporarily unavailable") && !stderr.contains("lock")
        || stderr.contains("Interrupted system call should be restarted")
}

/// Exit status of iptables when it did not get the lock (`RESOURCE_PROBLEM` in xtables.h).
const NO_LOCK: i32 = 4;

fn hint(stderr: &str, code: Option<i32>, variant: Variant, script: &str) -> String {
    let says = |text: &str| stderr.contains(text);
    let module = format!("modprobe {}", module(stderr, variant));
    if let Some((_, rest)) = stderr.split_once("can't open lock file") {
        let file = rest.split(':').next().map(str::trim).filter(|file| !file.is_empty()).unwrap_or(LOCK);
        format!("{variant} can't open its lock file, {file}: it takes root, and a folder to put it in")
    } else if says("xtables lock") || (code == Some(NO_LOCK) && says("lock")) {
        match process::lock_holder(Path::new(LOCK)) {
            Some(id) => {
                format!(
                    "process {id} holds the lock of iptables, {LOCK} (unless XTABLES_LOCKFILE names another); raise --lock-wait, \
                     and --timeout if that is shorter, or end it"
                )
            }
            None => {
                format!(
                    "another program held the lock of iptables, {LOCK} (unless XTABLES_LOCKFILE names another), for too long; \
                     raise --lock-wait, and --timeout if that is shorter"
                )
            }
        }
    } else if says("Permission denied") || says("Operation not permitted") {
        format!("{variant} may not change rules here; it needs CAP_NET_ADMIN and CAP_NET_RAW")
    } else if says("unable to initialize table") {
        // The restore programs do not print why.
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

/// The module of the kernel that has the table which a complaint names, for the family of the program that complains.
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

/// The number in `line 7 failed`, in `line 7: ...`, or in `Error occurred at line: 7`.
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
    fn complaints_of_both_variants_are_understood() {
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
        check("Fatal: can't open lock file /run/xtables.lock: Permission denied\n", 4, "takes root");
        check("Fatal: can't open lock file /tmp/x: No such file or directory\n", 4, "lock file, /tmp/x: ");
        check(
            "Could not fetch rule set generation id: Permission denied (you must be root)\n",
            4,
            "CAP_NET_ADMIN",
        );
    }

    #[test]
    fn the_module_is_that_of_the_table_and_the_family() {
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
