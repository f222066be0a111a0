//! Spans of time, which need no clock, and the methods that values have in Go, most of them of spans of time.

use super::{functions, text};
use gtmpl_ng::{FuncError, Value};

functions! {
    "duration" reads 1..=1, |args| {
        let seconds: i64 = text(&args[0]).parse().unwrap_or(0);
        Ok(written(i128::from(seconds) * 1_000_000_000).into())
    };
    "durationRound" reads 1..=1, |args| Ok(rounded(&args[0]).into());
}

/// Units as Go reads them, with their nanoseconds. Micro is a sign of its own in Unicode, or a letter of Greek.
const UNITS: [(&str, i128); 8] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("us", 1_000),
    ("ns", 1),
];

/// The nanoseconds of a duration as Go writes it, or protobuf's JSON (`1h30m`, `45s`, `0.5s`).
pub(super) fn read(text: &str) -> Option<i128> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut nanos = 0;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0)?;
        let (number, behind) = rest.split_at(end);
        let end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let (_, unit) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        if number == "." {
            return None;
        }
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        // Beyond nanoseconds nothing counts.
        let part: String = part.chars().take(18).collect();
        let scale = 10_i128.checked_pow(u32::try_from(part.len()).ok()?)?;
        let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
        let (whole, part) = (digits(whole)?, digits(&part)?);
        nanos = whole.checked_mul(unit)?.checked_add(part * unit / scale)?.checked_add(nanos)?;
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    Some(sign * nanos).filter(|nanos| i64::try_from(*nanos).is_ok())
}

pub(super) fn written(nanos: i128) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    if nanos == 0 {
        return "0s".to_owned();
    }
    if nanos < 1_000_000_000 {
        let (unit, scale) = match nanos {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("µs", 1_000),
            _ => ("ms", 1_000_000),
        };
        return format!("{sign}{}{unit}", decimal(nanos / scale, nanos % scale, scale));
    }
    let seconds = nanos / 1_000_000_000;
    let mut out = sign.to_owned();
    if seconds >= 3600 {
        out += &format!("{}h", seconds / 3600);
    }
    if seconds >= 60 {
        out += &format!("{}m", seconds / 60 % 60);
    }
    format!("{out}{}s", decimal(seconds % 60, nanos % 1_000_000_000, 1_000_000_000))
}

/// A number and its part of `scale`, a power of ten, without zeros at the end.
fn decimal(whole: u128, part: u128, scale: u128) -> String {
    if part == 0 {
        return whole.to_string();
    }
    let width = scale.ilog10() as usize;
    format!("{whole}.{}", format!("{part:0width$}").trim_end_matches('0'))
}

/// In the largest unit alone that it is longer than, as sprig has it: `2h`, `3mo`, but `60m`. A number counts nanoseconds.
fn rounded(value: &Value) -> String {
    const HOUR: u128 = 3_600_000_000_000;
    const LARGE: [(&str, u128); 6] = [
        ("y", 365 * 24 * HOUR),
        ("mo", 30 * 24 * HOUR),
        ("d", 24 * HOUR),
        ("h", HOUR),
        ("m", HOUR / 60),
        ("s", HOUR / 3600),
    ];
    let nanos = match value {
        Value::String(text) => read(text).unwrap_or(0),
        other => i128::from(super::whole(other)),
    };
    let nanos = nanos.unsigned_abs();
    let fits = LARGE.into_iter().find(|(_, unit)| nanos > *unit);
    fits.map_or_else(|| "0s".to_owned(), |(name, unit)| format!("{}{name}", nanos / unit))
}

/// Whether a name is one of methods: getters and wrappers of protobuf's messages, and durations, which are texts here (`45s`).
pub(in crate::template::go) fn is_method(name: &str) -> bool {
    let getter = name.strip_prefix("Get");
    getter.is_some_and(|field| field.starts_with(|c: char| c.is_ascii_uppercase()))
        || ["String", "Value"].contains(&name)
        || of_duration("0s", name).is_some()
}

/// A method's answer, or the field of that name: of a value, and the name.
pub(in crate::template::go) fn member(args: &[Value]) -> Result<Value, FuncError> {
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
    let nanos = read(text)?;
    let part = |unit: i128| (nanos as f64 / unit as f64).into();
    let count = |unit: i128| i64::try_from(nanos / unit).ok().map(Value::from);
    match name.trim_start_matches("Get") {
        "Seconds" => count(SECOND),
        "Nanos" => i64::try_from(nanos % SECOND).ok().map(Value::from),
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
        let same = [
            "45s",
            "0s",
            "1h0m30s",
            "999ns",
            "999.999µs",
            "-1ms",
            "59s",
            "59.5s",
            "-1m30s",
            "1h1m1.5s",
            "7ns",
            "500ms",
            "1.5µs",
        ];
        let long =
            ["1h2m3.004005006s", "2562047h47m16.854775807s", "-2562047h47m16.854775808s", "999.999999ms"];
        let rows = [
            ("60s", "1m0s"),
            ("3661.5s", "1h1m1.5s"),
            ("0.0000015s", "1.5µs"),
            ("-90s", "-1m30s"),
            ("+2h", "2h0m0s"),
            ("0", "0s"),
            ("-0", "0s"),
            ("1us", "1µs"),
            ("1μs", "1µs"),
            ("1000ns", "1µs"),
            ("999999ns", "999.999µs"),
            ("1000000ns", "1ms"),
            ("1000ms", "1s"),
            ("3599s", "59m59s"),
            ("3600s", "1h0m0s"),
            ("1.5h", "1h30m0s"),
            ("1h2m3s4ms5µs6ns", "1h2m3.004005006s"),
            ("1.0000000019s", "1.000000001s"),
            ("0.0000000001s", "0s"),
            ("0.1234567890123456789s", "123.456789ms"),
            (".5s", "500ms"),
            ("1.s", "1s"),
            ("1.s5s", "6s"),
            ("-.5m", "-30s"),
        ];
        for (given, expected) in rows.into_iter().chain(same.into_iter().chain(long).map(|text| (text, text)))
        {
            assert_eq!(read(given).map(written).as_deref(), Some(expected), "{given}");
        }
        let wrong =
            ["", "5", "s", "1x", ".s", "-.s", "1..5s", "1.5.s", "--1s", "+-1s", "-+1s", "1", "1s1", "m"];
        for wrong in wrong.into_iter().chain(["99999999999999999999s", "2562047h47m16.854775808s"]) {
            assert!(read(wrong).is_none(), "{wrong}");
        }
    }
}
