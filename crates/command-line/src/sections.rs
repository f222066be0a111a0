//! Help sections beside the options: examples and exit statuses.

use diagnose::fold;
use std::fmt::Write;

pub type Exits = [(&'static str, &'static str)];

const EXAMPLES: &str = "\n\nExamples:";
const EXIT_STATUS: &str = "\n\nExit status:";

pub fn described(about: &str, examples: &[&str], exits: &Exits, width: usize) -> String {
    let mut text = about.to_owned();
    if !examples.is_empty() {
        text.push_str(EXAMPLES);
        examples
            .iter()
            .for_each(|example| write!(text, "\n{}", continued(example, width)).expect("text takes all"));
    }
    if !exits.is_empty() {
        text.push_str(EXIT_STATUS);
        text.push_str(&self::exits(exits, width));
    }
    text
}

/// Folds an example call to `width` columns, with backslashes, so that a shell reads one line.
fn continued(call: &str, width: usize) -> String {
    const MORE: &str = " \\";
    let (mut text, mut line) = (String::new(), String::from(" "));
    let mut words = call.split(' ').peekable();
    while let Some(word) = words.next() {
        let more = if words.peek().is_some() { MORE.len() } else { 0 };
        let is_full = line.chars().count() + 1 + word.chars().count() + more > width;
        // Within quotes, a shell keeps the backslash.
        let is_quoted = text.matches('\'').chain(line.matches('\'')).count() % 2 == 1;
        if is_full && !line.trim().is_empty() && !is_quoted {
            text.push_str(&format!("{line}{MORE}\n"));
            line = String::from("     ");
        }
        line.push_str(&format!(" {word}"));
    }
    text + &line
}

/// Exit statuses, one per line, each after a line break.
pub fn exits(exits: &Exits, width: usize) -> String {
    let column = exits.iter().map(|(code, _)| code.len()).max().unwrap_or_default();
    let line = |(code, meaning): &(&str, &str)| {
        let line = format!("  {code:<column$}  {meaning}");
        format!("\n{}", fold(&line, column + 4, width))
    };
    exits.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_follow_the_description() {
        let exits = [("0", "done"), ("128+N", "signal N ended the command")];
        assert_eq!(
            described("Does it.", &["prog do", "prog do -x"], &exits, 28),
            "Does it.\n\nExamples:\n  prog do\n  prog do -x\n\nExit status:\n  0      done\n  128+N  signal N ended the\n         command"
        );
        assert_eq!(described("Does it.", &[], &[], 80), "Does it.");
        let quoted = "prog --one 1 --two 'a b c d e f g'";
        assert_eq!(
            described("Does it.", &["prog do --one 1 --two 2 >file", quoted], &[], 20),
            "Does it.\n\nExamples:\n  prog do --one 1 \\\n      --two 2 >file\n  prog --one 1 \\\n      --two 'a b c d e f g'"
        );
    }
}
