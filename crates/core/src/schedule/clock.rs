//! Which moments the times of a zone's clock are.

use chrono::{DateTime, MappedLocalTime, NaiveDateTime, TimeDelta, TimeZone as _, Utc};
use chrono_tz::Tz;

use super::cron::Cron;

/// Hours that a clock is put forward or back at most: some have crossed the date line.
const MOST_HOURS: i64 = 26;
/// Times of a clock that are looked at, at most: each minute of a shift, once before and once after.
const MOST_TIMES: i64 = 2 * MOST_HOURS * 60;

/// The first moment after `after` at which an expression is due on a zone's clock.
pub(super) fn next_after(cron: &Cron, zone: Tz, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let shown = after.with_timezone(&zone).naive_local();
    if !cron.is_of_every_hour() {
        return first_of(cron, shown, after, |time| match zone.from_local_datetime(&time) {
            MappedLocalTime::Single(moment) | MappedLocalTime::Ambiguous(moment, _) => Some(moment.to_utc()),
            MappedLocalTime::None => after_gap(zone, time),
        });
    }
    // What a clock skips doesn't count, and what comes twice counts twice. The second pass through an hour may lie ahead
    // although the clock shows a later time already.
    let before = shown.checked_sub_signed(TimeDelta::hours(MOST_HOURS))?;
    let first =
        first_of(cron, shown, after, |time| Some(zone.from_local_datetime(&time).earliest()?.to_utc()));
    let second =
        first_of(cron, before, after, |time| Some(zone.from_local_datetime(&time).latest()?.to_utc()));
    first.into_iter().chain(second).min()
}

/// The first of the moments after `after` that `moment` gives for the clock's times after `shown` that fit. Later times give
/// later moments, or the same.
fn first_of(
    cron: &Cron,
    shown: NaiveDateTime,
    after: DateTime<Utc>,
    moment: impl Fn(NaiveDateTime) -> Option<DateTime<Utc>>,
) -> Option<DateTime<Utc>> {
    let mut time = shown;
    for _ in 0..MOST_TIMES {
        time = cron.next_after(time)?;
        if let Some(found) = moment(time).filter(|found| *found > after) {
            return Some(found);
        }
    }
    None
}

/// The moment at which a clock skips this time.
fn after_gap(zone: Tz, time: NaiveDateTime) -> Option<DateTime<Utc>> {
    let later =
        (1..=MOST_HOURS * 60).map_while(|minutes| time.checked_add_signed(TimeDelta::minutes(minutes)));
    let mut moments = later.filter_map(|time| zone.from_local_datetime(&time).earliest());
    moments.next().map(|moment| moment.to_utc())
}
