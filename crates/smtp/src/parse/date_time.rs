//! `date-time` of RFC 3339 §5.6, as HOLDUNTIL has it (RFC 4865 §5).

use sealpost_base::calendar::{days_from_civil, days_in};

/// Seconds since 1970 (UTC) of a date and time such as `2026-11-26T20:00:00Z`; fractions are cut
/// off. `None` if it is none, or not on the calendar. A leap second is the second after it.
pub(super) fn parse(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let (date, rest) = bytes.split_at_checked(10)?;
    let [y @ .., b'-', _, _, b'-', _, _] = date else { return None };
    let (year, month, day) = (i64::from(number(y)?), number(&date[5..7])?, number(&date[8..])?);
    let (separator, rest) = rest.split_first()?;
    // RFC 3339 §5.6: "T" and "Z" may be lower case.
    separator.eq_ignore_ascii_case(&b'T').then_some(())?;
    let (time, zone) = rest.split_at_checked(8)?;
    let [_, _, b':', _, _, b':', _, _] = time else { return None };
    let (hour, minute, second) = (number(&time[..2])?, number(&time[3..5])?, number(&time[6..])?);
    if hour > 23 || minute > 59 || second > 60 || !(1..=days_in(month, year)).contains(&day) {
        return None;
    }
    let seconds = i64::from(hour * 3600 + minute * 60 + second);
    Some(days_from_civil(year, month, day) * 86_400 + seconds - offset(fraction(zone)?)?)
}

/// The text after an optional `time-secfrac = "." 1*DIGIT`.
fn fraction(text: &[u8]) -> Option<&[u8]> {
    let Some(digits) = text.strip_prefix(b".") else { return Some(text) };
    let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    (count > 0).then(|| &digits[count..])
}

/// `time-offset = "Z" / ("+" / "-") time-hour ":" time-minute`, in seconds east of UTC.
fn offset(text: &[u8]) -> Option<i64> {
    match text {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), hours @ .., b':', _, _] if hours.len() == 2 => {
            let (hours, minutes) = (number(hours)?, number(&text[4..])?);
            let seconds = i64::from(hours * 3600 + minutes * 60);
            (hours < 24 && minutes < 60).then_some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

/// At most four digits.
fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |n, digit| digit.is_ascii_digit().then(|| n * 10 + u32::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_rfc_3339() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1985-04-12T23:20:50.52Z", 482_196_050),
            ("1996-12-19T16:39:57-08:00", 851_042_397),
            ("1990-12-31T23:59:60Z", 662_688_000),
            ("2000-02-29t12:34:56z", 951_827_696),
            ("2026-11-26T20:00:00+05:30", 1_795_703_400),
        ] {
            assert_eq!(parse(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn no_dates() {
        for text in [
            "",
            "2026-11-26",
            "2026-11-26T20:00:00",
            "2026-13-01T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-11-26T24:00:00Z",
            "2026-11-26T20:00:00.Z",
            "2026-11-26T20:00:00+5:30",
            "2026-11-26T20:00:00Zx",
            "2026/11/26T20:00:00Z",
            "20é6-11-26T20:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
