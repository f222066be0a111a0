//! How a template calls a function: with how many values, what stand-ins it sees, and how much work all calls of a
//! rendering may take together.

use crate::cancellation::Cancellation;
use crate::template::go::{data, standin};
use gtmpl_ng::{FuncError, Value};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// What a function answers; a text is what is wrong.
pub(super) type FunctionResult = Result<Value, String>;

/// How much one rendering may hand to functions, in bytes of texts and items of lists: 64 Mi. Far more than templates do,
/// and a second's work at most.
const WORK: u64 = 64 << 20;

/// How long, in bytes, a text may be that a function makes.
pub(in crate::template::go) const MAX_OUTPUT: usize = 512 << 10;

thread_local! {
    /// What is left of [`WORK`]: functions of the engine are plain ones, and have no other place to look.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// What `env` answers from.
    pub(super) static VARIABLES: RefCell<BTreeMap<String, String>> = const { RefCell::new(BTreeMap::new()) };
    /// Whether the rendering is wanted no more.
    static CANCELLATION: RefCell<Cancellation> = RefCell::default();
    /// Warnings about the calls.
    static REMARKS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// Whether the template has refused the pod (`fail`).
    pub(super) static REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// Does something, mostly a rendering, with these variables of the control plane and a new allowance of work.
pub(in crate::template::go) fn with<T>(
    variables: BTreeMap<String, String>,
    cancellation: &Cancellation,
    rendering: impl FnOnce() -> T,
) -> T {
    LEFT.set(WORK);
    VARIABLES.set(variables);
    CANCELLATION.set(cancellation.clone());
    REMARKS.take();
    REFUSED.set(false);
    rendering()
}

/// Warnings about the calls of the last rendering.
pub(in crate::template::go) fn remarks() -> Vec<String> {
    REMARKS.take()
}

/// Whether the last rendering refused the pod.
pub(in crate::template::go) fn refused() -> bool {
    REFUSED.get()
}

/// Istio's own.
const OF_ISTIO: [&str; 20] = [
    "annotation",
    "appendMultusNetwork",
    "applicationPorts",
    "contains",
    "directory",
    "env",
    "excludeInboundPort",
    "excludeInterfaces",
    "formatDuration",
    "fromJSON",
    "includeInboundPorts",
    "indent",
    "isset",
    "kubevirtInterfaces",
    "omitNil",
    "otelResourceAttributes",
    "protoToJSON",
    "toJSON",
    "toYaml",
    "valueOrDefault",
];

/// Whether a function is Istio's own, and none of sprig.
pub(super) fn is_of_istio(name: &str) -> bool {
    OF_ISTIO.contains(&name)
}

/// Functions that are given containers and look at other fields than their variables, or only hand them on.
const PASS_BY: [&str; 7] =
    ["applicationPorts", "append", "first", "includeInboundPorts", "last", "list", "otelResourceAttributes"];

/// A function that does not look at what texts say, and hands them on.
pub(super) fn passes(
    name: &str,
    count: (usize, usize),
    args: &[Value],
    function: fn(&[Value]) -> FunctionResult,
) -> Result<Value, FuncError> {
    charge(name, args)?;
    let (least, most) = count;
    let values = |count| if count == 1 { "1 value".to_owned() } else { format!("{count} values") };
    let mut args = args;
    // Istio's own take more from one release to the next; without those that are not known here most pods come out the same.
    if args.len() > most && is_of_istio(name) {
        let remark = format!(
            "{name} takes {} here, and is given {}; the last ones have no effect",
            values(most),
            args.len()
        );
        REMARKS.with_borrow_mut(|remarks| {
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        });
        args = &args[..most];
    }
    if args.len() < least || args.len() > most {
        let expected = match most {
            usize::MAX => format!("{least} or more values"),
            _ if least == most => values(most),
            _ => format!("{least} to {most} values"),
        };
        return Err(FuncError::Generic(format!("{name} takes {expected}, and is given {}", args.len())));
    }
    function(args).map_err(|text| FuncError::Generic(format!("{name} {text}")))
}

/// A function that reads its texts: it gets them without stand-ins, and its result has stand-ins again.
pub(super) fn reads(
    name: &str,
    count: (usize, usize),
    args: &[Value],
    function: fn(&[Value]) -> FunctionResult,
) -> Result<Value, FuncError> {
    if !args.iter().any(standin::is_in) {
        return passes(name, count, args, function);
    }
    let plain: Vec<Value> = args.iter().map(standin::meaning).collect();
    passes(name, count, &plain, function).map(standin::covered)
}

/// Takes the work with these values off what is left.
fn charge(name: &str, args: &[Value]) -> Result<(), FuncError> {
    if CANCELLATION.with_borrow(Cancellation::is_cancelled) {
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
pub(super) fn spend(work: usize) -> Result<(), String> {
    take(u64::try_from(work).unwrap_or(u64::MAX))
}

fn take(work: u64) -> Result<(), String> {
    let left = LEFT.get().checked_sub(work);
    LEFT.set(left.unwrap_or(LEFT.get()));
    left.map(|_| ()).ok_or_else(|| "the template has no end: its functions were given too much".to_owned())
}

/// A table of functions: name, whether it reads texts, how many values it takes, and what it does with them.
macro_rules! functions {
    ($($name:literal $kind:ident $least:literal..=$most:tt $function:expr;)*) => {
        pub(super) const ALL: &[(&str, gtmpl_ng::Func)] = &[$(($name, {
            fn call(args: &[gtmpl_ng::Value]) -> Result<gtmpl_ng::Value, gtmpl_ng::FuncError> {
                $crate::template::go::functions::$kind($name, ($least, $crate::template::go::functions::most!($most)), args, $function)
            }
            call
        })),*];
    };
}
/// The most values that a function takes; `any` for no limit.
macro_rules! most {
    (any) => {
        usize::MAX
    };
    ($count:literal) => {
        $count
    };
}
pub(super) use functions;
pub(super) use most;
