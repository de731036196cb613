//! Whether flags can be stored: flags that [`super::AccountState::apply`] would leave out because
//! of a limit are refused before they are logged, for all messages of a change together.

use std::collections::{HashMap, HashSet};

use sealpost_base::{Error, MailboxId, Result, UidSet, limits};

use super::AccountState;
use super::flags::{FlagSet, FlagSetId, FlagTable, KeywordId};
use crate::event::{FlagAction, Flags};

/// Counts the keywords and sets of flags that a change would add to an account.
pub struct FlagRoom<'a> {
    state: &'a AccountState,
    /// Keywords that the account does not have yet, in lower case, under the numbers they would get.
    new_keywords: HashMap<String, KeywordId>,
    /// Sets that the account may not have yet.
    new_sets: HashSet<FlagSet>,
    /// Keywords of all those sets together.
    new_set_keywords: usize,
}

impl<'a> FlagRoom<'a> {
    /// The free space for flags in that state.
    pub fn new(state: &'a AccountState) -> Self {
        FlagRoom { state, new_keywords: HashMap::new(), new_sets: HashSet::new(), new_set_keywords: 0 }
    }

    /// One more message has these flags.
    ///
    /// # Errors
    /// `Limit`, saying which.
    pub fn add(&mut self, flags: &Flags) -> Result<()> {
        let set = self.set_of(flags)?;
        self.add_set(set)
    }

    /// Messages of a mailbox change their flags.
    ///
    /// # Errors
    /// `Limit`, saying which.
    pub fn change(
        &mut self,
        mailbox: MailboxId,
        uids: &UidSet,
        action: FlagAction,
        flags: &Flags,
    ) -> Result<()> {
        let flags = match action {
            // Flags that no placement has cannot be removed.
            FlagAction::Remove => self.known(flags),
            FlagAction::Add | FlagAction::Replace => self.set_of(flags)?,
        };
        let Some(mailbox) = self.state.mailbox(mailbox) else { return Ok(()) };
        let mut seen: HashSet<FlagSetId> = HashSet::new();
        let mut before = None;
        for row in uids.ranges().flat_map(|(first, last)| mailbox.rows(first..=last)) {
            // Neighbours mostly have the same.
            if before.replace(row.flags) != Some(row.flags) && seen.insert(row.flags) {
                let before = self.state.flags(row.flags);
                let after = before.after(action, &flags);
                // A union that was cut is smaller than its parts.
                if action == FlagAction::Add && !flags.keywords.iter().all(|k| after.has(*k)) {
                    return Err(too_many_keywords());
                }
                if after != *before {
                    self.add_set(after)?;
                }
            }
        }
        Ok(())
    }

    fn add_set(&mut self, set: FlagSet) -> Result<()> {
        if self.table().has_set(&set) || self.new_sets.contains(&set) {
            return Ok(());
        }
        self.new_set_keywords += set.keywords.len();
        self.new_sets.insert(set);
        if self.table().used_sets() + self.new_sets.len() > limits::FLAG_SETS
            || self.table().set_keywords() + self.new_set_keywords > limits::FLAG_SETS_KEYWORDS
        {
            return Err(Error::limit("too many different combinations of flags are in use"));
        }
        Ok(())
    }

    /// The flags as a set, with numbers for the keywords that are new.
    fn set_of(&mut self, flags: &Flags) -> Result<FlagSet> {
        let mut keywords = Vec::with_capacity(flags.keywords.len());
        for name in &flags.keywords {
            keywords.push(self.keyword(name)?);
        }
        keywords.sort_unstable();
        keywords.dedup();
        if keywords.len() > limits::FLAG_SET_KEYWORDS {
            return Err(too_many_keywords());
        }
        Ok(FlagSet { system: flags.system, keywords })
    }

