//! The functions of templates: those of Istio, and those of sprig that need no machine, no clock and no chance.
//!
//! | kind | functions |
//! |---|---|
//! | Istio's | annotation applicationPorts appendMultusNetwork contains directory env excludeInboundPort excludeInterfaces formatDuration fromJSON includeInboundPorts indent isset kubevirtInterfaces mergeMaps omit omitNil otelResourceAttributes protoToJSON strdict structToJSON toJSON toJsonMap toLower toYaml valueOrDefault |
//! | texts | abbrev abbrevboth camelcase cat hasPrefix hasSuffix hello initials join kebabcase lower nindent nospace plural quote repeat replace snakecase split splitList splitn squote substr swapcase title toString toStrings trim trimAll trimPrefix trimSuffix trimall trunc untitle upper wrap wrapWith |
//! | regular expressions | mustRegexFind mustRegexFindAll mustRegexMatch mustRegexReplaceAll mustRegexReplaceAllLiteral mustRegexSplit regexFind regexFindAll regexMatch regexQuoteMeta regexReplaceAll regexReplaceAllLiteral regexSplit |
//! | lists | append chunk compact concat first has initial last list prepend push rest reverse seq slice sortAlpha tuple uniq until untilStep without mustAppend mustChunk mustCompact mustFirst mustHas mustInitial mustLast mustPrepend mustPush mustRest mustReverse mustSlice mustUniq mustWithout |
//! | maps | deepCopy dict dig get hasKey keys merge mergeOverwrite mustDeepCopy mustMerge mustMergeOverwrite pick pluck set unset values |
//! | numbers | add add1 add1f addf atoi biggest ceil div divf float64 floor int int64 max maxf min minf mod mul mulf round sub subf toDecimal |
//! | choices, kinds | all any coalesce deepEqual default empty fail kindIs kindOf ternary typeIs typeIsLike typeOf |
//! | codings | b32dec b32enc b64dec b64enc fromJson fromYaml mustFromJson mustToJson mustToPrettyJson mustToRawJson toJson toPrettyJson toRawJson |
//! | checksums | adler32sum sha1sum sha256sum sha512sum |
//! | paths, URLs | base clean dir ext isAbs osBase osClean osDir osExt osIsAbs urlJoin urlParse |
//! | versions, time | duration durationRound semver semverCompare |
//! | Go's own | and call eq ge gt html index js le len lt ne not or print printf println urlquery |
//!
//! Where both have a function, it is Istio's. What of sprig is left out is named by [`lacking`], with why.

mod addresses;
mod cases;
mod choices;
mod codings;
mod digests;
pub(super) mod durations;
mod istio;
mod lacking;
mod lists;
mod maps;
mod numbers;
mod regular;
mod texts;
mod versions;

pub(super) use codings::json;
pub(super) use lacking::{lacking, unusable};

use super::{fields, standin};
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
    /// What is odd about the calls.
    static REMARKS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// Whether the template has refused the pod (`fail`).
    static REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// Does something, mostly a rendering, with these variables of the control plane and a new allowance of work.
pub(super) fn with<T>(variables: BTreeMap<String, String>, rendering: impl FnOnce() -> T) -> T {
    LEFT.set(WORK);
    VARIABLES.set(variables);
    REMARKS.take();
    REFUSED.set(false);
    rendering()
}

/// What was odd about the calls of the last rendering.
pub(super) fn remarks() -> Vec<String> {
    REMARKS.take()
}

/// Whether the last rendering refused the pod.
pub(super) fn refused() -> bool {
    REFUSED.get()
}

/// Istio's own beside those of its module.
const OF_ISTIO: [&str; 9] = [
    "contains",
    "formatDuration",
    "fromJSON",
    "indent",
    "isset",
    "omitNil",
    "toJSON",
    "toYaml",
    "valueOrDefault",
];

