//! Shares: a mailbox that becomes one, despite failures of the store and concurrent writers;
//! offers; and who can open what.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use object_store::memory::InMemory;
use sealpost_account::acl::Acl;
use sealpost_account::rights::Rights;
use sealpost_account::share::{About, Link, UnacceptedLinks, given_up, unlinked};
use sealpost_account::{
    Account, Accounts, Delivery, Event, FlagAction, Flags, NewMessage, Offer, SystemFlags, ops,
};
use sealpost_base::{
    AccountId, Budget, FakeClock, Kind, Position, Random, Result, SeededRandom, Timestamp, Uid, UidSet,
    limits,
};
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{AccountKeys, RootKey, Store, entry, message};

const OWNER: AccountId = AccountId([1; 16]);
const READER: AccountId = AccountId([2; 16]);

struct Fixture {
    store: Store,
    clock: Arc<FakeClock>,
    random: Arc<SeededRandom>,
    owner: RootKey,
    reader: RootKey,
}

impl Fixture {
    fn over(store: Store, seed: u64) -> Arc<Self> {
        let random = Arc::new(SeededRandom::new(seed));
        let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
        let (owner, reader) = (RootKey::generate(&*random), RootKey::generate(&*random));
        Arc::new(Fixture { store, clock, random, owner, reader })
    }

    fn accounts(&self) -> Accounts {
        let random: Arc<dyn Random> = self.random.clone();
        Accounts::new(
            self.store.clone(),
            LogKey::for_tests(),
            self.clock.clone(),
            random,
            Budget::new(64 << 20),
        )
    }

    fn link(&self, owner: Option<&str>) -> Link {
        let (share, root) = (AccountId::random(&*self.random), RootKey::generate(&*self.random));
        Link { share, root, owner: owner.map(str::to_owned) }
    }

    fn public(&self, of: AccountId) -> sealpost_vault::PublicKey {
        AccountKeys::derive(if of == OWNER { &self.owner } else { &self.reader }, of).public()
    }
}

fn about(name: &str) -> About {
    About { owner: OWNER, owner_name: "owner@x".to_owned(), name: name.to_owned(), closed: false }
}

fn acl() -> Acl {
    let mut acl = Acl::default();
    acl.set(READER, "reader@x", false, |_| Rights::parse("lr").unwrap()).unwrap();
    acl
}

async fn append(account: &Account, mailbox: &str, subject: &str, keyword: &str) -> Result<Uid> {
    let mut ingest = account.ingest().await?;
    ingest.write(format!("Subject: {subject}\r\n\r\nBody of {subject}.\r\n").as_bytes()).await?;
    let stored = ingest.finish().await?;
    let mailbox = account.state().mailbox_named(mailbox).unwrap().id();
    let flags = Flags { system: SystemFlags::SEEN, keywords: vec![keyword.to_owned()] };
    let received = Timestamp(subject.len() as i64);
    Ok(account.append(mailbox, vec![NewMessage { stored, flags: flags.into(), received }]).await?.1[0])
}

/// What a mailbox says: EMAILID and text of each message, with its flags and date.
async fn content(account: &Account, mailbox: &str) -> Vec<(String, Flags, Timestamp)> {
    let rows: Vec<_> = {
        let state = account.state();
        let m = state.mailbox_named(mailbox).unwrap();
        let row = |row: sealpost_account::Row| {
            (state.message(row.message).unwrap(), state.flags_by_name(row.flags))
        };
        m.all_rows().map(row).collect()
    };
    let mut out = Vec::new();
    for (message, flags) in rows {
        let raw: Vec<_> = account.reader(&message).raw(0..message.size()).try_collect().await.unwrap();
        let structure = account.structure(&message).await.unwrap();
        let raw = String::from_utf8(raw.concat()).unwrap();
        assert!(raw.contains(structure.envelope.subject.as_deref().unwrap()));
        assert!(account.text(&message).await.unwrap().body.contains("body of"));
        // RFC 8474 §5.1, §5.2: it is the same message, in the same thread, in whichever log.
        let raw = format!("{} {} {raw}", sealpost_account::object_id::email_id(&message), message.thread);
        out.push((raw, flags, message.received));
    }
    out
}

