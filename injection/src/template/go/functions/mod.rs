//! The functions of templates: those of Istio, and those of sprig that need no machine, no clock and no chance.
//!
//! | kind | functions |
//! |---|---|
//! | Istio's | annotation applicationPorts appendMultusNetwork contains directory env excludeInboundPort excludeInterfaces formatDuration fromJSON includeInboundPorts indent isset kubevirtInterfaces mergeMaps omit omitNil otelResourceAttributes protoToJSON strdict structToJSON toJSON toJsonMap toLower toYaml valueOrDefault |
//! | texts | cat hasPrefix hasSuffix join lower nindent nospace quote repeat replace split splitList splitn squote substr title toString toStrings trim trimAll trimPrefix trimSuffix trunc untitle upper |
//! | lists | append compact concat first has initial last list prepend push rest reverse seq slice sortAlpha tuple uniq until untilStep without |
//! | maps | deepCopy dict dig get hasKey keys merge mergeOverwrite pick pluck set unset values |
//! | numbers | add add1 atoi ceil div float64 floor int int64 max min mod mul round sub |
//! | choices, kinds | all any coalesce deepEqual default empty fail kindIs kindOf ternary typeIs typeOf |
//! | codings | b64dec b64enc fromJson fromYaml mustFromJson mustToJson toJson toPrettyJson toRawJson |
//! | Go's own | and call eq ge gt html index js le len lt ne not or print printf println slice urlquery |
//!
//! Where both have a function, it is Istio's. What is known of sprig but left out is named by [`missing`], with why.

mod choices;
mod codings;
mod istio;
mod lists;
mod maps;
mod numbers;
mod texts;

pub(super) use codings::json;

use super::standin;
use gtmpl_ng::{Func, FuncError, Value};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// What a function answers; a text is what is wrong.
type Answer = Result<Value, String>;

/// How much one rendering may hand to functions, in bytes of texts and items of lists: 64 Mi. Far more than templates do,
/// and a second's work at most.
const WORK: u64 = 64 << 20;

thread_local! {
    /// What is left of [`WORK`]: functions of the engine are plain ones, and have no other place to look.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// What `env` answers from.
    static VARIABLES: RefCell<BTreeMap<String, String>> = const { RefCell::new(BTreeMap::new()) };
}

/// Does something, mostly a rendering, with these variables of the control plane and a new allowance of work.
pub(super) fn with<T>(variables: BTreeMap<String, String>, rendering: impl FnOnce() -> T) -> T {
    LEFT.set(WORK);
    VARIABLES.set(variables);
    rendering()
}

/// All of them, by name.
pub(super) fn all() -> impl Iterator<Item = (&'static str, Func)> {
    let kinds = [choices::ALL, codings::ALL, istio::ALL, lists::ALL, maps::ALL, numbers::ALL, texts::ALL];
    kinds.into_iter().flatten().copied()
}

/// Why a function that other programs offer is left out.
pub(super) fn missing(name: &str) -> Option<&'static str> {
    const REGULAR: &str =
        "regular expressions are not offered; use hasPrefix, hasSuffix, contains or splitList";
    let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    if starts(&["regex", "mustRegex"]) {
        return Some(REGULAR);
    }
    if starts(&["semver"]) {
        return Some("versions are not compared");
    }
    if starts(&["rand", "shuffle", "uuid"]) {
        return Some("a pod's patch is the same each time, so nothing is left to chance");
    }
    if starts(&["date", "now", "ago", "htmlDate", "unixEpoch", "toDate", "mustToDate", "duration"]) {
        return Some("a pod's patch is the same each time, so there is no clock");
    }
    let crypto = ["gen", "sha", "adler", "bcrypt", "htpasswd", "encryptAES", "decryptAES", "derivePassword"];
    if starts(&crypto) || name == "buildCustomCert" {
        return Some("there is no cryptography");
    }
    if starts(&["os", "expandenv", "getHostByName"])
        || ["base", "dir", "ext", "clean", "isAbs"].contains(&name)
    {
        return Some("templates know nothing of the machine");
    }
    None
}

/// A function that does not look at what texts say, and hands them on.
fn passes(
    name: &str,
    count: (usize, usize),
    args: &[Value],
    function: fn(&[Value]) -> Answer,
) -> Result<Value, FuncError> {
    charge(args)?;
    let (least, most) = count;
    if args.len() < least || args.len() > most {
        let wanted = if least == most { least.to_string() } else { format!("{least} or more") };
        return Err(FuncError::Generic(format!("{name} takes {wanted} values, and is given {}", args.len())));
    }
    function(args).map_err(|text| FuncError::Generic(format!("{name} {text}")))
}

