//! Calls of functions by a template: the number of values, the stand-ins that they see, and the work that all calls of a rendering
//! may take together.

use crate::admission::Cancellation;
use crate::template::go::{data, standin};
use gtmpl_ng::{Func, FuncError, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::ops::RangeInclusive;

/// An error is the problem's text.
pub(super) type FunctionResult = Result<Value, String>;

/// Functions by their names, of which errors give the first.
pub(super) type FunctionTable = &'static [(&'static [&'static str], Func)];

/// The most values that a function takes where there is no limit.
pub(super) const ANY: usize = usize::MAX;

/// The most that one rendering may hand to functions, in bytes of texts and items of lists: a second's work at most.
const WORK: usize = 64 << 20;

/// The longest text that a function may make, in bytes.
pub(in crate::template::go) const MAX_OUTPUT: usize = 512 << 10;

/// The state that all calls of a rendering share.
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
    /// Functions of the engine are plain ones, and have no other place to look.
    pub(super) static RENDERING: RefCell<Rendering> = RefCell::default();
}

/// Begins a rendering with these variables of the control plane and a new allowance of work.
pub(in crate::template::go) fn begin(variables: BTreeMap<String, String>, cancellation: Cancellation) {
    RENDERING.set(Rendering { left: WORK, variables, cancellation, ..Rendering::default() });
}

pub(in crate::template::go) fn remarks() -> Vec<String> {
    RENDERING.with_borrow_mut(|rendering| mem::take(&mut rendering.remarks))
}

/// True where a rendering of this thread, since the last call, refused the pod on purpose.
pub(crate) fn refused() -> bool {
    RENDERING.with_borrow_mut(|rendering| mem::take(&mut rendering.refused))
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FunctionOwner {
    Istio,
    Sprig,
}

/// Functions that are given containers and look at other fields than their variables, or only hand them on.
const PASS_BY: [&str; 7] =
    ["applicationPorts", "append", "first", "includeInboundPorts", "last", "list", "otelResourceAttributes"];

/// A function that does not look at what texts say, and hands them on.
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
    // Istio's own take more from one release to the next; without those that are not known here most pods come out the same.
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

/// A function that reads its texts: it gets them without stand-ins, and its result has stand-ins again.
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

/// Takes work off what is left; functions add what is more than their values' size.
pub(super) fn spend(work: usize) -> Result<(), String> {
    RENDERING.with_borrow_mut(|rendering| {
        let left = rendering.left.checked_sub(work);
        rendering.left =
            left.ok_or("the template did not finish: its functions exceeded the limit of work")?;
        Ok(())
    })
}

/// A table of functions: names, `passes` or `reads`, the number of values, the function.
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
