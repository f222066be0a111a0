//! Stand-ins for characters that mean something in YAML, so that what a pod says can be kept from being read as YAML.
//!
//! A template pastes texts into YAML. The pod's texts come from its author, and may hold a line break, a quote, a
//! colon. So a template is filled twice: with the texts, and with each such character of the pod's replaced by another
//! that means nothing. No character of the pod's can then be structure. Both results, read as YAML, have to say the same.
//!
//! Functions that only hand texts on need not know. Those that look at what a text says (`eq`, `splitList`, `fromJSON`) are
//! given what stand-ins mean, and stand-ins take the places of the characters in their results.

use gtmpl_ng::Value;

/// Where stand-ins begin: a plane of Unicode for private use, in which 0x10000 characters have a place each.
const PLANE: u32 = 0xf_0000;

/// Characters that YAML could take for more than a part of a word, anywhere in a text. Spaces are left out, as usual texts hold
/// them (`80, 90`): within a line they mean something beside such a character only. At its start they indent it.
fn is_structure(c: char) -> bool {
    match c {
        '"' | '\'' | '\\' | '{' | '}' | '[' | ']' | ',' | ':' | '#' | '&' | '*' | '!' | '|' | '>' | '%'
        | '@' | '`' => true,
        '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => true,
        // A stand-in that the pod says itself would be taken for ours.
        _ => c.is_control() || original(c) != c,
    }
}

/// True for a text that begins as a list, a key or the end of a document.
fn begins_structure(text: &str) -> bool {
    let mut chars = text.chars();
    match chars.next() {
        Some('-' | '?') => chars.next().is_none_or(|c| c.is_whitespace() || c == '-'),
        Some('.') => text.starts_with("..."),
        _ => false,
    }
}

/// True for a text that YAML could take for structure.
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
    // What YAML gives a meaning is all in the first plane; what is beyond it is a stand-in that the pod says.
    let code = if u32::from(c) > 0xffff { u32::from(char::REPLACEMENT_CHARACTER) } else { u32::from(c) };
    char::from_u32(PLANE + code).unwrap_or(c)
}

/// A stand-in's character; any other is itself.
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
    // All stand-ins have four bytes, of which these are the first.
    text.as_bytes().contains(&0xf3) && text.chars().any(|c| original(c) != c)
}

/// True where a template's result holds stand-ins, or the escapes that `%q` of `printf` writes of them.
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

/// The key that marks structures keeps its name.
pub(super) fn covered(value: &Value) -> Value {
    changed(value, |text| if text == super::data::STRUCT { text.to_owned() } else { cover(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_stand_ins_holds_none_whatever_its_bytes() {
        // A tag character begins with the byte that stand-ins begin with.
        for (text, expected) in [("plain", false), ("\u{e0061}", false), (&*cover("- a"), true)] {
            assert_eq!(is_in(&Value::String(text.to_owned())), expected, "{text:?}");
        }
    }

    #[test]
    fn stand_ins_mean_what_they_stand_for() {
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
