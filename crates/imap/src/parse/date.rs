//! Dates and date-times (RFC 3501 §9).

use super::cursor::{Cursor, Failure, Parsed, decimal};
use crate::types::{Date, DateTime, MONTHS};

/// The form of dates.
const DATE: &str = "a date must be like 1-Feb-2026";

impl Cursor<'_> {
    /// `date = date-text / DQUOTE date-text DQUOTE`
    pub(crate) fn date(&mut self) -> Parsed<Date> {
        let quoted = self.eat(b'"');
        let date = self.date_text(DATE)?;
        if quoted {
            self.expect(b'"', DATE)?;
        }
        self.ends_word(DATE)?;
        Ok(date)
    }

    /// `date-text = date-day "-" date-month "-" date-year`
    fn date_text(&mut self, wrong: &'static str) -> Parsed<Date> {
        let day = self.digits(1, 2, wrong)?;
        self.expect(b'-', wrong)?;
        let name = self.word(|b| b.is_ascii_alphabetic());
        let month = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name));
        let month = month.ok_or(Failure::Bad(wrong))? + 1;
        self.expect(b'-', wrong)?;
        let year = self.digits(4, 4, wrong)?;
        Date::new(year, month as u8, day as u8).ok_or(Failure::Bad("there is no such day"))
    }

    /// `date-time = DQUOTE date-day-fixed "-" date-month "-" date-year SP time SP zone DQUOTE`
    pub(crate) fn date_time(&mut self) -> Parsed<DateTime> {
        const WRONG: &str = "a date-time must be like \" 1-Feb-2026 10:00:00 +0100\"";
        self.expect(b'"', WRONG)?;
        self.eat(b' ');
        let date = self.date_text(WRONG)?;
        self.expect(b' ', WRONG)?;
        let hour = self.digits(2, 2, WRONG)?;
        self.expect(b':', WRONG)?;
        let minute = self.digits(2, 2, WRONG)?;
        self.expect(b':', WRONG)?;
        let second = self.digits(2, 2, WRONG)?;
        self.expect(b' ', WRONG)?;
        let west = match self.peek() {
            Some(b'+') => false,
            Some(b'-') => true,
            _ => return Err(Failure::Bad(WRONG)),
        };
        self.advance(1);
        let zone = self.digits(4, 4, WRONG)?;
        self.expect(b'"', WRONG)?;
        if zone % 100 > 59 {
            return Err(Failure::Bad("there is no such zone"));
        }
        let minutes = (zone / 100 * 60 + zone % 100) as i16;
        let zone = if west { -minutes } else { minutes };
        DateTime::new(date, hour as u8, minute as u8, second as u8, zone)
            .ok_or(Failure::Bad("there is no such time"))
    }

    /// A number of `min` to `max` digits (at most 4).
    fn digits(&mut self, min: usize, max: usize, wrong: &'static str) -> Parsed<u16> {
        let digits = self.take_while(|b| b.is_ascii_digit());
        if digits.len() < min || digits.len() > max {
            return Err(Failure::Bad(wrong));
        }
        Ok(decimal(digits).unwrap_or(0) as u16)
    }
}
