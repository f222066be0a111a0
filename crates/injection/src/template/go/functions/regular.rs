//! Regular expressions.

use super::{FunctionResult, functions, list_of, spend, text, whole};
use crate::re2;
use gtmpl_ng::Value;
use regex::{Captures, Regex};

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
    "regexQuoteMeta" reads 1..=1 |args| Ok(re2::quoted(&text(&args[0])).into());
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
    re2::compile(&pattern, MAX_SIZE)
        .map_err(|why| format!("is given {pattern:?}, which is not a regular expression: {why}"))
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
