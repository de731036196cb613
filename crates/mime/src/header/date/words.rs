//! Parses a date word by word: each is interpreted by its form and by what is known already.

use super::Date;
use super::calendar::{of_week, of_year};
use sealpost_base::calendar::{civil_from_days, days_from_civil, days_in};

/// The most words of a date that are read.
const WORDS: usize = 16;

/// The data from the words so far.
#[derive(Debug, Default)]
pub(super) struct DateWords {
    day: Option<u32>,
    month: Option<u32>,
    year: Option<i64>,
    /// Seconds since midnight; a day of them for 24:00.
    time: Option<u32>,
    /// The clock has twelve hours: whether it is past noon.
    afternoon: Option<bool>,
    zone: Option<i16>,
    /// Some part was not recognized.
    strange: bool,
}

/// Reads all words.
pub(super) fn read(value: &str) -> Option<DateWords> {
    let mut found = DateWords::default();
    let plain = plain(value);
    let mut words = plain.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
    for word in words.by_ref().take(WORDS) {
        found.strange |= found.word(word).is_none();
    }
    found.strange |= words.next().is_some();
    Some(found).filter(|found| found.day.is_some())
}

impl DateWords {
    pub(super) fn date(self) -> Option<Date> {
        let (day, month, year) = (self.day?, self.month?, self.year?);
        if !(1..=days_in(month, year)).contains(&day) {
            return None;
        }
        let zone = self.zone.unwrap_or(0);
        let time = match (self.time.unwrap_or(0), self.afternoon) {
            (time, Some(true)) if time < 12 * 3600 => time + 12 * 3600,
            (time @ 43_200..46_800, Some(false)) => time - 12 * 3600,
            (time, _) => time,
        };
        let seconds = days_from_civil(year, month, day) * 86_400 + i64::from(time);
        Some(Date { seconds: seconds - i64::from(zone) * 60, zone })
    }

    /// Whether there is a time, and all words were recognized.
    pub(super) fn is_whole(&self) -> bool {
        self.time.is_some() && !self.strange
    }

