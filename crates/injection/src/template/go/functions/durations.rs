//! Durations, which need no clock, and methods of Go values, mostly of durations.

use crate::syntax::canonical_quantity;
use gtmpl_ng::{FuncError, Value};
use mesh::sources::duration::nanoseconds;
use std::{collections::HashMap, time::Duration};

pub(super) fn written(nanos: i64) -> String {
    const MINUTE: u64 = 60_000_000_000;
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let seconds = (nanos % MINUTE) as f64 / 1e9;
    match (nanos / MINUTE / 60, nanos / MINUTE % 60) {
        (0, 0) if nanos == 0 => "0s".to_owned(),
        // Rust's format of a duration, which has no minutes.
        (0, 0) => format!("{sign}{:?}", Duration::from_nanos(nanos)),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// True for getters and wrappers of protobuf messages, and methods of durations, which are strings here (`45s`).
pub(in crate::template::go) fn is_method(name: &str) -> bool {
    let getter = name.strip_prefix("Get");
    getter.is_some_and(|field| field.starts_with(|c: char| c.is_ascii_uppercase()))
        || ["String", "Value"].contains(&name)
        || resource(name).is_some()
        || of_duration("0s", name).is_some()
}

/// A method's result, or the field of that name; `args` are the value and the name.
pub(in crate::template::go) fn member(args: &[Value]) -> Result<Value, FuncError> {
    let [receiver, Value::String(name)] = args else { return Ok(Value::NoValue) };
    match receiver {
        Value::Map(fields) | Value::Object(fields) => {
            let of_getter = || fields.get(name.strip_prefix("Get")?);
            let field = fields.get(name).or_else(of_getter).cloned();
            Ok(field.or_else(|| amount(fields, resource(name)?)).unwrap_or(Value::NoValue))
        }
        Value::NoValue | Value::Nil => Ok(of_duration("0s", name).unwrap_or(Value::NoValue)),
        scalar if ["GetValue", "String", "Value"].contains(&name.as_str()) => Ok(scalar.clone()),
        Value::String(text) => of_duration(text, name).ok_or_else(|| {
            FuncError::Generic(format!("{name} is called on a string that is not a duration"))
        }),
        _ => Err(FuncError::Generic(format!("{name} is not a field or method of the value"))),
    }
}

/// The key of a method of resource lists (`ResourceList` of `k8s.io/api/core/v1`).
fn resource(method: &str) -> Option<&'static str> {
    const METHODS: [(&str, &str); 5] = [
        ("Cpu", "cpu"),
        ("Memory", "memory"),
        ("Pods", "pods"),
        ("Storage", "storage"),
        ("StorageEphemeral", "ephemeral-storage"),
    ];
    METHODS.into_iter().find(|(known, _)| *known == method).map(|(_, key)| key)
}

/// The amount of a resource in a list of limits or requests, 0 if absent; `None` if the map is not such a list.
fn amount(list: &HashMap<String, Value>, key: &str) -> Option<Value> {
    let is_list = list.is_empty() || ["cpu", "memory", key].iter().any(|known| list.contains_key(*known));
    let written = list.get(key).map_or_else(|| "0".to_owned(), ToString::to_string);
    is_list.then(|| canonical_quantity(&written).into_owned().into())
}

/// `Seconds` and `Nanos` are fields of protobuf's durations; Go's methods are called on `AsDuration`.
fn of_duration(text: &str, name: &str) -> Option<Value> {
    const SECOND: i64 = 1_000_000_000;
    let nanos = nanoseconds(text)?;
    let part = |unit: i64| (nanos as f64 / unit as f64).into();
    let count = |unit: i64| Some(Value::from(nanos / unit));
    match name.trim_start_matches("Get") {
        "Seconds" => count(SECOND),
        "Nanos" => Some((nanos % SECOND).into()),
        "AsDuration" | "AsDuration.String" => Some(written(nanos).into()),
        "AsDuration.Seconds" => Some(part(SECOND)),
        "AsDuration.Minutes" | "Minutes" => Some(part(60 * SECOND)),
        "AsDuration.Hours" | "Hours" => Some(part(3600 * SECOND)),
        "AsDuration.Milliseconds" | "Milliseconds" => count(1_000_000),
        "AsDuration.Microseconds" | "Microseconds" => count(1_000),
        "AsDuration.Nanoseconds" | "Nanoseconds" => count(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (given, expected) in [
            ("0", "0s"),
            ("7ns", "7ns"),
            ("1us", "1µs"),
            ("-1ms", "-1ms"),
            ("999.999µs", "999.999µs"),
            ("59.5s", "59.5s"),
            ("60s", "1m0s"),
            ("-90s", "-1m30s"),
            ("3600s", "1h0m0s"),
            ("3661.5s", "1h1m1.5s"),
            ("1h2m3s4ms5µs6ns", "1h2m3.004005006s"),
            ("-2562047h47m16.854775808s", "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(nanoseconds(given).map(written).as_deref(), Some(expected), "{given}");
        }
    }
}