    fn keyword(&mut self, name: &str) -> Result<KeywordId> {
        if name.is_empty() || name.len() > limits::KEYWORD_BYTES {
            return Err(Error::limit(format!("a keyword has 1 to {} bytes", limits::KEYWORD_BYTES)));
        }
        let lower = name.to_ascii_lowercase();
        if let Some(known) = self.state.keyword(name).or_else(|| self.new_keywords.get(&lower).copied()) {
            return Ok(known);
        }
        let next = self.state.keywords().len() + self.new_keywords.len();
        if next >= limits::KEYWORDS {
            let most = limits::KEYWORDS;
            return Err(Error::limit(format!(
                "this account has reached its limit of {most} different keywords"
            )));
        }
        let id = KeywordId(u16::try_from(next).unwrap_or(u16::MAX));
        self.new_keywords.insert(lower, id);
        Ok(id)
    }

    /// Those of the flags that some message may have.
    fn known(&self, flags: &Flags) -> FlagSet {
        let mut keywords: Vec<_> =
            flags.keywords.iter().filter_map(|name| self.state.keyword(name)).collect();
        keywords.sort_unstable();
        keywords.dedup();
        FlagSet { system: flags.system, keywords }
    }

    fn table(&self) -> &FlagTable {
        &self.state.flags
    }
}

fn too_many_keywords() -> Error {
    Error::limit(format!("a message has at most {} keywords", limits::FLAG_SET_KEYWORDS))
}

#[cfg(test)]
mod tests {
    use sealpost_base::Kind;

    use super::*;
    use crate::SystemFlags;
    use crate::event::Event;
    use crate::state::tests::{ACCOUNT, apply, message};

    fn keywords(names: std::ops::Range<usize>) -> Flags {
        Flags { system: SystemFlags::NONE, keywords: names.map(|n| format!("k{n}")).collect() }
    }

    fn stored(state: &AccountState, action: FlagAction, flags: Flags) -> Event {
        let (mailbox, uids) = (state.inbox().id(), state.inbox().uids());
        Event::FlagsStored { mailbox, uids, action, flags, unchanged_since: None }
    }

    #[test]
    fn a_flag_change_is_limited_by_the_resulting_flags() {
        let mut state = AccountState::new(ACCOUNT);
        apply(&mut state, vec![Event::delivered(message(1))]);
        let inbox = (state.inbox().id(), state.inbox().uids());
        let first = stored(&state, FlagAction::Add, keywords(0..limits::FLAG_SET_KEYWORDS));
        apply(&mut state, vec![first]);
        let room = |action, flags: &Flags| FlagRoom::new(&state).change(inbox.0, &inbox.1, action, flags);
        let one_more = keywords(1000..1001);
        assert_eq!(room(FlagAction::Add, &one_more).unwrap_err().kind(), Kind::Limit);
        room(FlagAction::Add, &keywords(3..9)).unwrap();
        room(FlagAction::Replace, &one_more).unwrap();
        room(FlagAction::Remove, &keywords(0..5000)).unwrap();
    }

    #[test]
    fn keywords_of_all_messages_of_a_change_count_together() {
        let state = AccountState::new(ACCOUNT);
        let mut room = FlagRoom::new(&state);
        for from in (0..limits::KEYWORDS).step_by(200) {
            room.add(&keywords(from..from + 200)).unwrap();
        }
        room.add(&keywords(5..6)).unwrap();
        let refused = room.add(&keywords(limits::KEYWORDS..limits::KEYWORDS + 1));
        assert_eq!(refused.unwrap_err().kind(), Kind::Limit);
    }

    #[test]
    fn keywords_of_all_sets_count_together() {
        let state = AccountState::new(ACCOUNT);
        let mut room = FlagRoom::new(&state);
        // Windows over the keywords: each is a set of its own.
        let windows = limits::FLAG_SETS_KEYWORDS / limits::FLAG_SET_KEYWORDS;
        let window = |n: usize| {
            let system = if n.is_multiple_of(2) { SystemFlags::SEEN } else { SystemFlags::FLAGGED };
            Flags { system, ..keywords(n / 2..n / 2 + limits::FLAG_SET_KEYWORDS) }
        };
        (0..windows).for_each(|n| room.add(&window(n)).unwrap());
        room.add(&window(7)).unwrap();
        assert_eq!(room.add(&window(windows)).unwrap_err().kind(), Kind::Limit);
    }
}
