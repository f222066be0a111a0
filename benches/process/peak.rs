//! Largest resident set of a program, its children included, read in a separate run. The kernel also counts memory from before
//! the `exec`, so a small process starts the program; that process's memory is the floor, as `/bin/true` shows.

use super::{Outcome, stdout_of, succeed};
use nix::sys::resource::{UsageWho, getrusage};
use std::{
    env,
    io::{Write, stdout},
    process::{Command, Stdio},
};

/// Makes this program run a command and print its peak memory.
pub(super) const FLAG: &str = "--peak";

/// Runs `command` from a small process.
pub(super) fn kib(command: &Command) -> Outcome<i64> {
    let mut probe = Command::new(env::current_exe()?);
    probe.arg(FLAG).arg(command.get_program()).args(command.get_args());
    Ok(stdout_of(&mut probe)?.trim().parse()?)
}

pub(super) fn print(program: &str, args: &[String]) -> Outcome<()> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    succeed(&mut command)?;
    writeln!(stdout(), "{}", getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss())?;
    Ok(())
}
