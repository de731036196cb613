//! Names, rights, flag changes and quota, as protocols use them.

use std::sync::Arc;

use sealpost_account::event::Event;
use sealpost_account::rights::Rights;
use sealpost_account::{Account, Accounts, FlagAction, Flags, NewMessage, SystemFlags, ops};
use sealpost_base::{
    AccountId, Budget, FakeClock, Kind, MemoryDivision, ModSeq, Position, Random, SeededRandom, Timestamp,
    Uid, UidSet,
};
use sealpost_directory::{Quotas, Resource, Usage};
use sealpost_mailbox::User;
use sealpost_mailbox::flag_change::{FlagChange, FlagsChanged};
use sealpost_mailbox::quota_headroom::{OverQuota, QuotaHeadroom};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{RootKey, Store};

struct Fixture {
    accounts: Accounts,
    account: Arc<Account>,
}

impl Fixture {
    /// An account with `messages` in its inbox.
    async fn with(messages: u32) -> Self {
        let memory = MemoryDivision { accounts: 8 << 20, ..MemoryDivision::default() };
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(1));
        let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
        let options =
            sealpost_account::Options { memory, budget: Budget::new(64 << 20), ..Default::default() };
        let accounts = Accounts::with(Store::memory(), LogKey::for_tests(), clock, random.clone(), options);
        let account = accounts.open(AccountId([1; 16]), &RootKey::generate(&*random)).await.unwrap();
        let w = Fixture { accounts, account };
        for _ in 0..messages {
            w.append().await;
        }
        w
    }

    async fn append(&self) {
        let mut ingest = self.accounts.ingest(self.account.id()).await.unwrap();
        ingest.write(b"Subject: x\r\n\r\nx\r\n").await.unwrap();
        let stored = ingest.finish().await.unwrap();
        let new = NewMessage { stored, flags: Flags::default().into(), received: Timestamp(0) };
        let inbox = self.account.state().inbox().id();
        self.account.append(inbox, vec![new]).await.unwrap();
    }

    async fn commit(&self, events: Vec<Event>) {
        self.account.commit(|_| Ok((events.clone(), ()))).await.unwrap();
    }

    fn user(&self) -> User<'_> {
        User { accounts: &self.accounts, account: &self.account }
    }

    /// Decides on a change in the present state, without making it.
    fn decide(
        &self,
        change: &FlagChange,
        rights: Rights,
    ) -> sealpost_base::Result<(Vec<Event>, FlagsChanged)> {
        let state = self.account.state();
        let reported = Position::ZERO;
        let decided = change.decide(&state, state.inbox(), rights, reported, &self.accounts, &mut None)?;
        Ok((decided.0, decided.1.expect("they are few")))
    }
}

fn uids(numbers: &[u32]) -> UidSet {
    numbers.iter().filter_map(|n| Uid::new(*n)).collect()
}

fn flag(targets: &[u32], flags: SystemFlags) -> FlagChange {
    let (targets, action, flags) = (uids(targets), FlagAction::Add, Flags::system(flags));
    FlagChange { targets, unchanged_since: None, action, flags }
}

#[tokio::test]
async fn a_name_leads_to_a_mailbox_or_to_an_error() {
    let w = Fixture::with(0).await;
    let made = |state: &_| Ok((ops::create_mailbox(state, "a/b", Default::default())?, ()));
    w.account.commit(made).await.unwrap();
    let found = w.user().resolve("a/b").await.unwrap();
    assert_eq!((found.name.as_str(), found.own, found.rights), ("a/b", found.mailbox, Rights::ALL));
    assert!(found.is_writable() && found.still_takes_messages());
    assert!(w.user().resolve("inbox").await.is_ok(), "in any case");
    assert_eq!(w.user().resolve("nowhere").await.err().unwrap().kind(), Kind::NotFound);
    let read_only = sealpost_mailbox::ResolvedMailbox { rights: Rights::READ.with(Rights::LOOKUP), ..found };
    assert!(!read_only.is_writable());
    assert_eq!(read_only.clone().require(Rights::INSERT).err().unwrap().kind(), Kind::Denied);
    let unlisted = sealpost_mailbox::ResolvedMailbox { rights: Rights::READ, ..read_only };
    assert_eq!(
        unlisted.require(Rights::INSERT).err().unwrap().kind(),
        Kind::NotFound,
        "its name is a secret"
    );
}

