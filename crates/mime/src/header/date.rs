//! Dates of header fields: writing (RFC 5322 §3.3), parsing ([`parse`]), and the calendar.

mod calendar;
mod words;

pub use sealpost_base::calendar::{civil_from_days, days_from_civil};

/// A moment, and the zone it was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Minutes east of UTC; 0 for `-0000` and unknown zones.
    pub zone: i16,
}

/// Parses a date; `None` if there is no valid day, month and year in it.
///
/// RFC 5322 §3.3, the obsolete forms of §4.3, and other formats found in mail: ISO 8601 (extended
/// and basic; calendar, week and day of the year), the output of `ctime` and JavaScript,
/// `21.11.1997`, `11/21/1997`, clocks of twelve hours, zones as `GMT+0200`. In numbers with slashes
/// the month comes first, with dots and hyphens the day, unless that is not a valid month. Day
/// names, comments and unknown words are skipped. A missing time is midnight, a missing zone UTC.
/// Two-digit years below 50 are in the 2000s, other years of two or three digits count from 1900
/// (RFC 5322 §4.3).
pub fn parse(value: &str) -> Option<Date> {
    words::read(value)?.date()
}

/// The same for a text that is a date with a time and nothing else, as after the sender in a `From
/// ` line of an mbox file; `None` if any part of it is unknown.
pub fn parse_whole(value: &str) -> Option<Date> {
    let found = words::read(value)?;
    if found.is_whole() { found.date() } else { None }
}