async fn share(account: &Account, accounts: &Accounts, name: &str, link: &Link) -> Result<Arc<Account>> {
    let share = accounts.open(link.share, &link.root).await?;
    let mailbox = account.state().mailbox_named(name).unwrap().id();
    account.commit(|_| Ok((vec![unlinked(link)], ()))).await?;
    account.move_into_share(mailbox, &share, link.clone(), &about(name), &acl()).await?;
    Ok(share)
}

#[tokio::test]
async fn a_mailbox_becomes_a_share_with_everything_in_it() {
    let world = Fixture::over(Store::memory(), 1);
    let accounts = world.accounts();
    let account = accounts.open(OWNER, &world.owner).await.unwrap();
    for n in 0..300 {
        append(&account, "Archive", &format!("message {n}"), &format!("$k{}", n % 3)).await.unwrap();
    }
    let archive = account.state().mailbox_named("Archive").unwrap().id();
    let uids: UidSet = (1..300).step_by(7).filter_map(Uid::new).collect();
    account
        .commit(|_| Ok((vec![Event::Expunged { mailbox: archive, uids: uids.clone() }], ())))
        .await
        .unwrap();
    let before = content(&account, "Archive").await;
    let link = world.link(None);
    let shared = share(&account, &accounts, "Archive", &link).await.unwrap();
    assert_eq!(content(&shared, "INBOX").await, before);
    {
        let state = account.state();
        let m = state.mailbox_named("Archive").unwrap();
        assert_eq!((m.id(), m.len(), m.link().unwrap().share), (archive, 0, link.share));
        // Its messages are not here, so nothing that is decided on its id can be about it.
        assert!(state.mailbox(archive).is_none());
        let shared = shared.state();
        assert_eq!(
            (shared.rights_of(OWNER), shared.rights_of(READER)),
            (Rights::ALL, Rights::parse("lr").unwrap())
        );
        assert_eq!(shared.rights_of(AccountId([9; 16])), Rights::NONE);
        assert_eq!(shared.inbox().recent_from(), Uid::MIN);
    }
    // Late writers of other sessions find no mailbox, and a delivery for it enters the inbox.
    let inbox = account.state().inbox().id();
    for event in [
        Event::Copied { from: inbox, uids: UidSet::range(Uid::MIN, Uid::MIN), to: archive },
        Event::Restored { to: archive, since: Timestamp(0) },
        Event::Linked { mailbox: archive, link: world.link(None) },
    ] {
        account.commit(|_| Ok((vec![event.clone()], ()))).await.unwrap();
    }
    let mut ingest = accounts.ingest(OWNER).await.unwrap();
    ingest.write(b"Subject: late\r\n\r\nbody of late\r\n").await.unwrap();
    let delivery = Delivery::to(Timestamp(0), Some("Archive".to_owned()));
    let stored = ingest.finish().await.unwrap();
    accounts.deliver(OWNER, &world.public(OWNER), stored, delivery).await.unwrap();
    account.catch_up().await.unwrap();
    assert_eq!(account.state().inbox().len(), 1);
    assert_eq!(account.state().link(archive).unwrap().share, link.share);
    // The same from a checkpoint, in another process.
    account.checkpoint().await.unwrap();
    let again = world.accounts().open(OWNER, &world.owner).await.unwrap();
    assert_eq!(again.state().link(archive).unwrap().share, link.share);
    let other = world.accounts();
    let root = again.state().link(archive).unwrap().root.clone();
    assert_eq!(content(&other.open(link.share, &root).await.unwrap(), "INBOX").await, before);
}

