//! Scans all messages of an account, or of a mailbox, and decides from the state which emails match.
//!
//! A scan keeps eight bytes for each placement, and a number per comparator for each match. It borrows the
//! state for some thousand rows at a time, so its result belongs to no single moment: changes meanwhile are
//! checked again ([`super::patch`]). Emails that may consist of several messages are deferred, and decided
//! one by one ([`decide_deferred`]).

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use sealpost_account::state::FlagSetId;
use sealpost_account::{Account, AccountState, MessageNumber, SystemFlags, ThreadId};
use sealpost_base::{MailboxId, ObjectId, Uid, limits};

use super::contents::Places;
use super::facts::FactReader;
use super::list::{Entry, Logs, entries_of};
use super::plan::{Facts, KeywordBits, Plan, Verdicts};
use super::query::{EmailKeyword, MailboxPlace};

/// Rows, or messages, to process while the states are borrowed.
const STEP_ROWS: usize = 4096;
/// The highest possible UID.
const LAST_UID: Uid = Uid(NonZeroU32::MAX);
/// Replaces the [`Shown`] of a row whose placement is invisible.
const INVISIBLE: u32 = u32::MAX;

/// For each condition on content, the messages for which it holds, sorted.
pub(super) type KnownContents = Vec<Vec<Entry>>;

/// The verdicts on the content of a message that was examined.
pub(super) fn verdicts(contents: &KnownContents, entry: Entry) -> Verdicts {
    let holds = contents.iter().enumerate().filter(|(_, known)| known.binary_search(&entry).is_ok());
    Verdicts { decided: u64::MAX, holds: holds.fold(0, |bits, (at, _)| bits | 1 << at) }
}

/// What a scan finds.
#[derive(Default)]
pub(super) struct Scanned {
    /// The messages that match.
    pub(super) entries: Vec<Entry>,
    /// The keys of each match by the comparators, concatenated.
    pub(super) keys: Vec<u64>,
    /// Messages that only their content decides, if the contents were not examined yet.
    pub(super) undecided: Places,
    /// Emails that may consist of several messages.
    pub(super) deferred: Vec<ObjectId>,
}

impl Scanned {
    /// Adds another result.
    pub(super) fn add(&mut self, other: Scanned) {
        self.entries.extend(other.entries);
        self.keys.extend(other.keys);
        for (place, uids) in other.undecided {
            let known = self.undecided.entry(place).or_default();
            *known = known.union(&uids);
        }
    }
}

/// Decides deferred emails, from all messages of each.
pub(super) fn decide_deferred(
    logs: &Logs<'_>,
    plan: &Plan,
    objects: &[ObjectId],
    contents: Option<&KnownContents>,
) -> Scanned {
    let mut found = Scanned::default();
    let mut reader = FactReader::new(logs, plan);
    for object in objects {
        let Some(email) = reader.email(*object) else { continue };
        let known = contents.map_or(Verdicts::default(), |contents| verdicts(contents, email.entry));
        match plan.matches(&email.facts(), known) {
            Some(true) => {
                found.entries.push(email.entry);
                found.keys.extend(plan.sort.iter().map(|comparator| comparator.number(&email.facts())));
            }
            Some(false) => {}
            None => {
                let Entry { log, number } = email.entry;
                if let Some((mailbox, uid)) = visible_place(logs[usize::from(log)].1, number) {
                    found.undecided.entry((log, mailbox)).or_default().insert(uid);
                }
            }
        }
    }
    found
}

/// A scan of the logs of an account.
pub(super) struct Scan {
    pub(super) logs: Vec<Arc<Account>>,
    pub(super) plan: Arc<Plan>,
    /// `None` before they were examined.
    pub(super) contents: Option<Arc<KnownContents>>,
}

/// A placement: the number of the message, and the index of its [`Shown`].
type PlacementRow = [u32; 2];

/// A mailbox, and the bits of keywords in the plan.
type Shown = (MailboxPlace, u64);

/// The placements of a log, by message.
struct Placements {
    rows: Vec<PlacementRow>,
    shown: Vec<Shown>,
}

/// The visible data of one message.
#[derive(Default)]
struct Email {
    number: u32,
    mailboxes: Vec<MailboxPlace>,
    keywords: KeywordBits,
    is_visible: bool,
}

/// The number of placements in a scan, and of messages that may be copies of others.
pub(super) fn size(logs: &Logs<'_>, plan: &Plan) -> (usize, usize) {
    let mut rows = 0;
    for (log, state) in logs {
        let mailboxes =
            state.mailboxes().filter(|mailbox| plan.only.is_none_or(|only| only == (*log, mailbox.id())));
        rows += mailboxes.map(|mailbox| mailbox.len()).sum::<usize>();
    }
    (rows, logs.iter().map(|(_, state)| state.copied_objects().len()).sum())
}

