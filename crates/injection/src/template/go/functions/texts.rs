//! String functions: quotes, case, spaces, and parts.

use super::codings::quoted;
use super::{ANY, FunctionResult, MAX_OUTPUT, functions, is_nothing, list_of, spend, text, whole};
use crate::template::go::standin;
use gtmpl_ng::Value;
use regex::{Regex, RegexBuilder};

functions! {
    "quote" passes 0..=ANY, |args| Ok(joined(args, " ", |value| quoted(&text(value))));
    "squote" passes 0..=ANY, |args| Ok(joined(args, " ", |value| format!("'{}'", text(value))));
    "cat" passes 0..=ANY, |args| Ok(joined(args, " ", text));
    "toString" passes 1..=1, |args| Ok(text(&args[0]).into());
    "toStrings" passes 1..=1, |args| Ok(list_of(texts(&args[0])));
    "join" passes 2..=2, join;
    "lower" | "toLower" passes 1..=1, |args| Ok(text(&args[0]).to_lowercase().into());
    "upper" passes 1..=1, |args| Ok(text(&args[0]).to_uppercase().into());
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
    "hasPrefix" reads 2..=2, |args| Ok(text(&args[1]).starts_with(&text(&args[0])).into());
    "hasSuffix" reads 2..=2, |args| Ok(text(&args[1]).ends_with(&text(&args[0])).into());
    "trunc" reads 2..=2, |args| Ok(truncated(&text(&args[1]), whole(&args[0])).into());
    "substr" reads 3..=3, |args| Ok(substr(whole(&args[0]), whole(&args[1]), &text(&args[2])).into());
    "split" reads 2..=2, |args| {
        let parts = parts(&text(&args[0]), &text(&args[1])).into_iter().enumerate();
        Ok(Value::Map(parts.map(|(index, part)| (format!("_{index}"), part.into())).collect()))
    };
    "splitList" reads 2..=2, |args| Ok(list_of(parts(&text(&args[0]), &text(&args[1]))));
    "regexMatch" reads 2..=2, |args| Ok(compiled(args).is_ok_and(|found| found.is_match(&text(&args[1]))).into());
    "mustRegexMatch" reads 2..=2, |args| Ok(compiled(args)?.is_match(&text(&args[1])).into());
    "regexFind" | "mustRegexFind" reads 2..=2, |args| {
        let text = text(&args[1]);
        Ok(compiled(args)?.find(&text).map_or("", |found| found.as_str()).into())
    };
    "regexReplaceAll" | "mustRegexReplaceAll" reads 3..=3, |args| {
        let (text, new) = (text(&args[1]), text(&args[2]));
        spend((text.len() + 1).saturating_mul(new.len()))?;
        Ok(compiled(args)?.replace_all(&text, new.as_str()).into_owned().into())
    };
}

/// Compiles the first argument, a regular expression for the second.
fn compiled(args: &[Value]) -> Result<Regex, String> {
    // Enough for templates, and low enough that no text takes long.
    const MAX_SIZE: usize = 128 << 10;
    let (pattern, text) = (text(&args[0]), text(&args[1]));
    // Each text character may be compared with each expression character.
    spend(text.len().saturating_mul(pattern.len().div_ceil(16)))?;
    let compiled = RegexBuilder::new(&pattern).size_limit(MAX_SIZE).build();
    compiled.map_err(|error| {
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("got {pattern:?}, which is not a regular expression: {why}")
    })
}

fn joined(args: &[Value], between: &str, write: impl Fn(&Value) -> String) -> Value {
    let written: Vec<String> = args.iter().filter(|value| !is_nothing(value)).map(write).collect();
    written.join(between).into()
}

fn join(args: &[Value]) -> FunctionResult {
    let (between, items) = (text(&args[0]), texts(&args[1]));
    check_length(between.len().checked_mul(items.len().saturating_sub(1)))?;
    Ok(items.join(between.as_str()).into())
}

/// The values of a list as strings, without nil; a single value counts as a list.
pub(super) fn texts(value: &Value) -> Vec<String> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    items.iter().filter(|item| !is_nothing(item)).map(text).collect()
}

/// Fails before creating a string longer than the engine accepts; `None` is an overflow.
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

/// Indents a string's lines; the first only for `nindent`: Istio's `indent` skips it.
pub(super) fn indented(args: &[Value], first: bool) -> Result<String, String> {
    let (spaces, text) = (whole(&args[0]), text(&args[1]));
    let count = usize::try_from(spaces).ok().filter(|spaces| *spaces <= 256);
    let count = count.ok_or_else(|| format!("takes 0 to 256 spaces, not {spaces}"))?;
    check_length(text.matches('\n').count().checked_mul(count))?;
    let spaces = " ".repeat(count);
    let rest = text.replace('\n', &format!("\n{spaces}"));
    Ok(if first { spaces + &rest } else { rest })
}

/// Compares the originals of stand-ins, and keeps all other stand-ins. `new` is unchanged: the template may intend structure.
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

/// The first `count` characters, or the last for negative counts.
fn truncated(text: &str, count: i64) -> String {
    let most = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let skipped = if count < 0 { text.chars().count().saturating_sub(most) } else { 0 };
    text.chars().skip(skipped).take(most).collect()
}

/// The characters from `start` up to `end`; a negative index means the text's start or end.
fn substr(start: i64, end: i64, text: &str) -> String {
    let (start, end) = (usize::try_from(start).unwrap_or(0), usize::try_from(end).unwrap_or(usize::MAX));
    text.chars().skip(start).take(end.saturating_sub(start)).collect()
}

/// Splits like Go: an empty separator splits into characters.
fn parts(between: &str, text: &str) -> Vec<String> {
    match between {
        "" => text.chars().map(String::from).collect(),
        _ => text.split(between).map(str::to_owned).collect(),
    }
}
