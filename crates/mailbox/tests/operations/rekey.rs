//! A share gets a new key when it loses a reader: remaining readers continue, and a former reader's keys open
//! no later mail.

use std::sync::Arc;

use object_store::memory::InMemory;
use sealpost_account::rights::Rights;
use sealpost_account::share::{self, Link};
use sealpost_account::{Account, Accounts, Flags, SpecialUses, newest_key};
use sealpost_base::{AccountId, Kind, MailboxId, Position, limits};
use sealpost_directory::{Secret, UnverifiedSlots};
use sealpost_mailbox::ops;
use sealpost_mailbox::resolve::{User, follow};
use sealpost_mailbox::rights::RightsChange;
use sealpost_mailbox::share::rekey;
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::{AccountKeys, Epoch, RootKey, ShareKeys, Store, entry};

use crate::fixture::{Fixture, Member, account};

const THEIRS: &str = "Other Users/me@localhost/Projects";

/// My mailbox, which you and they may read.
struct SharedMailbox {
    f: Fixture,
    they: Member,
}

impl SharedMailbox {
    async fn over(store: Store) -> Self {
        let f = Fixture::over(store).await;
        let they = Member::new(&f.directory, &f.accounts, "they@localhost").await;
        ops::create(f.sharing(&f.me), f.me.headroom, "Projects", SpecialUses::default()).await.unwrap();
        let w = SharedMailbox { f, they };
        w.grant("you@localhost", "lrs").await;
        w.grant("they@localhost", "lrswi").await;
        for member in [&w.f.you, &w.they] {
            member.account.catch_up().await.unwrap();
        }
        w
    }

    async fn new() -> Self {
        Self::over(Store::memory()).await
    }

    async fn grant(&self, to: &str, rights: &str) {
        let place = self.f.resolve(&self.f.me, "Projects").await;
        let change = RightsChange::Replace(Rights::parse(rights).unwrap());
        self.f.sharing(&self.f.me).grant(place, &account(to), change).await.unwrap();
    }

    /// Revokes your rights.
    async fn revoke(&self) {
        self.grant("you@localhost", "").await;
    }

    async fn append(&self, of: &Member, name: &str) -> Position {
        self.f.append(of, name, Flags::default()).await.ok().unwrap().unwrap()
    }

    /// My share.
    async fn share(&self) -> Arc<Account> {
        self.f.resolve(&self.f.me, "Projects").await.account
    }

    async fn epoch(&self) -> Epoch {
        let share = self.share().await;
        let record = self.f.directory.share(self.f.me.id(), share.id()).await.unwrap().unwrap();
        assert_eq!(record.epoch(), share.root().epoch());
        record.epoch()
    }

    /// The UIDs of the mailbox, as another process of a user sees them.
    async fn elsewhere(&self, of: &Member, name: &str) -> sealpost_base::Result<(usize, bool)> {
        let accounts = self.f.other_node();
        let own = accounts.open(of.id(), &of.account.root()).await?;
        let found = User { accounts: &accounts, account: &own }.resolve(name).await?;
        let state = found.account.state();
        Ok((state.inbox().len(), found.account.is_damaged()))
    }
}

fn link(of: &Account) -> (MailboxId, Link) {
    let state = of.state();
    let (mailbox, link) = state.links().next().unwrap();
    (mailbox.id(), link.clone())
}

/// Appends an entry that changes nothing.
async fn write(share: &Account) {
    let event = share::rekey_due(false);
    share.commit(|_| Ok((vec![event.clone()], ()))).await.unwrap();
}

/// Opens the entry at that position with that key of the share.
async fn open(f: &Fixture, share: AccountId, root: &RootKey, at: Position) -> Result<(), Kind> {
    let object = f.store.read(&format!("acct/{share}/log/{:016x}", at.0)).await.unwrap();
    let opened = entry::open(&AccountKeys::derive(root, share), share, at, &object);
    opened.map(|_| ()).map_err(|error| error.kind())
}

