//! `sidecar-init man`: the manual, a page for each command, made from the tables of commands and of settings.

use super::command::{COMMANDS, CommandEntry};
use super::{Exit, logging::Stdout, report, run, start_logging, tree};
use crate::cni;
use command_line::roff::{self, closing, entry, escaped, heading, paragraphs};
use mesh::settings::{SettingKind, SettingRow};
use mesh::sources::{Raw, SettingReader};
use mesh::{InputProblem, Mesh, Problems, Setting};
use std::{fs, io, path::Path};

const PROGRAM: &str = "sidecar-init";

#[derive(Debug, thiserror::Error)]
#[error("{path} can't be written")]
struct Unwritten {
    path: String,
    source: io::Error,
}

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
    Ok(match folder.map_or(Ok(()), |folder| write(&folder)) {
        Ok(()) => Exit::Done,
        Err(error) => report::failure(&error, Exit::Failed),
    })
}

fn write(folder: &str) -> Result<(), Unwritten> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        |source| Unwritten { path, source }
    };
    fs::create_dir_all(folder).map_err(failed(Path::new(folder)))?;
    for (name, text) in pages() {
        let path = Path::new(folder).join(format!("{name}.1"));
        fs::write(&path, text).map_err(failed(&path))?;
    }
    Ok(())
}

fn pages() -> Vec<(String, String)> {
    let mut pages =
        vec![(PROGRAM.to_owned(), first_page()), (format!("{PROGRAM}-{}", cni::COMMAND), plugin())];
    pages.extend(COMMANDS.iter().map(|entry| (name(entry), page(entry))));
    pages
}

fn name(entry: &CommandEntry) -> String {
    format!("{PROGRAM}-{}", entry.name.replace(' ', "-"))
}

fn first_page() -> String {
    let mut text = head(PROGRAM, tree::ABOUT);
    let program = escaped(PROGRAM);
    text.push_str(&format!("{}.B {program}\n.I COMMAND\n[\\fIOPTIONS\\fP]\n", heading("Synopsis")));
    text.push_str(&heading("Commands"));
    for command in COMMANDS {
        text.push_str(&entry(&format!(".B {}\\fR(1)\\fP", escaped(&name(command))), [command.about]));
    }
    for (name, about) in tree::BASIC {
        text.push_str(&entry(&format!(".B {}", escaped(name)), [about]));
    }
    text
}

fn plugin() -> String {
    let name = format!("{PROGRAM}-{}", cni::COMMAND);
    let mut text = head(&name, tree::CNI_ABOUT);
    text.push_str(&format!("{}.B {}\n", heading("Synopsis"), escaped(cni::PLUGIN)));
    text.push_str(&format!("{}{}", heading("Description"), paragraphs(tree::PLUGIN)));
    text.push_str(&format!("{}{}", heading("Network configuration"), paragraphs(&cni::help())));
    text + &closing(tree::PLUGIN_EXAMPLES, tree::PLUGIN_EXITS)
}

fn page(command: &CommandEntry) -> String {
    let mut text = head(&name(command), command.about);
    let more = if command.repeats { "..." } else { "" };
    let words = command.words().map(|word| format!(" [\\fI{}\\fP]{more}", tree::name_of(word)));
    let words: String = words.collect();
    let trailing = command.trailing.map(|(name, _)| format!(" [\\-\\- \\fI{name}\\fP...]"));
    let trailing = trailing.unwrap_or_default();
    let call = escaped(&format!("{PROGRAM} {}", command.name));
    text.push_str(&format!("{}.B {call}\n[\\fIOPTIONS\\fP]{words}{trailing}\n", heading("Synopsis")));
    text.push_str(&format!("{}{}", heading("Description"), paragraphs(command.long_about)));
    let mut above = "";
    for row in tree::rows(command, Mesh::default()) {
        if row.topic.heading() != above {
            above = row.topic.heading();
            text.push_str(&heading(above));
        }
        text.push_str(&option(command, row));
    }
    for mesh in Mesh::ALL.iter().filter(|mesh| command.mesh.is_none() && **mesh != Mesh::default()) {
        let own = || mesh.settings().iter().filter(|row| command.lists(row) && !row.long.is_empty());
        if own().next().is_some() {
            let flag = escaped(&format!("{} {mesh}", Setting::Mesh.row().option()));
            text.push_str(&format!(".SH CAPTURE WITH {flag}\n"));
        }
        own().for_each(|row| text.push_str(&option(command, row)));
    }
    let variables: Vec<&SettingRow> =
        command.rows(Mesh::default()).filter(|row| row.long.is_empty()).collect();
    if !variables.is_empty() {
        text.push_str(&heading("Environment"));
    }
    for row in variables {
        text.push_str(&described(&format!(".B {}", escaped(row.variables[0])), row, None));
    }
    text.push_str(&closing(command.examples, command.exits));
    text + &format!("{}.BR {} (1)\n", heading("See also"), escaped(PROGRAM))
}

fn option(command: &CommandEntry, row: &SettingRow) -> String {
    let short = command.short(row);
    let letter = short.map(|short| format!("\\fB\\-{short}\\fP, ")).unwrap_or_default();
    let value = match row.kind {
        SettingKind::Value(name) => format!(" \\fI{}\\fP", escaped(name)),
        SettingKind::Switch => "[=\\fIBOOL\\fP]".to_owned(),
    };
    described(&format!("{letter}\\fB{}\\fP{value}", escaped(&row.option())), row, short)
}

fn described(term: &str, row: &SettingRow, short: Option<char>) -> String {
    let details = tree::details(row, short);
    entry(term, std::iter::once(row.help).chain(details.iter().map(String::as_str)))
}

fn head(name: &str, about: &str) -> String {
    roff::head(name, about, PROGRAM, env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synopsis_has_repeated_words_and_the_command_line_after_dashes() {
        for (name, synopsis) in [
            ("cni install", ".B sidecar\\-init cni install\n[\\fIOPTIONS\\fP]\n"),
            ("explain", ".B sidecar\\-init explain\n[\\fIOPTIONS\\fP] [\\fIDESTINATION\\fP]...\n"),
            ("man", ".B sidecar\\-init man\n[\\fIOPTIONS\\fP] [\\fIDIRECTORY\\fP]\n"),
            ("sandbox", ".B sidecar\\-init sandbox\n[\\fIOPTIONS\\fP] [\\-\\- \\fICOMMAND\\fP...]\n"),
        ] {
            let command = COMMANDS.iter().find(|entry| entry.name == name).expect("a command");
            let page = page(command);
            assert!(page.contains(synopsis), "{page}");
        }
    }
}
