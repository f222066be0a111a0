//! Durations in Go's syntax: `5s`, `1m30s`, `250ms`, `1.5h`.

use std::time::Duration;

/// `None` for negative durations too.
pub fn parse(text: &str) -> Option<Duration> {
    nanoseconds(text)?.try_into().ok().map(Duration::from_nanos)
}

/// Go stores durations in 63 bits and a sign.
pub fn nanoseconds(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut total = 0_i128;
    loop {
        let (number, tail) = rest.split_at(rest.find(|c| !is_of_number(c))?);
        let (unit, tail) = tail.split_at(tail.find(is_of_number).unwrap_or(tail.len()));
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let part = &part[..part.len().min(18)];
        let digits: i128 = format!("{whole}{part}").parse().ok()?;
        let scale = 10_i128.pow(part.len().try_into().ok()?);
        total = total.checked_add(digits.checked_mul(unit)? / scale)?;
        if tail.is_empty() {
            return i64::try_from(sign * total).ok();
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
    fn accepts_go_durations() {
        check("5s", Some(5000));
        check("1m30s", Some(90_000));
        check("250ms", Some(250));
        check("1.5s", Some(1500));
        check(".5s", Some(500));
        check("0", Some(0));
        for text in ["", "5", "s", "5 s", "1x", "1s2", ".s", "1..5s"] {
            check(text, None);
        }
        assert_eq!(
            (nanoseconds("-5s"), parse("-5s"), parse("+5s")),
            (Some(-5_000_000_000), None, parse("5s"))
        );
    }

    #[test]
    fn durations_overflow_beyond_63_bits() {
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