/// The attack: the key in the former reader's own log, everything that the store has now, and the keys of the
/// former reader's account.
#[tokio::test]
async fn a_former_reader_opens_no_later_mail() {
    let w = SharedMailbox::new().await;
    let (_, backup) = link(&w.f.you.account);
    let share = w.share().await;
    let before = w.append(&w.f.me, "Projects").await;
    assert_eq!(open(&w.f, share.id(), &backup.root, before).await, Ok(()));
    w.revoke().await;
    let revoked = share.state().position();
    for (of, name) in [(&w.f.me, "Projects"), (&w.they, THEIRS)] {
        let after = w.append(of, name).await;
        assert_eq!(open(&w.f, share.id(), &backup.root, after).await, Err(Kind::Denied));
        assert_eq!(open(&w.f, share.id(), &share.root(), after).await, Ok(()));
    }
    // Every entry from the revocation on.
    for at in revoked.0..=share.state().position().0 {
        assert!(open(&w.f, share.id(), &backup.root, Position(at)).await.is_err(), "entry {at}");
    }
    // The stored objects do not reveal who may read it.
    let records = format!("shares/{}/{}", w.f.me.id(), share.id());
    for version in w.f.store.names_below(&records).await.unwrap() {
        let object = w.f.store.read(&format!("{records}/{version}")).await.unwrap();
        let names = |account: AccountId| object.windows(16).any(|bytes| bytes == account.0);
        assert!(names(w.f.me.id()) && !names(w.f.you.id()) && !names(w.they.id()));
    }
    // The former reader cannot get the new key from the record either, nor through the old link.
    let record = w.f.directory.share(w.f.me.id(), share.id()).await.unwrap().unwrap();
    let keys = w.f.you.account.keys();
    let taken = newest_key(&record, w.f.you.id(), &keys, &backup.root);
    assert_eq!(taken.err().unwrap().kind(), Kind::NotFound);
    let accounts = w.f.other_node();
    assert_eq!(accounts.open(share.id(), &backup.root).await.err().unwrap().kind(), Kind::Denied);
    share.checkpoint().await.unwrap();
    assert_eq!(accounts.open(share.id(), &backup.root).await.err().unwrap().kind(), Kind::Denied);
    // The name is removed, and the list of mailboxes still works.
    assert!(w.f.is_missing(&w.f.you, THEIRS).await);
    assert_eq!(w.f.you.account.state().links().count(), 0);
    w.f.user(&w.f.you).links().await.unwrap();
}

#[tokio::test]
async fn remaining_readers_keep_using_their_key() {
    let w = SharedMailbox::new().await;
    let nodes = w.f.other_node();
    let own = nodes.open(w.they.id(), &w.they.account.root()).await.unwrap();
    let elsewhere = User { accounts: &nodes, account: &own }.resolve(THEIRS).await.unwrap();
    let here = w.f.resolve(&w.they, THEIRS).await;
    let validity = here.account.state().inbox().uid_validity();
    w.append(&w.f.me, "Projects").await;
    w.revoke().await;
    assert_eq!(w.epoch().await, Epoch(2));
    w.append(&w.f.me, "Projects").await;
    // In the process that made the key, and in another one that is reading or writing.
    assert!(here.account.root().same(&w.share().await.root()));
    write(&elsewhere.account).await;
    elsewhere.account.refresh().await.unwrap();
    for account in [&here.account, &elsewhere.account] {
        account.refresh().await.unwrap();
        assert_eq!(account.root().epoch(), Epoch(2));
        let state = account.state();
        assert_eq!((state.inbox().len(), state.inbox().uid_validity()), (2, validity));
        assert!(!account.is_damaged());
        // The first entry under the new key says this: it counts too where the key had to be fetched for it.
        assert!(!state.is_rekey_due());
    }
    assert!(w.append(&w.they, THEIRS).await > Position::ZERO);
    assert_eq!(w.f.uids(&w.f.me, "Projects").await, [1, 2, 3]);
}

