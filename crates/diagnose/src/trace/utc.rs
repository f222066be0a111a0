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
        }
    }
}
