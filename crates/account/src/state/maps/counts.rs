//! How many messages and threads each mailbox has, and how many of them are unread (RFC 8621 §2),
//! kept up with every change.
//!
//! A message counts where it has a visible placement, once in each mailbox. It is unread if its
//! keywords ([`AccountState::email_flags`]) have neither `$seen` nor `$draft`. A thread is unread
//! in every mailbox that has a message of it if any message of it is; but messages that are in the
//! trash alone do not make it so elsewhere, and others not in the trash.
//!
//! A thread's contribution to the counts depends only on its messages: a change subtracts the old
//! contribution of the threads it touches, and adds the new one. A change of many messages drops
//! the counts instead; they are rebuilt on demand.

use std::collections::{BTreeMap, BTreeSet};

use sealpost_base::{MailboxId, limits};

use super::super::flags::{FlagSet, KeywordId};
use super::super::messages::MessageNumber;
use super::{Maps, placements_of};
use crate::event::{SpecialUse, SystemFlags};
use crate::state::visible::shows;
use crate::state::{AccountState, Row};
use crate::thread::ThreadId;

/// Messages that a change may touch for the counts to be kept.
const FEW: usize = 4096;

/// What is in a mailbox for JMAP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MailboxCounts {
    /// Messages with a visible placement there.
    pub total_emails: u32,
    /// Those of them that are unread.
    pub unread_emails: u32,
    /// Threads of which a message is there.
    pub total_threads: u32,
    /// Those of them that are unread.
    pub unread_threads: u32,
}

/// The counts of all mailboxes that have any.
#[derive(Clone, Default)]
pub(super) struct Counts(BTreeMap<MailboxId, MailboxCounts>);

/// Threads that a change touches, of which the counts have nothing meanwhile.
#[must_use]
pub(in crate::state) struct Recount(Vec<ThreadId>);

impl Counts {
    pub(super) fn of(&self, mailbox: MailboxId) -> MailboxCounts {
        self.0.get(&mailbox).copied().unwrap_or_default()
    }

    /// Counts everything, one thread after the other.
    pub(super) fn of_all(state: &AccountState) -> Self {
        let mut counts = Counts::default();
        let Some(maps) = &state.maps else { return counts };
        let trash = state.trash();
        let mut last = None;
        for number in maps.threads.all() {
            let thread = state.messages.thread(MessageNumber(number));
            if let Some(thread) = thread.filter(|thread| last.replace(*thread) != Some(*thread)) {
                counts.change(&adds(state, maps, thread, trash), |count, by| *count += by);
            }
        }
        counts
    }

    fn change(&mut self, by: &BTreeMap<MailboxId, MailboxCounts>, change: impl Fn(&mut u32, u32)) {
        for (mailbox, by) in by {
            let counts = self.0.entry(*mailbox).or_default();
            change(&mut counts.total_emails, by.total_emails);
            change(&mut counts.unread_emails, by.unread_emails);
            change(&mut counts.total_threads, by.total_threads);
            change(&mut counts.unread_threads, by.unread_threads);
            if *counts == MailboxCounts::default() {
                self.0.remove(mailbox);
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        // With its part of the tree's nodes.
        self.0.len() * 48
    }
}

/// What a thread adds to the counts: of a thread of very many messages, the first [`limits::THREAD_COUNTED`].
fn adds(
    state: &AccountState,
    maps: &Maps,
    thread: ThreadId,
    trash: Option<MailboxId>,
) -> BTreeMap<MailboxId, MailboxCounts> {
    let mut adds: BTreeMap<MailboxId, MailboxCounts> = BTreeMap::new();
    let (mut unread_in_trash, mut unread_elsewhere) = (false, false);
    let key = |number| super::thread_key(&state.messages, number);
    for number in maps.threads.with_key(thread.0, key).take(limits::THREAD_COUNTED).map(MessageNumber) {
        let Some(email) = visible_in(state, maps, number) else { continue };
        for mailbox in &email.mailboxes {
            let counts = adds.entry(*mailbox).or_default();
            counts.total_emails += 1;
            counts.unread_emails += u32::from(email.unread);
            counts.total_threads = 1;
            let in_trash = Some(*mailbox) == trash;
            unread_in_trash |= email.unread && in_trash;
            unread_elsewhere |= email.unread && !in_trash;
        }
    }
    for (mailbox, counts) in &mut adds {
        let unread = if Some(*mailbox) == trash { unread_in_trash } else { unread_elsewhere };
        counts.unread_threads = u32::from(unread);
    }
    adds
}

/// A message as the counts see it.
struct Email {
    mailboxes: BTreeSet<MailboxId>,
    unread: bool,
}

fn visible_in(state: &AccountState, maps: &Maps, number: MessageNumber) -> Option<Email> {
    if state.messages.visible(number) == 0 {
        return None;
    }
    let (mut mailboxes, mut flags) = (BTreeSet::new(), None);
    for (mailbox, row) in visible_rows(state, maps, number) {
        mailboxes.insert(mailbox);
        flags = Some(shown(flags, state.flags.set(row.flags).system));
    }
    let flags = flags?;
    let unread = !flags.contains(SystemFlags::SEEN) && !flags.contains(SystemFlags::DRAFT);
    Some(Email { mailboxes, unread })
}

/// The visible placements of a message, of the first [`limits::PLACEMENTS_COUNTED`] that it has.
fn visible_rows<'a>(
    state: &'a AccountState,
    maps: &'a Maps,
    number: MessageNumber,
) -> impl Iterator<Item = (MailboxId, Row)> + 'a {
    let placements = placements_of(maps, number).take(limits::PLACEMENTS_COUNTED);
    let rows =
        placements.filter_map(|(mailbox, uid)| Some((mailbox, state.mailboxes.get(&mailbox)?.row(uid)?)));
    rows.filter(|(_, row)| shows(state.flags.set(row.flags).system))
}