#[tokio::test]
async fn the_inbox_cannot_be_shared_and_links_are_bounded() {
    let world = Fixture::over(Store::memory(), 2);
    let accounts = world.accounts();
    let account = accounts.open(OWNER, &world.owner).await.unwrap();
    let inbox = share(&account, &accounts, "INBOX", &world.link(None)).await;
    assert_eq!(inbox.err().unwrap().kind(), Kind::Invalid);
    let offers = |owner: &str| -> Vec<Event> {
        let offer = |n| {
            let (link, name) = (world.link(Some(owner)), format!("n{n}"));
            Event::Offered { link, name, below: None, unaccepted: None }
        };
        (0..limits::LINKS + 3).map(offer).collect()
    };
    let spam = offers("spam@x");
    account.commit(|_| Ok((spam.clone(), ()))).await.unwrap();
    assert_eq!(account.state().links().count(), limits::LINKS_OF_ONE, "of one owner");
    let more = [offers("more@x"), offers("others@x")].concat();
    account.commit(|_| Ok((more.clone(), ()))).await.unwrap();
    assert_eq!(account.state().links().count(), limits::LINKS);
    let full = share(&account, &accounts, "Archive", &world.link(None)).await;
    assert_eq!(full.err().unwrap().kind(), Kind::Limit);
}

/// Unsolicited links. Entries of earlier versions, without bounds of their own, are replayed as
/// they were.
#[tokio::test]
async fn a_stranger_does_not_fill_the_list_of_another() {
    let world = Fixture::over(Store::memory(), 2);
    let accounts = world.accounts();
    let account = accounts.open(OWNER, &world.owner).await.unwrap();
    let most = UnacceptedLinks::LIMITS;
    let offers = |owner: &str, names: std::ops::Range<usize>| -> Vec<Event> {
        let offer = |n| {
            let (link, name) = (world.link(Some(owner)), format!("n{n}"));
            Event::Offered { link, name, below: None, unaccepted: Some(most) }
        };
        names.map(offer).collect()
    };
    let linked = |owner: &str| {
        let state = account.state();
        state.links().filter(|(_, link)| link.owner.as_deref() == Some(owner)).count()
    };
    let spam = offers("spam@x", 0..most.of_one as usize + 3);
    account.commit(|_| Ok((spam.clone(), ()))).await.unwrap();
    assert_eq!(linked("spam@x"), limits::UNACCEPTED_LINKS_OF_ONE);
    // What the account subscribes to, it has accepted.
    let accepted = Event::Subscribed { name: "Other Users/spam@x/n7".to_owned(), on: true };
    account.commit(|_| Ok((vec![accepted.clone()], ()))).await.unwrap();
    let more = offers("spam@x", 90..93);
    account.commit(|_| Ok((more.clone(), ()))).await.unwrap();
    assert_eq!(linked("spam@x"), limits::UNACCEPTED_LINKS_OF_ONE + 1);
    // Many strangers do not use up the limit for the account's own shares.
    let crowd: Vec<_> = (0..8).flat_map(|n| offers(&format!("crowd{n}@x"), 0..40)).collect();
    account.commit(|_| Ok((crowd.clone(), ()))).await.unwrap();
    assert_eq!(account.state().links().count(), limits::UNACCEPTED_LINKS + 1);
    append(&account, "Archive", "mail", "$a").await.unwrap();
    share(&account, &accounts, "Archive", &world.link(None)).await.unwrap();
}

