//! Updates a list by examining only emails that changed.
//!
//! Whether an email matches, and its position, depend on the email and on its thread. So an email without a
//! change, in itself or where it matters in its thread, keeps its position relative to others like it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use sealpost_account::{MessageNumber, ThreadId};
use sealpost_base::{AccountId, ObjectId, Position};
use sealpost_mailbox::account_changes::{self, AccountSyncPoint, LogPositions, positions};

use super::facts::{FactReader, KnownEmail};
use super::list::{EmailList, Entry, Firsts, Logs, entries_of, forgotten};
use super::plan::{Plan, Verdicts};

/// Emails to examine while the states are borrowed; with more changes, the list is made again.
pub(super) const PATCHED_EMAILS: usize = 1024;

/// Emails that changed since some positions.
#[derive(Default)]
pub(super) struct Affected {
    /// Each with whether it may have existed at those positions.
    pub(super) emails: BTreeMap<ObjectId, bool>,
    /// Their present and former threads.
    pub(super) threads: BTreeSet<ThreadId>,
}

/// Why the changes are unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownChanges {
    /// The positions are too old, or do not belong to these logs.
    TooOld,
    /// There are too many changes.
    TooMany,
}

/// The result of an update.
pub(super) enum Patched {
    /// The list is up to date.
    Current,
    /// The updated list.
    Newer(EmailList),
    /// Emails whose content must be examined.
    Undecided(Vec<(ObjectId, Entry)>),
    /// The list must be made again.
    Stale,
}

/// The emails that changed after `since`, at most `most`. For a plan with keywords of threads, with all other
/// emails of their threads.
pub(super) fn affected(
    logs: &Logs<'_>,
    plan: &Plan,
    since: &LogPositions,
    most: usize,
) -> Result<Affected, UnknownChanges> {
    let known = AccountSyncPoint::from(since.clone());
    let changes = account_changes::since::<ObjectId>(logs, &known, most.saturating_add(1))
        .ok_or(UnknownChanges::TooOld)?;
    if changes.more || changes.created.len() + changes.updated.len() + changes.destroyed.len() > most {
        return Err(UnknownChanges::TooMany);
    }
    let mut found = Affected::default();
    found.emails.extend(changes.created.iter().map(|object| (*object, false)));
    found.emails.extend(changes.updated.iter().chain(&changes.destroyed).map(|object| (*object, true)));
    for (log, state) in logs {
        let known = since.iter().find(|(known, _)| known == log).map_or(Position::ZERO, |(_, at)| at);
        let departed = state.departed_since(known).ok_or(UnknownChanges::TooOld)?;
        found.threads.extend(departed.map(|(_, thread, _)| thread));
    }
    let reader = FactReader::new(logs, plan);
    for object in found.emails.keys() {
        let threads = entries_of(logs, *object).filter_map(|entry| entry.thread(logs));
        found.threads.extend(threads);
    }
    if plan.threads {
        for thread in &found.threads {
            for object in reader.thread(*thread) {
                found.emails.entry(object).or_insert(true);
            }
            if found.emails.len() > most {
                return Err(UnknownChanges::TooMany);
            }
        }
    }
    Ok(found)
}