#[tokio::test]
async fn a_flag_change_is_one_event_for_changing_messages() {
    let w = Fixture::with(4).await;
    let change = flag(&[1, 2, 9], SystemFlags::FLAGGED);
    let (events, changed) = w.decide(&change, Rights::ALL).unwrap();
    assert_eq!((events.len(), changed.changing.clone(), changed.present), (1, uids(&[1, 2]), 2));
    w.commit(events).await;
    let (events, changed) = w.decide(&flag(&[1, 2, 3], SystemFlags::FLAGGED), Rights::ALL).unwrap();
    assert_eq!((events.len(), changed.changing, changed.passing), (1, uids(&[3]), uids(&[1, 2, 3])));
    let (events, changed) = w.decide(&flag(&[1], SystemFlags::FLAGGED), Rights::ALL).unwrap();
    assert!(events.is_empty() && changed.changing.is_empty(), "nothing is written for nothing");
}

#[tokio::test]
async fn a_conditional_change_skips_changed_messages() {
    let w = Fixture::with(3).await;
    let since = w.account.state().position();
    let (events, _) = w.decide(&flag(&[2], SystemFlags::SEEN), Rights::ALL).unwrap();
    w.commit(events).await;
    let change = FlagChange { unchanged_since: Some(since), ..flag(&[1, 2, 3], SystemFlags::DRAFT) };
    let (_, changed) = w.decide(&change, Rights::ALL).unwrap();
    assert_eq!((changed.modified, changed.passing, changed.present), (uids(&[2]), uids(&[1, 3]), 3));
    // 0 tests whether the flags exist: system flags always do (RFC 7162 §3.1.3, example 8).
    let change = FlagChange { unchanged_since: Some(ModSeq::ZERO), ..change };
    assert_eq!(w.decide(&change, Rights::ALL).unwrap().1.modified, uids(&[1, 2, 3]));
}

#[tokio::test]
async fn rights_limit_a_flag_change() {
    let w = Fixture::with(1).await;
    let both = flag(&[1], SystemFlags::SEEN.with(SystemFlags::DELETED));
    let (events, _) = w.decide(&both, Rights::SEEN).unwrap();
    assert!(matches!(&events[..], [Event::FlagsStored { flags, .. }] if flags.system == SystemFlags::SEEN));
    let denied = w.decide(&flag(&[1], SystemFlags::DRAFT), Rights::SEEN).err().unwrap();
    assert_eq!(denied.kind(), Kind::Denied);
}

#[tokio::test]
async fn headroom_is_the_rest_of_the_limits() {
    let w = Fixture::with(3).await;
    let state = w.account.state();
    let none = QuotaHeadroom::default();
    assert_eq!(none.check(&state, Usage::of_messages(u64::MAX, u64::MAX)), Ok(()));
    assert!(none.checking(Usage::default()).is_none(), "nothing to ask");
    let limits = Quotas { messages: Some(5), ..Quotas::default() };
    let headroom = QuotaHeadroom { limits, other: Usage::of_messages(1, 0) };
    assert_eq!(headroom.check(&state, Usage::of_messages(1, 10)), Ok(()));
    assert_eq!(headroom.check(&state, Usage::of_messages(2, 10)), Err(OverQuota(Resource::Messages)));
    // Usage that the change itself frees does not count.
    let check = headroom.checking(Usage::of_messages(1, 0)).unwrap();
    assert!(check(&state, Usage::of_messages(2, 10)).is_ok());
    assert_eq!(check(&state, Usage::of_messages(3, 10)).err().unwrap().kind(), Kind::Limit);
}
