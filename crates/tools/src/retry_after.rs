//! `Retry-After`: when the far side wants to be asked again.

use chrono::{DateTime, Utc};
use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

/// What `Retry-After` says in milliseconds from now, be it seconds or a date; a date that is past says 0. Nonsense
/// (words, negative or unheard-of numbers) says nothing. Whether so long a pause is worth it is the reader's business.
#[must_use]
pub fn read(headers: &HeaderMap) -> Option<u64> {
    parse(headers.get(RETRY_AFTER)?.to_str().ok()?, said_at(headers).unwrap_or_else(Utc::now))
}

/// The far side's own time: its dates are by that, and this machine's clock may be wrong.
fn said_at(headers: &HeaderMap) -> Option<DateTime<Utc>> {
    Some(DateTime::parse_from_rfc2822(headers.get(DATE)?.to_str().ok()?).ok()?.to_utc())
}

fn parse(text: &str, now: DateTime<Utc>) -> Option<u64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse::<u64>().ok()?.checked_mul(1000);
    }
    // Some count in fractions of a second.
    if let Some((whole, rest)) = text.split_once('.')
        && !rest.is_empty()
        && rest.bytes().all(|byte| byte.is_ascii_digit())
    {
        return whole.parse::<u64>().ok()?.checked_add(1)?.checked_mul(1000);
    }
    let date = DateTime::parse_from_rfc2822(text).ok()?;
    Some(u64::try_from((date.to_utc() - now).num_milliseconds()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_dates_and_nonsense() {
        let now = DateTime::parse_from_rfc3339("2026-01-02T03:04:05Z").expect("a time").to_utc();
        for (text, wanted) in [
            ("0", Some(0)),
            (" 2 ", Some(2000)),
            ("1.5", Some(2000)),
            ("86400000", Some(86_400_000_000)),
            ("Fri, 02 Jan 2026 03:04:09 GMT", Some(4000)),
            ("Fri, 02 Jan 2026 03:04:01 GMT", Some(0)),
            ("Sun, 02 Jan 2050 03:04:05 GMT", Some(757_382_400_000)),
            ("soon", None),
            ("", None),
            ("-7", None),
            ("+7", None),
            ("1.", None),
            ("1.x", None),
            ("18446744073709551615", None),
            ("99999999999999999999999999", None),
        ] {
            assert_eq!(parse(text, now), wanted, "{text}");
        }
    }
}
