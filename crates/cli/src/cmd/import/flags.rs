//! Flags as an archive has them, as the account can keep them.

use sealpost_account::state::FlagRoom;
use sealpost_account::{Account, Event, FlagAction, Flags, SystemFlags};
use sealpost_base::{MailboxId, Result, Uid, UidSet, limits};

use super::known::At;

/// System flags and keywords; what cannot be either (`\Recent`, an empty or endless word) is left out.
pub fn flags(names: &[String]) -> Flags {
    let mut flags = Flags::default();
    for name in names {
        if let Some(system) = SystemFlags::named(name) {
            flags.system = flags.system.with(system);
        } else if is_keyword(name) && flags.keywords.len() < limits::FLAG_SET_KEYWORDS {
            flags.keywords.push(name.clone());
        }
    }
    flags
}

/// RFC 3501 §9: `flag-keyword` is an atom.
fn is_keyword(word: &str) -> bool {
    let atom = |b: u8| b.is_ascii_graphic() && !b"(){%*\"\\]".contains(&b);
    !word.is_empty() && word.len() <= limits::KEYWORD_BYTES && word.bytes().all(atom)
}

/// Whether two lists are the same flags, in any order and case (RFC 3501 §2.3.2).
fn are_same(one: &Flags, other: &Flags) -> bool {
    let among = |a: &Flags, b: &Flags| {
        a.keywords.iter().all(|word| b.keywords.iter().any(|other| other.eq_ignore_ascii_case(word)))
    };
    one.system == other.system && among(one, other) && among(other, one)
}

/// Flags that messages are to have instead of theirs.
#[derive(Default)]
pub struct FlagUpdates(Vec<(MailboxId, Uid, Flags)>);

impl FlagUpdates {
    /// Whether a message has other flags than an archive says; notes those of the archive if it is
    /// to get them.
    pub fn compare(&mut self, account: &Account, (mailbox, uid): At, names: &[String], update: bool) -> bool {
        let state = account.state();
        let Some(row) = state.mailbox(mailbox).and_then(|m| m.row(uid)) else { return false };
        let flags = flags(names);
        let differs = !are_same(&flags, &state.flags_by_name(row.flags));
        if differs && update {
            self.0.push((mailbox, uid, flags));
        }
        differs
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Writes them as one log entry; returns their number. Flags beyond the account's limits are
    /// left out.
    ///
    /// # Errors
    /// What the store says.
    pub async fn write(&mut self, account: &Account) -> Result<u64> {
        let updates = std::mem::take(&mut self.0);
        let committed = account
            .commit(|state| {
                let mut room = FlagRoom::new(state);
                let fit = updates.iter().filter_map(|(mailbox, uid, flags)| {
                    let (mailbox, uids, action) = (*mailbox, UidSet::range(*uid, *uid), FlagAction::Replace);
                    room.change(mailbox, &uids, action, flags).ok()?;
                    let flags = flags.clone();
                    Some(Event::FlagsStored { mailbox, uids, action, flags, unchanged_since: None })
                });
                let events: Vec<_> = fit.collect();
                let count = events.len() as u64;
                Ok((events, count))
            })
            .await?;
        Ok(committed.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_flags_are_mapped() {
        let names = ["\\Seen", "\\Recent", "$Forwarded", "a b", "", "\\flagged"].map(str::to_owned);
        let kept = flags(&names);
        assert_eq!(kept.system, SystemFlags::SEEN.with(SystemFlags::FLAGGED));
        assert_eq!(kept.keywords, ["$Forwarded"]);
        let same = flags(&["\\Flagged", "$forwarded", "\\Seen"].map(str::to_owned));
        assert!(are_same(&kept, &same) && !are_same(&kept, &flags(&names[..1])));
    }
}
