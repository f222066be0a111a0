//! `sidecar-init man`: the manual, a page for each command.

use super::tree::{Extent, tree};
use super::{Exit, logging::Stdout, report, run, start_logging};
use command_line::manual;
use mesh::sources::{Raw, SettingReader};
use mesh::{InputProblem, Mesh, Problems, Setting};
use std::path::Path;

pub(super) fn run(raw: &Raw, mut problems: Vec<InputProblem>) -> Result<Exit, Problems> {
    if raw.get(Setting::ManDirectory).is_none() {
        problems
            .push(InputProblem::of("man", "needs a folder to write to, such as /usr/local/share/man/man1"));
    }
    let mut reader = SettingReader::new(raw, problems);
    let (_, logging) = run::read(&mut reader);
    let folder =
        reader.one_of(Setting::ManDirectory, "a folder", |text| (!text.is_empty()).then(|| text.to_owned()));
    reader.finish()?;
    start_logging(raw, &logging, Stdout::Any)?;
    let program = tree(Mesh::default(), Extent::All);
    Ok(match folder.map_or(Ok(()), |folder| manual::write(&program, Path::new(&folder))) {
        Ok(()) => Exit::Done,
        Err(error) => report::failure(&error, Exit::Failed),
    })
}
