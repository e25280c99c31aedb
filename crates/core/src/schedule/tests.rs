use chrono::{NaiveDateTime, TimeDelta, TimeZone as _, Timelike as _};
use proptest::prelude::*;

use super::*;

fn moment(text: &str) -> DateTime<Utc> {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn recurrence(cron: &str, zone: &str) -> Recurrence {
    Recurrence::read(cron, zone).unwrap_or_else(|faults| panic!("{cron} in {zone}: {faults:?}"))
}

/// The first moments after one, as the zone's clock shows them.
fn shown(cron: &str, zone: &str, after: &str, many: usize) -> Vec<String> {
    let due = recurrence(cron, zone);
    let mut at = moment(after);
    let mut next = || {
        at = due.next_after(at).expect("a next one");
        at.with_timezone(&due.zone).format("%Y-%m-%dT%H:%M%:z").to_string()
    };
    (0..many).map(|_| next()).collect()
}

#[test]
fn fields_are_read_as_posix_has_them() {
    let utc =
        |cron: &str, many| shown(cron, "UTC", "2026-01-01T00:00:30Z", many).join(" ").replace("+00:00", "");
    for (cron, due) in [
        ("* * * * *", "2026-01-01T00:01 2026-01-01T00:02"),
        ("*/25 * * * *", "2026-01-01T00:25 2026-01-01T00:50 2026-01-01T01:00"),
        ("5-20/10,59 9 * * *", "2026-01-01T09:05 2026-01-01T09:15 2026-01-01T09:59 2026-01-02T09:05"),
        ("0 0 * * *", "2026-01-02T00:00"),
        ("30 8-9 * * MON-wed", "2026-01-05T08:30 2026-01-05T09:30 2026-01-06T08:30"),
        ("0 12 * * 0", "2026-01-04T12:00 2026-01-11T12:00"),
        ("0 12 * * 7", "2026-01-04T12:00"),
        ("0 12 * * fri-sun", "2026-01-02T12:00 2026-01-03T12:00 2026-01-04T12:00 2026-01-09T12:00"),
        ("0 12 * * 5-7", "2026-01-02T12:00 2026-01-03T12:00 2026-01-04T12:00"),
        ("0 0 31 * *", "2026-01-31T00:00 2026-03-31T00:00 2026-05-31T00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00 2032-02-29T00:00"),
        ("0 0 29 FEB *", "2028-02-29T00:00"),
        // Where both days are given, either is meant.
        ("0 0 13 * 5", "2026-01-02T00:00 2026-01-09T00:00 2026-01-13T00:00 2026-01-16T00:00"),
        ("0 0 30 2 1", "2026-02-02T00:00"),
        ("  0\t0   1 7,Jan *  ", "2026-07-01T00:00 2027-01-01T00:00"),
        ("@hourly", "2026-01-01T01:00"),
        ("@daily", "2026-01-02T00:00"),
        ("@midnight", "2026-01-02T00:00"),
        ("@weekly", "2026-01-04T00:00"),
        ("@monthly", "2026-02-01T00:00"),
        ("@yearly", "2027-01-01T00:00"),
        ("@annually", "2027-01-01T00:00"),
    ] {
        assert_eq!(utc(cron, due.split(' ').count()), due, "{cron}");
    }
    assert_eq!(shown("0 0 29 2 *", "UTC", "2096-02-29T00:00:00Z", 1), ["2104-02-29T00:00+00:00"]);
}

#[test]
fn what_makes_no_sense_is_refused_with_words() {
    let many = "1,".repeat(200);
    for (cron, words) in [
        ("", "five fields"),
        ("* * * *", "has 4"),
        ("0 * * * * *", "has 6"),
        ("0 0 0 1 1 * 2027", "has 7"),
        ("@reboot", "none of @yearly"),
        ("@every 5m", "none of @yearly"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of the month"),
        ("* * 32 * *", "day of the month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day of the week"),
        ("* * * * MONDAY", "day of the week"),
        ("*/0 * * * *", "step"),
        ("5/10 * * * *", "no range"),
        ("20-10 * * * *", "ends before it begins"),
        ("* * * * 6-2", "ends before it begins"),
        ("-1 * * * *", "minute"),
        ("+1 * * * *", "minute"),
        ("1,,2 * * * *", "minute"),
        ("1- * * * *", "minute"),
        ("99999999999 * * * *", "minute"),
        ("* * L * *", "day of the month"),
        ("* * 15W * *", "day of the month"),
        ("* * * * 1#2", "day of the week"),
        ("? * * * *", "minute"),
        ("*\n* * * *", "has 4"),
        ("٣ * * * *", "minute"),
        ("0 0 30 2 *", "never comes"),
        ("0 0 31 2,4,6,9,11 *", "never comes"),
        (&many, "at most"),
    ] {
        let faults = Recurrence::read(cron, "UTC").expect_err(cron);
        assert_eq!(faults.len(), 1, "{cron}");
        assert_eq!(faults[0].pointer, "/cron", "{cron}");
        assert!(faults[0].message.contains(words), "{cron}: {}", faults[0].message);
    }
    let faults = Recurrence::read("x", "Europe/Nowhere").expect_err("both");
    let at: Vec<&str> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(at, ["/cron", "/timezone"]);
    for zone in ["", "europe/berlin", "+01:00", "CEST", "Europe/Berlin\0", "../UTC"] {
        let faults = Recurrence::read("@daily", zone).expect_err(zone);
        assert_eq!(faults[0].pointer, "/timezone", "{zone}");
    }
}

#[test]
fn clocks_that_are_put_forward_skip_no_run_and_give_one_at_once() {
    for (cron, zone, after, due) in [
        // 02:00 becomes 03:00.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            "2026-03-29T03:00+02:00 2026-03-30T02:30+02:00",
        ),
        (
            "0 2 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            "2026-03-29T03:00+02:00 2026-03-30T02:00+02:00",
        ),
        (
            "30 2 * * *",
            "America/New_York",
            "2026-03-07T12:00:00Z",
            "2026-03-08T03:00-04:00 2026-03-09T02:30-04:00",
        ),
        // Several that are skipped, and the one that follows, are one.
        (
            "0,30 2,3 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            "2026-03-29T03:00+02:00 2026-03-29T03:30+02:00 2026-03-30T02:00+02:00",
        ),
        // An hour that is `*` goes by the time that passes.
        (
            "30 * * * *",
            "Europe/Berlin",
            "2026-03-29T00:00:00Z",
            "2026-03-29T01:30+01:00 2026-03-29T03:30+02:00",
        ),
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-03-29T00:10:00Z",
            "2026-03-29T01:30+01:00 2026-03-29T03:00+02:00 2026-03-29T03:30+02:00",
        ),
        // Half an hour; a midnight that isn't; in the southern autumn and spring; a whole day at the date line.
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T00:00:00Z",
            "2026-10-04T02:30+11:00 2026-10-05T02:15+11:00",
        ),
        (
            "0 0 * * *",
            "Africa/Cairo",
            "2026-04-23T12:00:00Z",
            "2026-04-24T01:00+03:00 2026-04-25T00:00+03:00",
        ),
        (
            "30 2 * * *",
            "Australia/Sydney",
            "2026-10-03T00:00:00Z",
            "2026-10-04T03:00+11:00 2026-10-05T02:30+11:00",
        ),
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T12:00:00Z",
            "2011-12-29T12:00-10:00 2011-12-31T00:00+14:00 2011-12-31T12:00+14:00",
        ),
    ] {
        assert_eq!(shown(cron, zone, after, due.split(' ').count()).join(" "), due, "{cron} in {zone}");
    }
}