#[tokio::test]
async fn an_absent_reader_finds_the_key_in_the_record() {
    let w = SharedMailbox::new().await;
    for round in 0..3 {
        w.append(&w.f.me, "Projects").await;
        w.revoke().await;
        w.grant("you@localhost", "lr").await;
        assert_eq!(w.epoch().await, Epoch(round + 2));
    }
    // The log has nothing that the key in the link opens.
    let share = w.share().await;
    for _ in 0..3 {
        w.append(&w.f.me, "Projects").await;
        share.checkpoint().await.unwrap();
    }
    assert_eq!(link(&w.they.account).1.root.epoch(), Epoch(1));
    assert_eq!(w.elsewhere(&w.they, THEIRS).await.unwrap(), (6, false));
    // From then on the reader's own log has it.
    w.they.account.refresh().await.unwrap();
    let (mailbox, link) = link(&w.they.account);
    assert_eq!(w.they.account.state().share_root(&link).epoch(), Epoch(4));
    assert_eq!(w.elsewhere(&w.they, THEIRS).await.unwrap(), (6, false));
    // A reader with new rights was offered the newest key.
    w.f.you.account.catch_up().await.unwrap();
    assert_eq!(w.elsewhere(&w.f.you, THEIRS).await.unwrap(), (6, false));
    // Removing the link removes the key.
    let place = w.f.resolve(&w.they, THEIRS).await;
    w.f.user(&w.they).drop_link(&place).await.unwrap();
    let state = w.they.account.state();
    assert!(state.link(mailbox).is_none());
    assert!(state.share_root(&link).same(&link.root), "no key is left behind");
}

#[tokio::test]
async fn a_change_that_takes_no_last_right_makes_no_key() {
    let w = SharedMailbox::new().await;
    for rights in ["l", "lrs", "lr"] {
        w.grant("you@localhost", rights).await;
    }
    w.grant("nobody@localhost", "l").await;
    assert_eq!(w.epoch().await, Epoch(1));
    // A name without an account is treated like an account.
    w.grant("nobody@localhost", "").await;
    assert_eq!(w.epoch().await, Epoch(2));
    let taken =
        sealpost_mailbox::rights::Grantee::Account { name: w.f.you.record.name.clone(), negative: true };
    let place = w.f.resolve(&w.f.me, "Projects").await;
    let all = RightsChange::Replace(Rights::ALL);
    w.f.sharing(&w.f.me).grant(place, &taken, all).await.unwrap();
    assert_eq!(w.epoch().await, Epoch(3), "negative rights take the last one too");
}

/// A crash between any two store requests: either nothing has happened, or the owner's next session completes
/// it.
#[tokio::test]
async fn a_kill_at_any_call_leaves_readers_a_key() {
    let stored = Arc::new(InMemory::new());
    let before = SharedMailbox::over(Store::over(stored.clone())).await;
    before.append(&before.f.me, "Projects").await;
    let mut kills = 0;
    loop {
        let faulty = Faulty::new(Arc::new(stored.fork()), Plan::default(), 1);
        let f = before.f.copied(Store::over(Arc::new(faulty.clone()))).await;
        let they = before.they.on(&f.accounts).await;
        let w = SharedMailbox { f, they };
        let place = w.f.resolve(&w.f.me, "Projects").await;
        faulty.die_after(kills);
        let change = RightsChange::Replace(Rights::NONE);
        let _ = w.f.sharing(&w.f.me).grant(place.clone(), &account("you@localhost"), change).await;
        let is_done = place.account.root().epoch() > Epoch::FIRST && !place.account.state().is_rekey_due();
        faulty.die_after(u64::MAX);
        // Another process, of a reader and then of the owner.
        let accounts = w.f.other_node();
        let (they, me) = (w.they.on(&accounts).await, w.f.me.on(&accounts).await);
        let found = User { accounts: &accounts, account: &they.account }.resolve(THEIRS).await.unwrap();
        assert_eq!((found.account.state().inbox().len(), found.account.is_damaged()), (1, false));
        let mine = User { accounts: &accounts, account: &me.account }.resolve("Projects").await.unwrap();
        let (is_revoked, is_due) = {
            let state = mine.account.state();
            (state.rights_of(w.f.you.id()).is_empty(), state.is_rekey_due())
        };
        let epoch = mine.account.root().epoch();
        assert_eq!((is_revoked, is_due), (epoch > Epoch::FIRST, false), "{kills} calls");
        assert!(epoch <= Epoch(3), "{kills} calls: at most the key of the killed process and one more");
        let record = w.f.directory.share(me.id(), mine.account.id()).await.unwrap().unwrap();
        assert_eq!(record.epoch(), epoch);
        found.account.refresh().await.unwrap();
        write(&found.account).await;
        mine.account.refresh().await.unwrap();
        assert_eq!(mine.account.state().position(), found.account.state().position());
        if is_done {
            break;
        }
        kills += 1;
    }
    assert!(kills > 10, "it was killed {kills} times");
}

