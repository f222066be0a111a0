//! Functions that write a text's words otherwise: in other cases, on more lines, or shorter.

use super::{functions, text, whole};

functions! {
    "title" reads 1..=1 |args| Ok(initially(&text(&args[0]), separates, upper).into());
    "untitle" reads 1..=1 |args| Ok(initially(&text(&args[0]), char::is_whitespace, lower).into());
    "swapcase" reads 1..=1 |args| Ok(text(&args[0]).chars().map(swapped).collect::<String>().into());
    "camelcase" reads 1..=1 |args| Ok(camel(&text(&args[0])).into());
    "snakecase" reads 1..=1 |args| Ok(joined(&text(&args[0]), '_').into());
    "kebabcase" reads 1..=1 |args| Ok(joined(&text(&args[0]), '-').into());
    "initials" reads 1..=1 |args| {
        Ok(text(&args[0]).split_whitespace().filter_map(|word| word.chars().next()).collect::<String>().into())
    };
    "plural" passes 3..=3 |args| Ok(args[usize::from(whole(&args[2]) != 1)].clone());
    "abbrev" reads 2..=2 |args| Ok(shortened(0, whole(&args[0]), &text(&args[1])).into());
    "abbrevboth" reads 3..=3 |args| Ok(shortened(whole(&args[0]), whole(&args[1]), &text(&args[2])).into());
    "wrap" reads 2..=2 |args| Ok(wrapped(&text(&args[1]), whole(&args[0]), "\n", false).into());
    "wrapWith" reads 3..=3 |args| {
        let between = Some(text(&args[1])).filter(|text| !text.is_empty());
        Ok(wrapped(&text(&args[2]), whole(&args[0]), between.as_deref().unwrap_or("\n"), true).into())
    };
}

/// With the first letter of each word changed.
fn initially(text: &str, separates: fn(char) -> bool, change: fn(char) -> char) -> String {
    let mut is_first = true;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        out.push(if is_first { change(c) } else { c });
        is_first = separates(c);
    }
    out
}

/// One character for one, as Go has it: `ß` stays as it is.
pub(super) fn upper(c: char) -> char {
    let mut all = c.to_uppercase();
    match (all.next(), all.next()) {
        (Some(upper), None) => upper,
        _ => c,
    }
}

/// As [`upper`]. The one character with a longer lower case is the dotted `İ`, which Go makes `i`.
pub(super) fn lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

/// What separates words for Go's `Title`: of ASCII, all but letters, digits and `_`.
fn separates(c: char) -> bool {
    if c.is_ascii() { !c.is_ascii_alphanumeric() && c != '_' } else { c.is_whitespace() }
}

fn swapped(c: char) -> char {
    if c.is_uppercase() { lower(c) } else { upper(c) }
}