#[test]
fn clocks_that_are_put_back_give_no_run_twice() {
    for (cron, zone, after, due) in [
        // 03:00 becomes 02:00.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            "2026-10-25T02:30+02:00 2026-10-26T02:30+01:00",
        ),
        (
            "0 3 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            "2026-10-25T03:00+01:00 2026-10-26T03:00+01:00",
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "2026-10-31T12:00:00Z",
            "2026-11-01T01:30-04:00 2026-11-02T01:30-05:00",
        ),
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T00:00:00Z",
            "2026-04-05T01:45+11:00 2026-04-06T01:45+10:30",
        ),
        // Within the second pass all of it is past.
        ("*/20 2,3 * * *", "Europe/Berlin", "2026-10-25T01:05:00Z", "2026-10-25T03:00+01:00"),
        // An hour that is `*` goes through both.
        (
            "30 * * * *",
            "Europe/Berlin",
            "2026-10-24T23:40:00Z",
            "2026-10-25T02:30+02:00 2026-10-25T02:30+01:00 2026-10-25T03:30+01:00",
        ),
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-10-25T00:10:00Z",
            "2026-10-25T02:30+02:00 2026-10-25T02:00+01:00 2026-10-25T02:30+01:00 2026-10-25T03:00+01:00",
        ),
    ] {
        assert_eq!(shown(cron, zone, after, due.split(' ').count()).join(" "), due, "{cron} in {zone}");
    }
}