/// A process was killed after it recorded a key and before it confirmed it. The next one does not check whom
/// that key is for, and makes another.
#[tokio::test]
async fn a_key_that_is_recorded_and_not_confirmed_is_replaced() {
    let w = SharedMailbox::new().await;
    let share = w.share().await;
    let record = w.f.directory.share(w.f.me.id(), share.id()).await.unwrap().unwrap();
    let next = share.root().next(&*w.f.random).unwrap();
    let to = [(w.f.me.id(), w.f.me.account.public()), (w.they.id(), w.they.account.public())];
    let keys = ShareKeys::seal(share.id(), &next, &to, &*w.f.random).unwrap();
    assert!(w.f.directory.set_share_keys(&record, next.delivery_key(share.id()), keys).await.unwrap());
    rekey::set_due(&share).await.unwrap();
    let (mailbox, link) = link(&w.f.me.account);
    let (share, ..) = follow(&w.f.accounts, &w.f.me.account, mailbox, &link).await.unwrap();
    assert!(!share.state().is_rekey_due() && share.root().follows(&next));
    assert_eq!(w.epoch().await, Epoch(3));
    assert_eq!(w.elsewhere(&w.f.you, THEIRS).await.unwrap(), (0, false));
}

/// A reader with the old key and no other right than to read does not rekey: the owner does.
#[tokio::test]
async fn an_administrator_makes_a_due_key() {
    let w = SharedMailbox::new().await;
    rekey::set_due(&w.f.resolve(&w.they, THEIRS).await.account).await.unwrap();
    w.f.resolve(&w.they, THEIRS).await;
    let share = w.f.resolve(&w.they, THEIRS).await.account;
    assert!(share.state().is_rekey_due() && share.root().epoch() == Epoch(1));
    w.f.resolve(&w.f.me, "Projects").await;
    assert!(!share.state().is_rekey_due() && share.root().epoch() == Epoch(2));
}

/// A thief of `server.key` writes a record with a forged key, sealed to all readers.
#[tokio::test]
async fn a_forged_key_in_the_record_is_refused() {
    let w = SharedMailbox::new().await;
    w.revoke().await;
    let share = w.share().await;
    w.f.resolve(&w.they, THEIRS).await;
    let to = [(w.f.me.id(), w.f.me.account.public()), (w.they.id(), w.they.account.public())];
    // Without the earlier keys, and with the first one, which a former reader has.
    let first = link(&w.they.account).1.root;
    let foreign = RootKey::generate(&*w.f.random);
    for base in [foreign, first] {
        let record = w.f.directory.share(w.f.me.id(), share.id()).await.unwrap().unwrap();
        let mut forged = base.next(&*w.f.random).unwrap();
        while forged.epoch() <= record.epoch() {
            forged = forged.next(&*w.f.random).unwrap();
        }
        let keys = ShareKeys::seal(share.id(), &forged, &to, &*w.f.random).unwrap();
        let public = forged.delivery_key(share.id());
        assert!(w.f.directory.set_share_keys(&record, public, keys).await.unwrap());
        for (of, name) in [(&w.f.me, "Projects"), (&w.they, THEIRS)] {
            of.account.refresh().await.unwrap();
            assert_eq!(w.elsewhere(of, name).await.unwrap(), (0, false), "the kept key is used");
            w.f.resolve(of, name).await.account.refresh().await.unwrap();
        }
        // The next key replaces it.
        w.grant("they@localhost", "").await;
        assert!(!w.share().await.state().is_rekey_due());
        assert!(!w.share().await.root().follows(&forged));
        let record = w.f.directory.share(record.owner, share.id()).await.unwrap().unwrap();
        assert!(record.public == w.share().await.root().delivery_key(share.id()));
        w.grant("they@localhost", "lrswi").await;
        // Its readers open it before the thief forges the next one.
        w.f.resolve(&w.they, THEIRS).await;
    }
}