/// The estimated maximum memory of a scan of that many placements, and of the sort of its matches.
pub(super) fn bytes((rows, copied): (usize, usize), plan: &Plan) -> usize {
    let keys = 8 * plan.sort.len();
    // An entry and its keys; first the row and data about threads, later its index in the order.
    let scan = 8 + if plan.threads { 48 } else { 0 };
    rows * (8 + keys + scan.max(12)) + copied * size_of::<ObjectId>()
}

impl Scan {
    /// Runs the scan. Blocks the thread.
    pub(super) fn run(&self) -> Scanned {
        let copied = self.copied();
        let logs: Vec<Placements> = (0..self.logs.len()).map(|log| self.placements(log)).collect();
        let threads = if self.plan.threads { self.threads(&logs, &copied) } else { Threads::default() };
        let rows: usize = logs.iter().map(|placements| placements.rows.len()).sum();
        let mut found = Scanned {
            entries: Vec::with_capacity(rows),
            keys: Vec::with_capacity(rows * self.plan.sort.len()),
            ..Scanned::default()
        };
        let mut places = Vec::new();
        for (log, placements) in logs.iter().enumerate() {
            self.each_email(log, placements, |states, email| {
                let entry = Entry { log: log as u16, number: email.number };
                self.decide(states, entry, email, (&copied, &threads), &mut found, &mut places);
            });
        }
        found.deferred.sort_unstable();
        found.deferred.dedup();
        places.sort_unstable();
        for (log, mailbox, uid) in places {
            found.undecided.entry((log, mailbox)).or_default().push(uid);
        }
        found
    }

    /// Objects that several messages may have.
    fn copied(&self) -> Vec<ObjectId> {
        let mut copied: Vec<ObjectId> = Vec::new();
        for log in &self.logs {
            copied.extend(log.state().copied_objects());
        }
        copied.sort_unstable();
        copied.dedup();
        copied
    }

    /// The placements of a log, or of the only mailbox that matters.
    fn placements(&self, log: usize) -> Placements {
        let account = &self.logs[log];
        let ids: Vec<MailboxId> = account.state().mailboxes().map(|mailbox| mailbox.id()).collect();
        let rows = ids.iter().filter(|id| self.is_scanned(log, **id));
        let rows = rows.filter_map(|id| Some(account.state().mailbox(*id)?.len())).sum();
        let mut placements = Placements { rows: Vec::with_capacity(rows), shown: Vec::new() };
        let mut known: HashMap<Shown, u32> = HashMap::new();
        for id in ids {
            let place = (account.id(), id);
            if !self.is_scanned(log, id) {
                continue;
            }
            let mut next = Some(Uid::MIN);
            while let Some(first) = next {
                let state = account.state();
                let Some(mailbox) = state.mailbox(id) else { break };
                let mut by_flags: HashMap<FlagSetId, u32> = HashMap::new();
                let mut rows = mailbox.rows(first..=LAST_UID);
                for row in rows.by_ref().take(STEP_ROWS) {
                    let shown = *by_flags.entry(row.flags).or_insert_with(|| {
                        let Some(bits) = self.bits(&state, row.flags) else { return INVISIBLE };
                        let shown = (place, bits);
                        *known.entry(shown).or_insert_with(|| {
                            placements.shown.push(shown);
                            placements.shown.len() as u32 - 1
                        })
                    });
                    placements.rows.push([row.message.0, shown]);
                }
                next = rows.next().map(|row| row.uid);
            }
        }
        placements.rows.sort_unstable();
        placements
    }

    /// Whether a mailbox of that log matters.
    fn is_scanned(&self, log: usize, mailbox: MailboxId) -> bool {
        self.plan.only.is_none_or(|only| only == (self.logs[log].id(), mailbox))
    }

    /// The bits of the keywords of a placement; `None` if it is not visible.
    fn bits(&self, state: &AccountState, flags: FlagSetId) -> Option<u64> {
        let flags = state.flags(flags);
        if flags.system.contains(SystemFlags::DELETED) {
            return None;
        }
        Some(self.plan.bits(|keyword| match keyword {
            EmailKeyword::System(flag) => flags.system.contains(*flag),
            EmailKeyword::Named(name) => state.keyword(name).is_some_and(|id| flags.has(id)),
        }))
    }