#[test]
fn what_is_late_is_made_up_for_within_a_minute() {
    let (at, at_most) = (moment("2026-01-01T12:00:00Z"), moment("2026-01-01T12:01:00Z"));
    let moment_more = at_most + TimeDelta::milliseconds(1);
    for (seen, now, becomes) in [
        (at, at, Due::Now),
        (at_most, at_most, Due::Now),
        (moment_more, moment_more, Due::Missed),
        // Seen in time, it waits for its turn; not for ever.
        (at_most, at + TimeDelta::minutes(15), Due::Now),
        (at_most, at + TimeDelta::minutes(15) + TimeDelta::milliseconds(1), Due::Missed),
        // A clock was put back.
        (at - TimeDelta::minutes(1), at - TimeDelta::minutes(1), Due::Now),
    ] {
        assert_eq!(Due::of(at, seen, now), becomes, "seen at {seen}, now {now}");
    }
    assert_eq!(Due::Now.passes_until(at, at_most), at);
    assert_eq!(Due::Missed.passes_until(at, at_most), at_most);
    assert_eq!(Due::Missed.passes_until(at_most, at), at_most);
}

const ZONES: [&str; 10] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Antarctica/Troll",
    "Pacific/Apia",
    "America/St_Johns",
];

fn field(most: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("*".to_owned()),
        2 => (2..=most.min(20)).prop_map(|step| format!("*/{step}")),
        3 => (0..=most).prop_map(|value| value.to_string()),
        2 => (0..=most, 0..=most).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (0..=most, 0..=most).prop_map(|(a, b)| format!("{a},{b}")),
    ]
}

/// Expressions whose times of the day vary; days rarely, or little would ever be due.
fn expressions() -> impl Strategy<Value = String> {
    let weekday = prop_oneof![4 => Just("*".to_owned()), 1 => (0..=7_u32).prop_map(|day| day.to_string())];
    (field(59), field(23), weekday)
        .prop_map(|(minute, hour, weekday)| format!("{minute} {hour} * * {weekday}"))
}

/// Near a change of some zone's clock, or anywhere.
fn moments() -> impl Strategy<Value = DateTime<Utc>> {
    let changes = [
        "2026-03-29T01:00:00Z",
        "2026-10-25T01:00:00Z",
        "2026-03-08T07:00:00Z",
        "2026-11-01T06:00:00Z",
        "2026-10-03T15:30:00Z",
        "2026-04-04T15:00:00Z",
        "2011-12-30T10:00:00Z",
        "2018-11-04T03:00:00Z",
        "2026-02-15T02:00:00Z",
    ];
    let near = (0..changes.len(), -200_000..200_000_i64)
        .prop_map(move |(change, seconds)| moment(changes[change]) + TimeDelta::seconds(seconds));
    let anywhere = (1_262_304_000..2_208_988_800_i64)
        .prop_map(|seconds| DateTime::from_timestamp(seconds, 0).expect("a time"));
    prop_oneof![3 => near, 1 => anywhere]
}

