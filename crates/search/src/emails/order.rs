//! Sorts the emails that a scan found.

use std::cmp::Ordering;
use std::sync::Arc;

use sealpost_account::Account;
use sealpost_base::{AccountId, Error, MailboxId, Uid, limits};
use sealpost_index::summary::{Parts, Summary, SummaryAddress};
use sealpost_mailbox::account_changes::LogPositions;
use sealpost_mime::header::subject;

use super::EmailSearch;
use super::contents::{Places, scopes};
use super::list::{EmailList, Entry, Firsts};
use super::plan::{Plan, PlannedComparator, PlannedKey};
use super::query::{Collation, EmailSortKey};
use super::scan::visible_place;
use crate::matches::Match;
use crate::progress::{Failure, Progress};
use crate::scope::{MailboxIndex, Scope};
use crate::sort::strings::Strings;
use crate::summaries::{SortRow, sent, with_summaries};

/// The least bytes of a string that are compared, however little memory there is.
const LEAST_BYTES: usize = 16;
/// Emails whose threads are looked up while the states are held.
const STEP_EMAILS: usize = 4096;

/// Emails and their keys by the comparators of a plan.
pub(super) struct Keyed {
    pub(super) entries: Vec<Entry>,
    /// As many numbers for each email as there are comparators.
    pub(super) keys: Vec<u64>,
    /// Whether all strings were compared completely.
    pub(super) is_exact: bool,
}

/// The values of one comparator that come from summaries.
enum Column {
    Numbers(Vec<i64>),
    Strings(Strings, EmailSortKey),
}

/// Adds the keys that come from summaries. Strings take about `room` bytes.
///
/// # Errors
/// `Retry` if messages are temporarily unreadable; errors of `progress`.
pub(super) async fn fill_in_texts<P: Progress>(
    keyed: &mut Keyed,
    plan: &Plan,
    search: EmailSearch<'_>,
    room: usize,
    progress: &mut P,
) -> Result<(), Failure<P::Interruption>> {
    let logs = search.logs;
    let mut places: Vec<(u16, MailboxId, Uid, u32)> = Vec::with_capacity(keyed.entries.len());
    for (step, entries) in keyed.entries.chunks(STEP_EMAILS).enumerate() {
        progress.yield_or_shutdown().await.map_err(Failure::Interrupted)?;
        let states: Vec<_> = logs.iter().map(|log| log.state()).collect();
        for (at, entry) in entries.iter().enumerate() {
            let place = visible_place(&states[usize::from(entry.log)], entry.number);
            let at = (step * STEP_EMAILS + at) as u32;
            places.extend(place.map(|(mailbox, uid)| (entry.log, mailbox, uid, at)));
        }
    }
    places.sort_unstable();
    let mut by_mailbox = Places::new();
    for (log, mailbox, uid, _) in &places {
        by_mailbox.entry((*log, *mailbox)).or_default().push(*uid);
    }
    let scopes = scopes(search, &by_mailbox);
    let scope = Scope::several(&scopes).map_err(Failure::Error)?;
    let (mut found, mut places_found) = (Vec::new(), Vec::new());
    for group in places.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (log, mailbox) = (logs[usize::from(group[0].0)].id(), group[0].1);
        let index = scopes.iter().position(|one| one.account.id() == log && one.mailbox == mailbox);
        let Some(index) = index.map(|index| MailboxIndex(index as u16)) else { continue };
        found.extend(group.iter().map(|place| Match { mailbox: index, uid: place.2, relevance: 100 }));
        places_found.extend(group.iter().map(|place| place.3));
    }
    let wanted = plan.sort.iter().enumerate().filter_map(|(at, comparator)| match &comparator.key {
        PlannedKey::Text(EmailSortKey::Sent) => Some((at, Column::Numbers(Vec::new()))),
        PlannedKey::Text(key) => Some((at, Column::Strings(Strings::default(), key.clone()))),
        _ => None,
    });
    let mut columns: Vec<(usize, Column)> = wanted.collect();
    let any_strings = columns.iter().any(|(_, column)| matches!(column, Column::Strings(..)));
    let parts = if any_strings { Parts::FIELDS } else { Parts::DATE };
    let mut cut = Cut { most: limits::SORT_KEY_BYTES, bytes: 0, string: Vec::new() };
    let mut rows: Vec<u32> = Vec::with_capacity(found.len());
    let each = |at: usize, row: SortRow, summary: Option<&Summary>| {
        rows.push(places_found[at]);
        for (_, column) in &mut columns {
            match column {
                Column::Numbers(numbers) => numbers.push(sent(row, summary)),
                Column::Strings(strings, key) => cut.push(strings, key, summary),
            }
        }
        while cut.bytes > room && cut.most > LEAST_BYTES {
            cut.shorten(&mut columns);
        }
    };
    with_summaries(scope, &found, Some(parts), progress, each).await?;
    keyed.is_exact = cut.most == limits::SORT_KEY_BYTES;
    for (number, column) in &columns {
        let comparator = &plan.sort[*number];
        let values: Vec<i64> = match column {
            Column::Numbers(numbers) => numbers.clone(),
            Column::Strings(strings, _) => strings.ranks().into_iter().map(i64::from).collect(),
        };
        for (row, value) in rows.iter().zip(values) {
            keyed.keys[*row as usize * plan.sort.len() + number] = comparator.directed(value);
        }
    }
    Ok(())
}

