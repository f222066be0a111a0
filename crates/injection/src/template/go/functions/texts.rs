//! Functions of texts, and those that write a text's words otherwise: in other cases, on more lines, or shorter.

use super::codings::quoted;
use super::{ANY, FunctionResult, MAX_OUTPUT, functions, is_nothing, list_of, text, whole};
use crate::template::go::standin;
use gtmpl_ng::Value;

functions! {
    "quote" passes 0..=ANY, |args| Ok(joined(args, " ", |value| quoted(&text(value), false)));
    "squote" passes 0..=ANY, |args| Ok(joined(args, " ", |value| format!("'{}'", text(value))));
    "cat" passes 0..=ANY, |args| Ok(joined(args, " ", text));
    "toString" passes 1..=1, |args| Ok(text(&args[0]).into());
    "toStrings" passes 1..=1, |args| Ok(list_of(texts(&args[0])));
    "join" passes 2..=2, join;
    "lower" | "toLower" passes 1..=1, |args| Ok(text(&args[0]).chars().map(lower).collect::<String>().into());
    "upper" passes 1..=1, |args| Ok(text(&args[0]).chars().map(upper).collect::<String>().into());
    "repeat" passes 2..=2, repeat;
    "replace" passes 3..=3, |args| Ok(replaced(&text(&args[0]), &text(&args[1]), &text(&args[2]))?.into());
    "nindent" passes 2..=2, |args| Ok(format!("\n{}", indented(args, true)?).into());
    "trim" reads 1..=1, |args| Ok(text(&args[0]).trim().into());
    "trimAll" | "trimall" reads 2..=2, |args| {
        let cut = text(&args[0]);
        Ok(text(&args[1]).trim_matches(|c| cut.contains(c)).into())
    };
    "trimPrefix" reads 2..=2, |args| {
        let whole = text(&args[1]);
        Ok(whole.strip_prefix(&text(&args[0])).unwrap_or(&whole).into())
    };
    "trimSuffix" reads 2..=2, |args| {
        let whole = text(&args[1]);
        Ok(whole.strip_suffix(&text(&args[0])).unwrap_or(&whole).into())
    };
    "hello" passes 0..=0, |_| Ok("Hello!".into());
    "nospace" reads 1..=1, |args| Ok(text(&args[0]).replace(char::is_whitespace, "").into());
    "hasPrefix" reads 2..=2, |args| Ok(text(&args[1]).starts_with(&text(&args[0])).into());
    "hasSuffix" reads 2..=2, |args| Ok(text(&args[1]).ends_with(&text(&args[0])).into());
    "trunc" reads 2..=2, |args| Ok(truncated(&text(&args[1]), whole(&args[0])).into());
    "substr" reads 3..=3, |args| Ok(substr(whole(&args[0]), whole(&args[1]), &text(&args[2])).into());
    "split" reads 2..=2, |args| Ok(numbered(&parts(&text(&args[0]), &text(&args[1]), None)));
    "splitn" reads 3..=3, |args| Ok(numbered(&parts(&text(&args[0]), &text(&args[2]), Some(whole(&args[1])))));
    "splitList" reads 2..=2, |args| Ok(list_of(parts(&text(&args[0]), &text(&args[1]), None)));
    "title" reads 1..=1, |args| Ok(initially(&text(&args[0]), separates, upper).into());
    "untitle" reads 1..=1, |args| Ok(initially(&text(&args[0]), char::is_whitespace, lower).into());
    "swapcase" reads 1..=1, |args| Ok(text(&args[0]).chars().map(swapped).collect::<String>().into());
    "camelcase" reads 1..=1, |args| Ok(camel(&text(&args[0])).into());
    "snakecase" reads 1..=1, |args| Ok(connected(&text(&args[0]), '_').into());
    "kebabcase" reads 1..=1, |args| Ok(connected(&text(&args[0]), '-').into());
    "initials" reads 1..=1, |args| {
        Ok(text(&args[0]).split_whitespace().filter_map(|word| word.chars().next()).collect::<String>().into())
    };
    "plural" passes 3..=3, |args| Ok(args[usize::from(whole(&args[2]) != 1)].clone());
    "abbrev" reads 2..=2, |args| Ok(shortened(0, whole(&args[0]), &text(&args[1])).into());
    "abbrevboth" reads 3..=3, |args| Ok(shortened(whole(&args[0]), whole(&args[1]), &text(&args[2])).into());
    "wrap" reads 2..=2, |args| Ok(wrapped(&text(&args[1]), whole(&args[0]), "\n", false).into());
    "wrapWith" reads 3..=3, |args| {
        let between = Some(text(&args[1])).filter(|text| !text.is_empty());
        Ok(wrapped(&text(&args[2]), whole(&args[0]), between.as_deref().unwrap_or("\n"), true).into())
    };
}

/// The values that are not nil, each as `write` makes it, with `between` between them.
fn joined(args: &[Value], between: &str, write: impl Fn(&Value) -> String) -> Value {
    let written: Vec<String> = args.iter().filter(|value| !is_nothing(value)).map(write).collect();
    written.join(between).into()
}

fn join(args: &[Value]) -> FunctionResult {
    let (between, items) = (text(&args[0]), texts(&args[1]));
    check_length(between.len().checked_mul(items.len().saturating_sub(1)))?;
    Ok(items.join(between.as_str()).into())
}

