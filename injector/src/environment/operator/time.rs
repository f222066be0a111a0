//! The time of day, as objects of Kubernetes write it; and durations, as flags say them.

use k8s_openapi::jiff::Timestamp;
use std::time::Duration;

/// Now, to the microsecond (`metav1.MicroTime`).
pub(super) fn micro() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Now, to the second (`metav1.Time`).
pub(super) fn second() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A duration in words: a number with `ms`, `s` or `m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let expected = "expected a number with ms, s or m, such as 5s or 500ms, up to 60m";
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(expected.to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| expected.to_owned())?;
    let found = Duration::try_from_secs_f64(number * seconds).map_err(|_| expected.to_owned())?;
    if found <= Duration::from_secs(3600) { Ok(found) } else { Err(expected.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, milliseconds) in
            [("5s", 5_000), ("500ms", 500), ("0s", 0), ("1.5s", 1_500), ("60m", 3_600_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1h", "61m", "1 s", "1.2.3s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_those_of_kubernetes() {
        let (micro, second) = (micro(), second());
        assert_eq!(
            (micro.len(), second.len()),
            ("2026-01-01T00:00:00.000000Z".len(), "2026-01-01T00:00:00Z".len())
        );
        assert!(micro.parse::<Timestamp>().is_ok() && second.parse::<Timestamp>().is_ok());
    }
}