/// Another node deletes leftovers, and its clock is wrong by weeks, or this one was suspended for
/// as long.
#[tokio::test]
async fn a_share_cancelled_during_creation_gets_no_link() {
    let world = Fixture::over(Store::memory(), 1);
    let accounts = world.accounts();
    let account = accounts.open(OWNER, &world.owner).await.unwrap();
    append(&account, "Archive", "mail", "$a").await.unwrap();
    let (before, link) = (content(&account, "Archive").await, world.link(None));
    let made = accounts.open(link.share, &link.root).await.unwrap();
    let mailbox = account.state().mailbox_named("Archive").unwrap().id();
    account.commit(|_| Ok((vec![unlinked(&link)], ()))).await.unwrap();
    let elsewhere = world.accounts().open(OWNER, &world.owner).await.unwrap();
    elsewhere.commit(|_| Ok((given_up(link.share), ()))).await.unwrap();
    let moved = account.move_into_share(mailbox, &made, link.clone(), &about("Archive"), &acl()).await;
    assert_eq!(moved.unwrap_err().kind(), Kind::Retry);
    assert_eq!(content(&account, "Archive").await, before);
    assert_eq!(account.state().given_up_shares(), [link.share]);
}

#[tokio::test]
async fn changes_during_the_copy_are_in_the_share() {
    let world = Fixture::over(Store::memory(), 3);
    let accounts = world.accounts();
    let account = accounts.open(OWNER, &world.owner).await.unwrap();
    for n in 0..200 {
        append(&account, "Archive", &format!("first {n}"), "$a").await.unwrap();
    }
    let archive = account.state().mailbox_named("Archive").unwrap().id();
    // A writer that stops only when there is nothing to write to any more.
    let writer = tokio::spawn({
        let account = account.clone();
        async move {
            let mut done = 0;
            for n in 0..60u32 {
                if append(&account, "Archive", &format!("later {n}"), "$b").await.is_ok() {
                    done += 1;
                }
                let uids = UidSet::range(Uid::new(3 * n + 1).unwrap(), Uid::new(3 * n + 1).unwrap());
                let flagged = UidSet::range(Uid::new(3 * n + 2).unwrap(), Uid::new(3 * n + 2).unwrap());
                let flags = Flags::system(SystemFlags::FLAGGED);
                let events = vec![
                    Event::Expunged { mailbox: archive, uids },
                    Event::FlagsStored {
                        mailbox: archive,
                        uids: flagged,
                        action: FlagAction::Replace,
                        flags,
                        unchanged_since: None,
                    },
                ];
                account.commit(|_| Ok((events.clone(), ()))).await.unwrap();
            }
            done
        }
    });
    let link = world.link(None);
    let shared = share(&account, &accounts, "Archive", &link).await.unwrap();
    let appended: usize = writer.await.unwrap();
    let tombstones = account.state().tombstone_count();
    let there = content(&shared, "INBOX").await;
    // Everything acknowledged before the switch is in the share, or was expunged before it.
    assert_eq!(there.iter().filter(|(raw, _, _)| raw.contains("later")).count(), appended);
    let flagged = there.iter().filter(|(_, flags, _)| flags.system == SystemFlags::FLAGGED).count();
    let expunged = 200 + appended - there.len();
    assert!(flagged <= expunged && tombstones == 200 + appended, "{flagged} {expunged} {tombstones}");
}

