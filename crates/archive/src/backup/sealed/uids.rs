//! Maps UIDs of the mailbox to UIDs on the server.
//!
//! Runs of UIDs that are consecutive on both sides, in the order in which they came, in objects
//! `archive/uids/{mailbox}/{number}` of at most [`OBJECT_RUNS`] runs. A run never changes; the last
//! object grows. A UID whose message is no longer in the mailbox is ignored, and of several UIDs of
//! one message the last counts.

use std::collections::BTreeMap;

use sealpost_account::{AccountState, Event, Mailbox};
use sealpost_base::{Error, MailboxId, Result, Uid, UidSet, limits};

use super::records::{PREFIX, uid};

/// One after the last possible UID.
const MOST: i64 = 1 << 32;
/// Runs of one object: at most 24 KiB.
const OBJECT_RUNS: usize = 2000;

/// A run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first UID on the server.
    pub server: u32,
    /// The first UID in the mailbox.
    pub local: u32,
    /// How many.
    pub count: u32,
}

/// The UIDs of one mailbox.
#[derive(Debug, Default)]
pub struct Uids {
    /// By the server's first UID: those whose messages are in the mailbox.
    live: BTreeMap<u32, (u32, u32)>,
    /// The number of the last object.
    number: u32,
    /// The runs in it.
    last: Vec<Run>,
}

impl Uids {
    /// The runs of a mailbox in the state.
    pub fn read(state: &AccountState, mailbox: &Mailbox) -> Self {
        let mut uids = Uids::default();
        let mut all = Vec::new();
        for (name, value) in state.objects(&prefix(mailbox.id())) {
            let number = name.rsplit('/').next().and_then(|n| u32::from_str_radix(n, 16).ok());
            let (Some(number), Some(runs)) = (number, decode(value)) else { continue };
            all.extend_from_slice(&runs);
            (uids.number, uids.last) = (number, runs);
        }
        // If a UID came again, or a message got another UID, the last one counts.
        let mut again = overlap(&all).then(UidSet::new);
        for run in all.iter().rev() {
            let (first, end) = (uid(run.local), uid(run.local.saturating_add(run.count.saturating_sub(1))));
            let named = again.as_ref().map(|named| named.intersection(&UidSet::range(first, end)));
            for row in mailbox.rows(first..=end) {
                let local = row.uid.get();
                if named.as_ref().is_none_or(|named| !named.contains(row.uid)) {
                    // A run ends with the last UID at most, see `decode`.
                    uids.add_live(run.server.saturating_add(local - run.local), local);
                }
            }
            if let Some(again) = &mut again {
                again.insert_range(first, end);
            }
        }
        uids
    }

    fn add_live(&mut self, server: u32, local: u32) {
        if self.local(server).is_some() {
            return;
        }
        if let Some((first, (begins, count))) = self.live.range_mut(..server).next_back()
            && follows(*first, *count, server)
            && follows(*begins, *count, local)
        {
            *count += 1;
            return;
        }
        self.live.insert(server, (local, 1));
    }

    /// The mailbox's UID of a message.
    pub fn local(&self, server: u32) -> Option<Uid> {
        let (first, (local, count)) = self.live.range(..=server).next_back()?;
        (server - first < *count).then(|| uid(local + (server - first)))
    }