/// A thief of `server.key` writes a record that omits the owner, or is for another key of the owner.
#[tokio::test]
async fn a_forged_record_keeps_no_owner_from_a_new_key() {
    let w = SharedMailbox::new().await;
    for is_left_out in [true, false] {
        let share = w.share().await;
        let record = w.f.directory.share(w.f.me.id(), share.id()).await.unwrap().unwrap();
        let forged = share.root().next(&*w.f.random).unwrap().next(&*w.f.random).unwrap();
        let later = RootKey::generate(&*w.f.random).next(&*w.f.random).unwrap();
        let to = match is_left_out {
            true => vec![(w.they.id(), w.they.account.public())],
            false => vec![(w.f.me.id(), later.delivery_key(w.f.me.id()))],
        };
        let keys = ShareKeys::seal(share.id(), &forged, &to, &*w.f.random).unwrap();
        let public = forged.delivery_key(share.id());
        assert!(w.f.directory.set_share_keys(&record, public, keys).await.unwrap());
        rekey::set_due(&share).await.unwrap();
        let share = w.share().await;
        assert!(!share.state().is_rekey_due() && !share.root().follows(&forged));
        assert_eq!(w.elsewhere(&w.they, THEIRS).await.unwrap(), (0, false));
    }
}

/// A thief of `server.key` replaces the public key of a reader before another key is made.
#[tokio::test]
async fn a_reader_with_a_forged_public_key_is_left_out() {
    let w = SharedMailbox::new().await;
    let thief = RootKey::generate(&*w.f.random);
    let name = &w.they.record.name;
    let public = w.they.record.public;
    let forge = async |public| {
        let forged = w.f.directory.update(name, |record| {
            record.public = public;
            Ok(())
        });
        forged.await.unwrap();
    };
    forge(thief.delivery_key(w.they.id())).await;
    w.revoke().await;
    assert_eq!(w.epoch().await, Epoch(2));
    assert!(w.f.is_missing(&w.they, THEIRS).await);
    forge(public).await;
    w.grant("they@localhost", "lr").await;
    w.they.account.catch_up().await.unwrap();
    assert_eq!(w.elsewhere(&w.they, THEIRS).await.unwrap(), (0, false), "offered with the next SETACL");
}

/// An account with a new account key gets the key of the share sealed to that one only.
#[tokio::test]
async fn old_account_keys_open_no_later_key_of_a_share() {
    let w = SharedMailbox::new().await;
    let old = w.f.you.account.keys();
    let (_, root) =
        w.f.directory.unlock(&w.f.you.record.name, Secret::new(b"secret").unwrap()).await.unwrap();
    let rekeyed = w.f.directory.rekey(&w.f.you.record.name, &root, UnverifiedSlots::Refuse).await.unwrap();
    let share = w.share().await;
    rekey::set_due(&share).await.unwrap();
    assert_eq!(w.epoch().await, Epoch(2));
    let record = w.f.directory.share(w.f.me.id(), share.id()).await.unwrap().unwrap();
    let known = link(&w.f.you.account).1.root;
    assert!(newest_key(&record, w.f.you.id(), &old, &known).is_err());
    let new = AccountKeys::derive(&rekeyed.root, w.f.you.id());
    assert!(newest_key(&record, w.f.you.id(), &new, &known).unwrap().unwrap().same(&share.root()));
    // A session of the owner with an earlier account key makes none.
    let (_, root) = w.f.directory.unlock(&w.f.me.record.name, Secret::new(b"secret").unwrap()).await.unwrap();
    w.f.directory.rekey(&w.f.me.record.name, &root, UnverifiedSlots::Refuse).await.unwrap();
    rekey::set_due(&share).await.unwrap();
    let denied = rekey::rekey_if_due(&w.f.directory, &w.f.me.account, &share).await;
    assert_eq!(denied.err().unwrap().kind(), Kind::Denied);
}

