//! What an account with many messages takes, and what changing all of them takes besides.
//!
//! One test in a process of its own, which asks the system what the process takes: nothing that is
//! held is overlooked.

#![allow(clippy::print_stdout, reason = "figures, for whoever runs it with --nocapture")]

use sealpost_account::event::{Batch, Event};
use sealpost_account::state::{AccountState, Restore};
use sealpost_account::{FlagAction, Flags, Message, SystemFlags, ThreadId};
use sealpost_base::{AccountId, MailboxId, ObjectId, Position, Random, SeededRandom, Timestamp, limits};
use sealpost_vault::entry::Origin;
use sealpost_vault::message::{Layout, MessageKey};

const MESSAGES: u64 = 150_000;
/// What a message may take, all included.
const BYTES_EACH: usize = 72;
/// What it may take with the maps that JMAP needs.
const BYTES_EACH_WITH_MAPS: usize = 88;
/// What the maps may take while they are made besides what they take in the end.
const BESIDES_MAPS: usize = 8 * 1024 * 1024;
/// What a change may take besides what it leaves, however many messages it is of.
const BESIDES: usize = 4 * 1024 * 1024;
const ACCOUNT: AccountId = AccountId([3; 16]);

/// A line of what the system says of this process, in bytes.
fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap() * 1024
}

/// The peak memory of the process during `work`, beyond that before it, and the result.
fn most<T>(work: impl FnOnce() -> T) -> (usize, T) {
    // From now on the peak is counted again.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS:");
    let result = work();
    (status("VmHWM:").saturating_sub(before), result)
}

/// A message as they come: most are small, few are large, many a minute.
fn message(random: &SeededRandom, n: u64) -> Message {
    let (mut object, mut key) = ([0; 16], [0; 32]);
    random.fill(&mut object);
    random.fill(&mut key);
    let raw_bytes = match random.below(20) {
        0 => 100_000 + random.below(5_000_000),
        1..6 => 10_000 + random.below(90_000),
        _ => 1_500 + random.below(12_000),
    };
    let large = raw_bytes > 65_536;
    // Every third is a reply.
    let [own, before] = [n + 1, n].map(|n| ThreadId::of_object(ObjectId(u128::from(n).to_be_bytes())));
    let reply = n % 3 == 1;
    Message {
        object: ObjectId(object),
        key: MessageKey::from_bytes(key),
        layout: Layout {
            raw_bytes,
            sealed_raw: raw_bytes / 2 + random.below(raw_bytes / 4),
            sealed_text: 300 + random.below(4_000) as u32,
            sealed_structure: 250 + random.below(500) as u32,
            sealed_index: if large { 60 + random.below(200) as u32 } else { 0 },
        },
        received: Timestamp(1_600_000_000_000 + n as i64 * 300_000 + random.below(600_000) as i64),
        origin: None,
        thread: if reply { before } else { own },
        links: if reply { vec![own, before] } else { vec![own] },
    }
}

struct Log {
    state: AccountState,
    at: i64,
}

impl Log {
    /// Applies one event; how much the process took at most meanwhile beyond what the state grew by.
    fn besides(&mut self, what: &str, event: Event) {
        let before = self.state.memory();
        let (most, ()) = most(|| self.apply(event));
        let grown = self.state.memory().saturating_sub(before);
        let besides = most.saturating_sub(grown);
        println!("{what}: {besides} besides {grown}");
        assert!(besides < BESIDES, "{what}: {besides} besides {grown}");
    }

    fn apply(&mut self, event: Event) {
        self.at += 1;
        let batch = Batch { at: Timestamp(1_700_000_000_000 + self.at * 7), events: vec![event] };
        self.state.apply(self.state.position().next(), Origin::Owner, &batch);
    }

    fn bytes_each(&self) -> usize {
        self.state.memory() / MESSAGES as usize
    }

    fn store(&mut self, flag: SystemFlags) -> Event {
        let (mailbox, uids) = (self.state.inbox().id(), self.state.inbox().uids());
        let (action, flags) = (FlagAction::Add, Flags::system(flag));
        Event::FlagsStored { mailbox, uids, action, flags, unchanged_since: None }
    }
}

