//! Texts of others as people read them: names, labels and values are whatever their authors wrote.

/// A text without what would move a terminal's cursor or begin a line, which programs that read a log may obey.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// The same of a text of several lines.
pub fn visible_lines(text: &str) -> String {
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_intended_lines_stay() {
        assert_eq!(visible("ü a\u{1b}[2J\n\u{9b}0"), "ü a\\u{1b}[2J\\n\\u{9b}0");
        assert_eq!(visible_lines("a\u{7}\r\n  b\tc\n"), "a\\u{7}\n  b\\tc");
    }
}