    /// Calls `each` for the messages of a log, with the states of all logs.
    fn each_email(&self, log: usize, placements: &Placements, mut each: impl FnMut(&Logs<'_>, &Email)) {
        let seen = self.plan.seen_bit();
        let mut groups = placements.rows.chunk_by(|a, b| a[0] == b[0]).peekable();
        let mut email = Email::default();
        while groups.peek().is_some() {
            let states: Vec<_> = self.logs.iter().map(|log| (log.id(), log.state())).collect();
            let states: Vec<_> = states.iter().map(|(id, state)| (*id, &**state)).collect();
            debug_assert!(log < states.len());
            for group in groups.by_ref().take(STEP_ROWS) {
                email.gather(group, &placements.shown, seen);
                if email.is_visible {
                    each(&states, &email);
                }
            }
        }
    }

    /// The keywords of all threads, except those with copied emails.
    fn threads(&self, logs: &[Placements], copied: &[ObjectId]) -> Threads {
        let mut threads = Threads::default();
        for (log, placements) in logs.iter().enumerate() {
            self.each_email(log, placements, |states, email| {
                let Some(fields) = states[log].1.message_fields(MessageNumber(email.number)) else { return };
                if email.is_deferred() || copied.binary_search(&fields.first_object).is_ok() {
                    threads.deferred.insert(fields.thread);
                }
                let bits = threads.keywords.entry(fields.thread).or_insert((u64::MAX, 0));
                *bits = (bits.0 & email.keywords.own, bits.1 | email.keywords.own);
            });
        }
        threads
    }

    fn decide(
        &self,
        states: &Logs<'_>,
        entry: Entry,
        email: &Email,
        (copied, threads): (&[ObjectId], &Threads),
        found: &mut Scanned,
        places: &mut Vec<(u16, MailboxId, Uid)>,
    ) {
        let state = states[usize::from(entry.log)].1;
        let Some(fields) = state.message_fields(MessageNumber(entry.number)) else { return };
        let object = fields.first_object;
        let is_copied = copied.binary_search(&object).is_ok() && entries_of(states, object).nth(1).is_some();
        if is_copied || email.is_deferred() || threads.deferred.contains(&fields.thread) {
            found.deferred.push(object);
            return;
        }
        let (all, some) = threads.keywords.get(&fields.thread).copied().unwrap_or_default();
        let facts = Facts {
            received: fields.received,
            size: fields.size,
            mailboxes: &email.mailboxes,
            keywords: KeywordBits { own: email.keywords.own, all, some },
        };
        match self.plan.matches(&facts, self.verdicts(entry)) {
            Some(true) => {
                found.entries.push(entry);
                found.keys.extend(self.plan.sort.iter().map(|comparator| comparator.number(&facts)));
            }
            Some(false) => {}
            None => places
                .extend(visible_place(state, entry.number).map(|(mailbox, uid)| (entry.log, mailbox, uid))),
        }
    }

    fn verdicts(&self, entry: Entry) -> Verdicts {
        self.contents.as_ref().map_or(Verdicts::default(), |contents| verdicts(contents, entry))
    }
}

/// The keywords of threads: those of all their emails, and of some.
#[derive(Default)]
struct Threads {
    keywords: HashMap<ThreadId, (u64, u64)>,
    /// Threads with emails that may consist of several messages.
    deferred: HashSet<ThreadId>,
}

impl Email {
    /// The message with these placements.
    fn gather(&mut self, rows: &[PlacementRow], shown: &[Shown], seen: u64) {
        self.mailboxes.clear();
        self.number = rows[0][0];
        let (mut all, mut some) = (u64::MAX, 0);
        for [_, index] in rows.iter().filter(|row| row[1] != INVISIBLE) {
            let (place, bits) = shown[*index as usize];
            if self.mailboxes.last() != Some(&place) {
                self.mailboxes.push(place);
            }
            (all, some) = (all & bits, some | bits);
        }
        self.is_visible = !self.mailboxes.is_empty();
        self.keywords.own = some & !seen | all & seen;
        if rows.len() > limits::PLACEMENTS_COUNTED {
            // Too many: not all count.
            self.mailboxes.clear();
        }
    }

    fn is_deferred(&self) -> bool {
        self.mailboxes.is_empty()
    }
}

/// A placement of the message that is visible.
pub(super) fn visible_place(state: &AccountState, number: u32) -> Option<(MailboxId, Uid)> {
    let mut places = state.maps()?.placements(MessageNumber(number));
    places.find(|(mailbox, uid)| {
        let row = state.mailbox(*mailbox).and_then(|mailbox| mailbox.row(*uid));
        row.is_some_and(|row| !state.flags(row.flags).system.contains(SystemFlags::DELETED))
    })
}
