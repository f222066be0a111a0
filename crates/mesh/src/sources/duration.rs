//! Durations as Go writes them: `5s`, `1m30s`, `250ms`, `1.5h`.

use std::time::Duration;

/// The duration, if the text is one and not negative.
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        if tail.is_empty() {
            // Go counts nanoseconds in 63 bits.
            return (total <= Duration::from_nanos(i64::MAX.unsigned_abs())).then_some(total);
        }
        rest = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(parse(text), expected.map(Duration::from_millis), "{text:?}");
    }

    #[test]
    fn reads_what_go_reads() {
        check("5s", Some(5000));
        check("1m30s", Some(90_000));
        check("250ms", Some(250));
        check("1.5s", Some(1500));
        check(".5s", Some(500));
        check("0", Some(0));
        for text in ["", "5", "s", "-5s", "5 s", "1x", "1s2", ".s", "1..5s"] {
            check(text, None);
        }
    }

    #[test]
    fn units_add_up_to_what_63_bits_hold() {
        check("1h1m1s1ms", Some(3_661_001));
        for (text, nanoseconds) in [("7ns", 7), ("7us", 7000), ("7µs", 7000), ("7μs", 7000), ("0.5us", 500)]
        {
            assert_eq!(parse(text), Some(Duration::from_nanos(nanoseconds)), "{text}");
        }
        check("2562047h", Some(2_562_047 * 3_600_000));
        check("2562048h", None);
        check("2000000h2000000h", None);
    }
}
