//! Text in lines that are no longer than the terminal is wide.

/// Folds a line between words, so that no line has more columns than `width` where its words allow it. All lines but
/// the first begin with `hang` spaces. An escape sequence for a colour takes no room. Several lines are folded each on
/// its own.
pub fn fold(text: &str, hang: usize, width: usize) -> String {
    let mut folded = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        fold_line(line, hang, width, &mut folded);
    }
    folded
}

fn fold_line(line: &str, hang: usize, width: usize, folded: &mut String) {
    let mut column = 0;
    // The line is still empty: a break would gain nothing.
    let mut is_fresh = true;
    // Spaces at the head are an indent, which is kept with the first word.
    let start = line.len() - line.trim_start_matches(' ').len();
    let mut rest = line;
    let mut from = start;
    while !rest.is_empty() {
        let end = rest[from..].find(' ').map_or(rest.len(), |space| from + space);
        // Spaces after a word belong to it, and are not shown where the line ends.
        let next = rest[end..].find(|c| c != ' ').map_or(rest.len(), |word| end + word);
        let (word, room) = (&rest[..next], columns(&rest[..end]));
        if !is_fresh && column + room > width {
            folded.truncate(folded.trim_end_matches(' ').len());
            folded.push('\n');
            folded.push_str(&" ".repeat(hang));
            column = hang;
        }
        folded.push_str(word);
        column += columns(word);
        (is_fresh, rest, from) = (false, &rest[next..], 0);
    }
}

/// The text without its colours.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, sequence)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = sequence.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

pub fn columns(text: &str) -> usize {
    let mut count = 0;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            // A style (`ESC [ .. m`) is the only sequence that texts of ours hold.
            '\u{1b}' => drop(chars.by_ref().find(|c| *c == 'm')),
            '\n' => {}
            _ => count += 1,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Style;

    fn check(text: &str, width: usize, expected: &str) {
        assert_eq!(fold(text, 2, width), expected);
    }

    #[test]
    fn lines_break_between_words_only() {
        check("one two three\n", 80, "one two three\n");
        check("one two three\n", 13, "one two three\n");
        check("one two three\n", 12, "one two\n  three\n");
        check("one two three\nfour five", 7, "one two\n  three\nfour\n  five");
        check("a word-without-an-end b\n", 8, "a\n  word-without-an-end\n  b\n");
        check("    indented words\n", 12, "    indented\n  words\n");
        check("aligned   in columns", 14, "aligned   in\n  columns");
        check("", 1, "");
    }

    #[test]
    fn colours_can_be_taken_out() {
        let text = format!("{} and {}", Style::Captured.paint("one"), Style::Quiet.paint("two"));
        assert_eq!(plain(&text), "one and two");
    }

    #[test]
    fn colours_take_no_room() {
        let text = format!("{} {}", Style::Captured.paint("one two"), Style::Quiet.paint("three"));
        assert_eq!(fold(&text, 2, 13), text);
        assert!(fold(&text, 2, 12).contains("\n  "));
        assert_eq!(columns(&text), 13);
    }
}
