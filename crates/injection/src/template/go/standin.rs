//! Stand-ins for characters with a meaning in YAML, which keep a pod's strings from being read as YAML. A template pastes strings
//! of the pod's author into YAML, with line breaks, quotes and colons. So each template is rendered twice: with the strings, and
//! with each such character replaced by a meaningless stand-in. Both results, parsed as YAML, must be equal. Functions that read
//! strings (`eq`, `splitList`, `fromJSON`) get stand-ins' originals, and their results get stand-ins again; other functions only
//! pass strings on.

use gtmpl_ng::Value;

/// First stand-in: a private-use plane of Unicode, with room for 0x10000 characters.
const PLANE: u32 = 0xf_0000;

/// True for characters that YAML could read as more than a part of a word. Spaces are excluded, since ordinary strings contain
/// them (`80, 90`): within a line, they only matter beside such a character; at its start, they indent.
fn is_structure(c: char) -> bool {
    match c {
        '"' | '\'' | '\\' | '{' | '}' | '[' | ']' | ',' | ':' | '#' | '&' | '*' | '!' | '|' | '>' | '%'
        | '@' | '`' => true,
        '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => true,
        // A stand-in in the pod itself would be confused with one from here.
        _ => c.is_control() || original(c) != c,
    }
}

/// True for a string that begins like a list item, a key or the end of a document.
fn begins_structure(text: &str) -> bool {
    let mut chars = text.chars();
    match chars.next() {
        Some('-' | '?') => chars.next().is_none_or(|c| c.is_whitespace() || c == '-'),
        Some('.') => text.starts_with("..."),
        _ => false,
    }
}

/// True for a string that YAML could read as structure.
pub(super) fn is_suspicious(text: &str) -> bool {
    text.contains(is_structure) || begins_structure(text)
}

pub(super) fn cover(text: &str) -> String {
    if !is_suspicious(text) {
        return text.to_owned();
    }
    let begins = begins_structure(text);
    let covered = |(index, c)| if is_structure(c) || (begins && index == 0) { for_char(c) } else { c };
    text.chars().enumerate().map(covered).collect()
}

fn for_char(c: char) -> char {
    // All characters with a meaning in YAML are in the first plane; a higher one is the pod's own stand-in.
    let code = if u32::from(c) > 0xffff { u32::from(char::REPLACEMENT_CHARACTER) } else { u32::from(c) };
    char::from_u32(PLANE + code).unwrap_or(c)
}

/// A stand-in's original; any other character is unchanged.
pub(super) fn original(c: char) -> char {
    match u32::from(c).checked_sub(PLANE) {
        Some(code @ 0..=0xffff) => char::from_u32(code).unwrap_or(c),
        _ => c,
    }
}

pub(super) fn uncover(text: &str) -> String {
    text.chars().map(original).collect()
}

fn has(text: &str) -> bool {
    // All stand-ins have four bytes and begin with 0xf3.
    text.as_bytes().contains(&0xf3) && text.chars().any(|c| original(c) != c)
}

/// True if a template's result contains stand-ins, or their escapes by `printf`'s `%q`.
pub(super) fn are_left(text: &str) -> bool {
    has(text) || text.contains("\\U000f")
}

pub(super) fn is_in(value: &Value) -> bool {
    match value {
        Value::String(text) => has(text),
        Value::Array(items) => items.iter().any(is_in),
        Value::Map(fields) | Value::Object(fields) => {
            fields.iter().any(|(key, value)| has(key) || is_in(value))
        }
        Value::NoValue | Value::Nil | Value::Bool(_) | Value::Function(_) | Value::Number(_) => false,
    }
}

fn changed(value: &Value, text: fn(&str) -> String) -> Value {
    let pair = |(key, value): (&String, &Value)| (text(key), changed(value, text));
    match value {
        Value::String(of) => text(of).into(),
        Value::Array(items) => Value::Array(items.iter().map(|item| changed(item, text)).collect()),
        Value::Map(fields) => Value::Map(fields.iter().map(pair).collect()),
        Value::Object(fields) => Value::Object(fields.iter().map(pair).collect()),
        other => other.clone(),
    }
}

pub(super) fn meaning(value: &Value) -> Value {
    changed(value, uncover)
}

/// The value with stand-ins; the key that marks structures keeps its name.
pub(super) fn covered(value: &Value) -> Value {
    changed(value, |text| if text == super::data::STRUCT { text.to_owned() } else { cover(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_without_stand_ins_are_recognized() {
        // A tag character has the same first byte as stand-ins.
        for (text, expected) in [("plain", false), ("\u{e0061}", false), (&*cover("- a"), true)] {
            assert_eq!(is_in(&Value::String(text.to_owned())), expected, "{text:?}");
        }
    }

    #[test]
    fn stand_ins_resolve_to_their_originals() {
        for text in [
            "a: b",
            "\"x\"\n- y",
            "- a",
            "-",
            "--- ",
            "...",
            "? k",
            "#",
            "{}",
            "\0\u{85}\u{2028}\u{ffff}",
            "é😀,",
        ] {
            let covered = cover(text);
            let is_left = |c: char| original(c) == c && is_structure(c);
            assert!(
                is_suspicious(text) && !covered.contains(is_left) && !begins_structure(&covered),
                "{text:?}"
            );
            assert_eq!(uncover(&covered), text);
        }
        assert_eq!(uncover(&cover("a\u{f0022}")), "a\u{fffd}", "no pod needs it");
        for text in ["", "a", "10.0.0.0/8", "-1", "a-b", "15020", "true", "~", "a b", "é😀"] {
            assert!(!is_suspicious(text), "{text:?}");
            assert_eq!(cover(text), text);
        }
    }
}
