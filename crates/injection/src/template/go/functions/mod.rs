//! Template functions: Istio's, which take precedence, and sprig's that depend on no machine, clock or randomness.

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
use std::{collections::BTreeSet, sync::LazyLock};
use values::{Fields, field, fields, is_empty, is_nothing, list, list_of, printed, text, whole};

pub(super) fn all() -> impl Iterator<Item = (&'static str, Func)> {
    let kinds = [codings::ALL, collections::ALL, istio::ALL, texts::ALL, values::ALL];
    let each = kinds.into_iter().flatten();
    each.flat_map(|(names, function)| names.iter().map(|name| (*name, *function)))
}

pub fn names() -> BTreeSet<&'static str> {
    funcs::BUILTINS.iter().map(|(name, _)| *name).chain(all().map(|(name, _)| name)).collect()
}

/// The error of a call to an unsupported function; `None` for a supported one.
pub(super) fn lacking(name: &str) -> Option<String> {
    static KNOWN: LazyLock<BTreeSet<&str>> = LazyLock::new(names);
    let why = || format!("function {name} is unknown or unsupported; see docs/templates.md");
    (!KNOWN.contains(name)).then(why)
}

pub(super) fn unusable(args: &[Value]) -> Result<Value, FuncError> {
    Err(FuncError::Generic(args.first().map(text).unwrap_or_default()))
}