fn connects(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

/// `HttpServer` of `http_server` and of `HTTP-SERVER`; connecting characters at the ends stay, and of several together all
/// but the last.
fn camel(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let begin = chars.iter().position(|c| !connects(*c)).unwrap_or(chars.len());
    let mut out: String = chars[..begin].iter().collect();
    // Letters that are all upper case become lower case after the first one, up to the first that is not.
    let (mut begins, mut lowers) = (true, false);
    for (at, c) in chars.iter().copied().enumerate().skip(begin) {
        let is_last = at + 1 == chars.len();
        if connects(c) {
            if is_last || connects(chars[at + 1]) {
                out.push(c);
            }
            begins = true;
        } else if begins {
            lowers = c.is_uppercase();
            out.push(upper(c));
            begins = false;
        } else if lowers && c.is_uppercase() {
            out.push(lower(c));
        } else {
            lowers = false;
            out.push(c);
        }
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WordKind {
    Number,
    /// Begins with an upper-case letter.
    Upper,
    /// Letters, none of them upper case.
    Lower,
    Connector,
    Mark,
    Other,
}

fn kind(c: char) -> WordKind {
    match c {
        _ if connects(c) => WordKind::Connector,
        // ASCII's symbols are no marks for Unicode.
        '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~' => WordKind::Other,
        _ if c.is_ascii_punctuation() => WordKind::Mark,
        _ if c.is_uppercase() => WordKind::Upper,
        _ if c.is_alphabetic() => WordKind::Lower,
        _ if c.is_numeric() => WordKind::Number,
        _ => WordKind::Other,
    }
}

/// The words of a text, with what is between them: `HTTPServer2` is `HTTP`, `Server` and `2`.
fn words(text: &str) -> Vec<(WordKind, String)> {
    let chars: Vec<char> = text.chars().collect();
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(first) = chars.get(at) {
        let of = kind(*first);
        let run = |from: usize, of: WordKind| chars[from..].iter().take_while(|c| kind(**c) == of).count();
        let length = match (of, run(at, of)) {
            (WordKind::Upper, 1) => 1 + run(at + 1, WordKind::Lower),
            // The last letter begins the word that follows.
            (WordKind::Upper, several) if run(at + several, WordKind::Lower) > 0 => several - 1,
            (_, several) => several,
        };
        words.push((of, chars[at..at + length].iter().collect()));
        at += length;
    }
    words
}

/// Words in lower case with a connector between them. Numbers belong to the word before (`bld4_floor`) or begin one with the
/// letters after them (`http_2xx`).
fn joined(text: &str, connector: char) -> String {
    let words = words(text);
    let kind = |at: usize| words.get(at).map(|(kind, _)| *kind);
    let divides = |kind: Option<WordKind>| matches!(kind, None | Some(WordKind::Connector | WordKind::Mark));
    let mut out = String::new();
    let push = |out: &mut String, at: usize| match &words[at] {
        (WordKind::Upper, word) => out.extend(word.chars().map(lower)),
        (WordKind::Connector, word) => out.extend(word.chars().map(|_| connector)),
        (_, word) => out.push_str(word),
    };
    // Numbers and letters that follow a number without an upper-case one between are one word with it.
    let numbered = |out: &mut String, mut at: usize| {
        while matches!(kind(at), Some(WordKind::Lower | WordKind::Number)) {
            push(out, at);
            at += 1;
        }
        if !divides(kind(at)) {
            out.push(connector);
        }
        at
    };
    let mut at = 0;
    while at + 1 < words.len() {
        let of = words[at].0;
        push(&mut out, at);
        at += 1;
        match of {
            WordKind::Number => at = numbered(&mut out, at),
            WordKind::Connector | WordKind::Mark => {}
            _ if kind(at) != Some(WordKind::Number) => {
                if !divides(kind(at)) {
                    out.push(connector);
                }
            }
            _ if at + 1 == words.len() => {}
            _ if kind(at + 1) == Some(WordKind::Lower) => {
                out.push(connector);
                at = numbered(&mut out, at);
            }
            _ => {
                push(&mut out, at);
                at += 1;
                if !divides(kind(at)) {
                    out.push(connector);
                }
            }
        }
    }
    if at < words.len() {
        push(&mut out, at);
    }
    out
}

/// At most `most` characters, with `...` for what is left out: at the end, and before `left` if there is room for both.
fn shortened(left: i64, most: i64, text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let cut = |from: usize, to: usize| chars[from..to].iter().collect::<String>();
    let (left, width) = (usize::try_from(left).unwrap_or(0), usize::try_from(most).unwrap_or(0));
    if width < 4 || (left > 0 && width < 7) || chars.len() <= width {
        return text.to_owned();
    }
    let kept = width - 3;
    let from = left.min(chars.len() - kept);
    if from <= 4 {
        return cut(0, kept) + "...";
    }
    format!("...{}", shortened(0, most - 3, &cut(from, chars.len())))
}

/// Lines of at most `width` bytes, as sprig counts, parted at spaces; a longer word is a longer line, or cut between characters.
fn wrapped(text: &str, width: i64, between: &str, cuts: bool) -> String {
    let width = usize::try_from(width).unwrap_or(1).max(1);
    let mut out = String::new();
    let mut rest = text;
    while rest.len() > width {
        let bytes = rest.as_bytes();
        if bytes[0] == b' ' {
            rest = &rest[1..];
            continue;
        }
        let space = bytes[..=width].iter().rposition(|b| *b == b' ');
        let behind = || bytes[width..].iter().position(|b| *b == b' ').map(|space| space + width);
        let (length, skipped) = match space.or_else(|| if cuts { None } else { behind() }) {
            Some(space) => (space, 1),
            None if cuts => {
                // Where already the first character is longer than the line, after that.
                let mut ends = (1..=width).rev().chain(width + 1..rest.len());
                let Some(end) = ends.find(|end| rest.is_char_boundary(*end)) else { break };
                (end, 0)
            }
            None => break,
        };
        out.push_str(&rest[..length]);
        out.push_str(between);
        rest = &rest[length + skipped..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_between_characters() {
        for (text, width, expected) in
            [("ééé", 3, "é|é|é"), ("ééé", 4, "éé|é"), ("éaé", 1, "é|a|é"), ("é", 1, "é")]
        {
            assert_eq!(wrapped(text, width, "|", true), expected, "{text} {width}");
        }
    }
}