/// The flags of a message with one more visible placement: `\Seen` if all have it, the others if
/// any has.
fn shown(before: Option<SystemFlags>, more: SystemFlags) -> SystemFlags {
    let Some(before) = before else { return more };
    let both = before.with(more);
    let seen = before.contains(SystemFlags::SEEN) && more.contains(SystemFlags::SEEN);
    if seen { both } else { both.without(SystemFlags::SEEN) }
}

impl AccountState {
    /// The flags that JMAP shows of a message: `\Seen` if all of its visible placements have it,
    /// any other flag or keyword if one of them has. `None` if it has none, or there are no maps.
    pub fn email_flags(&self, message: MessageNumber) -> Option<FlagSet> {
        let maps = self.maps.as_deref()?;
        let mut shown_flags = None;
        let mut keywords: Vec<KeywordId> = Vec::new();
        for (_, row) in visible_rows(self, maps, message) {
            let flags = self.flags.set(row.flags);
            shown_flags = Some(shown(shown_flags, flags.system));
            keywords.extend(&flags.keywords);
        }
        keywords.sort_unstable();
        keywords.dedup();
        shown_flags.map(|system| FlagSet { system, keywords })
    }

    fn trash(&self) -> Option<MailboxId> {
        self.mailbox_for(SpecialUse::Trash).map(|mailbox| mailbox.id)
    }

    /// Before a change of placements of these messages, of which there are about `many`: call
    /// [`AccountState::recounted`] after it.
    pub(in crate::state) fn recount(
        &mut self,
        many: usize,
        touched: impl FnOnce(&AccountState) -> Vec<MessageNumber>,
    ) -> Recount {
        if !self.has_maps() {
            return Recount(Vec::new());
        }
        if many > FEW {
            self.forget_counts();
            return Recount(Vec::new());
        }
        let numbers = touched(self);
        let mut threads: Vec<_> = numbers.iter().filter_map(|number| self.messages.thread(*number)).collect();
        threads.sort_unstable();
        threads.dedup();
        self.count_threads(&threads, |count, by| *count = count.saturating_sub(by));
        Recount(threads)
    }

    /// The change was made.
    pub(in crate::state) fn recounted(&mut self, recount: Recount) {
        self.count_threads(&recount.0, |count, by| *count = count.saturating_add(by));
    }

    fn count_threads(&mut self, threads: &[ThreadId], change: impl Fn(&mut u32, u32)) {
        if threads.is_empty() {
            return;
        }
        let Some(mut maps) = self.maps.take() else { return };
        if let Some(mut counts) = maps.counts.take() {
            let trash = self.trash();
            for thread in threads {
                counts.change(&adds(self, &maps, *thread, trash), &change);
            }
            maps.counts = Some(counts);
        }
        self.maps = Some(maps);
    }

    /// All must be counted again.
    pub(in crate::state) fn forget_counts(&mut self) {
        if let Some(maps) = &mut self.maps {
            maps.counts = None;
        }
    }
}
