//! `--help` and `sidecar-init help`: of commands, and of topics, most of them sections of `docs/troubleshooting.md`.

use super::tree::{self, Extent, help_call, tree};
use super::{RunResult, command::COMMANDS, report};
use crate::cni;
use command_line::{columns, sections};
use diagnose::{Style, fold};
use mesh::settings::{self, alternatives, nearest};
use mesh::{InputProblem, Mesh, Problems};
use rules::finding::Code;
use std::ffi::OsString;

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

pub(super) fn run(words: &[OsString], mesh: Mesh) -> RunResult {
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
    match find(&name, columns::of_help()) {
        Some(topic) => report::text(&topic.text),
        None => {
            let known = self::words();
            let words = || known.iter().map(|(word, _)| word.as_str());
            let beginnings = words().filter_map(|word| word.split('-').next());
            let alike = match words().any(|word| word.starts_with(&name)) {
                true => Some(&*name),
                false => nearest(&name, words().chain(beginnings)),
            };
            let alike = alike.map(|start| words().filter(|word| word.starts_with(start)).collect::<Vec<_>>());
            let text = match alike {
                Some(alike) => format!("unknown topic; did you mean {}?", alternatives(&alike)),
                None => format!("unknown topic (see sidecar-init help {ALL})"),
            };
            Err(Problems(vec![InputProblem::of(&name, text)]).into())
        }
    }
}

/// Words that may follow `sidecar-init help`, each with its meaning.
pub(super) fn words() -> Vec<(String, String)> {
    let commands = COMMANDS.iter().map(|entry| (entry.name.to_owned(), entry.about.to_owned()));
    let commands = commands.chain([(cni::COMMAND.to_owned(), tree::CNI_ABOUT.to_owned())]);
    let topics = topics(columns::HELP).into_iter().map(|topic| (topic.name, topic.title));
    let all = (ALL.to_owned(), "List the topics".to_owned());
    commands.chain([all]).chain(topics).collect()
}

const TROUBLESHOOTING: &str = include_str!("../../docs/troubleshooting.md");

struct HelpTopic {
    name: String,
    title: String,
    /// Its heading, and lines of so many columns as were asked for.
    text: String,
}

impl HelpTopic {
    fn new(name: String, title: String, body: &str) -> Self {
        let text = format!("{}\n\n{}\n", Style::Strong.paint(&title), body.trim_matches('\n'));
        Self { name, title, text }
    }
}

fn topics(width: usize) -> Vec<HelpTopic> {
    let of_commands = [
        ("exit-codes", "Exit codes of all commands", exit_codes(width)),
        ("environment", "Variables that commands read", environment(width)),
        ("findings", "Codes of findings", findings(width)),
    ];
    let of_commands = of_commands
        .into_iter()
        .map(|(name, title, body)| HelpTopic::new(name.to_owned(), title.to_owned(), &body));
    let sections = topic_sections(TROUBLESHOOTING)
        .into_iter()
        .map(|(title, text)| HelpTopic::new(anchor(title), inline(title), &plain_text(text, width)));
    of_commands.chain(sections).collect()
}

/// The topic with this name, or the only one whose name begins so; of the code of a finding, the section that names it.
fn find(name: &str, width: usize) -> Option<HelpTopic> {
    if let Some(code) = Code::named(name) {
        let sections = topic_sections(TROUBLESHOOTING);
        let section = sections.into_iter().find(|(_, text)| text.contains(&format!("`{name}`")));
        let text = section.map_or("sidecar-init help findings lists all codes.", |(_, text)| text);
        let title = format!("{name}: {}", code.about());
        return Some(HelpTopic::new(name.to_owned(), title, &plain_text(text, width)));
    }
    let mut found = topics(width);
    found.retain(|topic| topic.name.starts_with(name));
    match found.iter().position(|topic| topic.name == name) {
        Some(at) => Some(found.swap_remove(at)),
        None if found.len() == 1 => found.pop(),
        None => None,
    }
}

fn list() -> String {
    let names: String =
        topics(columns::HELP).into_iter().map(|topic| format!("  {}\n", topic.name)).collect();
    let (title, call) = (Style::Strong.paint("Topics"), help_call("TOPIC"));
    format!("{title}\n{names}\nRun {call} to read one; a prefix of its name is enough.\n")
}

