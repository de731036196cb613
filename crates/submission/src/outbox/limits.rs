//! Limits on sending for each account: recipients in an hour and in a day.
//!
//! They bound what a stolen password costs. The queue counts by clock hours
//! ([`State::sent`](sealpost_queue::State::sent)): *an hour* is the one that passes now, *a day* that
//! one and the 23 before it.

use std::fmt;

use sealpost_base::Timestamp;
use sealpost_base::calendar::civil_from_days;
use sealpost_directory::AccountRecord;
use sealpost_queue::state::HourCount;

/// Limits of accounts and aliases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendingLimits {
    /// Recipients in an hour.
    pub hour: u32,
    /// Recipients in a day.
    pub day: u32,
    /// Recipients that one alias forwards to in an hour.
    pub forwards: u32,
    /// Bytes of a message.
    pub message_size: u64,
}

impl Default for SendingLimits {
    fn default() -> Self {
        SendingLimits {
            hour: 200,
            day: 1000,
            forwards: 1000,
            message_size: sealpost_base::limits::MESSAGE_BYTES,
        }
    }
}

impl SendingLimits {
    /// The limits of an account: those that the operator set for it, or else these.
    pub(super) fn of(self, account: &AccountRecord) -> Self {
        let own = account.sending.as_deref();
        SendingLimits {
            hour: own.and_then(|own| own.hour).unwrap_or(self.hour),
            day: own.and_then(|own| own.day).unwrap_or(self.day),
            ..self
        }
    }
}

/// The kind of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// Recipients in an hour.
    Hour,
    /// Recipients in a day.
    Day,
}

/// A limit that a message would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitReached {
    /// The kind.
    pub window: Window,
    /// How many recipients it allows.
    pub limit: u32,
    /// When the message fits; `None` if it never does, because it has more recipients.
    pub until: Option<Timestamp>,
}

/// Refuses `more` recipients if they and those already `sent` exceed a limit.
pub(super) fn check(
    sent: &[HourCount],
    more: u32,
    limits: &SendingLimits,
    now: Timestamp,
) -> Result<(), LimitReached> {
    let hour = HourCount::hour_of(now);
    let of = |counts: &mut dyn Iterator<Item = &HourCount>| {
        counts.fold(0u32, |sum, count| sum.saturating_add(count.recipients))
    };
    let mut day = of(&mut sent.iter()).saturating_add(more);
    if day > limits.day {
        let mut counts = sent.to_vec();
        counts.sort_unstable_by_key(|count| count.hour);
        let until = counts.iter().find_map(|count| {
            day -= count.recipients.min(day);
            (day <= limits.day).then(|| HourCount::begin_of(count.expires()))
        });
        return Err(LimitReached { window: Window::Day, limit: limits.day, until });
    }
    // An hour ahead is the present one of a clock that was corrected.
    let in_hour = of(&mut sent.iter().filter(|count| count.hour >= hour)).saturating_add(more);
    if in_hour > limits.hour {
        let until = (more <= limits.hour).then(|| HourCount::begin_of(hour + 1));
        return Err(LimitReached { window: Window::Hour, limit: limits.hour, until });
    }
    Ok(())
}

impl fmt::Display for LimitReached {
    /// Such as `200 recipients in an hour; try again at 2026-11-26 14:00 UTC`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = match self.window {
            Window::Hour => "an hour",
            Window::Day => "a day",
        };
        write!(f, "{} recipients in {window}; ", self.limit)?;
        let Some(until) = self.until else { return f.write_str("send to fewer at once") };
        let seconds = until.seconds();
        let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
        let minute = seconds.rem_euclid(86_400) / 60;
        write!(f, "try again at {year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minute / 60, minute % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SendingLimits = SendingLimits { hour: 10, day: 30, forwards: 0, message_size: 0 };

    fn count(hour: u32, recipients: u32) -> HourCount {
        HourCount { hour, recipients }
    }

    #[test]
    fn hours_and_days_end() {
        // 2026-11-26 13:30 UTC.
        let now = Timestamp::from_seconds(1_795_699_800);
        let hour = HourCount::hour_of(now);
        let check = |sent: &[HourCount], more| check(sent, more, &LIMITS, now).map_err(|e| e.to_string());
        assert_eq!(check(&[], 10), Ok(()));
        assert_eq!(check(&[], 11).unwrap_err(), "10 recipients in an hour; send to fewer at once");
        assert_eq!(check(&[], 31).unwrap_err(), "30 recipients in a day; send to fewer at once");
        assert_eq!(check(&[count(hour, 8)], 2), Ok(()));
        assert_eq!(
            check(&[count(hour, 8)], 3).unwrap_err(),
            "10 recipients in an hour; try again at 2026-11-26 14:00 UTC"
        );
        let day = [count(hour - 3, 5), count(hour - 20, 8), count(hour - 2, 10), count(hour, 3)];
        assert_eq!(check(&day, 4), Ok(()));
        // The end of the first hour frees enough of the limit; then only that of the second.
        assert_eq!(check(&day, 5).unwrap_err(), "30 recipients in a day; try again at 2026-11-26 17:00 UTC");
        let late = [count(hour - 3, 5), count(hour - 20, 1), count(hour - 2, 22)];
        assert_eq!(check(&late, 8).unwrap_err(), "30 recipients in a day; try again at 2026-11-27 10:00 UTC");
    }
}
