//! Dates of header fields (RFC 5322 §3.3, the obsolete forms of §4.3, and what is seen in mail).

/// A moment, and the zone it was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Minutes east of UTC; 0 for `-0000` and for zones that say nothing.
    pub zone: i16,
}

/// Reads a date; `None` if there is no valid day, month and year in it.
///
/// Day names and comments are passed over. A missing time is midnight, a missing zone UTC. Two-digit years below 50 are in
/// the 2000s, other years of two or three digits count from 1900 (RFC 5322 §4.3).
pub fn parse(value: &str) -> Option<Date> {
    let mut found = Found::default();
    let plain = without_comments(value);
    for token in plain.split(|c: char| c.is_whitespace() || c == ',').filter(|t| !t.is_empty()).take(16) {
        found.token(token);
    }
    found.date()
}

#[derive(Default)]
struct Found {
    day: Option<u32>,
    month: Option<u32>,
    year: Option<i64>,
    time: Option<u32>,
    zone: Option<i16>,
}

impl Found {
    fn token(&mut self, token: &str) {
        if let Some(zone) = numeric_zone(token).filter(|_| self.time.is_some()) {
            self.zone.get_or_insert(zone);
        } else if token.contains(':') {
            let (clock, zone) = token.split_at(token.find(['+', '-']).unwrap_or(token.len()));
            if self.time.is_none() {
                self.time = time(clock);
                self.zone = self.zone.or(numeric_zone(zone));
            }
        } else if token.contains('-') && !token.starts_with('-') {
            // 1-Jan-2024, and 2024-01-31.
            token.split('-').for_each(|piece| self.word(piece));
        } else {
            self.word(token);
        }
    }

    fn word(&mut self, word: &str) {
        if word.bytes().all(|b| b.is_ascii_digit()) {
            self.number(word);
        } else if let Some(month) = month(word) {
            self.month.get_or_insert(month);
        } else if let Some(zone) = named_zone(word).filter(|_| self.time.is_some()) {
            self.zone.get_or_insert(zone);
        }
    }

    fn number(&mut self, digits: &str) {
        let Ok(value) = digits.parse::<u32>() else { return };
        let iso = self.year.is_some() && self.day.is_none();
        if iso && self.month.is_none() && (1..=12).contains(&value) && digits.len() <= 2 {
            self.month = Some(value);
        } else if self.day.is_none() && digits.len() <= 2 {
            self.day = Some(value);
        } else if self.year.is_none() {
            // RFC 5322 §4.3.
            self.year = match (digits.len(), i64::from(value)) {
                (4, year) => Some(year),
                (2, year @ 0..=49) => Some(2000 + year),
                (2 | 3, year) => Some(1900 + year),
                _ => None,
            };
        }
    }

    fn date(self) -> Option<Date> {
        let (day, month, year) = (self.day?, self.month?, self.year?);
        if !(1..=days_in(month, year)).contains(&day) {
            return None;
        }
        let zone = self.zone.unwrap_or(0);
        let seconds = days_from_civil(year, month, day) * 86_400 + i64::from(self.time.unwrap_or(0));
        Some(Date { seconds: seconds - i64::from(zone) * 60, zone })
    }
}

/// `hh:mm` or `hh:mm:ss`, with a fraction ignored, as seconds of the day; 60 is a leap second.
fn time(clock: &str) -> Option<u32> {
    let mut pieces = clock.split([':', '.']);
    let mut next = |limit: u32| {
        let piece = pieces.next()?;
        let ok = (1..=2).contains(&piece.len()) && piece.bytes().all(|b| b.is_ascii_digit());
        piece.parse().ok().filter(|value| ok && *value <= limit)
    };
    let (hour, minute) = (next(23)?, next(59)?);
    Some(hour * 3600 + minute * 60 + next(60).unwrap_or(0))
}

/// `+hhmm` or `-hhmm`, also with a colon.
fn numeric_zone(token: &str) -> Option<i16> {
    let (sign, digits) = match token.as_bytes().first()? {
        b'+' => (1, &token[1..]),
        b'-' => (-1, &token[1..]),
        _ => return None,
    };
    let digits: String = digits.chars().filter(|c| *c != ':').collect();
    if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: i16 = digits.parse().ok()?;
    let (hours, minutes) = (value / 100, value % 100);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// Named zones (RFC 5322 §4.3); single letters and unknown names say nothing, which is UTC.
fn named_zone(word: &str) -> Option<i16> {
    let hours = match word.to_ascii_uppercase().as_str() {
        "UT" | "GMT" | "UTC" | "Z" => 0,
        "EDT" => -4,
        "EST" | "CDT" => -5,
        "CST" | "MDT" => -6,
        "MST" | "PDT" => -7,
        "PST" => -8,
        "CET" | "MET" | "BST" => 1,
        "CEST" | "MEST" | "EET" => 2,
        "JST" => 9,
        _ => return None,
    };
    Some(hours * 60)
}

fn month(word: &str) -> Option<u32> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let start = word.get(..3)?.to_ascii_lowercase();
    let index = MONTHS.iter().position(|m| *m == start)?;
    Some(index as u32 + 1)
}

fn days_in(month: u32, year: i64) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar (Howard Hinnant's `days_from_civil`).
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a number of days since 1970-01-01; the inverse of [`days_from_civil`].
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = (if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 }) as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
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

/// `value` with comments made a space, nested ones counted, an unclosed one up to the end; and without the white space
/// that may stand around the colons of a time (obs-hour, obs-minute: RFC 5322 §4.3).
fn without_comments(value: &str) -> String {
    let mut depth = 0usize;
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '(' => {
                depth += 1;
                out.push(' ');
            }
            ')' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            ':' => {
                out.truncate(out.trim_end().len());
                out.push(c);
            }
            _ if c.is_whitespace() && out.ends_with(':') => {}
            _ => out.push(c),
        }
    }
    out
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn formatted_dates_read_back(seconds in -60_000_000_000i64..250_000_000_000, zone in -1439i16..1440) {
            let text = format(seconds, zone);
            prop_assert_eq!(at(&text), Some((seconds, zone)), "{}", text);
        }
    }
}