/// Strings of keys, and how much of each is kept.
struct Cut {
    most: usize,
    /// The size of all strings together.
    bytes: usize,
    string: Vec<u8>,
}

impl Cut {
    fn push(&mut self, strings: &mut Strings, key: &EmailSortKey, summary: Option<&Summary>) {
        self.string.clear();
        if let Some(summary) = summary {
            let (text, collation) = text_of(key, summary);
            collation.key(&text, self.most, &mut self.string);
        }
        self.bytes += strings.push(&self.string);
    }

    fn shorten(&mut self, columns: &mut [(usize, Column)]) {
        self.most = (self.most / 2).max(LEAST_BYTES);
        self.bytes = 0;
        for (_, column) in columns {
            if let Column::Strings(strings, _) = column {
                self.bytes += strings.shorten(self.most);
            }
        }
    }
}

fn text_of(key: &EmailSortKey, summary: &Summary) -> (String, Collation) {
    match key {
        EmailSortKey::From(collation) => (display_name(summary.from()), *collation),
        EmailSortKey::To(collation) => (display_name(summary.to()), *collation),
        EmailSortKey::Subject(collation) => {
            (subject::base(summary.subject().unwrap_or_default()).text.to_string(), *collation)
        }
        _ => (String::new(), Collation::default()),
    }
}

/// The name of the first address, or the address if it has none (RFC 8621 §4.4.2), without that of a group.
fn display_name<'a>(mut addresses: impl Iterator<Item = SummaryAddress<'a>>) -> String {
    let Some(SummaryAddress { name, mailbox, host }) = addresses.find(|address| address.host.is_some())
    else {
        return String::new();
    };
    match name.filter(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None => format!("{}@{}", mailbox.unwrap_or_default(), host.unwrap_or_default()),
    }
}

/// The emails as a list at these positions. Blocks the thread.
pub(super) fn sorted(
    keyed: Keyed,
    plan: &Plan,
    accounts: &[Arc<Account>],
    (upto, logs): (LogPositions, Vec<(AccountId, u64)>),
) -> EmailList {
    let Keyed { entries, keys, is_exact } = keyed;
    let each = plan.sort.len();
    let first = |at: usize| if each == 0 { 0 } else { keys[at * each] };
    // Twelve bytes each: the halves of the first key, and the index.
    let halves = |key: u64| [(key >> 32) as u32, key as u32];
    let mut order: Vec<[u32; 3]> = (0..entries.len())
        .map(|at| {
            let [high, low] = halves(first(at));
            [high, low, at as u32]
        })
        .collect();
    let others = |at: usize| keys.get(at * each + 1..(at + 1) * each).unwrap_or_default();
    let place = |at: usize| (logs[usize::from(entries[at].log)].0, entries[at].number);
    order.sort_unstable_by(|a, b| {
        let (one, other) = (a[2] as usize, b[2] as usize);
        let by_first: Ordering = (a[0], a[1]).cmp(&(b[0], b[1]));
        by_first.then_with(|| others(one).cmp(others(other))).then_with(|| place(one).cmp(&place(other)))
    });
    let mut list = EmailList::new(upto, logs.clone(), entries.len());
    list.is_exact = is_exact;
    order.iter().for_each(|[_, _, at]| list.push_unmarked(entries[*at as usize]));
    // The threads use their memory next.
    drop((entries, keys, order));
    let many = list.len(false);
    let mut firsts = Firsts::with_capacity(many);
    for step in (0..many).step_by(STEP_EMAILS) {
        let states: Vec<_> = accounts.iter().map(|account| (account.id(), account.state())).collect();
        let states: Vec<_> = states.iter().map(|(id, state)| (*id, &**state)).collect();
        for at in step..many.min(step + STEP_EMAILS) {
            // The next update of the list removes an email that no longer exists.
            let thread = list.entry(at).thread(&states);
            list.mark(thread.is_some_and(|thread| firsts.is_first(thread)));
        }
    }
    list
}

/// The error for an account that is too large for the server's memory.
pub(super) fn too_large() -> Error {
    Error::limit("the account is too large for this query with the memory of this server")
}

impl PlannedComparator {
    /// Whether its keys are strings.
    pub(super) fn is_string(&self) -> bool {
        matches!(&self.key, PlannedKey::Text(key) if *key != EmailSortKey::Sent)
    }
}
