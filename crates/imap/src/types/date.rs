//! [`Date`] and [`DateTime`]: days and moments as IMAP writes them.

use sealpost_base::Timestamp;

/// A day, as SEARCH names it: no time, no zone (RFC 3501 §6.4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(i32);

/// `date-time`: a moment and the zone it was written in (RFC 3501 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DateTime {
    seconds: i64,
    zone_minutes: i16,
}

pub(crate) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The English name of month 1 to 12, three letters.
pub(crate) fn month_name(month: u8) -> &'static str {
    MONTHS.get(usize::from(month).wrapping_sub(1)).copied().unwrap_or(MONTHS[0])
}

impl Date {
    /// A day of the Gregorian calendar; `None` if there is no such day, or the year is not of four digits.
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let length = match month {
            2 => 28 + u8::from(leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        if year > 9999 || day == 0 || day > length {
            return None;
        }
        // Days from civil, counting years from March so that the leap day comes last.
        let y = i32::from(year) - i32::from(month <= 2);
        let era = y.div_euclid(400);
        let year_of_era = y.rem_euclid(400);
        let day_of_year = (153 * ((i32::from(month) + 9) % 12) + 2) / 5 + i32::from(day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        Some(Date(era * 146_097 + day_of_era - 719_468))
    }

    /// Days since 1970-01-01.
    pub fn days(self) -> i32 {
        self.0
    }

    /// The day that is `days` after 1970-01-01, held within the years 0 to 9999.
    pub fn from_days(days: i64) -> Self {
        // 0000-01-01 and 9999-12-31
        Date(days.clamp(-719_528, 2_932_896) as i32)
    }

    /// Year, month (1 to 12), day (1 to 31).
    pub fn civil(self) -> (u16, u8, u8) {
        let z = self.0 + 719_468;
        let era = z.div_euclid(146_097);
        let day_of_era = z.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + i32::from(month <= 2);
        (year as u16, month as u8, day as u8)
    }
}

impl DateTime {
    /// A local time and its zone, in minutes east of UTC; `None` if out of range. A leap second is
    /// taken as the second after it.
    pub fn new(date: Date, hour: u8, minute: u8, second: u8, zone_minutes: i16) -> Option<Self> {
        if hour > 23 || minute > 59 || second > 60 || zone_minutes.abs() > 99 * 60 + 59 {
            return None;
        }
        let local =
            i64::from(date.0) * 86_400 + i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        Some(DateTime { seconds: local - i64::from(zone_minutes) * 60, zone_minutes })
    }

    /// `time` written in UTC.
    pub fn utc(time: Timestamp) -> Self {
        DateTime { seconds: time.seconds(), zone_minutes: 0 }
    }

    /// The moment, in whole seconds.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from_seconds(self.seconds)
    }

    /// Minutes east of UTC that it was written with.
    pub fn zone_minutes(self) -> i16 {
        self.zone_minutes
    }

    /// The local day, and hour, minute, second in it.
    pub fn local(self) -> (Date, u8, u8, u8) {
        let local = self.seconds.saturating_add(i64::from(self.zone_minutes) * 60);
        let second = local.rem_euclid(86_400);
        let date = Date::from_days(local.div_euclid(86_400));
        (date, (second / 3600) as u8, (second / 60 % 60) as u8, (second % 60) as u8)
    }
}
