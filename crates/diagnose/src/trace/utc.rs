//! A time as RFC 3339 writes it, in UTC, with microseconds.

use std::time::{Duration, SystemTime};

const DAY: u64 = 86_400;
/// Days from March 1st of the year 0 to 1970.
const TO_1970: u64 = 719_468;
/// Days of 400 years.
const ERA: u64 = 146_097;

/// The text; times before 1970 count as 1970.
pub fn utc(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, second) = (since.as_secs() / DAY + TO_1970, since.as_secs() % DAY);
    // Years that start in March have their leap day last.
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..=9 => (era * 400 + year, month + 3),
        _ => (era * 400 + year + 1, month - 9),
    };
    let (hour, minute, second, micros) =
        (second / 3600, second / 60 % 60, second % 60, since.subsec_micros());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// The time of a text such as `2026-03-01T12:00:00Z`; fractions of a second are dropped. `None` where it has another form.
pub fn parse_utc(text: &str) -> Option<SystemTime> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let time = time.split_once('.').map_or(time, |(seconds, _)| seconds);
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let is_date = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, year) = (year / 400, year % 400);
    let days = era * ERA + 365 * year + year / 4 - year / 100 + (153 * month + 2) / 5 + day - 1 - TO_1970;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(days * DAY + hour * 3600 + minute * 60 + second))
}

/// Three numbers with a separator between them.
fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    let numbers: Option<Vec<u64>> =
        text.split(separator).map(|part| Some(part).filter(is_number)?.parse().ok()).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_735_689_599, "2024-12-31T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, 7_000);
            assert_eq!(utc(time), format!("{expected}.000007Z"));
            let whole = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(parse_utc(&utc(time)), whole, "{expected}");
            assert_eq!(parse_utc(&format!("{expected}Z")), whole, "{expected}");
        }
        for bad in
            ["", "Z", "2026-03-01", "2026-13-01T00:00:00Z", "2026-03-01T00:00Z", "2026-03-01T+1:00:00Z"]
        {
            assert_eq!(parse_utc(bad), None, "{bad}");
        }
    }
}
