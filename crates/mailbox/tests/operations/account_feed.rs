//! Changes of an account with several logs: a client that applies them knows the account.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sealpost_account::event::Event;
use sealpost_account::state::{MailboxChanged, ObjectKind};
use sealpost_account::thread::ThreadId;
use sealpost_account::{Account, AccountState, FlagAction, Flags, SpecialUses, SystemFlags};
use sealpost_base::{AccountId, ObjectId, Position, SeededRandom, Uid, UidSet};
use sealpost_mailbox::account_changes::{
    AccountChanges, AccountSyncPoint, LogPositions, Observable, at_once, last_changes, logs_of,
    mailboxes_since, positions, since,
};
use sealpost_mailbox::copy::{Kind, within_log};
use sealpost_mailbox::cross_account_copy::CrossAccountCopy;
use sealpost_mailbox::emails::{Email, placements};
use sealpost_mailbox::ops;

use crate::fixture::{Fixture, uids};

/// A client's view of an object: its logs, mailboxes and UIDs, each with flags.
type SeenCopies = BTreeSet<(AccountId, u32, u32, Vec<u8>)>;

async fn shared() -> Fixture {
    let w = Fixture::new().await;
    ops::create(w.sharing(&w.me), w.me.headroom, "Projects", SpecialUses::default()).await.unwrap();
    w.grant("Projects", "lr").await;
    w
}

/// The visible objects of an account, by id.
fn visible<T: Ord>(
    logs: &[(AccountId, &AccountState)],
    id: impl Fn(&AccountState, sealpost_account::MessageNumber) -> T,
) -> BTreeMap<T, SeenCopies> {
    let mut all: BTreeMap<T, SeenCopies> = BTreeMap::new();
    for (log, state) in logs {
        for mailbox in state.mailboxes() {
            for row in mailbox.all_rows() {
                let flags = state.flags_by_name(row.flags).system;
                if !flags.contains(SystemFlags::DELETED) {
                    let shown = format!("{flags:?}").into_bytes();
                    let at = (*log, mailbox.id().0, row.uid.get(), shown);
                    all.entry(id(state, row.message)).or_default().insert(at);
                }
            }
        }
    }
    all
}

fn emails(logs: &[(AccountId, &AccountState)]) -> BTreeMap<ObjectId, SeenCopies> {
    visible(logs, |state, number| state.message(number).unwrap().first_object())
}

/// Threads change with their messages, but not with the messages' flags.
fn threads(logs: &[(AccountId, &AccountState)]) -> BTreeMap<ThreadId, BTreeSet<ObjectId>> {
    let mut all: BTreeMap<ThreadId, BTreeSet<ObjectId>> = BTreeMap::new();
    for (log, state) in logs {
        let thread = |state: &AccountState, number| {
            (state.thread(number).unwrap(), state.message(number).unwrap().first_object())
        };
        for (thread, object) in visible(&[(*log, state)], thread).into_keys() {
            all.entry(thread).or_default().insert(object);
        }
    }
    all
}

/// A client that knows objects by id, up to some positions.
struct Client<T, V> {
    known: BTreeMap<T, Option<V>>,
    upto: AccountSyncPoint<T>,
}

impl<T: Observable + std::fmt::Debug, V: Clone + PartialEq + std::fmt::Debug> Client<T, V> {
    /// Applies changes up to the present, or of `responses` responses only.
    fn follow(
        &mut self,
        logs: &[(AccountId, &AccountState)],
        now: &BTreeMap<T, V>,
        most: usize,
        answers: usize,
    ) {
        for answer in 0.. {
            if answer == answers {
                return;
            }
            let found: Option<AccountChanges<T>> = since(logs, &self.upto, most);
            let Some(AccountChanges { created, updated, destroyed, upto, more }) = found else {
                // Too many changes: read everything again.
                (self.known, self.upto) = (all(now), positions(logs).into());
                return;
            };
            assert!(created.len() + updated.len() + destroyed.len() <= most);
            let is_whole = upto.within.is_none() || most < 1000;
            assert!(is_whole && (more || upto == positions(logs).into()));
            for id in created {
                assert!(!self.known.contains_key(&id), "{id:?} was known");
                // A created object may already be destroyed; a later response reports that.
                self.known.insert(id, now.get(&id).cloned());
            }
            for id in updated {
                assert!(self.known.contains_key(&id), "{id:?} was not known");
                self.known.insert(id, now.get(&id).cloned());
            }
            for id in destroyed {
                assert!(self.known.remove(&id).is_some(), "{id:?} was not known");
            }
            self.upto = upto;
            if !more {
                break;
            }
        }
        assert_eq!(self.known, all(now));
        assert_eq!(self.upto, positions(logs).into());
    }
}

/// All present objects, as a client knows them.
fn all<T: Ord + Clone, V: Clone>(now: &BTreeMap<T, V>) -> BTreeMap<T, Option<V>> {
    now.iter().map(|(id, value)| (id.clone(), Some(value.clone()))).collect()
}

