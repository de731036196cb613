//! The date of an mbox `From ` line, `Thu Jan  1 00:00:00 1970` in UTC unless it names a zone, and
//! RFC 3339 for people and programs.
//!
//! Reading takes every form that a header field may have; writing gives exactly C's `asctime`.

use sealpost_base::Timestamp;
use sealpost_base::calendar::{days_from_civil, days_in};
use sealpost_mime::header::date::{self, civil_from_days};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const DAY_SECONDS: i64 = 86_400;
/// The most words of a date.
const DATE_WORDS: usize = 8;

/// `at` as `asctime` writes it, in UTC.
pub fn asctime(at: Timestamp) -> String {
    let seconds = at.seconds();
    let (days, time) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
    let (year, month, day) = civil_from_days(days);
    let weekday = WEEKDAYS[usize::try_from(days.rem_euclid(7)).unwrap_or(0)];
    let month = MONTHS[month as usize - 1];
    format!("{weekday} {month} {day:>2} {:02}:{:02}:{:02} {year:04}", time / 3600, time / 60 % 60, time % 60)
}

/// `at` as RFC 3339 writes it, in UTC: `1970-01-01T00:00:00Z`.
pub fn rfc3339(at: Timestamp) -> String {
    let seconds = at.seconds();
    let (days, time) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
    let (year, month, day) = civil_from_days(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", time / 3600, time / 60 % 60, time % 60)
}

/// The moment of a day, `2026-12-24` (its first second), or of `2026-12-24T08:30:00Z`, both in UTC.
pub fn parse_utc(text: &str) -> Option<Timestamp> {
    let (day, time) = text.split_once('T').unwrap_or((text, "00:00:00Z"));
    let numbers = |text: &str, separator: char, widths: [usize; 3]| -> Option<[u32; 3]> {
        let parts: Vec<&str> = text.split(separator).collect();
        let parts: [&str; 3] = parts.try_into().ok()?;
        let is_right = |(part, width): (&&str, usize)| {
            part.len() == width && part.bytes().all(|digit| digit.is_ascii_digit())
        };
        parts.iter().zip(widths).all(is_right).then(|| parts.map(|part| part.parse().unwrap_or(u32::MAX)))
    };
    let [year, month, day] = numbers(day, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time.strip_suffix('Z')?, ':', [2, 2, 2])?;
    let is_day = (1..=12).contains(&month) && (1..=days_in(month, year.into())).contains(&day);
    let is_time = hour < 24 && minute < 60 && second < 60;
    let days = (is_day && is_time).then(|| days_from_civil(year.into(), month, day))?;
    Some(Timestamp::from_seconds(days * DAY_SECONDS + i64::from(hour * 3600 + minute * 60 + second)))
}

/// Finds the date at the end of `words`, those of a `From ` line, in any form; returns where it
/// begins.
pub fn parse_delivered(words: &[&str]) -> Option<(usize, Timestamp)> {
    // UUCP added this after it: `remote from host`.
    let ends = words.windows(2).rposition(|pair| pair == ["remote", "from"]).unwrap_or(words.len());
    let words = &words[..ends];
    // A sender comes first, unless there is none.
    let first = words.len().saturating_sub(DATE_WORDS);
    let begins = (first.max(1)..words.len()).chain((first == 0).then_some(0));
    let (at, date) = begins.filter_map(|at| Some((at, date::parse_whole(&words[at..].join(" "))?))).next()?;
    let weekday =
        at == 1 && WEEKDAYS.iter().any(|day| words[0].trim_end_matches(',').eq_ignore_ascii_case(day));
    Some((if weekday { 0 } else { at }, Timestamp::from_seconds(date.seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Option<i64> {
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        parse_delivered(&words).map(|(_, at)| at.seconds())
    }

    #[test]
    fn days_and_moments_in_utc() {
        for (text, seconds) in [
            ("1970-01-01", Some(0)),
            ("2026-12-24", Some(1_798_070_400)),
            ("2026-12-24T08:30:05Z", Some(1_798_101_005)),
            ("2024-02-29", Some(1_709_164_800)),
            ("2025-02-29", None),
            ("2026-13-01", None),
            ("2026-12-24T24:00:00Z", None),
            ("2026-12-24T08:30:05", None),
            ("2026-12-24T08:30:05+01:00", None),
            ("24.12.2026", None),
            ("2026-12-24-01", None),
            ("+026-12-24", None),
            ("", None),
        ] {
            assert_eq!(parse_utc(text).map(Timestamp::seconds), seconds, "{text}");
        }
        assert_eq!(rfc3339(parse_utc("2026-12-24T08:30:05Z").unwrap()), "2026-12-24T08:30:05Z");
    }

    #[test]
    fn known_dates() {
        assert_eq!(asctime(Timestamp(0)), "Thu Jan  1 00:00:00 1970");
        assert_eq!(rfc3339(Timestamp::from_seconds(951_827_696)), "2000-02-29T12:34:56Z");
        assert_eq!(asctime(Timestamp::from_seconds(951_782_399)), "Mon Feb 28 23:59:59 2000");
        for (text, seconds) in [
            ("Thu Jan  1 00:00:00 1970", 0),
            ("Tue Feb 29 12:34:56 2000", 951_827_696),
            ("Tue Feb 29 12:34:56 2000 +0100", 951_827_696 - 3600),
            ("Tue Feb 29 12:34:56 EST 2000", 951_827_696 + 5 * 3600),
            ("Tue Feb 29 12:34 2000", 951_827_640),
            ("Feb 29 12:34:56 2000", 951_827_696),
            ("Tue Feb 29 12:34:56 2000 remote from oak", 951_827_696),
            ("a@b.c Tue, 29 Feb 2000 13:34:56 +0100", 951_827_696),
            ("a@b.c 2000-02-29T12:34:56Z", 951_827_696),
            ("may Tue Feb 29 12:34:56 2000", 951_827_696),
        ] {
            assert_eq!(parse(text), Some(seconds), "{text}");
        }
        for text in
            ["", "Jan", "Thu Jan 1", "Thu Jan 99 00:00:00 1970", "Thu Jan 1 25:00:00 1970", "May be so"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn written_dates_are_parsed(seconds in -2_208_988_800i64..253_402_300_800) {
            let text = asctime(Timestamp::from_seconds(seconds));
            prop_assert_eq!(parse(&text), Some(seconds), "{}", text);
        }
    }
}
