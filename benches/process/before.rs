//! Adds a row for another build, such as the previous release, beside each row of the current build.

use super::{Outcome, Row, Table};
use std::{env, path::Path, process::Command};

const VARIABLE: &str = "BENCH_BEFORE";

/// Adds a row for the other build after each row that runs `binary`.
pub(super) fn add_to(table: &mut Table, binary: &Path) -> Outcome<()> {
    let Some(before) = env::var_os(VARIABLE) else { return Ok(()) };
    let before = Path::new(&before);
    if !before.is_file() {
        return Err(format!("{VARIABLE}: {} is not a file", before.display()).into());
    }
    let twins = |row: Row| {
        let twin = runs(&row.timed, binary).then(|| Row {
            // Leaked: a handful of names that live as long as the table.
            name: Box::leak(format!("{}, before", row.name).into_boxed_str()),
            baseline: Some(row.name),
            before: instead(&row.before, binary, before),
            timed: instead(&row.timed, binary, before),
        });
        [Some(row), twin].into_iter().flatten()
    };
    table.rows = std::mem::take(&mut table.rows).into_iter().flat_map(twins).collect();
    Ok(())
}

fn runs(commands: &[Command], binary: &Path) -> bool {
    commands.iter().any(|command| command.get_program() == binary)
}

fn instead(commands: &[Command], binary: &Path, before: &Path) -> Vec<Command> {
    let copy = |command: &Command| {
        let program =
            if command.get_program() == binary { before.as_os_str() } else { command.get_program() };
        let mut copy = super::program(Path::new(program), &[]);
        copy.args(command.get_args());
        copy
    };
    commands.iter().map(copy).collect()
}