/// Random messages of a mailbox.
async fn some(w: &Fixture, random: &SeededRandom, name: &str) -> UidSet {
    w.uids(&w.me, name).await.into_iter().filter(|_| random.below(3) == 0).filter_map(Uid::new).collect()
}

/// A random action of a client.
async fn act(w: &Fixture, random: &SeededRandom) {
    let names = ["INBOX", "Drafts", "Projects"];
    let (from, to) = (names[random.below(3) as usize], names[random.below(3) as usize]);
    let targets = some(w, random, from).await;
    let opened = w.open(&w.me, from).await;
    let (log, mailbox) = (opened.account.clone(), opened.mailbox);
    let commit = async |event: Event| {
        log.commit(|_| Ok((vec![event.clone()], ()))).await.unwrap();
    };
    match random.below(6) {
        0 | 1 => drop(w.append(&w.me, from, Flags::default()).await.unwrap()),
        _ if targets.is_empty() => {}
        2 => commit(Event::Expunged { mailbox, uids: targets }).await,
        3 => {
            let flags = [SystemFlags::DELETED, SystemFlags::SEEN, SystemFlags::FLAGGED];
            let flags = flags[random.below(3) as usize];
            let action = [FlagAction::Add, FlagAction::Remove][random.below(2) as usize];
            let (flags, unchanged_since) = (Flags::system(flags), None);
            commit(Event::FlagsStored { mailbox, uids: targets, action, flags, unchanged_since }).await;
        }
        kind => {
            let kind = if kind == 4 { Kind::Copy } else { Kind::Move };
            let to = w.resolve(&w.me, to).await;
            if Arc::ptr_eq(&log, &to.account) {
                within_log(w.quota(&w.me), &opened, &targets, false, &to, kind).await.unwrap();
                return;
            }
            let copy = CrossAccountCopy::begin(w.quota(&w.me), opened, &targets, false, &to, kind).await;
            let mut copy = copy.unwrap().expect("there are some");
            while copy.seal_next(&w.accounts).await.unwrap() {}
            copy.place(w.quota(&w.me)).await.unwrap().expunge().await.unwrap();
        }
    }
}

/// `Email` finds every message with all of its visible copies, and no others.
fn check_emails(logs: &[(AccountId, &AccountState)], emails: &BTreeMap<ObjectId, SeenCopies>) {
    let objects =
        logs.iter().flat_map(|(_, state)| state.messages().map(|(_, message)| message.first_object()));
    for object in objects.collect::<BTreeSet<_>>() {
        let found = Email::find(logs, object);
        let there: BTreeSet<_> =
            placements(logs, object).map(|one| (one.log, one.mailbox.0, one.row.uid.get())).collect();
        let Some(copies) = emails.get(&object) else {
            assert!(found.is_none() && there.is_empty());
            continue;
        };
        let email = found.expect("it has visible copies");
        assert_eq!(there, copies.iter().map(|(log, mailbox, uid, _)| (*log, *mailbox, *uid)).collect());
        let mailboxes: BTreeSet<_> = email.mailboxes.iter().map(|(log, mailbox)| (*log, mailbox.0)).collect();
        assert_eq!(mailboxes, copies.iter().map(|(log, mailbox, ..)| (*log, *mailbox)).collect());
        let have = |flag: &str| {
            let has = |flags: &[u8]| String::from_utf8_lossy(flags).contains(flag);
            copies.iter().map(|(.., flags)| has(flags)).collect::<Vec<_>>()
        };
        assert_eq!(email.flags.system.contains(SystemFlags::SEEN), have("Seen").iter().all(|has| *has));
        assert_eq!(email.flags.system.contains(SystemFlags::FLAGGED), have("Flagged").contains(&true));
        assert_eq!(email.message(logs).map(|message| message.first_object()), Some(object));
    }
}

