//! Text as roff, in the macros of man(7), which every program that shows pages knows.

use crate::sections::Exits;

pub fn head(name: &str, about: &str, program: &str, version: &str) -> String {
    let upper = escaped(&name.to_uppercase());
    format!(
        ".TH {upper} 1 \"\" \"{program} {version}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n",
        escaped(name),
        escaped(about)
    )
}

pub fn heading(text: &str) -> String {
    format!(".SH {}\n", escaped(&text.to_uppercase()))
}

/// The sections after the options: exit statuses and examples.
pub fn closing(examples: &[&str], exits: &Exits) -> String {
    let mut text = String::new();
    if !exits.is_empty() {
        text.push_str(&heading("Exit status"));
        let item = |(code, meaning): &(&str, &str)| format!(".TP\n.B {}\n{}\n", escaped(code), line(meaning));
        text.extend(exits.iter().map(item));
    }
    if !examples.is_empty() {
        text.push_str(&heading("Examples"));
        let lines: String = examples.iter().map(|example| format!("{}\n", line(example))).collect();
        text.push_str(&format!(".nf\n{lines}.fi\n"));
    }
    text
}

/// An entry of a list: a term that is roff already, and lines of text below it.
pub fn entry<'a>(term: &str, lines: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = format!(".TP\n{term}\n");
    for (at, below) in lines.into_iter().enumerate() {
        let break_before = if at == 0 { "" } else { ".br\n" };
        text.push_str(&format!("{break_before}{}\n", line(below)));
    }
    text
}

/// Paragraphs are separated by empty lines. Indented lines are kept, except those with an explanation below that is indented
/// further: they become a list.
pub fn paragraphs(text: &str) -> String {
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

/// A line of text. What starts with a dot or an apostrophe would be a request; the apostrophe is escaped everywhere.
pub fn line(text: &str) -> String {
    let text = escaped(text);
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

/// Characters that mean something to roff, or that it would draw otherwise than they are typed.
pub fn escaped(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_requests() {
        assert_eq!(paragraphs("One.\n\n  a: b\n      c\n"), "One.\n.PP\n.TP\na: b\nc\n");
        assert_eq!(line(".TH is text"), "\\&.TH is text");
        assert_eq!(
            closing(&["prog -x '*'"], &[("0", "done")]),
            ".SH EXIT STATUS\n.TP\n.B 0\ndone\n.SH EXAMPLES\n.nf\nprog \\-x \\(aq*\\(aq\n.fi\n"
        );
    }
}
