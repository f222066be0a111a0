//! Regular expressions.

use super::{FunctionResult, functions, list_of, spend, text, whole};
use crate::re2;
use gtmpl_ng::Value;
use regex::Regex;

functions! {
    "regexMatch" reads 2..=2, |args| Ok(compiled(args).is_ok_and(|found| found.is_match(&text(&args[1]))).into());
    "mustRegexMatch" reads 2..=2, |args| Ok(compiled(args)?.is_match(&text(&args[1])).into());
    "regexFind" | "mustRegexFind" reads 2..=2, |args| {
        let text = text(&args[1]);
        Ok(compiled(args)?.find(&text).map_or("", |found| found.as_str()).into())
    };
    "regexFindAll" | "mustRegexFindAll" reads 3..=3, |args| {
        let text = text(&args[1]);
        let most = usize::try_from(whole(&args[2])).unwrap_or(usize::MAX);
        Ok(list_of(compiled(args)?.find_iter(&text).take(most).map(|found| found.as_str())))
    };
    "regexReplaceAll" | "mustRegexReplaceAll" reads 3..=3, |args| replaced(args, true);
    "regexReplaceAllLiteral" | "mustRegexReplaceAllLiteral" reads 3..=3, |args| replaced(args, false);
    "regexSplit" | "mustRegexSplit" reads 3..=3, split;
    "regexQuoteMeta" reads 1..=1, |args| Ok(re2::quoted(&text(&args[0])).into());
}

/// Replaces each match by a text that may hold references to its groups. Stops before the text is too long for memory.
fn replaced(args: &[Value], has_references: bool) -> FunctionResult {
    let (pattern, text, new) = (compiled(args)?, text(&args[1]), text(&args[2]));
    let references = if has_references { new.matches('$').count() } else { 0 };
    let (mut out, mut end) = (String::new(), 0);
    for found in pattern.captures_iter(&text) {
        let place = found.get_match();
        out.push_str(&text[end..place.start()]);
        // A reference is at most as long as the match.
        spend(new.len().saturating_add(references.saturating_mul(place.len())))?;
        if has_references {
            found.expand(&new, &mut out);
        } else {
            out.push_str(&new);
        }
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
    Ok(list_of(parts))
}