/// The values of a list as texts, without nil; a single value counts as a list of it.
pub(super) fn texts(value: &Value) -> Vec<String> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    items.iter().filter(|item| !is_nothing(item)).map(text).collect()
}

/// Fails before a text is made that is longer than the engine accepts: it measures a result only once that is in memory.
/// `None` is a length that no number holds.
fn check_length(bytes: Option<usize>) -> Result<(), String> {
    if bytes.is_none_or(|bytes| bytes > MAX_OUTPUT) {
        return Err(format!("would make more than {MAX_OUTPUT} bytes"));
    }
    Ok(())
}

fn repeat(args: &[Value]) -> FunctionResult {
    let (count, what) = (usize::try_from(whole(&args[0])).unwrap_or(0), text(&args[1]));
    check_length(count.checked_mul(what.len()))?;
    Ok(what.repeat(count).into())
}

/// Puts as many spaces before each line of a text as it is told, within what a manifest could want. Before the first one only for
/// `nindent`: `indent` is Istio's, which leaves that as it is.
pub(super) fn indented(args: &[Value], first: bool) -> Result<String, String> {
    let (spaces, text) = (whole(&args[0]), text(&args[1]));
    let count = usize::try_from(spaces).ok().filter(|spaces| *spaces <= 256);
    let count = count.ok_or_else(|| format!("takes 0 to 256 spaces, not {spaces}"))?;
    check_length(text.matches('\n').count().checked_mul(count))?;
    let spaces = " ".repeat(count);
    let rest = text.replace('\n', &format!("\n{spaces}"));
    Ok(if first { spaces + &rest } else { rest })
}

/// Compares the characters that stand-ins stand for, and keeps the stand-ins of what is not replaced. `new` stays as it is:
/// the template may intend it as structure.
fn replaced(old: &str, new: &str, text: &str) -> Result<String, String> {
    let originals = |text: &str| text.chars().map(standin::original).collect::<Vec<char>>();
    let (old, chars) = (originals(old), text.chars().collect::<Vec<char>>());
    if old.is_empty() {
        check_length(new.len().checked_mul(chars.len() + 1))?;
        return Ok(text.replace("", new));
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let here = chars[at..].iter().copied().map(standin::original);
        if here.take(old.len()).eq(old.iter().copied()) {
            check_length(out.len().checked_add(new.len()))?;
            out.push_str(new);
            at += old.len();
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    Ok(out)
}

/// The first `count` characters; the last ones where it is negative.
fn truncated(text: &str, count: i64) -> String {
    let most = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let skipped = if count < 0 { text.chars().count().saturating_sub(most) } else { 0 };
    text.chars().skip(skipped).take(most).collect()
}

/// From the first character to before the last; negative ones stand for the ends.
fn substr(start: i64, end: i64, text: &str) -> String {
    let (start, end) = (usize::try_from(start).unwrap_or(0), usize::try_from(end).unwrap_or(usize::MAX));
    text.chars().skip(start).take(end.saturating_sub(start)).collect()
}

/// As Go splits: an empty separator splits into characters, of which the last part holds all that are left.
fn parts(between: &str, text: &str, most: Option<i64>) -> Vec<String> {
    let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    if most == 0 {
        return Vec::new();
    }
    if between.is_empty() {
        let mut chars = text.chars();
        let mut parts: Vec<String> = chars.by_ref().take(most - 1).map(String::from).collect();
        let rest = chars.as_str();
        if !rest.is_empty() {
            parts.push(rest.to_owned());
        }
        return parts;
    }
    text.splitn(most, between).map(str::to_owned).collect()
}

/// Sprig's map of parts: `_0`, `_1`.
fn numbered(parts: &[String]) -> Value {
    Value::Map(
        parts.iter().enumerate().map(|(index, part)| (format!("_{index}"), part.as_str().into())).collect(),
    )
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
fn upper(c: char) -> char {
    let mut all = c.to_uppercase();
    match (all.next(), all.next()) {
        (Some(upper), None) => upper,
        _ => c,
    }
}

/// As [`upper`]. The one character with a longer lower case is the dotted `İ`, which Go makes `i`.
fn lower(c: char) -> char {
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
fn connected(text: &str, connector: char) -> String {
    let words = words(text);
    let kind = |at: usize| words.get(at).map(|(kind, _)| *kind);
    let divides = |at: usize| matches!(kind(at), None | Some(WordKind::Connector | WordKind::Mark));
    let mut out = String::new();
    // Whether the word is one with a number before it: no upper-case letter is between.
    let mut is_numbered = false;
    for (at, (of, word)) in words.iter().enumerate() {
        match of {
            WordKind::Upper => out.extend(word.chars().map(lower)),
            WordKind::Connector => out.extend(word.chars().map(|_| connector)),
            _ => out.push_str(word),
        }
        let goes_on = matches!(kind(at + 1), Some(WordKind::Lower | WordKind::Number));
        is_numbered |= *of == WordKind::Number;
        let parts = match kind(at + 1) {
            _ if is_numbered => !goes_on,
            Some(WordKind::Number) => kind(at + 2) == Some(WordKind::Lower),
            _ => true,
        };
        if parts && !divides(at) && !divides(at + 1) {
            out.push(connector);
        }
        is_numbered &= goes_on;
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