    /// Takes a word; `None` if it is not recognized.
    fn word(&mut self, word: &str) -> Option<()> {
        if word.starts_with(['+', '-']) {
            return self.zone(numeric_zone(word)?);
        }
        if word.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return self.letters(word);
        }
        // `1997-11-21T09:55:06Z` (ISO 8601), `21/Nov/1997:09:55:06`.
        let date_ends =
            word.find(['T', 't']).or_else(|| word.find(':').filter(|at| word[..*at].contains(['/', '-'])));
        if let Some(at) = date_ends.filter(|at| word[at + 1..].starts_with(|c: char| c.is_ascii_digit()))
            && self.of_numbers(&word[..at]).is_some()
        {
            return self.clock(&word[at + 1..], true);
        }
        if word.contains(':') {
            // `1997:11:21`, as cameras write it.
            let is_date = word.find(':') == Some(4) && self.year.is_none();
            return if is_date { self.of_numbers(&word.replace(':', "-")) } else { self.clock(word, false) };
        }
        self.of_numbers(word)
    }

    /// A word that begins with a letter: a name, or a zone as `GMT+0200`.
    fn letters(&mut self, word: &str) -> Option<()> {
        if let Some(at) = word.find(['+', '-']) {
            return match numeric_zone(&word[at..]).filter(|_| named_zone(&word[..at]).is_some()) {
                Some(zone) => self.zone(zone),
                None => self.of_numbers(word),
            };
        }
        let name = word.trim_end_matches('.');
        if let Some(month) = month(name) {
            self.month.get_or_insert(month);
            return Some(());
        }
        match name.to_ascii_lowercase().as_str() {
            "am" | "a.m" => self.afternoon = Some(false),
            "pm" | "p.m" => self.afternoon = Some(true),
            _ if self.time.is_some() && named_zone(name).is_some() => self.zone(named_zone(name)?)?,
            day if is_weekday(day) => {}
            _ => return self.runs(word),
        }
        Some(())
    }

    fn zone(&mut self, zone: i16) -> Option<()> {
        self.time?;
        self.zone.get_or_insert(zone);
        Some(())
    }

    /// One number, or several with separators.
    fn of_numbers(&mut self, word: &str) -> Option<()> {
        let separator = word.trim_end_matches('.').find(['-', '/', '.']);
        let Some(separator) = separator.map(|at| char::from(word.as_bytes()[at])) else {
            return self.runs(word);
        };
        let pieces: Vec<&str> = word.split(separator).filter(|piece| !piece.is_empty()).collect();
        let numbers: Option<Vec<u32>> = pieces.iter().map(|piece| number(piece)).collect();
        match (numbers.as_deref(), &pieces[..]) {
            // `09.55.06`, where the day is known already.
            (Some([_, _] | [_, _, _]), _)
                if separator == '.' && self.day.is_some() && self.month.is_some() =>
            {
                self.clock(&word.replace('.', ":"), false)
            }
            (Some(&[a, b, c]), [first, _, last]) => self.three(separator, [a, b, c], first.len(), last.len()),
            (Some(&[year, day]), [first, last]) if (first.len(), last.len()) == (4, 3) => {
                self.days(of_year(year.into(), day)?)
            }
            (None, [year, week, weekday]) if week.starts_with(['W', 'w']) => {
                self.week(year, &week[1..], weekday)
            }
            // `21-Nov-1997`
            (None, [_, _, _]) => pieces.iter().try_for_each(|piece| self.runs(piece)),
            _ => None,
        }
    }

    /// Day, month and year as numbers, in the order that follows from the separator and the digits
    /// of the first and the last.
    fn three(&mut self, separator: char, numbers: [u32; 3], first: usize, last: usize) -> Option<()> {
        let [a, b, c] = numbers;
        let (day, month, year) = match separator {
            _ if first == 4 || (first == 2 && a > 31) => (c, b, year(first, a)?),
            '/' if b <= 12 && a > 12 => (a, b, year(last, c)?),
            '/' => (b, a, year(last, c)?),
            _ if b > 12 && a <= 12 => (b, a, year(last, c)?),
            _ => (a, b, year(last, c)?),
        };
        if self.day.is_some() || self.month.is_some() || self.year.is_some() || !(1..=12).contains(&month) {
            return None;
        }
        (self.day, self.month, self.year) = (Some(day), Some(month), Some(year));
        Some(())
    }

    fn days(&mut self, days: i64) -> Option<()> {
        let (year, month, day) = civil_from_days(days);
        (self.day, self.month, self.year) = (Some(day), Some(month), Some(year));
        Some(())
    }

    fn week(&mut self, year: &str, week: &str, weekday: &str) -> Option<()> {
        let is_form = (year.len(), week.len(), weekday.len()) == (4, 2, 1);
        self.days(of_week(number(year).filter(|_| is_form)?.into(), number(week)?, number(weekday)?)?)
    }

    /// A number, or numbers and names without separators.
    fn runs(&mut self, word: &str) -> Option<()> {
        let word = word.trim_end_matches('.');
        let digits = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
        let (number, rest) = word.split_at(digits);
        match rest.to_ascii_lowercase().as_str() {
            "" => self.number(number),
            "st" | "nd" | "rd" | "th" if number.len() <= 2 => self.number(number),
            "am" | "pm" | "a.m" | "p.m" => self.clock(word, false),
            _ if digits == 4 && rest.len() == 4 && rest.starts_with(['W', 'w']) => {
                self.week(number, rest.get(1..3)?, rest.get(3..)?)
            }
            // `21Nov1997`
            _ => {
                let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
                let (name, after) = rest.split_at(letters);
                let month = month(name)?;
                if !number.is_empty() {
                    self.number(number)?;
                }
                self.month.get_or_insert(month);
                if after.is_empty() { Some(()) } else { self.number(after) }
            }
        }
    }

    fn number(&mut self, digits: &str) -> Option<()> {
        match digits.len() {
            // `19971121`, `1997325` and `19971121095506`.
            8 | 14 if self.day.is_none() => {
                let numbers = [&digits[6..8], &digits[4..6], &digits[..4]].map(number);
                let [Some(day), Some(month), Some(year)] = numbers else { return None };
                (self.day, self.month, self.year) = (Some(day), Some(month), Some(year.into()));
                return if digits.len() > 8 { self.clock(&digits[8..], true) } else { Some(()) };
            }
            7 if self.day.is_none() => {
                return self.days(of_year(number(&digits[..4])?.into(), number(&digits[4..])?)?);
            }
            _ => {}
        }
        let value = number(digits)?;
        let iso = self.year.is_some() && self.day.is_none();
        if iso && self.month.is_none() && (1..=12).contains(&value) && digits.len() <= 2 {
            self.month = Some(value);
        } else if self.day.is_none() && digits.len() <= 2 && value <= 31 {
            self.day = Some(value);
        } else if self.year.is_none() {
            self.year = Some(year(digits.len(), value)?);
        } else {
            return None;
        }
        Some(())
    }

    /// A time, and an optional suffix without white space: a zone, or half of the day. `basic`:
    /// also without colons.
    fn clock(&mut self, word: &str, basic: bool) -> Option<()> {
        if self.time.is_some() {
            return None;
        }
        let end = word.find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.')).unwrap_or(word.len());
        let (clock, behind) = word.split_at(end);
        let alone = !behind.is_empty() && !clock.contains(':');
        self.time = Some(seconds(clock, basic || alone)?);
        if behind.is_empty() { Some(()) } else { self.word(behind) }
    }
}