    /// (server, mailbox) of all messages, by the server's UIDs.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.live
            .iter()
            .flat_map(|(server, (local, count))| (0..*count).map(move |n| (server + n, local + n)))
    }

    /// The mailbox's UIDs.
    pub fn locals(&self) -> UidSet {
        let runs = self.live.values().map(|(local, count)| (uid(*local), uid(local + (count - 1))));
        UidSet::from_ranges(runs)
    }

    /// The message was removed.
    pub fn forget(&mut self, server: u32) {
        let found = self.live.range(..=server).next_back().map(|(first, run)| (*first, *run));
        let Some((first, (local, count))) = found.filter(|(first, run)| server - first < run.1) else {
            return;
        };
        self.live.remove(&first);
        let before = server - first;
        if before > 0 {
            self.live.insert(first, (local, before));
        }
        if before + 1 < count {
            self.live.insert(server + 1, (local + before + 1, count - before - 1));
        }
    }

    /// The events that record messages with these UIDs on the server, the first of which gets
    /// `local`.
    pub fn put(&self, mailbox: MailboxId, servers: &[u32], local: u32) -> Vec<Event> {
        self.put_runs(mailbox, runs_of(servers, local))
    }

    /// The events that record these messages' UIDs on the server: (server, mailbox).
    pub fn renumber(&self, mailbox: MailboxId, uids: &[(u32, u32)]) -> Vec<Event> {
        self.put_runs(
            mailbox,
            uids.iter().map(|(server, local)| Run { server: *server, local: *local, count: 1 }),
        )
    }

    fn put_runs(&self, mailbox: MailboxId, added: impl Iterator<Item = Run>) -> Vec<Event> {
        let (mut number, mut runs) = (self.number, self.last.clone());
        let mut events = Vec::new();
        for run in added {
            if runs.len() >= OBJECT_RUNS && !continues(&runs, run) {
                events.push(object(mailbox, number, &runs));
                (number, runs) = (number + 1, Vec::new());
            }
            add(&mut runs, run);
        }
        events.push(object(mailbox, number, &runs));
        events
    }

    /// The events were written.
    pub fn added(&mut self, servers: &[u32], local: u32) {
        for run in runs_of(servers, local) {
            if self.last.len() >= OBJECT_RUNS && !continues(&self.last, run) {
                (self.number, self.last) = (self.number + 1, Vec::new());
            }
            add(&mut self.last, run);
        }
        for (server, local) in servers.iter().zip(local..) {
            self.add_live(*server, local);
        }
    }
}

/// Whether some runs overlap in UIDs of the mailbox.
fn overlap(runs: &[Run]) -> bool {
    let mut locals: Vec<(u32, u32)> = runs.iter().map(|run| (run.local, run.count)).collect();
    locals.sort_unstable();
    locals.windows(2).any(|two| two[0].0.saturating_add(two[0].1) > two[1].0)
}

/// Whether the account has room for these objects.
///
/// # Errors
/// `Limit` if not.
pub fn check_limits(state: &AccountState, events: &[Event]) -> Result<()> {
    let (mut bytes, mut count) = (state.objects_bytes(), state.object_count());
    for event in events {
        if let Event::ObjectPut { name, value } = event {
            match state.object(name) {
                Some(old) => bytes = bytes.saturating_sub(old.len()) + value.len(),
                None => (bytes, count) = (bytes + name.len() + value.len(), count + 1),
            }
            if value.len() > limits::ACCOUNT_OBJECT_BYTES {
                return Err(Error::limit("the UIDs of a folder do not fit into one object of the account"));
            }
        }
    }
    if bytes > limits::ACCOUNT_OBJECTS_BYTES || count > limits::ACCOUNT_OBJECTS {
        return Err(Error::limit(
            "the account has reached its limit on stored UIDs: use another account for more messages",
        ));
    }
    Ok(())
}

/// Removes all records of a mailbox.
pub fn remove(state: &AccountState, mailbox: MailboxId) -> Vec<Event> {
    let prefix = prefix(mailbox);
    state.objects(&prefix).map(|(name, _)| Event::ObjectRemoved { name: name.to_owned() }).collect()
}

fn prefix(mailbox: MailboxId) -> String {
    format!("{PREFIX}uids/{}/", mailbox.0)
}

fn runs_of(servers: &[u32], local: u32) -> impl Iterator<Item = Run> + '_ {
    servers.iter().zip(local..).map(|(server, local)| Run { server: *server, local, count: 1 })
}

/// Whether a run only extends the last one.
fn continues(runs: &[Run], run: Run) -> bool {
    runs.last()
        .is_some_and(|l| follows(l.server, l.count, run.server) && follows(l.local, l.count, run.local))
}

/// Whether `next` comes after `count` UIDs from `first` on. After the last UID there is none.
fn follows(first: u32, count: u32, next: u32) -> bool {
    first.checked_add(count) == Some(next)
}

fn add(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last)
            if follows(last.server, last.count, run.server) && follows(last.local, last.count, run.local) =>
        {
            last.count += run.count;
        }
        _ => runs.push(run),
    }
}

