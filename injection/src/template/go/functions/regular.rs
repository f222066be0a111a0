//! Regular expressions in Go's syntax, for an engine of the same kind: both take time in proportion to the text.

use super::{FunctionResult, functions, list_of, spend, text, whole};
use gtmpl_ng::Value;
use regex::{Captures, Regex, RegexBuilder};

functions! {
    "regexMatch" reads 2..=2 |args| Ok(compiled(args).is_ok_and(|found| found.is_match(&text(&args[1]))).into());
    "mustRegexMatch" reads 2..=2 |args| Ok(compiled(args)?.is_match(&text(&args[1])).into());
    "regexFind" reads 2..=2 |args| {
        let text = text(&args[1]);
        Ok(compiled(args)?.find(&text).map_or("", |found| found.as_str()).into())
    };
    "regexFindAll" reads 3..=3 |args| {
        let text = text(&args[1]);
        let most = usize::try_from(whole(&args[2])).unwrap_or(usize::MAX);
        Ok(list_of(compiled(args)?.find_iter(&text).take(most).map(|found| found.as_str())))
    };
    "regexReplaceAll" reads 3..=3 |args| {
        let new = text(&args[2]);
        let references = new.matches('$').count();
        replace_all(args, |found, out| {
            // A reference is at most as long as what was found.
            spend(new.len().saturating_add(references.saturating_mul(found[0].len())))?;
            found.expand(&new, out);
            Ok(())
        })
    };
    "regexReplaceAllLiteral" reads 3..=3 |args| {
        let new = text(&args[2]);
        replace_all(args, |_, out| {
            spend(new.len())?;
            out.push_str(&new);
            Ok(())
        })
    };
    "regexSplit" reads 3..=3 split;
    "regexQuoteMeta" reads 1..=1 |args| Ok(quoted(&text(&args[0])).into());
}

/// Replaces each match by what `write` adds. Stops where that fails, so that no text is made that is too long for memory.
fn replace_all(
    args: &[Value],
    write: impl Fn(&Captures<'_>, &mut String) -> Result<(), String>,
) -> FunctionResult {
    let (pattern, text) = (compiled(args)?, text(&args[1]));
    let (mut out, mut end) = (String::new(), 0);
    for found in pattern.captures_iter(&text) {
        let place = found.get_match();
        out.push_str(&text[end..place.start()]);
        write(&found, &mut out)?;
        end = place.end();
    }
    out.push_str(&text[end..]);
    Ok(out.into())
}

/// The most bytes of a compiled expression: enough for what templates ask, and so little that no text takes long.
const MAX_SIZE: usize = 128 << 10;

fn compiled(args: &[Value]) -> Result<Regex, String> {
    let (pattern, text) = (text(&args[0]), text(&args[1]));
    // Each character of the text may be looked at for each of the expression.
    spend(text.len().saturating_mul(pattern.len().div_ceil(16)))?;
    let built = RegexBuilder::new(&translated(&pattern)).size_limit(MAX_SIZE).nest_limit(50).build();
    built.map_err(|error| {
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default();
        format!(
            "is given {pattern:?}, which is not a regular expression: {}",
            why.trim_start_matches("error: ")
        )
    })
}

/// Go's classes of characters are ASCII's, brackets within brackets and braces that repeat nothing mean themselves, and `\Q`
/// quotes up to `\E`.
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match (c, in_class) {
            ('\\', _) => match chars.next() {
                Some(class @ ('d' | 's' | 'w')) if in_class => {
                    out.push_str(members(class));
                    // A hyphen after a class makes no range.
                    if chars.next_if_eq(&'-').is_some() {
                        out.push_str("\\-");
                    }
                }
                Some(class @ ('d' | 's' | 'w')) => out.push_str(&format!("[{}]", members(class))),
                Some(class @ ('D' | 'S' | 'W')) => {
                    out.push_str(&format!("[^{}]", members(class.to_ascii_lowercase())));
                }
                Some(edge @ ('b' | 'B')) => out.push_str(&format!("(?-u:\\{edge})")),
                // The engine would take them for edges of words.
                Some(mark @ ('<' | '>')) => out.push(mark),
                Some(named @ ('p' | 'P' | 'x')) => {
                    out.extend(['\\', named]);
                    out.extend(chars.next_if_eq(&'{'));
                }
                Some('Q') => {
                    let rest: String = chars.by_ref().collect();
                    let (literal, behind) = rest.split_once("\\E").unwrap_or((&rest, ""));
                    return out + &quoted(literal) + &translated(behind);
                }
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            ('[', false) => {
                in_class = true;
                out.push('[');
                out.extend(chars.next_if_eq(&'^'));
                if chars.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            ('{', false) if !is_repetition(chars.clone()) => out.push_str("\\{"),
            ('[', true) if chars.peek() == Some(&':') => out.push('['),
            ('[' | '&' | '~', true) => out.extend(['\\', c]),
            (']', true) => {
                // The end of [:alpha:] ends no class.
                in_class =
                    out.ends_with(':') && out.rfind("[:").is_some_and(|at| !out[at + 2..].contains(']'));
                out.push(']');
            }
            _ => out.push(c),
        }
    }
    out
}

/// Whether the brace before this text repeats something, as `{2}`, `{2,}` and `{2,4}` do. Any other means itself.
fn is_repetition(text: impl Iterator<Item = char>) -> bool {
    let (mut has_number, mut has_comma) = (false, false);
    for c in text {
        match c {
            '0'..='9' => has_number |= !has_comma,
            ',' if has_number && !has_comma => has_comma = true,
            '}' => return has_number,
            _ => return false,
        }
    }
    false
}

fn members(class: char) -> &'static str {
    match class {
        'd' => "0-9",
        's' => r"\t\n\f\r ",
        _ => "0-9A-Za-z_",
    }
}

/// A text as an expression that means it.
fn quoted(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

/// The parts between, at most as many as the third value, unless that is negative. An empty match parts nothing before the
/// text's first character.
fn split(args: &[Value]) -> FunctionResult {
    let (pattern, text) = (text(&args[0]), text(&args[1]));
    let most = usize::try_from(whole(&args[2])).unwrap_or(usize::MAX);
    if most == 0 {
        return Ok(Value::Array(Vec::new()));
    }
    let (mut parts, mut at) = (Vec::new(), 0);
    let mut ends_in_match = text.is_empty() && pattern.is_empty();
    for found in compiled(args)?.find_iter(&text) {
        if parts.len() == most - 1 {
            break;
        }
        ends_in_match = found.start() == text.len() && (!text.is_empty() || pattern.is_empty());
        if found.end() != 0 {
            parts.push(&text[at..found.start()]);
        }
        at = found.end();
    }
    if !ends_in_match {
        parts.push(&text[at..]);
    }
    Ok(list_of(parts.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_what_they_mean_for_go() {
        let rows = [
            (r"\w+\b", r"[0-9A-Za-z_]+(?-u:\b)"),
            (r"[^\d&&[x]", r"[^0-9\&\&\[x]"),
            (r"[]a][[:alpha:]_]x]", r"[\]a][[:alpha:]_]x]"),
            (r"\Qa.b\Ec.", r"a\.bc."),
            (r"\S\\", r"[^\t\n\f\r ]\\"),
            (r"[\w-.]", r"[0-9A-Za-z_\-.]"),
            (r"\<a{,2}{3}\p{Greek}{4,}{", r"<a\{,2}{3}\p{Greek}{4,}\{"),
        ];
        for (given, expected) in rows {
            assert_eq!(translated(given), expected, "{given}");
        }
    }
}
