//! Escapes untrusted strings for output: names, labels and values may contain any characters.

/// Ranges of format characters (category Cf of Unicode 16), such as direction changes, and line separators.
const FORMAT: [u32; 40] = [
    0xad, 0xad, 0x600, 0x605, 0x61c, 0x61c, 0x6dd, 0x6dd, 0x70f, 0x70f, 0x890, 0x891, 0x8e2, 0x8e2, 0x180e,
    0x180e, 0x200b, 0x200f, 0x2028, 0x202e, 0x2060, 0x206f, 0xfeff, 0xfeff, 0xfff9, 0xfffb, 0x110bd, 0x110bd,
    0x110cd, 0x110cd, 0x13430, 0x1343f, 0x1bca0, 0x1bca3, 0x1d173, 0x1d17a, 0xe0001, 0xe0001, 0xe0020,
    0xe007f,
];

/// True if a terminal or log viewer interprets the character instead of showing it.
pub fn is_obeyed(c: char) -> bool {
    c.is_control() || FORMAT.chunks(2).any(|range| (range[0]..=range[1]).contains(&u32::from(c)))
}

/// Escapes characters that would move a terminal's cursor, start a line or change the direction of text.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

pub fn visible_lines(text: &str) -> String {
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_intended_lines_stay() {
        assert_eq!(visible("ü a\u{1b}[2J\n\u{9b}0"), "ü a\\u{1b}[2J\\n\\u{9b}0");
        assert_eq!(visible("a\u{202e}b\u{ad}\u{2067}\u{feff}ü"), "a\\u{202e}b\\u{ad}\\u{2067}\\u{feff}ü");
        assert_eq!(visible_lines("a\u{7}\r\n  b\tc\n"), "a\\u{7}\n  b\\tc");
    }
}
