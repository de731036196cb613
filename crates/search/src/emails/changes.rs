//! Changes of a query's results since a client's state (RFC 8620 §5.6).
//!
//! Unchanged emails are in the results before and after, in the same order. So the client removes the changed
//! ones, and inserts those of them that are results now. The first result of a thread with a changed email
//! may differ: before, it was either the first unchanged one or a changed one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sealpost_account::ThreadId;
use sealpost_base::ObjectId;
use sealpost_mailbox::account_changes::LogPositions;

use super::EmailsView;
use super::list::{Entry, entries_of};
use super::patch::{UnknownChanges, affected};

/// The requested part of the changes.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Only the first result of each thread counts.
    pub collapsed: bool,
    /// The last result that the client has.
    pub up_to: Option<ObjectId>,
    /// The most changed emails; more are too many.
    pub most: usize,
}

/// Changes of results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmailChanges {
    /// Emails that may have been results, and are not or have moved.
    pub removed: Vec<ObjectId>,
    /// Emails among them that are results now, with their indices, in order.
    pub added: Vec<(usize, ObjectId)>,
}

impl EmailsView<'_> {
    /// The changes since these positions.
    ///
    /// # Errors
    /// If they are too old, or there are too many changes.
    pub fn changes(&self, since: &LogPositions, bounds: Bounds) -> Result<EmailChanges, UnknownChanges> {
        let mut affected = affected(self.logs, self.plan, since, bounds.most)?;
        if self.plan.is_lasting {
            // For such a query only added and removed emails matter.
            affected.emails.retain(|object, was_there| !*was_there || !self.is_one_and_there(*object));
        }
        let changed: HashMap<Entry, ObjectId> = affected
            .emails
            .keys()
            .flat_map(|object| entries_of(self.logs, *object).map(|entry| (entry, *object)))
            .collect();
        let were_there = affected.emails.iter().filter(|(_, was_there)| **was_there);
        let mut removed: BTreeSet<ObjectId> = were_there.map(|(object, _)| *object).collect();
        let mut added: BTreeMap<usize, ObjectId> = BTreeMap::new();
        if bounds.collapsed {
            self.changed_firsts(&affected.threads, &changed, &affected.emails, &mut removed, &mut added);
        } else {
            let results = self.list.entries().enumerate();
            added.extend(results.filter_map(|(at, (entry, _))| Some((at, *changed.get(&entry)?))));
        }
        let last = bounds.up_to.filter(|_| self.plan.is_lasting);
        if let Some(last) = last.and_then(|object| self.index(object, bounds.collapsed)) {
            added.retain(|at, _| *at <= last);
        }
        Ok(EmailChanges { removed: removed.into_iter().collect(), added: added.into_iter().collect() })
    }

    /// Whether the email is a single message that is visible.
    fn is_one_and_there(&self, object: ObjectId) -> bool {
        let mut entries = entries_of(self.logs, object);
        let is_visible = |entry: Entry| {
            let number = sealpost_account::MessageNumber(entry.number);
            self.logs.get(usize::from(entry.log)).is_some_and(|(_, state)| state.is_visible(number))
        };
        entries.next().is_some_and(is_visible) && entries.next().is_none()
    }

    /// The first results of threads that may have had another one before.
    fn changed_firsts(
        &self,
        threads: &BTreeSet<ThreadId>,
        changed: &HashMap<Entry, ObjectId>,
        emails: &BTreeMap<ObjectId, bool>,
        removed: &mut BTreeSet<ObjectId>,
        added: &mut BTreeMap<usize, ObjectId>,
    ) {
        let members: HashMap<Entry, ThreadId> =
            threads.iter().flat_map(|thread| super::patch::members(self.logs, *thread)).collect();
        // The first result of each thread with its index, and its first unchanged result.
        let mut firsts: BTreeMap<ThreadId, (usize, Entry, Option<Entry>)> = BTreeMap::new();
        let mut index = 0;
        for (entry, is_first) in self.list.entries() {
            if let Some(thread) = members.get(&entry) {
                let first = firsts.entry(*thread).or_insert((index, entry, None));
                if first.2.is_none() && !changed.contains_key(&entry) {
                    first.2 = Some(entry);
                }
            }
            index += usize::from(is_first);
        }
        // Threads with a changed email that may have been a result before.
        let had: BTreeSet<ThreadId> = changed
            .iter()
            .filter(|(_, object)| emails.get(object).copied().unwrap_or(false))
            .filter_map(|(entry, _)| entry.thread(self.logs))
            .collect();
        let gone = emails.iter().any(|(object, was)| *was && entries_of(self.logs, *object).next().is_none());
        for (thread, (at, first, unchanged)) in firsts {
            let Some(object) = first.object(self.logs) else { continue };
            let may_be_the_same = unchanged == Some(first) && !had.contains(&thread) && !gone;
            if may_be_the_same {
                // It was the first one before as well: only new emails follow it.
                continue;
            }
            if let Some(unchanged) = unchanged.and_then(|entry| entry.object(self.logs)) {
                removed.insert(unchanged);
            }
            added.insert(at, object);
        }
    }
}
