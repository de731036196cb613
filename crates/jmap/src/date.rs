//! Dates (RFC 8620 §1.4): RFC 3339 with uppercase letters.
//!
//! A fraction of zero is taken although it must be omitted: `Date.toISOString` of browsers writes
//! it. It is never written.

use std::fmt;

use sealpost_base::Timestamp;
use sealpost_base::calendar::{civil_from_days, days_from_civil, days_in};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::read::{FromJson, Mismatch};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// A moment in UTC: `2014-10-30T06:12:00Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcDate {
    unix_ms: i64,
}

impl UtcDate {
    /// A moment; those outside of the years 0 to 9999 are moved to their ends, as RFC 3339 has no
    /// others.
    pub fn new(moment: Timestamp) -> Self {
        UtcDate::from_unix_ms(moment.0)
    }

    /// The moment.
    pub fn timestamp(self) -> Timestamp {
        Timestamp(self.unix_ms)
    }

    fn from_unix_ms(unix_ms: i64) -> Self {
        let first = days_from_civil(0, 1, 1) * DAY_MS;
        let last = days_from_civil(10_000, 1, 1) * DAY_MS - 1;
        UtcDate { unix_ms: unix_ms.clamp(first, last) }
    }
}

/// A moment and the offset of the clock it was read from: `2014-10-30T14:12:00+08:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Date {
    /// The moment.
    pub moment: UtcDate,
    offset_minutes: i16,
}

impl Date {
    /// The offset is in minutes east of UTC; `None` if it is a day or more, or moves the local time
    /// out of the years 0 to 9999.
    pub fn new(moment: UtcDate, offset_minutes: i16) -> Option<Self> {
        let local = moment.unix_ms + i64::from(offset_minutes) * 60_000;
        let fits = UtcDate::from_unix_ms(local).unix_ms == local;
        (offset_minutes.unsigned_abs() < 24 * 60 && fits).then_some(Date { moment, offset_minutes })
    }

    /// Minutes east of UTC.
    pub fn offset_minutes(self) -> i16 {
        self.offset_minutes
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.moment.unix_ms + i64::from(self.offset_minutes) * 60_000;
        let (year, month, day) = civil_from_days(local.div_euclid(DAY_MS));
        let (ms, seconds) = (local.rem_euclid(1000), local.rem_euclid(DAY_MS) / 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if ms != 0 {
            write!(f, ".{}", format!("{ms:03}").trim_end_matches('0'))?;
        }
        if self.offset_minutes == 0 {
            return f.write_str("Z");
        }
        let (sign, offset) =
            (if self.offset_minutes < 0 { '-' } else { '+' }, self.offset_minutes.unsigned_abs());
        write!(f, "{sign}{:02}:{:02}", offset / 60, offset % 60)
    }
}

impl fmt::Display for UtcDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Date { moment: *self, offset_minutes: 0 }.fmt(f)
    }
}

/// Reads `date-time` of RFC 3339 §5.6. Digits of a fraction after the third are dropped.
fn parse(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    let number = |at: usize, digits: usize| -> Option<i64> {
        let field = bytes.get(at..at + digits)?;
        field.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
    };
    let is = |at: usize, wanted: u8| (bytes.get(at) == Some(&wanted)).then_some(());
    let (year, month, day) = (number(0, 4)?, number(5, 2)? as u32, number(8, 2)? as u32);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    for (at, wanted) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')] {
        is(at, wanted)?;
    }
    // A leap second is the first moment of the next minute.
    if !(1..=days_in(month, year)).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut at = 19;
    let mut ms = 0;
    if is(at, b'.').is_some() {
        let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let kept = digits.min(3);
        ms = number(at + 1, kept)? * [0, 100, 10, 1][kept];
        if digits == 0 {
            return None;
        }
        at += 1 + digits;
    }
    let offset_minutes = match bytes.get(at)? {
        b'Z' => {
            at += 1;
            0
        }
        sign @ (b'+' | b'-') => {
            is(at + 3, b':')?;
            let (hours, minutes) = (number(at + 1, 2)?, number(at + 4, 2)?);
            at += 6;
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 60 + minutes) as i16 * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    if at != bytes.len() {
        return None;
    }
    let local = days_from_civil(year, month, day) * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + ms;
    let unix_ms = local - i64::from(offset_minutes) * 60_000;
    let moment = UtcDate::from_unix_ms(unix_ms);
    (moment.unix_ms == unix_ms).then(|| Date::new(moment, offset_minutes))?
}

impl FromJson for Date {
    fn expected() -> String {
        "a date such as \"2014-10-30T14:12:00+08:00\"".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        value.as_str().and_then(parse).ok_or_else(|| Mismatch::new(Self::expected(), &value))
    }
}

impl FromJson for UtcDate {
    fn expected() -> String {
        "a date in UTC such as \"2014-10-30T06:12:00Z\"".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let text = value.as_str().filter(|text| text.ends_with('Z'));
        let date = text.and_then(parse).ok_or_else(|| Mismatch::new(Self::expected(), &value))?;
        Ok(date.moment)
    }
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for UtcDate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
