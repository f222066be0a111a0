//! Markdown as a terminal shows it: the little that the documentation uses.

use crate::cli::tree::help_call;
use diagnose::fold;

/// The sections of the third level, each with its heading.
pub(super) fn sections(page: &'static str) -> Vec<(&'static str, &'static str)> {
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

pub(super) fn anchor(title: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    title.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The text in lines of at most `width` columns. Code is indented and not folded.
pub(super) fn plain(text: &str, width: usize) -> String {
    let (mut blocks, mut block): (Vec<String>, String) = (Vec::new(), String::new());
    let mut lines = text.lines();
    let finish = |block: &mut String, blocks: &mut Vec<String>| {
        let text = inline(&std::mem::take(block));
        if !text.is_empty() {
            let hang = if text.starts_with("- ") { 2 } else { 0 };
            blocks.push(fold(&text, hang, width));
        }
    };
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            finish(&mut block, &mut blocks);
            let code = lines.by_ref().take_while(|line| !line.starts_with("```"));
            blocks.push(code.map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n"));
            continue;
        }
        let begins = line.is_empty() || line.starts_with("- ") || line.starts_with('|');
        if begins {
            finish(&mut block, &mut blocks);
        }
        match line.strip_prefix('|') {
            // Below the first row, which names the columns, a row of dashes follows.
            Some(row) if row.starts_with("---") => drop(blocks.pop()),
            Some(row) => {
                let cells: Vec<&str> = row.trim_end_matches('|').split('|').map(str::trim).collect();
                block = format!("- {}", cells.join(": "));
            }
            None if block.is_empty() => block = line.to_owned(),
            None => block = format!("{block} {}", line.trim()),
        }
    }
    finish(&mut block, &mut blocks);
    // Items of a list follow each other without a gap.
    let mut joined = String::new();
    for (at, block) in blocks.iter().enumerate() {
        let is_list = block.starts_with("- ") && at > 0 && blocks[at - 1].starts_with("- ");
        joined.push_str(if at == 0 {
            ""
        } else if is_list {
            "\n"
        } else {
            "\n\n"
        });
        joined.push_str(block);
    }
    joined
}

/// A line without marks; a link becomes its text and its target.
pub(super) fn inline(text: &str) -> String {
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

    #[test]
    fn marks_become_text() {
        let page = "# Page\n\n## Part\n\n### `TPROXY` is *not* here\n\n**Cause:** a [module](#kernel-modules), see\n\
                    [more](cni.md#x).\n\n- one\n  goes on\n- two\n\n```sh\n# no heading\ncheck -b '*'\n```\n\n| a | b |\n\
                    |---|---|\n| c | `d` |\n\n## Next\n\ntext\n";
        let found = sections(page);
        assert_eq!(found.len(), 1);
        assert_eq!(anchor(found[0].0), "tproxy-is-not-here");
        assert_eq!(
            plain(found[0].1, 60),
            "Cause: a module (sidecar-init help kernel-modules), see more\n(docs/cni.md#x).\n\n- one goes on\n- two\n\n    # no \
             heading\n    check -b '*'\n\n- c: d"
        );
    }
}
