//! Cron expressions, as POSIX has them: which days and times of a calendar fit. No zones here.

use chrono::{Datelike as _, Days, NaiveDate, NaiveDateTime, NaiveTime, Timelike as _};

use super::field::{DAY, Field, HOUR, MINUTE, MONTH, WEEKDAY};

/// Longest expression, in bytes.
const LONGEST: usize = 256;
/// Days after which nothing else comes: a 29th of February may be eight years away.
const MOST_DAYS: u32 = 9 * 366;

/// An expression that fits again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cron {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

impl Cron {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("has at most {LONGEST} bytes"));
        }
        let text = text.trim_matches([' ', '\t']);
        let plain = match named(text) {
            Some(plain) => plain,
            None if text.starts_with('@') => {
                return Err("has a name that is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly".into());
            }
            None => text,
        };
        let fields: Vec<&str> = plain.split([' ', '\t']).filter(|field| !field.is_empty()).collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(format!(
                "must have five fields (minute, hour, day of the month, month, day of the week; no seconds), and has {}",
                fields.len()
            ));
        };
        let cron = Self {
            minutes: Field::read(minute, &MINUTE)?,
            hours: Field::read(hour, &HOUR)?,
            days: Field::read(day, &DAY)?,
            months: Field::read(month, &MONTH)?,
            weekdays: Field::read(weekday, &WEEKDAY)?,
        };
        if cron.ever_fits() { Ok(cron) } else { Err("names a day that never comes".into()) }
    }

    /// Its hour is `*`.
    pub(super) fn is_of_every_hour(&self) -> bool {
        self.hours.is_any
    }

    /// Whether a minute of a calendar fits.
    #[cfg(test)]
    pub(super) fn fits(&self, at: NaiveDateTime) -> bool {
        self.fits_day(at.date()) && self.hours.has(at.hour()) && self.minutes.has(at.minute())
    }

    /// The first minute of a calendar after `after` that fits.
    pub(super) fn next_after(&self, after: NaiveDateTime) -> Option<NaiveDateTime> {
        let minute = NaiveTime::from_hms_opt(after.hour(), after.minute(), 0)?;
        // The last minute of a day is followed by the next day's first.
        let (mut day, mut from) =
            match after.date().and_time(minute).checked_add_signed(chrono::TimeDelta::minutes(1)) {
                Some(from) => (from.date(), Some(from.time())),
                None => return None,
            };
        for _ in 0..MOST_DAYS {
            if self.fits_day(day)
                && let Some(time) = self.first_time_from(from.unwrap_or(NaiveTime::MIN))
            {
                return Some(day.and_time(time));
            }
            from = None;
            day = day.checked_add_days(Days::new(1))?;
        }
        None
    }

    /// The first time of a day from `from` on.
    fn first_time_from(&self, from: NaiveTime) -> Option<NaiveTime> {
        let hour = self.hours.first_from(from.hour())?;
        let least = if hour == from.hour() { from.minute() } else { 0 };
        let (hour, minute) = match self.minutes.first_from(least) {
            Some(minute) => (hour, minute),
            None => (self.hours.first_from(hour + 1)?, self.minutes.first_from(0)?),
        };
        NaiveTime::from_hms_opt(hour, minute, 0)
    }

    /// Where both days are given, one that fits either is meant.
    fn fits_day(&self, day: NaiveDate) -> bool {
        let by_month = self.days.has(day.day());
        let by_week = self.weekdays.has(day.weekday().num_days_from_sunday());
        let fits =
            if self.days.is_any || self.weekdays.is_any { by_month && by_week } else { by_month || by_week };
        fits && self.months.has(day.month())
    }

    fn ever_fits(&self) -> bool {
        // A day of the week comes in every month.
        !self.weekdays.is_any
            || (1..=12).any(|month| {
                // A leap year has all days that there are.
                let exists = |day: &u32| NaiveDate::from_ymd_opt(2000, month, *day).is_some();
                self.months.has(month) && self.days.first_from(1).as_ref().is_some_and(exists)
            })
    }
}

fn named(text: &str) -> Option<&'static str> {
    Some(match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => return None,
    })
}
