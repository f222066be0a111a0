//! `sidecar-init completions`: a script by which a shell completes our words, made from the tables of commands and of
//! settings.
//!
//! A script calls no program: all that it proposes stands in it. Flags without effect are not proposed.

mod bash;
mod fish;
mod proposals;
mod zsh;

use super::{Exit, logging::Stdout, report, run, start_logging};
use mesh::sources::{Raw, Reader};
use mesh::{Problem, Problems, Setting};

const SHELLS: &str = "bash, zsh or fish";

/// Runs the command.
pub(super) fn run(raw: &Raw, mut problems: Vec<Problem>) -> Result<Exit, Problems> {
    if raw.get(Setting::Shell).is_none() {
        problems.push(Problem::of("completions", format!("needs the name of a shell: {SHELLS}")));
    }
    let mut reader = Reader::new(raw, problems);
    let (_, logging) = run::read(&mut reader);
    let scripts: [fn() -> String; 3] = [bash::script, zsh::script, fish::script];
    let script = run::one_of(&mut reader, Setting::Shell, &scripts);
    reader.finish()?;
    start_logging(raw, &logging, Stdout::Answer)?;
    Ok(script.map_or(Exit::Done, |script| report::text(&script())))
}
