//! The functions of templates: those of Istio, and those of sprig that need no machine, no clock and no chance. Where both have a
//! function, it is Istio's.
//!
//! Here is how a template calls a function: with how many values, what stand-ins it sees, and how much work all calls of a rendering
//! may take together.

mod addresses;
pub(super) mod codings;
mod collections;
pub(super) mod durations;
mod istio;
mod numbers;
mod regular;
mod texts;
mod values;
mod versions;

use super::{data, standin};
use crate::cancellation::Cancellation;
use gtmpl_ng::{Func, FuncError, Value, funcs};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::RangeInclusive;
use std::sync::LazyLock;
use values::{Fields, field, fields, is_empty, is_nothing, list, list_of, map_of, printed, text, whole};

/// What a function answers; a text is what is wrong.
type FunctionResult = Result<Value, String>;

/// Functions by their names, of which errors give the first.
type FunctionTable = &'static [(&'static [&'static str], Func)];

/// The most values that a function takes where there is no limit.
const ANY: usize = usize::MAX;

/// How much one rendering may hand to functions, in bytes of texts and items of lists: 64 Mi. Far more than templates do,
/// and a second's work at most.
const WORK: u64 = 64 << 20;

/// How long, in bytes, a text may be that a function makes.
pub(super) const MAX_OUTPUT: usize = 512 << 10;

/// What all calls of a rendering share.
#[derive(Default)]
struct Rendering {
    /// What is left of [`WORK`].
    left: u64,
    /// What `env` answers from.
    variables: BTreeMap<String, String>,
    /// Whether the rendering is wanted no more.
    cancellation: Cancellation,
    /// Warnings about the calls.
    remarks: Vec<String>,
    /// Whether the template has refused the pod (`fail`).
    refused: bool,
}

thread_local! {
    /// Functions of the engine are plain ones, and have no other place to look.
    static RENDERING: RefCell<Rendering> = RefCell::default();
}

/// Begins a rendering with these variables of the control plane and a new allowance of work.
pub(super) fn begin(variables: BTreeMap<String, String>, cancellation: Cancellation) {
    RENDERING.set(Rendering { left: WORK, variables, cancellation, ..Rendering::default() });
}

/// Warnings about the calls of the last rendering.
pub(super) fn remarks() -> Vec<String> {
    RENDERING.with_borrow_mut(|rendering| mem::take(&mut rendering.remarks))
}

/// Whether the last rendering of this thread refused the pod on purpose.
pub(crate) fn refused() -> bool {
    RENDERING.with_borrow(|rendering| rendering.refused)
}

/// All functions beside the engine's own, by name.
pub(super) fn all() -> impl Iterator<Item = (&'static str, Func)> {
    let kinds = [
        addresses::ALL,
        codings::ALL,
        collections::ALL,
        durations::ALL,
        istio::ALL,
        numbers::ALL,
        regular::ALL,
        texts::ALL,
        values::ALL,
        versions::ALL,
    ];
    let each = kinds.into_iter().flatten();
    each.flat_map(|(names, function)| names.iter().map(|name| (*name, *function)))
}

/// The names of all functions that templates can call.
pub fn names() -> BTreeSet<&'static str> {
    funcs::BUILTINS.iter().map(|(name, _)| *name).chain(all().map(|(name, _)| name)).collect()
}

/// With what the names of sprig's functions begin that are left out on purpose, and why.
const LEFT_OUT: [(&[&str], &str); 4] = [
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
];

/// The error of a call to a function that is not offered: why sprig's is left out, or that it is unknown. `None` for one that is.
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

/// Fails with the text that it is given.
pub(super) fn unusable(args: &[Value]) -> Result<Value, FuncError> {
    Err(FuncError::Generic(args.first().map(text).unwrap_or_default()))
}

/// Functions that are given containers and look at other fields than their variables, or only hand them on.
const PASS_BY: [&str; 7] =
    ["applicationPorts", "append", "first", "includeInboundPorts", "last", "list", "otelResourceAttributes"];

