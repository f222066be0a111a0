//! Help topics of every program: sections of `docs/troubleshooting.md`, exit codes and finding codes.

use crate::sections::{self, Exits};
use diagnose::{Style, fold};
use mesh::settings::{alternatives, nearest};
use mesh::{InputProblem, Problems};
use rules::finding::Code;

pub const HELP: &str = "help";
pub const HELP_ABOUT: &str = "Show help on a command or a topic";
/// A symbolic link, so that the package contains the page.
const TROUBLESHOOTING: &str = include_str!("troubleshooting.txt");
const ALL: &str = "topics";

pub fn pointer(program: &str) -> String {
    format!("{program} {HELP} COMMAND describes a command; {program} {HELP} {ALL} lists topics.")
}

pub struct HelpTopic {
    pub name: String,
    pub title: String,
    pub text: String,
}

impl HelpTopic {
    pub fn new(name: &str, title: String, body: &str) -> Self {
        let text = format!("{}\n\n{}\n", Style::Strong.paint(&title), body.trim_matches('\n'));
        Self { name: name.to_owned(), title, text }
    }
}

/// The topics of a program in lines of at most `width` columns: exit codes of its commands, its own, and common ones.
pub fn topics(
    program: &str,
    exits: impl Iterator<Item = (&'static str, &'static Exits)>,
    own: Vec<HelpTopic>,
    width: usize,
) -> Vec<HelpTopic> {
    let exits: String = exits.map(|(name, of)| format!("{name}{}\n\n", sections::exits(of, width))).collect();
    let findings: String =
        Code::ALL.iter().map(|code| fold(&format!("{code}  {}", code.about()), 7, width) + "\n").collect();
    let mut found = vec![HelpTopic::new("exit-codes", "Exit codes of all commands".to_owned(), &exits)];
    found.extend(own);
    found.push(HelpTopic::new("findings", "Finding codes".to_owned(), &findings));
    found.extend(topic_sections(TROUBLESHOOTING).into_iter().map(|(title, text)| {
        HelpTopic::new(&anchor(title), inline(title, program), &plain_text(text, program, width))
    }));
    let names: String = found.iter().map(|topic| format!("  {}\n", topic.name)).collect();
    let call = format!("Run {program} {HELP} TOPIC to read one; a prefix of its name is enough.");
    let text = format!("{}\n{names}\n{call}\n", Style::Strong.paint("Topics"));
    found.insert(0, HelpTopic { name: ALL.to_owned(), title: "List the topics".to_owned(), text });
    found
}

/// The topic with this name or unique prefix; for a finding's code, the section that names it.
///
/// # Errors
/// An unknown name, with similar topics and commands.
pub fn text(
    program: &str,
    name: &str,
    topics: &[HelpTopic],
    commands: &[String],
    width: usize,
) -> Result<String, Problems> {
    if let Some(code) = Code::named(name) {
        let section =
            topic_sections(TROUBLESHOOTING).into_iter().find(|(_, text)| text.contains(&format!("`{name}`")));
        let all = format!("{program} {HELP} findings lists all codes.");
        let text = section.map_or(&*all, |(_, text)| text);
        let title = format!("{name}: {}", code.about());
        return Ok(HelpTopic::new(name, title, &plain_text(text, program, width)).text);
    }
    let begun: Vec<&HelpTopic> = topics.iter().filter(|topic| topic.name.starts_with(name)).collect();
    match (begun.iter().find(|topic| topic.name == name), &begun[..]) {
        (Some(topic), _) | (None, [topic]) => return Ok(topic.text.clone()),
        (None, _) => {}
    }
    let words = || commands.iter().map(String::as_str).chain(topics.iter().map(|topic| topic.name.as_str()));
    let beginnings = words().filter_map(|word| word.split('-').next());
    let alike = match words().any(|word| word.starts_with(name)) {
        true => Some(name),
        false => nearest(name, words().chain(beginnings)),
    };
    let alike = alike.map(|start| words().filter(|word| word.starts_with(start)).collect::<Vec<_>>());
    let text = match alike {
        Some(alike) => format!("unknown topic; did you mean {}?", alternatives(&alike)),
        None => format!("unknown topic (see {program} {HELP} {ALL})"),
    };
    Err(Problems(vec![InputProblem::of(name, text)]))
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
fn plain_text(text: &str, program: &str, width: usize) -> String {
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
            // The row of dashes follows the header row, which is dropped.
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
        // List items follow each other without a gap.
        written += if is_item && follows_item { "\n" } else { "\n\n" };
        written += &match block.starts_with(CODE) {
            true => block,
            false => fold(&inline(&block, program), if is_item { 2 } else { 0 }, width),
        };
        follows_item = is_item;
    }
    written.trim_start_matches('\n').to_owned()
}

/// A line without markup; a link becomes its text and its target.
fn inline(text: &str, program: &str) -> String {
    let mut written = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        written.push_str(before);
        match after.split_once("](").and_then(|(label, after)| Some((label, after.split_once(')')?))) {
            Some((label, (target, after))) => {
                let place = match target.strip_prefix('#') {
                    Some(section) => format!("{program} {HELP} {section}"),
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
    fn topics_have_distinct_names_and_fit() {
        let topics = topics("program", [("do", &[("0", "done")] as &Exits)].into_iter(), Vec::new(), 80);
        let names: BTreeSet<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
        assert_eq!(names.len(), topics.len());
        assert!(names.len() > 20, "{names:?}");
        for topic in &topics {
            let text = plain(&topic.text);
            assert!(text.lines().count() > 2, "{}", topic.name);
            for line in text.lines() {
                // Lines to copy are not folded.
                let is_code = line.starts_with("    ");
                assert!(is_code || line.chars().count() <= 80 || !line.trim().contains(' '), "{line}");
                assert!(is_code || !line.contains("](") && !line.contains('`'), "{line}");
            }
        }
        assert!(plain(&topics[1].text).contains("\ndo\n  0  done\n"), "{}", topics[1].text);
        let early = plain(&text("program", "SI041", &topics, &[], 80).expect("a topic"));
        assert!(
            early.starts_with("SI041: An init container") && early.contains("native sidecars"),
            "{early}"
        );
        for code in Code::ALL {
            assert!(text("program", code.name(), &[], &[], 80).is_ok(), "{code}");
        }
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
            plain_text(found[0].1, "sidecar-init", 60),
            "Cause: a module (sidecar-init help kernel-modules), see more\n(docs/cni.md#x).\n\n- one goes on\n- two\n\n    # no \
             heading\n    check -b '*'\n\n- c: d"
        );
    }
}
