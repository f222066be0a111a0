//! Function calls of a template: the number of values, their stand-ins, and the budget of a rendering.

use crate::admission::Cancellation;
use crate::template::go::{data, standin};
use gtmpl_ng::{Func, FuncError, Value};
use std::{cell::RefCell, collections::BTreeMap, mem, ops::RangeInclusive};

pub(super) type FunctionResult = Result<Value, String>;

/// Functions by their names; errors show the first one.
pub(super) type FunctionTable = &'static [(&'static [&'static str], Func)];

/// Maximum argument count of functions without a limit.
pub(super) const ANY: usize = usize::MAX;

/// Maximum input to functions in one rendering, in string bytes and list items, processed within a second.
const WORK: usize = 64 << 20;

/// Longest result of a function, in bytes.
pub(in crate::template::go) const MAX_OUTPUT: usize = 512 << 10;

#[derive(Default)]
pub(super) struct Rendering {
    left: usize,
    pub(super) variables: BTreeMap<String, String>,
    cancellation: Cancellation,
    remarks: Vec<String>,
    /// The template has refused the pod (`fail`).
    pub(super) refused: bool,
}

thread_local! {
    /// Thread-local, since the engine's functions are plain function pointers.
    pub(super) static RENDERING: RefCell<Rendering> = RefCell::default();
}

/// Begins a rendering with these variables of the control plane and a full budget.
pub(in crate::template::go) fn begin(variables: BTreeMap<String, String>, cancellation: Cancellation) {
    RENDERING.set(Rendering { left: WORK, variables, cancellation, ..Rendering::default() });
}

pub(in crate::template::go) fn remarks() -> Vec<String> {
    RENDERING.with_borrow_mut(|rendering| mem::take(&mut rendering.remarks))
}

/// True if a rendering of this thread has refused the pod on purpose since the last call.
pub(crate) fn refused() -> bool {
    RENDERING.with_borrow_mut(|rendering| mem::take(&mut rendering.refused))
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FunctionOwner {
    Istio,
    Sprig,
}

/// Functions that read containers' fields other than variables, or only pass containers on.
const PASS_BY: [&str; 7] =
    ["applicationPorts", "append", "first", "includeInboundPorts", "last", "list", "otelResourceAttributes"];

/// Calls a function that passes strings on without reading them.
pub(super) fn passes(
    (owner, name): (FunctionOwner, &str),
    count: RangeInclusive<usize>,
    args: &[Value],
    function: fn(&[Value]) -> FunctionResult,
) -> Result<Value, FuncError> {
    charge(name, args)?;
    let (least, most) = count.into_inner();
    let values = |count| if count == 1 { "1 value".to_owned() } else { format!("{count} values") };
    let given = args.len();
    let mut args = args;
    // New releases add arguments to Istio's own functions; most pods are the same without them.
    if given > most && owner == FunctionOwner::Istio {
        let takes = values(most);
        let remark = format!("{name} takes {takes} here, but got {given}; the last ones have no effect");
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
        return Err(FuncError::Generic(format!("{name} takes {takes}, but got {given}")));
    }
    function(args).map_err(|text| FuncError::Generic(format!("{name} {text}")))
}

/// Calls a function that reads its strings: without stand-ins in the arguments, with stand-ins in its result.
pub(super) fn reads(
    (owner, name): (FunctionOwner, &str),
    count: RangeInclusive<usize>,
    args: &[Value],
    function: fn(&[Value]) -> FunctionResult,
) -> Result<Value, FuncError> {
    if !args.iter().any(standin::is_in) {
        return passes((owner, name), count, args, function);
    }
    let plain: Vec<Value> = args.iter().map(standin::meaning).collect();
    passes((owner, name), count, &plain, function).map(|answer| standin::covered(&answer))
}

fn charge(name: &str, args: &[Value]) -> Result<(), FuncError> {
    if RENDERING.with_borrow(|rendering| rendering.cancellation.is_cancelled()) {
        return Err(FuncError::Generic("is not called: the review was cancelled".to_owned()));
    }
    let mut work = 1_usize;
    let mut waiting: Vec<&Value> = args.iter().collect();
    while let Some(value) = waiting.pop() {
        work += 1;
        match value {
            Value::String(text) => work = work.saturating_add(text.len()),
            Value::Array(items) => waiting.extend(items),
            Value::Map(fields) | Value::Object(fields) => waiting.extend(fields.values()),
            Value::Function(_) if !PASS_BY.contains(&name) => return data::refuse_unread(args).map(drop),
            Value::NoValue | Value::Nil | Value::Bool(_) | Value::Function(_) | Value::Number(_) => {}
        }
    }
    spend(work).map_err(FuncError::Generic)
}

/// Reduces the budget; functions spend more for work beyond their values' size.
pub(super) fn spend(work: usize) -> Result<(), String> {
    RENDERING.with_borrow_mut(|rendering| {
        let left = rendering.left.checked_sub(work);
        rendering.left = left.ok_or("the template did not finish: its functions exceeded the work limit")?;
        Ok(())
    })
}

/// Defines a table of functions: names, `passes` or `reads`, number of values, function.
macro_rules! functions {
    (of $owner:ident; $($name:literal $(| $alias:literal)* $kind:ident $count:expr, $function:expr;)*) => {
        pub(super) const ALL: $crate::template::go::functions::FunctionTable = &[$((&[$name $(, $alias)*], {
            fn call(args: &[gtmpl_ng::Value]) -> Result<gtmpl_ng::Value, gtmpl_ng::FuncError> {
                let name = ($crate::template::go::functions::FunctionOwner::$owner, $name);
                $crate::template::go::functions::$kind(name, $count, args, $function)
            }
            call
        })),*];
    };
    ($($rows:tt)*) => {
        $crate::template::go::functions::functions! { of Sprig; $($rows)* }
    };
}
pub(super) use functions;
