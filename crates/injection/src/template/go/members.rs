//! Methods of the values that templates are written for: getters and wrappers of protobuf's messages, and durations, which are
//! texts here (`45s`).

use super::functions::durations;
use gtmpl_ng::{FuncError, Value};

/// A method's answer, or the field of that name: of a value, and the name.
pub(super) fn member(args: &[Value]) -> Result<Value, FuncError> {
    let [receiver, Value::String(name)] = args else { return Ok(Value::NoValue) };
    match receiver {
        Value::Map(fields) | Value::Object(fields) => {
            let of_getter = || fields.get(name.strip_prefix("Get")?);
            Ok(fields.get(name).or_else(of_getter).cloned().unwrap_or(Value::NoValue))
        }
        Value::NoValue | Value::Nil => Ok(of_duration("0s", name).unwrap_or(Value::NoValue)),
        scalar if ["GetValue", "String", "Value"].contains(&name.as_str()) => Ok(scalar.clone()),
        Value::String(text) => of_duration(text, name).ok_or_else(|| {
            FuncError::Generic(format!("{name} is called on a string that is not a duration"))
        }),
        _ => Err(FuncError::Generic(format!("{name} is not a field or method of the value"))),
    }
}

/// `Seconds` and `Nanos` are fields of protobuf's durations; those of Go follow `AsDuration`, or of the text
/// that this answers.
fn of_duration(text: &str, name: &str) -> Option<Value> {
    const SECOND: i128 = 1_000_000_000;
    let nanos = durations::read(text)?;
    let part = |unit: i128| (nanos as f64 / unit as f64).into();
    let count = |unit: i128| i64::try_from(nanos / unit).ok().map(Value::from);
    match name.trim_start_matches("Get") {
        "Seconds" => count(SECOND),
        "Nanos" => i64::try_from(nanos % SECOND).ok().map(Value::from),
        "AsDuration" | "AsDuration.String" => Some(durations::written(nanos).into()),
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
    fn durations_answer_as_gos_do() {
        let rows = [
            ("45s", "Seconds", "45"),
            ("1.5s", "Nanos", "500000000"),
            ("90s", "GetSeconds", "90"),
            ("90s", "AsDuration", "1m30s"),
            ("90s", "AsDuration.Minutes", "1.5"),
            ("0.5s", "AsDuration.Seconds", "0.5"),
            ("0.5s", "AsDuration.Milliseconds", "500"),
            ("0.5s", "AsDuration.Microseconds", "500000"),
            ("0.5s", "Microseconds", "500000"),
            ("1m30s", "Hours", "0.025"),
            ("4", "Value", "4"),
        ];
        for (text, name, expected) in rows {
            let found = member(&[text.into(), name.into()]).map(|value| value.to_string());
            assert_eq!(found.ok().as_deref(), Some(expected), "{text} {name}");
        }
        assert_eq!(member(&[Value::NoValue, "GetValue".into()]).ok(), Some(Value::NoValue));
        assert_eq!(member(&[Value::NoValue, "GetSeconds".into()]).ok(), Some(0.into()));
        assert!(member(&["x".into(), "Seconds".into()]).is_err());
    }
}