/// Functions that do what another one does.
const ALIASES: [(&str, &str); 36] = [
    ("biggest", "max"),
    ("mustAppend", "append"),
    ("mustChunk", "chunk"),
    ("mustCompact", "compact"),
    ("mustDeepCopy", "deepCopy"),
    ("mustFirst", "first"),
    ("mustHas", "has"),
    ("mustInitial", "initial"),
    ("mustLast", "last"),
    ("mustMerge", "merge"),
    ("mustMergeOverwrite", "mergeOverwrite"),
    ("mustPrepend", "prepend"),
    ("mustPush", "append"),
    ("mustRegexFind", "regexFind"),
    ("mustRegexFindAll", "regexFindAll"),
    ("mustRegexReplaceAll", "regexReplaceAll"),
    ("mustRegexReplaceAllLiteral", "regexReplaceAllLiteral"),
    ("mustRegexSplit", "regexSplit"),
    ("mustRest", "rest"),
    ("mustReverse", "reverse"),
    ("mustSlice", "slice"),
    ("mustToJson", "toJson"),
    ("mustToPrettyJson", "toPrettyJson"),
    ("mustToRawJson", "toRawJson"),
    ("mustUniq", "uniq"),
    ("mustWithout", "without"),
    ("osBase", "base"),
    ("osClean", "clean"),
    ("osDir", "dir"),
    ("osExt", "ext"),
    ("osIsAbs", "isAbs"),
    ("push", "append"),
    ("structToJSON", "toJSON"),
    ("trimall", "trimAll"),
    ("toLower", "lower"),
    ("tuple", "list"),
];

/// All of them, by name.
pub(super) fn all() -> Vec<(&'static str, Func)> {
    let kinds = [
        addresses::ALL,
        cases::ALL,
        choices::ALL,
        codings::ALL,
        digests::ALL,
        durations::ALL,
        istio::ALL,
        lists::ALL,
        maps::ALL,
        numbers::ALL,
        regular::ALL,
        texts::ALL,
        versions::ALL,
    ];
    let mut all: Vec<(&str, Func)> = kinds.into_iter().flatten().copied().collect();
    let named = |name: &str| all.iter().find(|(known, _)| *known == name).map(|(_, function)| *function);
    let aliases: Vec<_> =
        ALIASES.iter().filter_map(|(alias, name)| named(name).map(|function| (*alias, function))).collect();
    all.extend(aliases);
    all
}

/// Functions that are given containers and look at other fields than their variables, or only hand them on.
const PASS_BY: [&str; 7] =
    ["applicationPorts", "append", "first", "includeInboundPorts", "last", "list", "otelResourceAttributes"];

/// A function that does not look at what texts say, and hands them on.
fn passes(
    name: &str,
    count: (usize, usize),
    args: &[Value],
    function: fn(&[Value]) -> Answer,
) -> Result<Value, FuncError> {
    charge(name, args)?;
    let (least, most) = count;
    let mut args = args;
    // Istio's own take more from one release to the next; without those that are not known here most pods come out the same.
    let of_istio = || OF_ISTIO.contains(&name) || istio::ALL.iter().any(|(known, _)| *known == name);
    if args.len() > most && of_istio() {
        let remark = format!(
            "{name} takes {most} values here, and is given {}; the last ones have no effect",
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
fn charge(name: &str, args: &[Value]) -> Result<(), FuncError> {
    let mut work = 1_u64;
    let mut waiting: Vec<&Value> = args.iter().collect();
    while let Some(value) = waiting.pop() {
        work += 1;
        match value {
            Value::String(text) => work = work.saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX)),
            Value::Array(items) => waiting.extend(items),
            Value::Map(fields) | Value::Object(fields) => waiting.extend(fields.values()),
            Value::Function(_) if !PASS_BY.contains(&name) => return fields::refuse_unread(args).map(drop),
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
    let left = LEFT.get().checked_sub(work);
    LEFT.set(left.unwrap_or(LEFT.get()));
    left.map(|_| ()).ok_or_else(|| "the template has no end: its functions were given too much".to_owned())
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
        Value::String(text) => of_literal(text).unwrap_or(0),
        Value::Bool(is) => i64::from(*is),
        _ => 0,
    }
}

/// A number as Go's source has it: hexadecimal, octal and binary ones too, and one with nothing but zeros behind its point.
fn of_literal(text: &str) -> Option<i64> {
    let text = text
        .split_once('.')
        .filter(|(_, part)| part.bytes().all(|b| b == b'0'))
        .map_or(text, |(whole, _)| whole);
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let digits = digits.strip_prefix('+').filter(|_| sign.is_empty()).unwrap_or(digits).to_ascii_lowercase();
    let (digits, base) = match digits.as_bytes() {
        [b'0', b'x', ..] => (&digits[2..], 16),
        [b'0', b'b', ..] => (&digits[2..], 2),
        [b'0', b'o', ..] => (&digits[2..], 8),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits.as_str(), 10),
    };
    let digits = digits.replace('_', "");
    if digits.starts_with(['+', '-']) {
        None
    } else {
        i64::from_str_radix(&format!("{sign}{digits}"), base).ok()
    }
}

/// A list of texts.
fn list_of<'a>(texts: impl Iterator<Item = &'a str>) -> Value {
    Value::Array(texts.map(Value::from).collect())
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
