//! One field of a cron expression: the values that fit.

use std::ops::RangeInclusive;

/// What a field is of.
#[derive(Debug)]
pub(super) struct Kind {
    /// Its name, for people.
    name: &'static str,
    /// The values that it may have.
    values: RangeInclusive<u32>,
    /// Names for values, the first for the least.
    names: &'static [&'static str],
}

pub(super) const MINUTE: Kind = Kind { name: "minute", values: 0..=59, names: &[] };
pub(super) const HOUR: Kind = Kind { name: "hour", values: 0..=23, names: &[] };
pub(super) const DAY: Kind = Kind { name: "day of the month", values: 1..=31, names: &[] };
pub(super) const MONTH: Kind = Kind {
    name: "month",
    values: 1..=12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
/// Sunday is 0, and 7 too.
pub(super) const WEEKDAY: Kind = Kind {
    name: "day of the week",
    values: 0..=7,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
};

/// The values that fit, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    bits: u64,
    /// It is a mere `*`.
    pub(super) is_any: bool,
}

impl Field {
    /// Reads a list of values, ranges and steps.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn read(text: &str, kind: &Kind) -> Result<Self, String> {
        let mut bits = 0;
        for part in text.split(',') {
            let fault = |words: &str| format!("{words} in its {} ({:?})", kind.name, cut(part));
            bits |= read_part(part, kind).map_err(fault)?;
        }
        Ok(Self { bits, is_any: text == "*" })
    }

    pub(super) fn has(self, value: u32) -> bool {
        self.bits >> value & 1 == 1
    }

    /// The least value from `from` on.
    pub(super) fn first_from(self, from: u32) -> Option<u32> {
        let rest = self.bits.checked_shr(from).unwrap_or(0);
        (rest != 0).then(|| from + rest.trailing_zeros())
    }
}

fn read_part(part: &str, kind: &Kind) -> Result<u64, &'static str> {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => {
            (range, Some(number(step).filter(|step| *step > 0).ok_or("has a step that is none")?))
        }
        None => (part, None),
    };
    let (least, most) = (*kind.values.start(), *kind.values.end());
    let (from, to) = if range == "*" {
        (least, most)
    } else if let Some((from, to)) = range.split_once('-') {
        let (from, to) = (value(from, kind)?, value(to, kind)?);
        // A week may be said to end with Sunday.
        let ends_week = most == 7 && to == 0 && from > 0;
        (from, if ends_week { 7 } else { to })
    } else if step.is_some() {
        return Err("has a step that belongs to no range");
    } else {
        let only = value(range, kind)?;
        (only, only)
    };
    if from > to {
        return Err("has a range that ends before it begins");
    }
    let step = usize::try_from(step.unwrap_or(1)).unwrap_or(usize::MAX);
    let bits = (from..=to).step_by(step).fold(0, |bits, value| bits | 1_u64 << value);
    // Both names of Sunday are one day.
    Ok(if most == 7 { (bits | bits >> 7 & 1) & 0x7f } else { bits })
}

fn value(text: &str, kind: &Kind) -> Result<u32, &'static str> {
    let named = || kind.names.iter().position(|name| name.eq_ignore_ascii_case(text));
    let least = *kind.values.start();
    let value = number(text)
        .or_else(|| named().and_then(|place| u32::try_from(place).ok()).map(|place| place + least));
    value.filter(|value| kind.values.contains(value)).ok_or("has something that it can't be")
}

/// Digits alone: no sign, no space.
fn number(text: &str) -> Option<u32> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits)
}

fn cut(part: &str) -> &str {
    crate::text::head(part, 20)
}