/// `hh:mm` or `hh:mm:ss`, with a fraction ignored, as seconds of the day; 60 is a leap second,
/// 24:00 the end of the day. `basic`: also `hhmmss`, `hhmm` and `hh`.
fn seconds(clock: &str, basic: bool) -> Option<u32> {
    let digits = clock.split('.').next().unwrap_or_default();
    let spread = match digits.len() {
        _ if digits.contains(':') => clock.to_owned(),
        1 | 2 if basic => format!("{digits}:00"),
        4 if basic => format!("{}:{}", &digits[..2], &digits[2..]),
        6 if basic => format!("{}:{}:{}", &digits[..2], &digits[2..4], &digits[4..]),
        _ => return None,
    };
    let mut pieces = spread.split([':', '.']);
    let mut next = |limit: u32| {
        let piece = pieces.next().filter(|piece| (1..=2).contains(&piece.len()))?;
        number(piece).filter(|value| *value <= limit)
    };
    let (hour, minute) = (next(24)?, next(59)?);
    let second = next(60).unwrap_or(0);
    (hour < 24 || (minute, second) == (0, 0)).then_some(hour * 3600 + minute * 60 + second)
}

fn number(digits: &str) -> Option<u32> {
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// A year with this number of digits (RFC 5322 §4.3).
fn year(digits: usize, value: u32) -> Option<i64> {
    match (digits, i64::from(value)) {
        (4, year) => Some(year),
        (2, year @ 0..=49) => Some(2000 + year),
        (2 | 3, year) => Some(1900 + year),
        _ => None,
    }
}

/// `+hhmm` or `-hhmm`, also with a colon, with one digit of the hour, or with hours only.
fn numeric_zone(word: &str) -> Option<i16> {
    let sign = if word.starts_with('-') { -1 } else { 1 };
    let digits = word.get(1..)?;
    let (hours, minutes) = match (digits.split_once(':'), digits.len()) {
        (Some(pieces), _) => pieces,
        (None, 3 | 4) => digits.split_at_checked(digits.len() - 2)?,
        (None, _) => (digits, "00"),
    };
    let value = |digits: &str| {
        let value = number(digits).filter(|_| (1..=2).contains(&digits.len()))?;
        i16::try_from(value).ok()
    };
    let (hours, minutes) = (value(hours)?, value(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// The zones of RFC 5322 §4.3 and others that are not ambiguous, in minutes.
fn named_zone(word: &str) -> Option<i16> {
    let hours = match word.to_ascii_uppercase().as_str() {
        "UT" | "GMT" | "UTC" | "Z" | "WET" => 0,
        "HST" => -10,
        "AKST" => -9,
        "PST" | "AKDT" => -8,
        "MST" | "PDT" => -7,
        "CST" | "MDT" => -6,
        "EST" | "CDT" => -5,
        "EDT" => -4,
        "CET" | "MET" | "BST" | "WEST" => 1,
        "CEST" | "MEST" | "EET" => 2,
        "EEST" | "MSK" => 3,
        "JST" | "KST" => 9,
        "AEST" => 10,
        "AEDT" => 11,
        "NZST" => 12,
        "NZDT" => 13,
        _ => return None,
    };
    Some(hours * 60)
}

/// A month by its English name, or by three or more letters of it.
fn month(word: &str) -> Option<u32> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let word = word.to_ascii_lowercase();
    let index = MONTHS.iter().position(|month| word.len() >= 3 && month.starts_with(&word))?;
    Some(index as u32 + 1)
}

fn is_weekday(word: &str) -> bool {
    const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    word.len() >= 3 && DAYS.iter().any(|day| day.starts_with(word))
}

/// `value` with comments replaced by a space, nested ones counted, an unclosed one up to the end,
/// and likewise the name of a zone in brackets; without optional white space around the colons of a
/// time (obs-hour, obs-minute: RFC 5322 §4.3); and with a dot for the comma of a fraction.
fn plain(value: &str) -> String {
    let mut depth = 0usize;
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '(' | '[' => {
                depth += 1;
                out.push(' ');
            }
            ')' | ']' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            ':' => {
                out.truncate(out.trim_end().len());
                out.push(c);
            }
            ',' if is_clock(&out) && chars.peek().is_some_and(char::is_ascii_digit) => out.push('.'),
            _ if c.is_whitespace() && out.ends_with(':') => {}
            _ => out.push(c),
        }
    }
    out
}

/// Whether the last word of `text` has colons, a digit at its end, and no fraction yet.
fn is_clock(text: &str) -> bool {
    let word = text.rsplit(|c: char| c.is_whitespace() || c == ',').next().unwrap_or_default();
    word.contains(':') && !word.contains('.') && word.ends_with(|c: char| c.is_ascii_digit())
}
