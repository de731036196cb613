//! The quotas of an account. Their values are also their state.

use sealpost_account::usage;
use sealpost_base::{Result, limits};
use sealpost_directory::{Quotas, Resource, Usage};
use sealpost_jmap::State;
use sealpost_jmap::capability::Capability;
use sealpost_jmap::id::Id;
use sealpost_jmap::quota::{Quota, QuotaScope, ResourceType};
use sealpost_mailbox::shared_accounts::Reach;

use crate::scope::Scope;

type Kind = (Resource, char, &'static str, &'static str, ResourceType, &'static [&'static str]);

/// What JMAP has a type for, and so a quota: the resource, a letter for it in states, its id, its
/// name, what is counted, and the types.
const KINDS: [Kind; 3] = [
    (Resource::Storage, 's', "storage", "Storage", ResourceType::Octets, &["Email", "ContactCard"]),
    (Resource::Messages, 'm', "messages", "Messages", ResourceType::Count, &["Email"]),
    (Resource::Mailboxes, 'x', "mailboxes", "Mailboxes", ResourceType::Count, &["Mailbox"]),
];

/// For each kind the used amount and the limit; `None` without a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Values([Option<(u64, u64)>; KINDS.len()]);

/// How the quota of a kind changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Created,
    /// Only the used amount changed.
    Used,
    Updated,
    Destroyed,
}

impl Values {
    /// The present values of the account. A request without the mail capability sees no quotas, since each
    /// counts a type of mail (RFC 9425 §4.1).
    pub(super) async fn now(scope: &Scope<'_>) -> Result<Self> {
        // What an owner uses is not for others to see (RFC 9208 §8).
        if !scope.uses(Capability::Mail) || scope.reach() != Reach::Own {
            return Ok(Values::default());
        }
        let quotas = scope.quotas().await?;
        let shared = scope.resolver().usage_in_own_shares().await?;
        Ok(Values::of(quotas, usage::of(&scope.account().state()).with(shared)))
    }

    /// The values of an account with these limits and this usage.
    pub(crate) fn of(quotas: Quotas, used: Usage) -> Self {
        Values(KINDS.map(|(resource, ..)| {
            let inherent = (resource == Resource::Mailboxes).then_some(limits::MAILBOXES as u64);
            let limit = quotas.of(resource).into_iter().chain(inherent).min()?;
            // JSON numbers are exact up to 2^53 (RFC 8620 §1.3).
            Some((used.of(resource), limit).map_both(|number| number.min((1 << 53) - 1)))
        }))
    }

    /// The state string of these values.
    pub(crate) fn state(&self) -> State {
        let each = KINDS.iter().zip(self.0).filter_map(|((_, letter, ..), values)| {
            values.map(|(used, limit)| format!("{letter}{used:x}.{limit:x}"))
        });
        let parts: Vec<String> = each.collect();
        State::new(format!("q{}", parts.join("-")))
    }

    /// Parses a state string. `None` if the server never made it.
    pub(super) fn of_state(state: &State) -> Option<Self> {
        let mut values = Values::default();
        for part in state.as_str().strip_prefix('q')?.split('-').filter(|part| !part.is_empty()) {
            let (letter, numbers) = part.split_at_checked(1)?;
            let kind = KINDS.iter().position(|(_, known, ..)| letter.starts_with(*known))?;
            let (used, limit) = numbers.split_once('.')?;
            values.0[kind] =
                Some((u64::from_str_radix(used, 16).ok()?, u64::from_str_radix(limit, 16).ok()?));
        }
        (values.state() == *state).then_some(values)
    }

    /// The quotas with their ids.
    pub(super) fn quotas(&self) -> Vec<(Id, Quota)> {
        let each = KINDS.iter().zip(self.0).filter_map(|((_, _, id, name, counted, of), values)| {
            let ((used, hard_limit), id) = (values?, Id::new(*id)?);
            let quota = Quota {
                id: Some(id.clone()),
                resource_type: Some(*counted),
                used: Some(used),
                hard_limit: Some(hard_limit),
                scope: Some(QuotaScope::Account),
                name: Some((*name).to_owned()),
                types: Some(of.iter().map(|name| (*name).to_owned()).collect()),
                warn_limit: Some(None),
                soft_limit: Some(None),
                description: Some(None),
            };
            Some((id, quota))
        });
        each.collect()
    }

    /// The changes from these values, which the client has, to `now`: the first `most` kinds that changed,
    /// and the values that the client has after them.
    pub(super) fn changes(&self, now: &Values, most: usize) -> (Vec<(Id, Change)>, Values) {
        let (mut changes, mut upto) = (Vec::new(), *self);
        for (kind, (_, _, id, ..)) in KINDS.iter().enumerate() {
            let change = match (self.0[kind], now.0[kind]) {
                (None, Some(_)) => Change::Created,
                (Some(_), None) => Change::Destroyed,
                (Some((used, limit)), Some((now, limit_now))) if (used, limit) != (now, limit_now) => {
                    if limit == limit_now { Change::Used } else { Change::Updated }
                }
                _ => continue,
            };
            if changes.len() < most {
                changes.extend(Id::new(*id).map(|id| (id, change)));
                upto.0[kind] = now.0[kind];
            }
        }
        (changes, upto)
    }
}

/// Maps both halves of a pair.
trait MapBoth<T> {
    fn map_both(self, change: impl Fn(T) -> T) -> Self;
}

impl<T> MapBoth<T> for (T, T) {
    fn map_both(self, change: impl Fn(T) -> T) -> Self {
        (change(self.0), change(self.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_its_values() {
        let values = Values([Some((0x2f, 1000)), None, Some((6, 10_000))]);
        assert_eq!(values.state().as_str(), "qs2f.3e8-x6.2710");
        assert_eq!(Values::of_state(&values.state()), Some(values));
        assert_eq!(Values::of_state(&State::new("q")), Some(Values::default()));
        for bad in ["", "0", "qs", "qs1", "qs1.1-", "qx1.1-s1.1", "qs1.1-s1.1", "qs01.1", "qé1.1", "qs+1.1"]
        {
            assert_eq!(Values::of_state(&State::new(bad)), None, "{bad}");
        }
    }

    #[test]
    fn changes_come_in_parts_that_lead_to_the_end() {
        let before = Values([Some((1, 10)), Some((1, 10)), None]);
        let now = Values([Some((2, 10)), None, Some((6, 9))]);
        let (mut at, mut all) = (before, Vec::new());
        while at != now {
            let (changes, upto) = at.changes(&now, 1);
            all.extend(changes.into_iter().map(|(id, change)| (id.to_string(), change)));
            at = upto;
        }
        let id = str::to_owned;
        assert_eq!(
            all,
            [
                (id("storage"), Change::Used),
                (id("messages"), Change::Destroyed),
                (id("mailboxes"), Change::Created)
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn any_state_is_read_or_refused(text in "q([smx]?[0-9a-f]{0,3}\\.?[0-9a-f]{0,17}-?){0,4}|.*") {
            let state = State::new(text);
            if let Some(values) = Values::of_state(&state) {
                proptest::prop_assert_eq!(values.state(), state);
            }
        }
    }
}