/// An account with one message in as many places as there may be sets of flags, each with a set of its own.
fn sets_of_flags(random: &SeededRandom) -> Log {
    let mut log = Log { state: AccountState::new(ACCOUNT), at: 0 };
    let bits = limits::FLAG_SETS.ilog2();
    let (grown, ()) = most(|| {
        log.apply(Event::delivered(message(random, 0)));
        let mailbox = log.state.inbox().id();
        for _ in 0..bits {
            let uids = log.state.inbox().uids();
            log.apply(Event::Copied { from: mailbox, uids, to: mailbox });
        }
        for bit in 0..bits {
            let uids = log.state.inbox().uids().iter().filter(|uid| uid.get() >> bit & 1 == 1).collect();
            let flags = Flags { system: SystemFlags::NONE, keywords: vec![format!("keyword{bit}")] };
            let action = FlagAction::Add;
            log.apply(Event::FlagsStored { mailbox, uids, action, flags, unchanged_since: None });
        }
    });
    let (memory, sets) = (log.state.memory(), log.state.flag_set_count());
    println!("{memory} counted with {sets} sets of flags, {grown} grown");
    assert_eq!(sets, limits::FLAG_SETS);
    assert!(grown < memory + memory / 8, "{memory} counted, {grown} taken");
    log
}

/// The same with the maps that JMAP needs.
fn with_maps(state: AccountState) {
    let mut log = Log { state, at: 0 };
    let before = log.state.memory();
    let (besides, ()) = most(|| log.state.make_maps());
    let memory = log.state.memory();
    println!("{besides} to make maps of {}, {} a message with them", memory - before, log.bytes_each());
    assert!(log.bytes_each() <= BYTES_EACH_WITH_MAPS, "{} bytes a message", log.bytes_each());
    assert!(besides < memory - before + BESIDES_MAPS, "{besides} besides");
    let inbox = log.state.inbox().id();
    let event = log.store(SystemFlags::SEEN);
    log.besides("store with maps", event);
    let (uids, to) = (log.state.inbox().uids(), MailboxId(inbox.0 + 1));
    log.besides("copy with maps", Event::Copied { from: inbox, uids: uids.clone(), to });
    log.besides("move with maps", Event::Moved { from: to, uids, to: MailboxId(to.0 + 1) });
    log.state.make_maps();
    assert_eq!(log.state.maps().unwrap().counts(inbox).unwrap().total_emails, MESSAGES as u32);
}

#[cfg(target_os = "linux")]
#[test]
fn many_messages_and_changes_of_all_take_little_memory() {
    let random = SeededRandom::new(1);
    // Kept until the end, so that nothing of what follows is in the place of what was freed.
    let _flags = sets_of_flags(&random);
    let mut log = Log { state: AccountState::new(ACCOUNT), at: 0 };
    let (grown, ()) = most(|| {
        for n in 0..MESSAGES {
            log.apply(Event::delivered(message(&random, n)));
        }
    });
    let memory = log.state.memory();
    println!("{memory} counted, {grown} grown, {} a message", log.bytes_each());
    assert!(log.bytes_each() <= BYTES_EACH, "{} bytes a message", log.bytes_each());
    assert!(grown < memory + memory / 8, "{memory} counted, {grown} taken");

    with_maps(log.state.clone());
    let inbox = log.state.inbox().id();
    let event = log.store(SystemFlags::SEEN);
    log.besides("store", event);
    let (uids, to) = (log.state.inbox().uids(), MailboxId(inbox.0 + 1));
    log.besides("copy", Event::Copied { from: inbox, uids: uids.clone(), to });
    log.besides("move", Event::Moved { from: to, uids: uids.clone(), to: MailboxId(to.0 + 1) });
    // The flags of every third, one after the other, so that nothing is alike.
    for uid in uids.iter().step_by(MESSAGES as usize / 1000) {
        let mut set = sealpost_base::UidSet::new();
        set.push(uid);
        let flags = Flags::system(SystemFlags::FLAGGED);
        let action = FlagAction::Add;
        log.apply(Event::FlagsStored { mailbox: inbox, uids: set, action, flags, unchanged_since: None });
    }
    let event = log.store(SystemFlags::DELETED);
    log.besides("store again", event);
    log.besides("expunge", Event::Expunged { mailbox: inbox, uids });
    println!("{} a message with two placements and what is expunged", log.bytes_each());
    assert!(log.bytes_each() <= BYTES_EACH + 8, "{} bytes a message", log.bytes_each());

    let (besides, restored) = most(|| {
        let mut restore = Restore::new(ACCOUNT);
        for name in log.state.chunk_names() {
            restore.chunk(&name, &log.state.chunk(&name)).unwrap();
        }
        restore.finish().unwrap()
    });
    let memory = restored.memory();
    println!("{besides} to restore {memory}");
    assert!(besides < memory + memory / 8 + BESIDES, "{besides} to restore {memory}");
    assert_eq!(restored.position(), log.state.position());

    let before = log.state.position();
    log.besides("purge", Event::Purged { before: Timestamp(i64::MAX) });
    assert_eq!((log.state.tombstone_count(), log.state.position()), (0, Position(before.0 + 1)));
    let purgeable = restored.purgeable(Timestamp(i64::MAX), 1000);
    assert_eq!(purgeable.len(), 0, "another placement is left of each");
}