/// Updates a list to these logs; `verdicts` has the known results for the content of emails.
pub(super) fn patched(
    list: &EmailList,
    plan: &Plan,
    logs: &Logs<'_>,
    verdicts: &HashMap<ObjectId, Verdicts>,
) -> Patched {
    if !list.is_of(logs) {
        return Patched::Stale;
    }
    if list.upto == positions(logs) {
        return Patched::Current;
    }
    let Ok(mut affected) = affected(logs, plan, &list.upto, PATCHED_EMAILS) else { return Patched::Stale };
    let mut reader = FactReader::new(logs, plan);
    let (mut matches, mut undecided) = (Vec::new(), Vec::new());
    for object in affected.emails.keys() {
        let Some(email) = reader.email(*object) else { continue };
        affected.threads.insert(email.thread);
        match plan.matches(&email.facts(), verdicts.get(object).copied().unwrap_or_default()) {
            Some(true) => matches.push(email),
            Some(false) => {}
            None => undecided.push((*object, email.entry)),
        }
    }
    if !undecided.is_empty() {
        return Patched::Undecided(undecided);
    }
    let mut changed: HashSet<Entry> =
        affected.emails.keys().flat_map(|object| entries_of(logs, *object)).collect();
    if plan.sort.iter().all(|comparator| comparator.is_lasting()) {
        // Unchanged emails keep their order. But an email of several messages was received when the first
        // visible one was.
        let is_one = |email: &&KnownEmail| entries_of(logs, email.object).nth(1).is_none();
        let staying: HashSet<Entry> = matches.iter().filter(is_one).map(|email| email.entry).collect();
        let staying: HashSet<Entry> =
            list.entries().map(|(entry, _)| entry).filter(|entry| staying.contains(entry)).collect();
        matches.retain(|email| !staying.contains(&email.entry));
        changed.retain(|entry| !staying.contains(entry));
    }
    if plan.sorts_by_text() && !matches.is_empty() {
        return Patched::Stale;
    }
    // No object leads to a message that was dropped meanwhile.
    let forgotten = forgotten(logs);
    let any_forgotten = forgotten != list.logs;
    let is_there = |entry: Entry| !any_forgotten || entry.thread(logs).is_some();
    let kept: Vec<(Entry, bool)> =
        list.entries().filter(|(entry, _)| !changed.contains(entry) && is_there(*entry)).collect();
    let Some(merged) = merged(&kept, matches, plan, &mut reader, logs) else { return Patched::Stale };
    let members: HashMap<Entry, ThreadId> =
        affected.threads.iter().flat_map(|thread| members(logs, *thread)).collect();
    let mut newer = EmailList::new(positions(logs), forgotten, merged.len());
    newer.is_exact = list.is_exact;
    let mut firsts = Firsts::default();
    for (entry, was_first) in merged {
        let first = members.get(&entry).map_or(was_first, |thread| firsts.is_first(*thread));
        newer.push(entry, first);
    }
    Patched::Newer(newer)
}

/// All messages of a thread.
pub(super) fn members<'a>(
    logs: &'a Logs<'a>,
    thread: ThreadId,
) -> impl Iterator<Item = (Entry, ThreadId)> + 'a {
    logs.iter().enumerate().flat_map(move |(log, (_, state))| {
        let numbers = state.maps().into_iter().flat_map(move |maps| maps.thread(thread));
        numbers.map(move |MessageNumber(number)| (Entry { log: log as u16, number }, thread))
    })
}

/// The position of an email in the order of a plan without summaries.
type OrderKey = (Vec<u64>, AccountId, u32);

fn order_key(plan: &Plan, logs: &Logs<'_>, email: &KnownEmail) -> Option<OrderKey> {
    let facts = email.facts();
    let numbers = plan.sort.iter().map(|comparator| comparator.number(&facts)).collect();
    Some((numbers, logs.get(usize::from(email.entry.log))?.0, email.entry.number))
}

/// Inserts more results; `None` if one of them is no longer visible.
fn merged(
    kept: &[(Entry, bool)],
    more: Vec<KnownEmail>,
    plan: &Plan,
    reader: &mut FactReader<'_>,
    logs: &Logs<'_>,
) -> Option<Vec<(Entry, bool)>> {
    let mut more: Vec<(OrderKey, Entry)> =
        more.iter().map(|email| Some((order_key(plan, logs, email)?, email.entry))).collect::<Option<_>>()?;
    more.sort_unstable();
    let mut merged = Vec::with_capacity(kept.len() + more.len());
    let (mut from, mut is_whole) = (0, true);
    for (key, entry) in more {
        let is_before = |(other, _): &(Entry, bool)| {
            let other = other.object(logs).and_then(|object| reader.email(object));
            match other.and_then(|other| order_key(plan, logs, &other)) {
                Some(other) => other < key,
                None => {
                    is_whole = false;
                    false
                }
            }
        };
        let to = from + kept[from..].partition_point(is_before);
        merged.extend_from_slice(&kept[from..to]);
        merged.push((entry, false));
        from = to;
    }
    merged.extend_from_slice(&kept[from..]);
    is_whole.then_some(merged)
}
