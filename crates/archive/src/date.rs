//! The date of an mbox `From ` line (and RFC 3339 for people and programs): `Thu Jan  1 00:00:00 1970`, in UTC unless it names a zone.
//!
//! Reading is generous (missing seconds or weekday, zone before or after the year, as found in the wild);
//! writing gives exactly C's `asctime`.

use sealpost_base::Timestamp;
use sealpost_mime::header::date::{civil_from_days, days_from_civil};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const DAY_SECONDS: i64 = 86_400;

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

/// Finds `[weekday] month day hh:mm[:ss] [zone] year [zone]` at the end of `words`; returns where it begins.
pub fn parse_asctime(words: &[&str]) -> Option<(usize, Timestamp)> {
    let month_at = words.iter().rposition(|word| month(word).is_some())?;
    let mut rest = words.get(month_at + 1..)?.iter().copied();
    let month = month(words[month_at])?;
    let day = number(rest.next()?, 1, 31).and_then(|day| u32::try_from(day).ok())?;
    let time = time_of_day(rest.next()?)?;
    let (mut year, mut zone) = (None, None);
    for word in rest.take(3) {
        if year.is_none()
            && let Some(number) = number(word, 1900, 9999)
        {
            year = Some(number);
        } else if zone.is_none()
            && let Some(offset) = zone_offset(word)
        {
            zone = Some(offset);
        } else {
            break; // `remote from host` and the like
        }
    }
    let seconds = days_from_civil(year?, month, day) * DAY_SECONDS + time - zone.unwrap_or(0);
    let begins = match month_at.checked_sub(1) {
        Some(before) if is_weekday(words[before]) => before,
        _ => month_at,
    };
    Some((begins, Timestamp::from_seconds(seconds)))
}

fn month(word: &str) -> Option<u32> {
    let at = MONTHS.iter().position(|m| m.eq_ignore_ascii_case(word))?;
    u32::try_from(at + 1).ok()
}

fn is_weekday(word: &str) -> bool {
    let word = word.trim_end_matches(',');
    WEEKDAYS.iter().any(|w| w.eq_ignore_ascii_case(word))
}

fn number(word: &str, least: i64, most: i64) -> Option<i64> {
    if word.len() > 4 || !word.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    word.parse().ok().filter(|n| (least..=most).contains(n))
}

fn time_of_day(word: &str) -> Option<i64> {
    let mut parts = word.split(':');
    let hours = number(parts.next()?, 0, 23)?;
    let minutes = number(parts.next()?, 0, 59)?;
    let seconds = parts.next().map_or(Some(0), |s| number(s, 0, 60))?;
    parts.next().is_none().then_some(hours * 3600 + minutes * 60 + seconds)
}

/// Seconds east of UTC: `+hhmm`, or one of the names of RFC 5322 §4.3.
fn zone_offset(word: &str) -> Option<i64> {
    if let Some(digits) = word.strip_prefix(['+', '-']) {
        let all = number(digits, 0, 9999).filter(|_| digits.len() == 4)?;
        let seconds = (all / 100) * 3600 + (all % 100) * 60;
        return Some(if word.starts_with('-') { -seconds } else { seconds });
    }
    let hours = match word.to_ascii_uppercase().as_str() {
        "UT" | "UTC" | "GMT" | "Z" => 0,
        "EDT" => -4,
        "EST" | "CDT" => -5,
        "CST" | "MDT" => -6,
        "MST" | "PDT" => -7,
        "PST" => -8,
        "CET" | "MET" => 1,
        "CEST" | "MEST" | "EET" => 2,
        "EEST" => 3,
        _ => return None,
    };
    Some(hours * 3600)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Option<i64> {
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        parse_asctime(&words).map(|(_, at)| at.seconds())
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
        fn what_is_written_is_read(seconds in -2_208_988_800i64..253_402_300_800) {
            let text = asctime(Timestamp::from_seconds(seconds));
            prop_assert_eq!(parse(&text), Some(seconds), "{}", text);
        }
    }
}
