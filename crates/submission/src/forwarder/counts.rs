//! Counts the recipients that each alias has forwarded to in this hour.
//!
//! The counts bound the mail that a stranger can make this server send. Each process counts by itself, and a
//! restart begins at zero. Hours are those of the clock, as for accounts
//! ([`crate::outbox::SendingLimits`]).

use std::collections::HashMap;

use sealpost_base::{Timestamp, limits};
use sealpost_directory::{AliasName, Outside};
use sealpost_queue::state::HourCount;

use crate::outbox::{LimitReached, Window};

/// Recipients by alias.
#[derive(Debug, Default)]
pub(super) struct Counts {
    hour: u32,
    recipients: HashMap<AliasName, u32>,
}

/// An alias that has reached its limit.
#[derive(Debug)]
pub(super) struct Full {
    pub(super) alias: AliasName,
    pub(super) reached: LimitReached,
}

impl Counts {
    /// Refuses recipients beyond `limit` for one of their aliases.
    pub(super) fn check(&mut self, outside: &[Outside], now: Timestamp, limit: u32) -> Result<(), Full> {
        self.begin_hour(now);
        let mut more: HashMap<&AliasName, u32> = HashMap::new();
        for to in outside {
            *more.entry(&to.alias).or_default() += 1;
        }
        let new = more.keys().filter(|alias| !self.recipients.contains_key(**alias)).count();
        let is_crowded = self.recipients.len() + new > limits::FORWARDING_ALIASES;
        for (alias, more) in more {
            let before = self.recipients.get(alias).copied().unwrap_or(0);
            if is_crowded && before == 0 || before.saturating_add(more) > limit {
                let until = (more <= limit).then(|| HourCount::begin_of(self.hour + 1));
                let reached = LimitReached { window: Window::Hour, limit, until };
                return Err(Full { alias: alias.clone(), reached });
            }
        }
        Ok(())
    }

    /// Counts the recipients, all or none.
    pub(super) fn add(&mut self, outside: &[Outside], now: Timestamp, limit: u32) -> Result<(), Full> {
        self.check(outside, now, limit)?;
        for to in outside {
            *self.recipients.entry(to.alias.clone()).or_default() += 1;
        }
        Ok(())
    }

    fn begin_hour(&mut self, now: Timestamp) {
        let hour = HourCount::hour_of(now);
        if hour != self.hour {
            *self = Counts { hour, recipients: HashMap::new() };
        }
    }
}

#[cfg(test)]
mod tests {
    use sealpost_directory::OutsideAddress;

    use super::*;

    /// 2026-11-26 13:30 UTC.
    const NOW: Timestamp = Timestamp(1_795_699_800_000);

    fn to(alias: &str, recipients: usize) -> Vec<Outside> {
        let alias = AliasName::parse(alias).unwrap();
        let outside = |n| Outside {
            address: OutsideAddress::parse(&format!("a{n}@elsewhere.example")).unwrap(),
            alias: alias.clone(),
        };
        (0..recipients).map(outside).collect()
    }

    #[test]
    fn each_alias_has_its_own_hour() {
        let mut counts = Counts::default();
        counts.add(&to("a@x", 3), NOW, 5).unwrap();
        counts.add(&to("@y", 5), NOW, 5).unwrap();
        counts.check(&to("a@x", 2), NOW, 5).unwrap();
        // All or none.
        let both = [to("b@x", 1), to("a@x", 3)].concat();
        let full = counts.add(&both, NOW, 5).unwrap_err();
        assert_eq!(full.alias.to_string(), "a@x");
        assert_eq!(full.reached.to_string(), "5 recipients in an hour; try again at 2026-11-26 14:00 UTC");
        counts.add(&to("b@x", 5), NOW, 5).unwrap();
        let never = counts.check(&to("a@x", 6), NOW, 5).unwrap_err();
        assert_eq!(never.reached.until, None);
        let later = Timestamp(NOW.0 + 3_600_000);
        counts.add(&to("a@x", 5), later, 5).unwrap();
        assert_eq!(counts.recipients.len(), 1);
    }

    #[test]
    fn so_many_aliases_are_counted_and_no_more() {
        let mut counts = Counts::default();
        for n in 0..limits::FORWARDING_ALIASES {
            counts.add(&to(&format!("a{n}@x"), 1), NOW, 5).unwrap();
        }
        counts.add(&to("more@x", 1), NOW, 5).unwrap_err();
        counts.add(&to("a0@x", 1), NOW, 5).unwrap();
        assert_eq!(counts.recipients.len(), limits::FORWARDING_ALIASES);
    }
}