/// `Fri, 20 Nov 2026 19:08:37 +0000`: a date as header fields carry it (RFC 5322 §3.3).
pub fn format(seconds: i64, zone: i16) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let local = seconds.saturating_add(i64::from(zone) * 60);
    let days = local.div_euclid(86_400);
    let clock = local.rem_euclid(86_400);
    let (year, month, day) = civil_from_days(days);
    let sign = if zone < 0 { '-' } else { '+' };
    let east = zone.unsigned_abs();
    format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} {sign}{:02}{:02}",
        DAYS[days.rem_euclid(7) as usize],
        MONTHS[(month as usize - 1) % 12],
        clock / 3600,
        clock / 60 % 60,
        clock % 60,
        east / 60,
        east % 60,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(value: &str) -> Option<(i64, i16)> {
        parse(value).map(|d| (d.seconds, d.zone))
    }

    #[test]
    fn rfc_5322_forms() {
        assert_eq!(at("Fri, 21 Nov 1997 09:55:06 -0600"), Some((880_127_706, -360)));
        assert_eq!(
            at(
                "Thu,\r\n      13\r\n        Feb\r\n          1969\r\n      23:32\r\n               -0330 (Newfoundland Time)"
            ),
            Some((-27_723_480, -210))
        );
        assert_eq!(at("21 Nov 97 09:55:06 GMT"), Some((880_106_106, 0)));
        // RFC 5322 §A.6.3.
        assert_eq!(at("Fri, 21 Nov 1997 09(comment):   55  :  06 -0600"), Some((880_127_706, -360)));
        assert_eq!(at("1 Jan 49 00:00:00 +0000"), at("1 Jan 2049 00:00:00 +0000"));
        assert_eq!(at("1 Jan 50 00:00:00 +0000"), at("1 Jan 1950 00:00:00 +0000"));
        assert_eq!(at("1 Jan 103 00:00:00 +0000"), at("1 Jan 2003 00:00:00 +0000"));
        assert_eq!(at("21 Nov 1997 09:55:06 EST").unwrap().1, -300);
        assert_eq!(at("21 Nov 1997 09:55:06 A").unwrap().1, 0);
        assert_eq!(at("31 Dec 2016 23:59:60 +0000"), at("1 Jan 2017 00:00:00 +0000"));
    }

    #[test]
    fn seen_in_mail() {
        assert_eq!(at("Mon Jan  1 10:00:00 2024"), at("1 Jan 2024 10:00:00 +0000"));
        assert_eq!(at("Mon, 1-Jan-2024 10:00:00 +0100"), at("1 Jan 2024 09:00:00 GMT").map(|(s, _)| (s, 60)));
        assert_eq!(at("2024-01-31 10:00:00"), at("31 Jan 2024 10:00:00 +0000"));
        assert_eq!(at("1 January 2024 10:00:00+0100"), at("1 Jan 2024 10:00:00 +0100"));
        assert_eq!(at("1 Jan 2024"), at("1 Jan 2024 00:00:00 +0000"));
        for bad in
            ["", "soon", "32 Jan 2024", "30 Feb 2024", "1 Foo 2024", "1 Jan", "Jan 2024", "1 Jan 99999"]
        {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    #[test]
    fn iso_8601_forms() {
        let plain = at("21 Nov 1997 09:55:06 +0000");
        for text in [
            "1997-11-21T09:55:06Z",
            "1997-11-21t09:55:06z",
            "1997-11-21T09:55:06",
            "1997-11-21T09:55:06.000Z",
            "1997-11-21T09:55:06,123456Z",
            "1997-11-21 09:55:06Z",
            "1997-11-21 09:55:06.5 +0000",
            "1997-11-21T09:55:06+00:00",
            "1997-11-21T09:55:06-00",
            "1997-11-21T09:55:06Z[UTC]",
            "19971121T095506Z",
            "19971121T095506+0000",
            "19971121T09:55:06Z",
            "19971121 09:55:06",
            "19971121095506",
            "1997-325T09:55:06Z",
            "1997325T095506Z",
            "1997-W47-5T09:55:06Z",
            "1997W475T095506Z",
            "1997/11/21 09:55:06",
            "1997/11/21T09:55:06Z",
            "1997.11.21 09:55:06",
            "1997:11:21 09:55:06",
            "Fri, 1997-11-21 09:55:06",
        ] {
            assert_eq!(at(text), plain, "{text}");
        }
        assert_eq!(at("1997-11-21T09:55:06+01:00"), at("21 Nov 1997 09:55:06 +0100"));
        assert_eq!(at("1997-11-21T09:55:06+0530"), at("21 Nov 1997 09:55:06 +0530"));
        assert_eq!(at("1997-11-21T09:55:06-06"), at("21 Nov 1997 09:55:06 -0600"));
        assert_eq!(at("19971121T0955-0600"), at("21 Nov 1997 09:55:00 -0600"));
        assert_eq!(at("1997-11-21T09:55Z"), at("21 Nov 1997 09:55:00 +0000"));
        assert_eq!(at("1997-11-21T09Z"), at("21 Nov 1997 09:00:00 +0000"));
        assert_eq!(at("1997-11-21"), at("21 Nov 1997"));
        assert_eq!(at("19971121"), at("21 Nov 1997"));
        assert_eq!(at("1997-11-20T24:00:00Z"), at("21 Nov 1997"));
        assert_eq!(at("2020-W53-7"), at("3 Jan 2021"));
        assert_eq!(at("2020-366"), at("31 Dec 2020"));
        for bad in [
            "1997-13-21T09:55:06Z",
            "1997-11-31",
            "1997-366",
            "2021-W53-1",
            "1997-W00-1",
            "1997-11",
            "19971321",
            "T09:55:06Z",
        ] {
            assert_eq!(at(bad), None, "{bad}");
        }
        assert_eq!(at("1997-11-21T25:00:00Z"), at("21 Nov 1997"), "no time");
    }

    #[test]
    fn common_malformed_dates_are_read() {
        for (text, meant) in [
            ("Fri Nov 21 1997 09:55:06 GMT+0200 (EET)", "21 Nov 1997 09:55:06 +0200"),
            ("Fri, 21 Nov 1997 09:55:06 GMT+02:00", "21 Nov 1997 09:55:06 +0200"),
            ("Fri, 21 Nov 1997 09:55:06 UTC-5", "21 Nov 1997 09:55:06 -0500"),
            ("Fri, 21 Nov 1997 09:55:06 +1", "21 Nov 1997 09:55:06 +0100"),
            ("Fri, 21 Nov 1997 09:55:06 +5:30", "21 Nov 1997 09:55:06 +0530"),
            ("Fri Nov 21 09:55:06 CEST 1997", "21 Nov 1997 09:55:06 +0200"),
            ("Fri Nov 21 09:55:06 -0600 1997", "21 Nov 1997 09:55:06 -0600"),
            ("Friday, November 21, 1997 9:55:06 AM", "21 Nov 1997 09:55:06 +0000"),
            ("Nov 21 1997 9:55PM", "21 Nov 1997 21:55:00 +0000"),
            ("21 Nov 1997 12:05 a.m.", "21 Nov 1997 00:05:00 +0000"),
            ("21 Nov 1997 12:05 pm +0100", "21 Nov 1997 12:05:00 +0100"),
            ("21st of November 1997 at 9am", "21 Nov 1997 09:00:00 +0000"),
            ("Fri, 21 Nov. 1997 09.55.06 +0100", "21 Nov 1997 09:55:06 +0100"),
            ("21.11.1997 09:55:06", "21 Nov 1997 09:55:06 +0000"),
            ("21.11.97, 09:55", "21 Nov 1997 09:55:00 +0000"),
            ("21. November 1997 09:55", "21 Nov 1997 09:55:00 +0000"),
            ("21-11-1997 09:55:06", "21 Nov 1997 09:55:06 +0000"),
            ("11-21-1997 09:55:06", "21 Nov 1997 09:55:06 +0000"),
            ("11/21/1997, 9:55:06 PM", "21 Nov 1997 21:55:06 +0000"),
            ("21/11/97 09:55", "21 Nov 1997 09:55:00 +0000"),
            ("02/03/2004 09:55", "3 Feb 2004 09:55:00 +0000"),
            ("02.03.2004 09:55", "2 Mar 2004 09:55:00 +0000"),
            ("21-Nov-97 09:55:06", "21 Nov 1997 09:55:06 +0000"),
            ("21/Nov/1997:09:55:06 +0100", "21 Nov 1997 09:55:06 +0100"),
            ("21Nov1997 09:55:06", "21 Nov 1997 09:55:06 +0000"),
            ("1997 Nov 21 09:55:06", "21 Nov 1997 09:55:06 +0000"),
            ("97-11-21 09:55:06", "21 Nov 1997 09:55:06 +0000"),
            ("09:55:06 21 Nov 1997 +0100", "21 Nov 1997 09:55:06 +0100"),
            ("21 Nov 1997 09:55:06GMT", "21 Nov 1997 09:55:06 +0000"),
            ("21 Nov 1997 09:55:06+0100", "21 Nov 1997 09:55:06 +0100"),
            ("Date: Fri, 21 Nov 1997 09:55:06 -0600", "21 Nov 1997 09:55:06 -0600"),
            ("Fr, 21 Nov 1997 09:55:06 Europe/Berlin", "21 Nov 1997 09:55:06 +0000"),
            ("Fri, 21 Nov 1997 09:55:06 -0800 Pacific Standard Time", "21 Nov 1997 09:55:06 -0800"),
            ("Fri, 21 Nov 1997 09:55:06 +9999", "21 Nov 1997 09:55:06 +0000"),
        ] {
            assert_eq!(at(text), at(meant), "{text}");
        }
        for bad in [
            "13/13/1997",
            "32.11.1997",
            "9:55:06",
            "Fri Nov 09:55:06",
            "1/2",
            "..",
            "--",
            "::",
            "1234567890123456789",
        ] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    #[test]
    fn hostile_values_take_linear_time() {
        for piece in ["1:1,", ",1", ":1,1", "1-", "(", "a+", "T1"] {
            assert_eq!(at(&piece.repeat(60_000)), None, "{piece}");
        }
    }

    #[test]
    fn whole_dates_have_a_time_and_nothing_else() {
        for text in [
            "Thu Jan  1 00:00:10 1970",
            "Thu Jan  1 00:00:10 UTC 1970",
            "Fri, 23 May 2025 10:00:00 +0200",
            "2025-05-23T10:00:00Z",
            "Fri May 23 10:00:00 2025 +0200",
        ] {
            assert!(parse_whole(text).is_some(), "{text}");
        }
        for text in
            ["2025-05-23", "the 23 May 2025 at 10:00", "1 May 2025 10:00 remote", "May 2025 10:00:00", ""]
        {
            assert!(parse_whole(text).is_none(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn anything_is_a_date_or_none(text in "[0-9TZW:/.,+ -]{0,30}|[0-9a-zNovAMpm:/.+ -]{0,30}") {
            if let Some(date) = parse(&text) {
                prop_assert!(date.zone.abs() < 24 * 60);
                prop_assert!(civil_from_days(date.seconds.div_euclid(86_400)).0 <= 10_000);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn formatted_dates_read_back(seconds in -60_000_000_000i64..250_000_000_000, zone in -1439i16..1440) {
            let text = format(seconds, zone);
            prop_assert_eq!(at(&text), Some((seconds, zone)), "{}", text);
        }
    }
}