/// A function that does not look at what texts say, and hands them on.
fn passes(
    name: &str,
    count: RangeInclusive<usize>,
    args: &[Value],
    function: fn(&[Value]) -> FunctionResult,
) -> Result<Value, FuncError> {
    charge(name, args)?;
    let (least, most) = count.into_inner();
    let values = |count| if count == 1 { "1 value".to_owned() } else { format!("{count} values") };
    let given = args.len();
    let mut args = args;
    // Istio's own take more from one release to the next; without those that are not known here most pods come out the same.
    if given > most && istio::ALL.iter().any(|(names, _)| names[0] == name) {
        let takes = values(most);
        let remark = format!("{name} takes {takes} here, and is given {given}; the last ones have no effect");
        RENDERING.with_borrow_mut(|rendering| {
            if !rendering.remarks.contains(&remark) {
                rendering.remarks.push(remark);
            }
        });
        args = &args[..most];
    }
    if !(least..=most).contains(&args.len()) {
        let takes = match most {
            ANY => format!("{least} or more values"),
            _ if least == most => values(most),
            _ => format!("{least} to {most} values"),
        };
        return Err(FuncError::Generic(format!("{name} takes {takes}, and is given {given}")));
    }
    function(args).map_err(|text| FuncError::Generic(format!("{name} {text}")))
}

/// A function that reads its texts: it gets them without stand-ins, and its result has stand-ins again.
fn reads(
    name: &str,
    count: RangeInclusive<usize>,
    args: &[Value],
    function: fn(&[Value]) -> FunctionResult,
) -> Result<Value, FuncError> {
    if !args.iter().any(standin::is_in) {
        return passes(name, count, args, function);
    }
    let plain: Vec<Value> = args.iter().map(standin::meaning).collect();
    passes(name, count, &plain, function).map(|answer| standin::covered(&answer))
}

/// Takes the work with these values off what is left.
fn charge(name: &str, args: &[Value]) -> Result<(), FuncError> {
    if RENDERING.with_borrow(|rendering| rendering.cancellation.is_cancelled()) {
        return Err(FuncError::Generic("is not called: the review was cancelled".to_owned()));
    }
    let mut work = 1_u64;
    let mut waiting: Vec<&Value> = args.iter().collect();
    while let Some(value) = waiting.pop() {
        work += 1;
        match value {
            Value::String(text) => work = work.saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX)),
            Value::Array(items) => waiting.extend(items),
            Value::Map(fields) | Value::Object(fields) => waiting.extend(fields.values()),
            Value::Function(_) if !PASS_BY.contains(&name) => return data::refuse_unread(args).map(drop),
            Value::NoValue | Value::Nil | Value::Bool(_) | Value::Function(_) | Value::Number(_) => {}
        }
    }
    take(work).map_err(FuncError::Generic)
}

/// Takes work off what is left that is more than the values' size.
fn spend(work: usize) -> Result<(), String> {
    take(u64::try_from(work).unwrap_or(u64::MAX))
}

fn take(work: u64) -> Result<(), String> {
    RENDERING.with_borrow_mut(|rendering| {
        let left = rendering.left.checked_sub(work);
        rendering.left = left.ok_or("the template has no end: its functions were given too much")?;
        Ok(())
    })
}

/// A table of functions: names, whether it reads texts, how many values it takes, and what it does with them.
macro_rules! functions {
    ($($name:literal $(| $alias:literal)* $kind:ident $count:expr, $function:expr;)*) => {
        pub(super) const ALL: super::FunctionTable = &[$((&[$name $(, $alias)*], {
            fn call(args: &[gtmpl_ng::Value]) -> Result<gtmpl_ng::Value, gtmpl_ng::FuncError> {
                super::$kind($name, $count, args, $function)
            }
            call
        })),*];
    };
}
use functions;