fn findings(width: usize) -> String {
    Code::ALL.iter().map(|code| fold(&format!("{code}  {}", code.about()), 7, width) + "\n").collect()
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

fn topic_sections(page: &'static str) -> Vec<(&'static str, &'static str)> {
    let (mut found, mut heading, mut is_code) = (Vec::new(), None, false);
    let mut at = 0;
    for line in page.split_inclusive('\n') {
        is_code ^= line.starts_with("```");
        if !is_code && line.starts_with('#') {
            if let Some((title, start)) = heading.take() {
                found.push((title, &page[start..at]));
            }
            heading = line.strip_prefix("### ").map(|title| (title.trim(), at + line.len()));
        }
        at += line.len();
    }
    found.extend(heading.map(|(title, start)| (title, &page[start..])));
    found
}

fn anchor(title: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    title.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The text in lines of at most `width` columns. Code is indented and not folded.
fn plain_text(text: &str, width: usize) -> String {
    const CODE: &str = "    ";
    let (mut blocks, mut goes_on) = (Vec::<String>::new(), false);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            let code = lines.by_ref().take_while(|line| !line.starts_with("```"));
            blocks.push(code.map(|line| format!("{CODE}{line}")).collect::<Vec<_>>().join("\n"));
        }
        if line.is_empty() || line.starts_with("```") {
            goes_on = false;
            continue;
        }
        match line.strip_prefix('|') {
            // Below the first row, which names the columns, a row of dashes follows.
            Some(row) if row.starts_with("---") => drop(blocks.pop()),
            Some(row) => {
                let cells: Vec<&str> = row.trim_end_matches('|').split('|').map(str::trim).collect();
                blocks.push(format!("- {}", cells.join(": ")));
            }
            None => match blocks.last_mut().filter(|_| goes_on && !line.starts_with("- ")) {
                Some(block) => *block += &format!(" {}", line.trim()),
                None => blocks.push(line.to_owned()),
            },
        }
        goes_on = true;
    }
    let (mut written, mut follows_item) = (String::new(), false);
    for block in blocks {
        let is_item = block.starts_with("- ");
        // Items of a list follow each other without a gap.
        written += if is_item && follows_item { "\n" } else { "\n\n" };
        written += &match block.starts_with(CODE) {
            true => block,
            false => fold(&inline(&block), if is_item { 2 } else { 0 }, width),
        };
        follows_item = is_item;
    }
    written.trim_start_matches('\n').to_owned()
}

/// A line without marks; a link becomes its text and its target.
fn inline(text: &str) -> String {
    let mut written = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        written.push_str(before);
        match after.split_once("](").and_then(|(label, after)| Some((label, after.split_once(')')?))) {
            Some((label, (target, after))) => {
                let place = match target.strip_prefix('#') {
                    Some(section) => help_call(section),
                    None if target.contains("://") => target.to_owned(),
                    None => format!("docs/{target}"),
                };
                written.push_str(&format!("{label} ({place})"));
                rest = after;
            }
            None => {
                written.push('[');
                rest = after;
            }
        }
    }
    written.push_str(rest);
    written.replace("**", "").replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnose::plain;
    use std::collections::BTreeSet;

    #[test]
    fn every_topic_has_a_name_of_its_own_and_fits() {
        let names: BTreeSet<String> = topics(80).into_iter().map(|topic| topic.name).collect();
        assert_eq!(names.len(), topics(80).len());
        assert!(names.len() > 20, "{names:?}");
        for topic in topics(80) {
            let text = plain(&topic.text);
            assert!(text.lines().count() > 2, "{}", topic.name);
            for line in text.lines() {
                // What a user copies is not folded.
                let is_code = line.starts_with("    ");
                assert!(is_code || line.chars().count() <= 80 || !line.trim().contains(' '), "{line}");
                assert!(is_code || !line.contains("](") && !line.contains('`'), "{line}");
            }
        }
        for code in Code::ALL {
            assert!(find(code.name(), 80).is_some(), "{code}");
        }
        let early = plain(&find("SI041", 80).expect("a topic").text);
        assert!(
            early.starts_with("SI041: An init container") && early.contains("native sidecars"),
            "{early}"
        );
        let codes = plain(&find("exit-codes", 80).expect("a topic").text);
        assert!(codes.contains("\napply\n  0  the rules are in place\n"), "{codes}");
        let variables = plain(&find("environment", 80).expect("a topic").text);
        assert!(variables.contains("PROXY_UID\n    --proxy-uid: "), "{variables}");
    }

    #[test]
    fn marks_become_text() {
        let page = "# Page\n\n## Part\n\n### `TPROXY` is *not* here\n\n**Cause:** a [module](#kernel-modules), see\n\
                    [more](cni.md#x).\n\n- one\n  goes on\n- two\n\n```sh\n# no heading\ncheck -b '*'\n```\n\n| a | b |\n\
                    |---|---|\n| c | `d` |\n\n## Next\n\ntext\n";
        let found = topic_sections(page);
        assert_eq!(found.len(), 1);
        assert_eq!(anchor(found[0].0), "tproxy-is-not-here");
        assert_eq!(
            plain_text(found[0].1, 60),
            "Cause: a module (sidecar-init help kernel-modules), see more\n(docs/cni.md#x).\n\n- one goes on\n- two\n\n    # no \
             heading\n    check -b '*'\n\n- c: d"
        );
    }
}
