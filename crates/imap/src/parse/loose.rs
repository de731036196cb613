//! FLAGS and INTERNALDATE from servers that break the grammar: valid values are read, the others
//! are reported, and the message that they belong to is not lost.

use super::cursor::{Cursor, Failure, Parsed};
use crate::client::FetchData;
use crate::types::{Date, DateTime, Flag, MONTHS};

/// Flags of one message that are named because they cannot be read.
const NAMED: usize = 8;
/// Characters of such a flag, or date, that are shown.
const SHOWN: usize = 40;

impl Cursor<'_> {
    /// The value of FLAGS: a `flag-list`, or whatever is in parentheses, divided at spaces.
    pub(super) fn fetched_flags(&mut self) -> Parsed<FetchData> {
        let mut strict = self.clone();
        if let Ok(flags) = strict.flag_list() {
            *self = strict;
            return Ok(FetchData::Flags(flags));
        }
        if self.nil() {
            return Ok(FetchData::Flags(Vec::new()));
        }
        self.expect(b'(', "a list of flags is missing")?;
        let (mut flags, mut unread) = (Vec::new(), Vec::new());
        loop {
            while self.eat(b' ') {}
            if self.eat(b')') {
                break;
            }
            let word = self.loose_word(|b| b != b')')?;
            // A quoted string or a literal is no flag, whatever its content.
            let flag = std::str::from_utf8(&word.bytes).ok().filter(|_| word.bare);
            match flag.and_then(|text| Flag::new(text).ok()) {
                Some(flag) => flags.push(flag),
                None if unread.len() < NAMED => unread.push(shown(&word.bytes)),
                None => {}
            }
        }
        Ok(match unread.is_empty() {
            true => FetchData::Flags(flags),
            false => FetchData::FlagsInPart(flags, unread),
        })
    }

    /// The value of INTERNALDATE: a `date-time`, or any other word.
    pub(super) fn fetched_date(&mut self) -> Parsed<FetchData> {
        let mut strict = self.clone();
        if let Ok(date) = strict.date_time() {
            *self = strict;
            return Ok(FetchData::InternalDate(date));
        }
        let word = self.loose_word(|b| b != b')')?;
        let date = std::str::from_utf8(&word.bytes).ok().and_then(loose_date);
        Ok(date.map_or_else(|| FetchData::NoDate(shown(&word.bytes)), FetchData::InternalDate))
    }

    /// A quoted string, a literal, or the bytes up to a space, the end of the line or one that
    /// `keep` rejects.
    fn loose_word(&mut self, keep: impl Fn(u8) -> bool) -> Parsed<Word> {
        let mut probe = self.clone();
        let string = match self.peek() {
            Some(b'"') => probe.quoted().ok(),
            Some(b'{') => probe.literal().ok().map(<[u8]>::to_vec),
            _ => None,
        };
        if let Some(bytes) = string {
            *self = probe;
            return Ok(Word { bytes, bare: false });
        }
        let bytes = self.take_while(|b| !matches!(b, b' ' | b'\r' | b'\n') && keep(b));
        match bytes.is_empty() {
            true => Err(Failure::Bad("a value is missing")),
            false => Ok(Word { bytes: bytes.to_vec(), bare: true }),
        }
    }
}

struct Word {
    bytes: Vec<u8>,
    /// Neither quoted nor a literal.
    bare: bool,
}

/// In a form to report: without control characters, and short.
fn shown(bytes: &[u8]) -> Box<str> {
    let text = String::from_utf8_lossy(bytes);
    let mut short: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    short.into()
}

/// A date as mail has it (RFC 5322 §3.3, §4.3), with `-` between its parts or without, and a zone
/// that may be named or have a colon.
fn loose_date(text: &str) -> Option<DateTime> {
    let text = text.split_once(',').map_or(text, |(_, rest)| rest);
    let mut words = text.split_ascii_whitespace();
    let first = words.next()?;
    let (day, month, year) = if first.contains('-') {
        let mut parts = first.split('-');
        let date = (parts.next()?, parts.next()?, parts.next()?);
        parts.next().is_none().then_some(date)?
    } else {
        (first, words.next()?, words.next()?)
    };
    let (mut time, zone) = (words.next()?.split(':'), words.next()?);
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? + 1;
    let century = match (year.len(), number(year)?) {
        (2, 0..50) => 2000,
        (2, _) => 1900,
        (4, _) => 0,
        _ => return None,
    };
    let date = Date::new(century + number(year)?, month as u8, number(day)? as u8)?;
    let (hour, minute) = (number(time.next()?)?, number(time.next()?)?);
    let second = time.next().map_or(Some(0), number)?;
    let rest = (time.next(), words.next());
    if rest != (None, None) || [hour, minute, second].iter().any(|n| *n > 60) {
        return None;
    }
    DateTime::new(date, hour as u8, minute as u8, second as u8, loose_zone(zone)?)
}

/// Minutes east of UTC.
fn loose_zone(zone: &str) -> Option<i16> {
    if ["GMT", "UTC", "UT", "Z"].iter().any(|name| name.eq_ignore_ascii_case(zone)) {
        return Some(0);
    }
    let (sign, digits) = match zone.as_bytes().first()? {
        b'+' => (1, &zone[1..]),
        b'-' => (-1, &zone[1..]),
        _ => return None,
    };
    let digits = digits.replacen(':', "", 1);
    let n = number(&digits).filter(|n| digits.len() == 4 && n % 100 < 60)? as i16;
    Some(sign * (n / 100 * 60 + n % 100))
}

/// A number of one to four digits.
fn number(digits: &str) -> Option<u16> {
    let plain = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}