/// Numbers: for each run the distance from the end of the previous one on both sides, and its
/// length.
fn object(mailbox: MailboxId, number: u32, runs: &[Run]) -> Event {
    let (mut server, mut local) = (0i64, 0i64);
    let mut numbers = Vec::with_capacity(runs.len() * 3);
    for run in runs {
        let (from, at, count) = (i64::from(run.server), i64::from(run.local), i64::from(run.count));
        numbers.extend([from - server, at - local, count]);
        (server, local) = (from + count, at + count);
    }
    let value = minicbor::to_vec(&numbers).unwrap_or_default();
    Event::ObjectPut { name: format!("{}{number:08x}", prefix(mailbox)), value }
}

fn decode(value: &[u8]) -> Option<Vec<Run>> {
    let numbers: Vec<i64> = minicbor::decode(value).ok()?;
    let (mut server, mut local) = (0i64, 0i64);
    let mut runs = Vec::with_capacity(numbers.len() / 3);
    for run in numbers.chunks_exact(3) {
        let (from, at) = (server.checked_add(run[0])?, local.checked_add(run[1])?);
        (server, local) = (from.checked_add(run[2])?, at.checked_add(run[2])?);
        // Both are where the run ended: one after the last UID at most.
        if server > MOST || local > MOST || from < 1 || at < 1 || run[2] < 1 {
            return None;
        }
        let number = |n: i64| u32::try_from(n).ok();
        runs.push(Run { server: number(from)?, local: number(at)?, count: number(run[2])? });
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: MailboxId = MailboxId(3);

    fn value(event: &Event) -> &[u8] {
        match event {
            Event::ObjectPut { value, .. } => value,
            _ => &[],
        }
    }

    #[test]
    fn a_mailbox_pulled_in_order_takes_a_few_bytes() {
        let servers: Vec<u32> = (1..=100_000).collect();
        let events = Uids::default().put(ID, &servers, 1);
        assert_eq!((events.len(), value(&events[0]).len()), (1, 8));
    }

    #[test]
    fn objects_are_bounded() {
        let servers: Vec<u32> = (1..=10_000).map(|n| n * 3).collect();
        let events = Uids::default().put(ID, &servers, 1);
        assert_eq!(events.len(), 5);
        assert!(events.iter().all(|event| value(event).len() <= 24 * 1024));
    }

    #[test]
    fn the_last_uid_there_can_be_is_known() {
        for servers in [vec![1, 2, u32::MAX], vec![u32::MAX - 1, u32::MAX], vec![u32::MAX]] {
            let mut uids = Uids::default();
            let events = uids.put(ID, &servers, 1);
            uids.added(&servers, 1);
            assert_eq!(decode(value(&events[0])).unwrap(), uids.last);
            assert_eq!(uids.iter().map(|(server, _)| server).collect::<Vec<_>>(), servers);
            uids.forget(u32::MAX);
            assert_eq!((uids.local(u32::MAX), uids.locals().len()), (None, servers.len() - 1));
        }
    }

    proptest! {
        #[test]
        fn uids_equal_a_naive_map(batches in prop::collection::vec(prop::collection::vec(1u32..50, 0..9), 0..6), forgotten in prop::collection::vec(1u32..50, 0..9)) {
            let (mut uids, mut model, mut local) = (Uids::default(), BTreeMap::new(), 1);
            for batch in batches {
                let mut batch: Vec<u32> = batch.into_iter().filter(|uid| !model.contains_key(uid)).collect();
                batch.sort_unstable();
                batch.dedup();
                let events = uids.put(ID, &batch, local);
                uids.added(&batch, local);
                prop_assert_eq!(decode(value(events.last().unwrap())).unwrap(), uids.last.clone());
                for server in batch {
                    model.insert(server, local);
                    local += 1;
                }
            }
            for server in forgotten {
                uids.forget(server);
                model.remove(&server);
            }
            prop_assert_eq!(uids.iter().collect::<BTreeMap<_, _>>(), model.clone());
            for server in 0..60 {
                prop_assert_eq!(uids.local(server).map(Uid::get), model.get(&server).copied());
            }
            prop_assert_eq!(uids.locals().len(), model.len());
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = decode(&bytes);
        }
    }
}