#[tokio::test]
async fn an_offer_makes_a_link_and_nothing_else() {
    let world = Fixture::over(Store::memory(), 4);
    let accounts = world.accounts();
    let reader = accounts.open(READER, &world.reader).await.unwrap();
    let offer = |link: &Link, name: &str, below| {
        let offer = Offer { link: link.clone(), name: name.to_owned(), below };
        let (accounts, public) = (accounts.clone(), world.public(READER));
        async move { accounts.offer(READER, &public, offer).await.unwrap() }
    };
    let (one, two) = (world.link(Some("owner@x")), world.link(Some("owner@x")));
    offer(&one, "Work/2026", None).await;
    offer(&one, "again", None).await;
    offer(&two, "Work/2026", None).await;
    let odd = world.link(Some("a/../b@x"));
    offer(&odd, "x\r\ny", None).await;
    // No other user can put a mailbox among those of the account itself.
    offer(&world.link(None), "mine", None).await;
    offer(&world.link(None), "mine", Some(one.share)).await;
    reader.catch_up().await.unwrap();
    let names: Vec<_> = reader.state().links().map(|(m, _)| m.name().to_owned()).collect();
    let odd = format!("Other Users/{}", odd.share);
    let mut expected = vec!["Other Users/owner@x/Work/2026", "Other Users/owner@x/Work/2026 2", &odd];
    expected.sort_unstable();
    assert_eq!(names, expected);
    // Below a share of this account, another user with the right may create one.
    let own = world.link(None);
    let archive = reader.state().mailbox_named("Archive").unwrap().id();
    let linked = Event::Linked { mailbox: archive, link: own.clone() };
    reader.commit(|_| Ok((vec![linked.clone()], ()))).await.unwrap();
    offer(&world.link(None), "Sub", Some(own.share)).await;
    reader.catch_up().await.unwrap();
    assert!(reader.state().mailbox_named("Archive/Sub").unwrap().link().is_some());
    // Own mailboxes are elsewhere.
    let denied = ops::create_mailbox(&reader.state(), "Other Users/me", Default::default()).unwrap_err();
    assert_eq!(denied.kind(), Kind::Denied);
    assert!(ops::rename_mailbox(&reader.state(), "Other Users/owner@x/Work", "Work").is_err());
    assert!(ops::rename_mailbox(&reader.state(), "Drafts", "Other Users").is_err());
}

/// The reader's key and the share's open the share. They open nothing else of the owner, and the
/// whole store without an account's key opens neither the share nor the offer.
#[tokio::test]
async fn account_keys_open_only_their_shares() {
    let world = Fixture::over(Store::memory(), 5);
    let accounts = world.accounts();
    let account = accounts.open(OWNER, &world.owner).await.unwrap();
    let reader = accounts.open(READER, &world.reader).await.unwrap();
    append(&account, "Archive", "shared", "$a").await.unwrap();
    append(&account, "Drafts", "private", "$a").await.unwrap();
    let link = world.link(None);
    let shared = share(&account, &accounts, "Archive", &link).await.unwrap();
    let for_reader = Link { owner: Some("owner@x".to_owned()), ..link.clone() };
    let offer = Offer { link: for_reader, name: "Archive".to_owned(), below: None };
    accounts.offer(READER, &world.public(READER), offer).await.unwrap();
    reader.catch_up().await.unwrap();
    let root = reader.state().links().next().unwrap().1.root.clone();
    assert!(root.same(&link.root));
    shared.checkpoint().await.unwrap();
    account.checkpoint().await.unwrap();
    let (mut opened, mut others) = (0, 0);
    let mut listed = world.store.list("acct", None);
    while let Some(object) = listed.try_next().await.unwrap() {
        let bytes = world.store.read(&object.path).await.unwrap();
        let parts: Vec<_> = object.path.split('/').collect();
        let of: AccountId = parts[1].parse().unwrap();
        if parts[2] != "log" {
            // An attacker with the store sees neither text nor the key.
            assert!(!bytes.windows(7).any(|w| w == b"Subject" || w == b"subject"));
            continue;
        }
        let position = Position(u64::from_str_radix(parts[3], 16).unwrap());
        let by_share = |id| entry::open(&AccountKeys::derive(&root, id), of, position, &bytes).is_ok();
        // The share's key, used as any account's.
        let opens = [OWNER, READER, link.share].into_iter().any(by_share);
        assert_eq!(opens, of == link.share, "{}", object.path);
        opened += usize::from(opens);
        others += usize::from(!opens);
        // No key that an operator could make up from what the store says opens an entry.
        let public = RootKey::generate(&*world.random);
        assert!(entry::open(&AccountKeys::derive(&public, of), of, position, &bytes).is_err());
    }
    assert!(opened > 0 && others > 0);
    // The owner's other messages are under keys of their own, which only the owner's log has.
    let private = {
        let state = account.state();
        let drafts = state.mailbox_named("Drafts").unwrap();
        state.message(drafts.all_rows().next().unwrap().message).unwrap()
    };
    let copied = {
        let state = shared.state();
        state.message(state.inbox().all_rows().next().unwrap().message).unwrap()
    };
    let stranger =
        message::MessageReader::new(&world.store, OWNER, private.object, &copied.key, private.layout);
    assert!(stranger.verify().await.is_err());
    assert!(account.reader(&private).verify().await.is_ok());
}

