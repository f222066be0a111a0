//! `sidecar-init man`: the manual, a page for each command, made from the tables of commands and of settings.
//!
//! Pages are written in the macros of man(7), which every program that shows pages knows.

use super::command::{COMMANDS, Entry};
use super::{Exit, logging::Stdout, report, run, start_logging, tree};
use crate::cni;
use mesh::Mesh;
use mesh::settings::{Kind, Row};
use mesh::sources::{Raw, Reader};
use mesh::{Problem, Problems, Setting};
use std::{fs, io, path::Path};

const PROGRAM: &str = "sidecar-init";

/// Why pages can't be written.
#[derive(Debug, thiserror::Error)]
#[error("{path} can't be written")]
struct Unwritten {
    path: String,
    source: io::Error,
}

pub(super) fn run(raw: &Raw, mut problems: Vec<Problem>) -> Result<Exit, Problems> {
    if raw.get(Setting::ManDirectory).is_none() {
        problems.push(Problem::of("man", "needs a folder to write to, such as /usr/local/share/man/man1"));
    }
    let mut reader = Reader::new(raw, problems);
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

/// All pages, by name.
fn pages() -> Vec<(String, String)> {
    let mut pages =
        vec![(PROGRAM.to_owned(), first_page()), (format!("{PROGRAM}-{}", cni::COMMAND), plugin())];
    pages.extend(COMMANDS.iter().map(|entry| (name(entry), page(entry))));
    pages
}

fn name(entry: &Entry) -> String {
    format!("{PROGRAM}-{}", entry.name.replace(' ', "-"))
}

fn first_page() -> String {
    let mut text = head(PROGRAM, tree::ABOUT);
    text.push_str(&format!(".SH SYNOPSIS\n.B {}\n.I COMMAND\n[\\fIOPTIONS\\fP]\n", escaped(PROGRAM)));
    text.push_str(".SH COMMANDS\n");
    for entry in COMMANDS {
        let page = escaped(&name(entry));
        text.push_str(&format!(".TP\n.B {page}\\fR(1)\\fP\n{}\n", line(entry.about)));
    }
    text.push_str(&format!(".TP\n.B {}\n{}\n", escaped(tree::VERSION), line(tree::VERSION_ABOUT)));
    text
}

fn plugin() -> String {
    let name = format!("{PROGRAM}-{}", cni::COMMAND);
    let mut text = head(&name, tree::GROUP);
    text.push_str(&format!(".SH SYNOPSIS\n.B {}\n", escaped(cni::PLUGIN)));
    text.push_str(&format!(".SH DESCRIPTION\n{}", paragraphs(tree::PLUGIN)));
    text.push_str(&format!(".SH NETWORK CONFIGURATION\n{}", paragraphs(&cni::help())));
    text
}

fn page(entry: &Entry) -> String {
    let mut text = head(&name(entry), entry.about);
    let word: String = entry.words().map(|word| format!(" [\\fI{}\\fP]", tree::name_of(word))).collect();
    text.push_str(&format!(".SH SYNOPSIS\n.B {PROGRAM} {}\n[\\fIOPTIONS\\fP]{word}\n", escaped(entry.name)));
    text.push_str(&format!(".SH DESCRIPTION\n{}", paragraphs(entry.long_about)));
    let mut heading = "";
    for row in tree::rows(entry, Mesh::default()) {
        if row.topic.heading() != heading {
            heading = row.topic.heading();
            text.push_str(&format!(".SH {}\n", escaped(&heading.to_uppercase())));
        }
        text.push_str(&option(entry, row));
    }
    for mesh in Mesh::ALL.iter().filter(|mesh| entry.mesh.is_none() && **mesh != Mesh::default()) {
        let own = || mesh.settings().iter().filter(|row| entry.takes(row) && !row.long.is_empty());
        if own().next().is_some() {
            let flag = escaped(&format!("{} {mesh}", Setting::Mesh.row().option()));
            text.push_str(&format!(".SH CAPTURE WITH {flag}\n"));
        }
        own().for_each(|row| text.push_str(&option(entry, row)));
    }
    let variables: Vec<&Row> = entry.rows(Mesh::default()).filter(|row| row.long.is_empty()).collect();
    if !variables.is_empty() {
        text.push_str(".SH ONLY IN THE ENVIRONMENT\n");
    }
    for row in variables {
        text.push_str(&format!(
            ".TP\n.B {}\n{}\n{}",
            escaped(row.variables[0]),
            line(row.help),
            more(row, None)
        ));
    }
    text.push_str(&format!(".SH SEE ALSO\n.BR {} (1)\n", escaped(PROGRAM)));
    text
}

fn option(entry: &Entry, row: &Row) -> String {
    let short = entry.short(row);
    let letter = short.map(|short| format!("\\fB\\-{short}\\fP, ")).unwrap_or_default();
    let value = match row.kind {
        Kind::Value(name) => format!(" \\fI{}\\fP", escaped(name)),
        Kind::Switch => "[=\\fIBOOL\\fP]".to_owned(),
    };
    format!(
        ".TP\n{letter}\\fB{}\\fP{value}\n{}\n{}",
        escaped(&row.option()),
        line(row.help),
        more(row, short)
    )
}

/// The details below the meaning, one a line.
fn more(row: &Row, short: Option<char>) -> String {
    tree::details(row, short).iter().map(|text| format!(".br\n{}\n", line(text))).collect()
}

fn head(name: &str, about: &str) -> String {
    let upper = escaped(&name.to_uppercase());
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".TH {upper} 1 \"\" \"{PROGRAM} {version}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n",
        escaped(name),
        escaped(about)
    )
}

/// Paragraphs are separated by empty lines. Indented lines are kept, except those with an explanation below that is indented
/// further: they become a list.
fn paragraphs(text: &str) -> String {
    let mut written = String::new();
    let mut lines = text.lines().peekable();
    let mut is_start = true;
    while let Some(text) = lines.next() {
        let explained = lines.peek().is_some_and(|next| next.starts_with(FURTHER));
        let request = match text {
            "" => {
                written.push_str(".PP\n");
                is_start = true;
                continue;
            }
            _ if text.starts_with(FURTHER) => "",
            _ if text.starts_with(INDENT) && explained => ".TP\n",
            // A line that starts with a space starts a new one.
            _ if is_start || text.starts_with(INDENT) => "",
            _ => ".br\n",
        };
        let text = if text.starts_with(FURTHER) || explained { text.trim_start() } else { text };
        written.push_str(&format!("{request}{}\n", line(text)));
        is_start = false;
    }
    written
}

const INDENT: &str = "  ";
const FURTHER: &str = "      ";

/// A line of text: what starts with a dot or a quote would be a request.
fn line(text: &str) -> String {
    let text = escaped(text);
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// Characters that mean something to roff, or that it would draw otherwise than they are typed.
fn escaped(text: &str) -> String {
    let mut written = String::new();
    for c in text.chars() {
        match c {
            '\\' => written.push_str("\\e"),
            '-' => written.push_str("\\-"),
            '\'' => written.push_str("\\(aq"),
            '`' => written.push_str("\\(ga"),
            '^' => written.push_str("\\(ha"),
            '~' => written.push_str("\\(ti"),
            c => written.push(c),
        }
    }
    written
}