#[tokio::test]
async fn after_the_last_epoch_rights_are_still_taken_away() {
    let w = SharedMailbox::new().await;
    let (share, full) = (w.share().await, limits::ACL_ENTRIES);
    let mut root = share.root();
    while let Some(next) = root.next(&*w.f.random) {
        root = next;
    }
    let record = w.f.directory.share(w.f.me.id(), share.id()).await.unwrap().unwrap();
    let mut to = vec![(w.f.me.id(), w.f.me.account.public()), (w.they.id(), w.they.account.public())];
    to.extend((0..full).map(|n| (AccountId([n as u8; 16]), w.they.account.public())));
    let keys = ShareKeys::seal(share.id(), &root, &to, &*w.f.random).unwrap();
    assert!(w.f.directory.set_share_keys(&record, root.delivery_key(share.id()), keys).await.unwrap());
    let records = format!("shares/{}/{}", w.f.me.id(), share.id());
    let newest = w.f.store.names_below(&records).await.unwrap().pop().unwrap();
    let bytes = w.f.store.read(&format!("{records}/{newest}")).await.unwrap().len();
    assert!(bytes < limits::RECORD_BYTES / 16, "as large as a record can be: {bytes}");
    w.revoke().await;
    assert_eq!(w.epoch().await, Epoch::LAST);
    assert!(!w.share().await.state().is_rekey_due(), "it is said once");
    assert!(w.share().await.state().rights_of(w.f.you.id()).is_empty());
    assert_eq!(w.elsewhere(&w.they, THEIRS).await.unwrap(), (0, false));
}

/// Two administrators revoke rights at the same time, on two nodes.
#[tokio::test]
async fn two_revocations_at_once_leave_no_former_reader_a_key() {
    for seed in 0..24u64 {
        let plan = Plan { delay: 400, delay_max: std::time::Duration::from_millis(9), ..Plan::default() };
        let faulty = Faulty::new(Arc::new(InMemory::new()), plan, seed);
        faulty.calm(true);
        let w = SharedMailbox::over(Store::over(Arc::new(faulty.clone()))).await;
        w.grant("they@localhost", "lra").await;
        let one = w.f.resolve(&w.f.me, "Projects").await;
        let nodes: Accounts = w.f.other_node();
        let own = nodes.open(w.they.id(), &w.they.account.root()).await.unwrap();
        let user = User { accounts: &nodes, account: &own };
        w.grant("third@localhost", "lr").await;
        let two = user.resolve(THEIRS).await.unwrap();
        let none = RightsChange::Replace(Rights::NONE);
        let by_them =
            sealpost_mailbox::share::Sharing { user, name: "they@localhost", ..w.f.sharing(&w.they) };
        let (you, third) = (account("you@localhost"), account("third@localhost"));
        faulty.calm(false);
        let (first, second) =
            tokio::join!(w.f.sharing(&w.f.me).grant(one, &you, none), by_them.grant(two, &third, none));
        faulty.calm(true);
        first.unwrap();
        second.unwrap();
        let share = w.share().await;
        share.refresh().await.unwrap();
        assert!(!share.state().is_rekey_due(), "seed {seed}");
        let record = w.f.directory.share(w.f.me.id(), share.id()).await.unwrap().unwrap();
        let (you, known) = (&w.f.you, link(&w.f.you.account).1.root);
        let taken = newest_key(&record, you.id(), &you.account.keys(), &known);
        assert_eq!(taken.err().map(|error| error.kind()), Some(Kind::NotFound), "seed {seed}");
        assert_eq!(record.epoch(), share.root().epoch());
        for (of, name) in [(&w.f.me, "Projects"), (&w.they, THEIRS)] {
            assert_eq!(w.elsewhere(of, name).await.unwrap(), (0, false));
        }
    }
}