/// Clients that read at every moment or rarely, with large or small responses.
async fn model(seed: u64) {
    let w = shared().await;
    let random = SeededRandom::new(seed);
    let logs = logs_of(w.user(&w.me)).await.unwrap();
    assert_eq!(logs.len(), 2);
    let begin = at_once(&logs, |logs| (emails(logs), threads(logs), positions(logs))).await.unwrap();
    let answers = [1000, 1, 3, 20];
    let new = |_| Client { known: all(&begin.0), upto: begin.2.clone().into() };
    let mut email_clients: Vec<Client<ObjectId, SeenCopies>> = answers.iter().map(new).collect();
    let new = |_| Client { known: all(&begin.1), upto: begin.2.clone().into() };
    let mut thread_clients: Vec<Client<ThreadId, BTreeSet<ObjectId>>> = answers.iter().map(new).collect();
    for step in 0..120u64 {
        act(&w, &random).await;
        let logs = logs_of(w.user(&w.me)).await.unwrap();
        let looks: Vec<bool> = answers.iter().map(|_| random.below(4) == 0 || step == 119).collect();
        let look = |logs: &[(AccountId, &AccountState)]| (emails(logs), threads(logs));
        let (emails, threads) = at_once(&logs, look).await.unwrap();
        let states: Vec<_> = logs.iter().map(|log| (log.id(), log.state())).collect();
        let states: Vec<_> = states.iter().map(|(id, state)| (*id, &**state)).collect();
        check_emails(&states, &emails);
        let last: AccountSyncPoint<ObjectId> = last_changes(&states, ObjectKind::Emails).into();
        let none = since(&states, &last, 1000).unwrap();
        assert!(none.created.is_empty() && none.updated.is_empty() && none.destroyed.is_empty(), "{none:?}");
        for (n, most) in answers.iter().enumerate().filter(|(n, _)| looks[*n]) {
            let some = if random.below(2) == 0 && step < 119 { 1 } else { usize::MAX };
            email_clients[n].follow(&states, &emails, *most, some);
            thread_clients[n].follow(&states, &threads, *most, some);
        }
    }
}

#[tokio::test]
async fn clients_that_follow_an_account_know_it() {
    for seed in 1..9 {
        model(seed).await;
    }
}

async fn look<T: Observable>(w: &Fixture, known: &LogPositions, most: usize) -> Option<AccountChanges<T>> {
    let (logs, known) = (logs_of(w.user(&w.me)).await.unwrap(), known.clone().into());
    at_once(&logs, |logs| since(logs, &known, most)).await.unwrap()
}

async fn now(w: &Fixture) -> LogPositions {
    at_once(&logs_of(w.user(&w.me)).await.unwrap(), positions).await.unwrap()
}

#[tokio::test]
async fn a_message_that_moves_into_a_share_is_an_update() {
    let w = shared().await;
    w.append(&w.me, "INBOX", Flags::default()).await.unwrap();
    let known = now(&w).await;
    let (source, to) = (w.open(&w.me, "INBOX").await, w.resolve(&w.me, "Projects").await);
    let one = uids(&[1]);
    let copy = CrossAccountCopy::begin(w.quota(&w.me), source, &one, true, &to, Kind::Move).await;
    let mut copy = copy.unwrap().unwrap();
    while copy.seal_next(&w.accounts).await.unwrap() {}
    copy.place(w.quota(&w.me)).await.unwrap().expunge().await.unwrap();
    let changes = look::<ObjectId>(&w, &known, 100).await.unwrap();
    assert_eq!((changes.created.len(), changes.updated.len(), changes.destroyed.len()), (0, 1, 0));
    assert!(!changes.more);
    assert!(look::<ObjectId>(&w, &changes.upto.positions, 100).await.unwrap().updated.is_empty());
}

#[tokio::test]
async fn a_removed_log_cannot_be_followed() {
    let w = shared().await;
    let known = now(&w).await;
    assert!(look::<ObjectId>(&w, &known, 100).await.is_some());
    ops::delete(w.user(&w.me), "Projects").await.unwrap();
    assert!(look::<ObjectId>(&w, &known, 100).await.is_none());
    let own: Arc<Account> = w.me.account.clone();
    let gone = at_once(&[own], |logs| mailboxes_since(logs, &known.clone().into(), 9)).await.unwrap();
    assert!(gone.is_none());
}

#[tokio::test]
async fn changes_of_mailboxes_are_those_of_all_logs() {
    let w = shared().await;
    let known = now(&w).await;
    w.append(&w.me, "Projects", Flags::default()).await.unwrap();
    ops::rename(w.user(&w.me), w.me.headroom, "Drafts", "Sketches").await.unwrap();
    let logs = logs_of(w.user(&w.me)).await.unwrap();
    let since = |logs: &[(AccountId, &AccountState)], known: &AccountSyncPoint<_>, most| {
        mailboxes_since(logs, known, most).unwrap()
    };
    let all = at_once(&logs, |logs| since(logs, &known.clone().into(), 100)).await.unwrap();
    assert!(!all.more);
    let mut paged = Vec::new();
    let mut upto = AccountSyncPoint::from(known.clone());
    loop {
        let page = at_once(&logs, |logs| since(logs, &upto, 1)).await.unwrap();
        assert_eq!(page.changes.len(), 1, "{page:?}");
        (paged, upto) = ([paged, page.changes].concat(), page.upto);
        if !page.more {
            break;
        }
    }
    assert_eq!(paged, all.changes, "one by one");
    let found = all.changes;
    let share = logs[1].id();
    assert!(found.iter().any(|(log, change)| *log == share && matches!(change, MailboxChanged::Counts(_))));
    assert!(
        found
            .iter()
            .any(|(log, change)| { *log == w.me.id() && matches!(change, MailboxChanged::Properties(_)) })
    );
    assert_eq!(known.iter().count(), 2);
    assert!(known.iter().all(|(_, position)| position > Position::ZERO));
}