fn local(at: DateTime<Utc>, zone: Tz) -> NaiveDateTime {
    at.with_timezone(&zone).naive_local()
}

/// Whether it is due at this whole minute, found without looking anything up: by what the clock shows now and a minute ago.
fn is_due(due: &Recurrence, at: DateTime<Utc>) -> bool {
    let now = local(at, due.zone);
    if due.cron.is_of_every_hour() {
        return due.cron.fits(now);
    }
    let before = local(at - TimeDelta::minutes(1), due.zone);
    let skipped = std::iter::successors(Some(before + TimeDelta::minutes(1)), |time| {
        Some(*time + TimeDelta::minutes(1))
    });
    let comes_now = skipped.take_while(|time| *time <= now).any(|time| due.cron.fits(time));
    // A time that was shown before isn't new.
    comes_now && !(1..=180).any(|minutes| local(at - TimeDelta::minutes(minutes), due.zone) >= now)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn it_is_what_a_walk_along_the_clock_finds(cron in expressions(), zone in 0..ZONES.len(), after in moments()) {
        let due = recurrence(&cron, ZONES[zone]);
        let found = due.next_after(after).expect("a next one");
        prop_assert!(found > after);
        prop_assert_eq!((found.second(), found.nanosecond()), (0, 0));
        let first = after.timestamp().div_euclid(60) + 1;
        let walked = (first..first + 4 * 1440).map(|minute| DateTime::from_timestamp(minute * 60, 0).expect("a time"));
        match walked.into_iter().find(|at| is_due(&due, *at)) {
            Some(walked) => prop_assert_eq!(found, walked),
            None => prop_assert!((found - after).num_minutes() >= 4 * 1440),
        }
    }

    #[test]
    fn a_later_moment_has_no_earlier_next_one(cron in expressions(), zone in 0..ZONES.len(), after in moments(), later in 0..200_000_i64) {
        let due = recurrence(&cron, ZONES[zone]);
        let (one, other) = (due.next_after(after), due.next_after(after + TimeDelta::seconds(later)));
        prop_assert!(one <= other);
    }

    #[test]
    fn two_of_them_are_a_minute_apart_at_least(cron in expressions(), zone in 0..ZONES.len(), after in moments()) {
        let due = recurrence(&cron, ZONES[zone]);
        let mut at = due.next_after(after).expect("a next one");
        for _ in 0..20 {
            let next = due.next_after(at).expect("a next one");
            prop_assert!(next - at >= TimeDelta::minutes(1));
            at = next;
        }
    }

    #[test]
    fn no_text_is_too_odd(cron in ".{0,40}", fields in "[0-9*,/ @a-zA-Z-]{0,30}", zone in ".{0,20}") {
        for text in [&cron, &fields] {
            if let Ok(due) = Recurrence::read(text, "Europe/Berlin") {
                prop_assert!(due.next_after(moment("2026-01-01T00:00:00Z")).is_some(), "{}", text);
            }
        }
        let _ = Recurrence::read("@daily", &zone);
    }
}

#[test]
fn no_clock_known_has_a_gap_that_is_not_crossed() {
    // Each zone, each month: midnights and hours in all of them.
    for zone in chrono_tz::TZ_VARIANTS {
        let due = Recurrence { cron: Cron::read("0 0 * * *").expect("daily"), zone };
        let mut at = chrono_tz::UTC.with_ymd_and_hms(2026, 1, 1, 0, 0, 0).single().expect("a time").to_utc();
        for _ in 0..366 {
            let next = due.next_after(at).unwrap_or_else(|| panic!("{zone} after {at}"));
            let hours = (next - at).num_minutes();
            assert!(
                (22 * 60..=26 * 60).contains(&hours) || at.timestamp() == 1_767_225_600,
                "{zone}: {at} then {next}"
            );
            at = next;
        }
    }
}