/// A function that looks at what texts say: it is told what stand-ins mean, and what comes out stands in again.
fn reads(
    name: &str,
    count: (usize, usize),
    args: &[Value],
    function: fn(&[Value]) -> Answer,
) -> Result<Value, FuncError> {
    if !args.iter().any(standin::is_in) {
        return passes(name, count, args, function);
    }
    let meant: Vec<Value> = args.iter().map(standin::meaning).collect();
    passes(name, count, &meant, function).map(standin::covered)
}

/// Takes the work with these values off what is left.
fn charge(args: &[Value]) -> Result<(), FuncError> {
    let mut work = 1_u64;
    let mut waiting: Vec<&Value> = args.iter().collect();
    while let Some(value) = waiting.pop() {
        work += 1;
        match value {
            Value::String(text) => work = work.saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX)),
            Value::Array(items) => waiting.extend(items),
            Value::Map(fields) | Value::Object(fields) => waiting.extend(fields.values()),
            Value::NoValue | Value::Nil | Value::Bool(_) | Value::Function(_) | Value::Number(_) => {}
        }
    }
    match LEFT.get().checked_sub(work) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => {
            Err(FuncError::Generic("the template has no end: its functions were given too much".to_owned()))
        }
    }
}

/// A table of functions: name, whether it reads texts, how many values it takes, and what it does with them.
macro_rules! functions {
    ($($name:literal $kind:ident $least:literal..=$most:tt $function:expr;)*) => {
        pub(super) const ALL: &[(&str, gtmpl_ng::Func)] = &[$(($name, {
            fn call(args: &[gtmpl_ng::Value]) -> Result<gtmpl_ng::Value, gtmpl_ng::FuncError> {
                super::$kind($name, ($least, $crate::template::go::functions::most!($most)), args, $function)
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
use functions;
use most;

/// A value as text; empty where there is none.
fn text(value: &Value) -> String {
    match value {
        Value::NoValue | Value::Nil => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// As Go's `Sprint` writes it.
fn printed(value: &Value) -> String {
    if is_nothing(value) { "<nil>".to_owned() } else { value.to_string() }
}

fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::NoValue | Value::Nil)
}

/// Whether sprig takes it for empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::NoValue | Value::Nil => true,
        Value::Bool(is) => !is,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Map(fields) | Value::Object(fields) => fields.is_empty(),
        Value::Number(_) => *value == Value::from(0_u8),
        Value::Function(_) => false,
    }
}

/// A whole number, as sprig makes one of anything: what is none counts as 0.
fn whole(value: &Value) -> i64 {
    match value {
        Value::Number(number) => {
            number.as_i64().unwrap_or_else(|| numbers::truncated(number.as_f64().unwrap_or(0.0)))
        }
        Value::String(text) => text.trim().parse().unwrap_or(0),
        Value::Bool(is) => i64::from(*is),
        _ => 0,
    }
}

fn list(value: &Value) -> Result<&[Value], String> {
    match value {
        Value::Array(items) => Ok(items),
        Value::NoValue | Value::Nil => Ok(&[]),
        other => Err(format!("takes a list, and is given {}", kind(other))),
    }
}

type Fields = std::collections::HashMap<String, Value>;

fn fields(value: &Value) -> Result<Fields, String> {
    match value {
        Value::Map(fields) | Value::Object(fields) => Ok(fields.clone()),
        Value::NoValue | Value::Nil => Ok(Fields::new()),
        other => Err(format!("takes a map, and is given {}", kind(other))),
    }
}

/// A field of a map, if it has it.
fn field<'a>(value: &'a Value, key: &Value) -> Result<Option<&'a Value>, String> {
    match (value, key) {
        (Value::Map(fields) | Value::Object(fields), Value::String(key)) => Ok(fields.get(key)),
        (Value::Map(fields) | Value::Object(fields), key) => Ok(fields.get(&text(key))),
        (Value::NoValue | Value::Nil, _) => Ok(None),
        (other, _) => Err(format!("takes a map, and is given {}", kind(other))),
    }
}

/// What a value is, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::NoValue | Value::Nil => "nothing",
        Value::Bool(_) => "a boolean",
        Value::String(_) => "a text",
        Value::Object(_) | Value::Map(_) => "a map",
        Value::Array(_) => "a list",
        Value::Function(_) => "a function",
        Value::Number(_) => "a number",
    }
}
