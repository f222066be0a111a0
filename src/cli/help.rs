//! `--help` and `sidecar-init help`: of commands, and of topics, which are exit codes, variables, and the sections of
//! `docs/troubleshooting.md`.

mod markdown;

use super::tree::{self, Extent, help_call, tree};
use super::{Exit, command::COMMANDS, report};
use crate::cni;
use command_line::{columns, sections};
use diagnose::{Style, fold};
use mesh::settings::{self, nearest};
use mesh::{InputProblem, Mesh, Problems};
use rules::finding::Code;
use std::{ffi::OsString, fmt::Write};

const ALL: &str = "topics";

pub(super) fn text<'a>(path: impl IntoIterator<Item = &'a str>, mesh: Mesh, extent: Extent) -> String {
    let mut program = tree(mesh, extent);
    program.build();
    let mut command = &mut program;
    for name in path {
        command = command.find_subcommand_mut(name).expect("the parser knows the commands of the tree");
    }
    let help = match extent {
        Extent::Summary => command.render_help(),
        Extent::Full | Extent::All | Extent::Proposed => command.render_long_help(),
    };
    help.ansi().to_string()
}

pub(super) fn run(words: &[OsString], mesh: Mesh) -> Exit {
    // The parser has read --mesh; no other flag changes what is shown.
    let words = words.iter().map(|word| word.to_string_lossy());
    let words: Vec<_> = words.take_while(|word| !word.starts_with('-')).collect();
    let name = words.join(" ");
    if words.is_empty() {
        return report::text(&text([], mesh, Extent::Full));
    }
    let basic = tree::BASIC.iter().map(|(name, _)| *name).chain([cni::COMMAND]);
    if COMMANDS.iter().map(|entry| entry.name).chain(basic).any(|known| known == name) {
        return report::text(&text(name.split(' '), mesh, Extent::Full));
    }
    if name == ALL {
        return report::text(&list());
    }
    match find(&name) {
        Some(topic) => report::text(&topic.text(columns::of_help())),
        None => report::bad_input(&Problems(vec![InputProblem::of(&name, unknown(&name))])),
    }
}

fn unknown(name: &str) -> String {
    let words = words();
    match nearest(name, words.iter().map(|(word, _)| word.as_str())) {
        Some(intended) => format!("unknown topic; did you mean {intended}?"),
        None => format!("unknown topic (see sidecar-init help {ALL})"),
    }
}

/// Words that may follow `sidecar-init help`, each with its meaning.
pub(super) fn words() -> Vec<(String, String)> {
    let commands = COMMANDS.iter().map(|entry| (entry.name.to_owned(), entry.about.to_owned()));
    let commands = commands.chain([(cni::COMMAND.to_owned(), tree::CNI_ABOUT.to_owned())]);
    let topics = topics().into_iter().map(|topic| (topic.name, topic.title));
    let all = (ALL.to_owned(), "List the topics".to_owned());
    commands.chain([all]).chain(topics).collect()
}

/// A page of the documentation whose sections are topics.
const TROUBLESHOOTING: &str = include_str!("../../docs/troubleshooting.md");

struct HelpTopic {
    name: String,
    title: String,
    body: Body,
}

enum Body {
    ExitCodes,
    Environment,
    /// Of a page in Markdown.
    Section(&'static str),
}

fn topics() -> Vec<HelpTopic> {
    let made =
        |name: &str, title: &str, body| HelpTopic { name: name.to_owned(), title: title.to_owned(), body };
    let mut topics = vec![
        made("exit-codes", "Exit codes of all commands", Body::ExitCodes),
        made("environment", "Variables that commands read", Body::Environment),
    ];
    topics.extend(markdown::sections(TROUBLESHOOTING).into_iter().map(|(title, text)| HelpTopic {
        name: markdown::anchor(title),
        title: markdown::inline(title),
        body: Body::Section(text),
    }));
    topics
}

/// The topic with this name, or the only one whose name begins so; of the code of a finding, the section that names it.
fn find(name: &str) -> Option<HelpTopic> {
    if let Some(code) = Code::named(name) {
        let sections = markdown::sections(TROUBLESHOOTING);
        let section = sections.into_iter().find(|(_, text)| text.contains(&format!("`{name}`")));
        let body = Body::Section(section.map_or("docs/lint.md lists all codes.", |(_, text)| text));
        return Some(HelpTopic { name: name.to_owned(), title: format!("{name}: {}", code.about()), body });
    }
    let mut found: Vec<HelpTopic> =
        topics().into_iter().filter(|topic| topic.name.starts_with(name)).collect();
    match found.iter().position(|topic| topic.name == name) {
        Some(at) => Some(found.swap_remove(at)),
        None if found.len() == 1 => found.pop(),
        None => None,
    }
}

fn list() -> String {
    let mut text = format!("{}\n", Style::Strong.paint("Topics"));
    for HelpTopic { name, .. } in topics() {
        writeln!(text, "  {name}").expect("text takes all");
    }
    text + &format!("\nRun {} to read one; the beginning of its name is enough.\n", help_call("TOPIC"))
}

impl HelpTopic {
    fn text(&self, width: usize) -> String {
        let body = match self.body {
            Body::ExitCodes => exit_codes(width),
            Body::Environment => environment(width),
            Body::Section(text) => markdown::plain(text, width),
        };
        format!("{}\n\n{}\n", Style::Strong.paint(&self.title), body.trim_matches('\n'))
    }
}

fn exit_codes(width: usize) -> String {
    let command = |(name, exits)| format!("{name}{}\n\n", sections::exits(exits, width));
    COMMANDS.iter().map(|entry| (entry.name, entry.exits)).map(command).collect()
}

fn environment(width: usize) -> String {
    let with_variables = settings::all().filter(|row| !row.variables.is_empty());
    let entry = |row: &settings::SettingRow| {
        let flag = if row.long.is_empty() { String::new() } else { format!("{}: ", row.option()) };
        format!("{}\n{}\n", row.variables.join(", "), fold(&format!("    {flag}{}", row.help), 4, width))
    };
    let mut entries: Vec<String> = with_variables.map(entry).collect();
    entries.sort();
    entries.dedup();
    entries.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnose::plain;
    use std::collections::BTreeSet;

    #[test]
    fn every_topic_has_a_name_of_its_own_and_fits() {
        let names: BTreeSet<String> = topics().into_iter().map(|topic| topic.name).collect();
        assert_eq!(names.len(), topics().len());
        assert!(names.len() > 20, "{names:?}");
        for topic in topics() {
            let text = plain(&topic.text(80));
            assert!(text.lines().count() > 2, "{}", topic.name);
            for line in text.lines() {
                // What a user copies is not folded.
                let is_code = line.starts_with("    ");
                assert!(is_code || line.chars().count() <= 80 || !line.trim().contains(' '), "{line}");
                assert!(is_code || !line.contains("](") && !line.contains('`'), "{line}");
            }
        }
        for code in Code::ALL {
            assert!(find(code.name()).is_some(), "{code}");
        }
        let early = plain(&find("SI041").expect("a topic").text(80));
        assert!(
            early.starts_with("SI041: An init container") && early.contains("native sidecars"),
            "{early}"
        );
        let codes = plain(&find("exit-codes").expect("a topic").text(80));
        assert!(codes.contains("\napply\n  0  the rules are in place\n"), "{codes}");
        let variables = plain(&find("environment").expect("a topic").text(80));
        assert!(variables.contains("PROXY_UID\n    --proxy-uid: "), "{variables}");
    }
}