/// Sharing on a store that fails and loses replies, by processes that die: the mailbox is there
/// whole, or the share is.
async fn simulate(seed: u64) -> (bool, u64) {
    let plan =
        Plan { fail: 2, lose_reply: 4, delay: 200, delay_max: Duration::from_millis(20), ..Plan::default() };
    let faults = Faulty::new(Arc::new(InMemory::new()), plan, seed);
    let world = Fixture::over(Store::over(Arc::new(faults.clone())), seed);
    faults.calm(true);
    let accounts = world.accounts();
    let account = accounts.open(OWNER, &world.owner).await.unwrap();
    let mut acknowledged = BTreeMap::new();
    for n in 0..40 {
        append(&account, "Archive", &format!("mail {n}."), "$a").await.unwrap();
        acknowledged.insert(format!("mail {n}."), ());
    }
    faults.calm(false);
    let mut acknowledged_share = None;
    for attempt in 0..4 {
        // A new process each time; the one before is gone in the middle of what it did.
        let accounts = world.accounts();
        let Ok(account) = accounts.open(OWNER, &world.owner).await else { continue };
        if account.state().links().next().is_some() {
            break;
        }
        let link = world.link(None);
        let writer = tokio::spawn({
            let account = account.clone();
            async move {
                let subject = format!("during {attempt}.");
                append(&account, "Archive", &subject, "$b").await.is_ok().then_some(subject)
            }
        });
        let sharing = tokio::spawn({
            let (account, accounts, link) = (account.clone(), accounts.clone(), link.clone());
            async move { share(&account, &accounts, "Archive", &link).await.map(|_| ()) }
        });
        let killed = world.random.below(3) == 0;
        if killed {
            tokio::time::sleep(Duration::from_millis(world.random.below(400))).await;
            sharing.abort();
        }
        if let Ok(Some(subject)) = writer.await {
            acknowledged.insert(subject, ());
        }
        if let Ok(Ok(())) = sharing.await {
            acknowledged_share = Some(link.share);
        }
    }
    faults.calm(true);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let accounts = world.accounts();
    let account = accounts.open(OWNER, &world.owner).await.unwrap();
    let link = account.state().mailbox_named("Archive").unwrap().link().cloned();
    if let Some(share) = acknowledged_share {
        assert_eq!(link.as_ref().map(|link| link.share), Some(share), "an acknowledged share is gone");
    }
    let there = match &link {
        Some(link) => {
            let share = accounts.open(link.share, &link.root).await.unwrap();
            assert!(!share.is_damaged() && share.state().rights_of(READER) == Rights::parse("lr").unwrap());
            content(&share, "INBOX").await
        }
        None => content(&account, "Archive").await,
    };
    for subject in acknowledged.keys() {
        let count = there.iter().filter(|(raw, ..)| raw.contains(&format!("Subject: {subject}\r\n"))).count();
        assert_eq!(count, 1, "{subject} is there {count} times");
    }
    (link.is_some(), faults.faults())
}

#[test]
fn a_crash_leaves_the_mailbox_or_the_complete_share() {
    let (mut shared, mut faults) = (0, 0);
    for seed in 0..80 {
        let run = std::panic::catch_unwind(|| {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_time().start_paused(true).build().unwrap().block_on(simulate(seed))
        });
        let (s, f) = run.unwrap_or_else(|_| panic!("seed {seed} shows it"));
        shared += usize::from(s);
        faults += f;
    }
    assert!(shared > 20 && shared < 80 && faults > 50, "both ends should come up: {shared} {faults}");
}
