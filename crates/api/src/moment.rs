//! Times as requests bring them: those that can be stored, and shown again as RFC 3339 has them.

use chrono::{DateTime, Datelike as _, Utc};

/// Years that RFC 3339 has room for. There is no year before the first in what databases count.
const YEARS: std::ops::RangeInclusive<i32> = 1..=9999;

/// A time in words of RFC 3339. An offset may lead out of the years that there are; then it is none.
pub(crate) fn read(text: &str) -> Option<DateTime<Utc>> {
    within(DateTime::parse_from_rfc3339(text).ok()?.to_utc())
}

/// A time by its microseconds from 1970.
pub(crate) fn from_micros(micros: i64) -> Option<DateTime<Utc>> {
    within(DateTime::from_timestamp_micros(micros)?)
}

fn within(time: DateTime<Utc>) -> Option<DateTime<Utc>> {
    YEARS.contains(&time.year()).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_years_that_can_be_written() {
        for (text, taken) in [
            ("0001-01-01T00:00:00Z", true),
            ("9999-12-31T23:59:59Z", true),
            ("2016-12-31T23:59:60Z", true),
            ("2026-01-02T03:04:05.678+02:00", true),
            ("9999-12-31T23:59:59-00:01", false),
            ("0001-01-01T00:00:00+00:01", false),
            ("0000-06-01T00:00:00Z", false),
            ("2026-02-29T00:00:00Z", false),
            ("10000-01-01T00:00:00Z", false),
            ("2026-01-02", false),
        ] {
            assert_eq!(read(text).is_some(), taken, "{text}");
        }
        for (micros, taken) in
            [(0, true), (i64::MIN, false), (-8_000_000_000_000_000_000, false), (i64::MAX, false)]
        {
            assert_eq!(from_micros(micros).is_some(), taken, "{micros}");
        }
    }
}
