//! The functions of templates: those of Istio, and those of sprig that need no machine, no clock and no chance. Where both have a
//! function, it is Istio's.

mod call;
pub(super) mod codings;
mod collections;
pub(super) mod durations;
mod istio;
mod texts;
mod values;

pub(crate) use call::refused;
pub(super) use call::{MAX_OUTPUT, begin, remarks};

use call::{ANY, FunctionOwner, FunctionResult, FunctionTable, RENDERING, functions, passes, reads, spend};
use gtmpl_ng::{Func, FuncError, Value, funcs};
use std::collections::BTreeSet;
use std::sync::LazyLock;
use values::{Fields, field, fields, is_empty, is_nothing, list, list_of, printed, text, whole};

pub(super) fn all() -> impl Iterator<Item = (&'static str, Func)> {
    let kinds = [codings::ALL, collections::ALL, istio::ALL, texts::ALL, values::ALL];
    let each = kinds.into_iter().flatten();
    each.flat_map(|(names, function)| names.iter().map(|name| (*name, *function)))
}

/// The names of all functions that templates can call.
pub fn names() -> BTreeSet<&'static str> {
    funcs::BUILTINS.iter().map(|(name, _)| *name).chain(all().map(|(name, _)| name)).collect()
}

/// Prefixes of sprig's functions that are left out on purpose, with the reasons.
const LEFT_OUT: [(&[&str], &str); 16] = [
    (&["regex", "mustRegex"], "regexFind, regexMatch and regexReplaceAll are"),
    (&["rand", "shuffle", "uuid"], "a pod's patch is the same each time, so nothing is left to chance"),
    (
        &["date", "now", "ago", "htmlDate", "unixEpoch", "toDate", "mustToDate", "mustDate", "must_date"],
        "a pod's patch is the same each time, so there is no clock",
    ),
    (
        &["gen", "bcrypt", "htpasswd", "encryptAES", "decryptAES", "derivePassword", "buildCustomCert"],
        "there is no cryptography",
    ),
    (&["expandenv", "getHostByName"], "templates know nothing of the machine"),
    (&["abbrev", "camelcase", "initials", "kebabcase", "nospace", "plural", "snakecase"], RESHAPED),
    (&["swapcase", "title", "untitle", "wrap"], RESHAPED),
    (&["adler32sum", "sha512sum"], "sha1sum and sha256sum are"),
    (&["b32"], "b64enc and b64dec are"),
    (
        &["base", "clean", "dir", "ext", "isAbs", "os"],
        "directory is, and texts have splitList and trimSuffix",
    ),
    (&["chunk", "mustChunk", "seq", "untilStep"], "until is"),
    (&["duration"], "formatDuration is"),
    (&["toPrettyJson", "mustToPrettyJson", "toRawJson", "mustToRawJson"], "toJson is"),
    (&["typeIs", "typeOf"], "kindIs and kindOf are"),
    (&["semver", "splitn", "url"], "texts have contains, split, trimPrefix and trimSuffix"),
    (
        &["addf", "add1f", "divf", "maxf", "minf", "mulf", "subf", "toDecimal"],
        "pods hold whole numbers; ceil, floor and round are",
    ),
];
const RESHAPED: &str = "templates of pods don't reshape words; write the text as it has to be";
/// The error of a call to a function that is not offered; `None` for one that is.
pub(super) fn lacking(name: &str) -> Option<String> {
    static KNOWN: LazyLock<BTreeSet<&str>> = LazyLock::new(names);
    if KNOWN.contains(name) {
        return None;
    }
    let why = LEFT_OUT.iter().find(|(starts, _)| starts.iter().any(|start| name.starts_with(start)));
    Some(match why {
        Some((_, why)) => format!("function {name} is not offered: {why}"),
        None => format!("function {name} is unknown"),
    })
}

pub(super) fn unusable(args: &[Value]) -> Result<Value, FuncError> {
    Err(FuncError::Generic(args.first().map(text).unwrap_or_default()))
}
