//! Rights of users, and changes by users with the right to administer.

use sealpost_account::SpecialUses;
use sealpost_account::rights::Rights;
use sealpost_base::{Kind, SeededRandom};
use sealpost_directory::{Secret, UnverifiedSlots};
use sealpost_mailbox::ops;
use sealpost_mailbox::rights::{Granted, Grantee, RightsChange, access_list};
use sealpost_vault::{Identity, RootKey};

use crate::fixture::{Fixture, account};

const THEIRS: &str = "Other Users/me@localhost/Projects";

async fn with_projects() -> Fixture {
    let w = Fixture::new().await;
    ops::create(w.sharing(&w.me), w.me.headroom, "Projects", SpecialUses::default()).await.unwrap();
    w
}

#[tokio::test]
async fn the_first_right_for_another_makes_a_share() {
    let w = with_projects().await;
    let place = w.resolve(&w.me, "Projects").await;
    let nothing = RightsChange::Remove(Rights::READ);
    let granted = w.sharing(&w.me).grant(place.clone(), &account("you@localhost"), nothing).await.unwrap();
    assert_eq!(granted, Granted::InPlace, "a list without rights is none");
    assert!(w.is_missing(&w.you, THEIRS).await);
    assert_eq!(w.grant("Projects", "lr").await, Granted::Shared);
    assert_eq!(w.resolve(&w.you, THEIRS).await.rights.to_string(), "lr");
    assert_ne!(w.resolve(&w.me, "Projects").await.account.id(), place.account.id());
    let add = RightsChange::Add(Rights::INSERT);
    let place = w.resolve(&w.me, "Projects").await;
    let granted = w.sharing(&w.me).grant(place, &account("you@localhost"), add).await.unwrap();
    assert_eq!(granted, Granted::InPlace);
    assert_eq!(w.resolve(&w.you, THEIRS).await.rights.to_string(), "lri");
}

#[tokio::test]
async fn rights_of_owner_and_anyone_cannot_change() {
    let w = with_projects().await;
    w.grant("Projects", "lra").await;
    // By the owner, and by another user who may administer the mailbox.
    for (who, name) in [(&w.me, "Projects"), (&w.you, THEIRS)] {
        let grant = async |to: Grantee, change| {
            let place = w.resolve(who, name).await;
            w.sharing(who).grant(place, &to, change).await.map_err(|error| error.kind())
        };
        let (add, remove) = (RightsChange::Add(Rights::READ), RightsChange::Remove(Rights::READ));
        assert_eq!(grant(account("me@localhost"), add).await, Ok(Granted::InPlace));
        assert_eq!(grant(account("me@localhost"), remove).await, Err(Kind::Invalid));
        assert_eq!(grant(Grantee::Anyone, add).await, Err(Kind::Invalid));
        assert_eq!(grant(Grantee::Anyone, remove).await, Ok(Granted::InPlace));
        // The reply does not reveal whether the account exists.
        assert_eq!(grant(account("nobody@localhost"), add).await, Ok(Granted::InPlace));
        let revoked = w.sharing(who).revoke(w.resolve(who, name).await, &account("me@localhost")).await;
        assert_eq!(revoked.err().map(|error| error.kind()), Some(Kind::Invalid));
    }
}

#[tokio::test]
async fn a_user_without_administer_right_neither_changes_nor_sees_rights() {
    let w = with_projects().await;
    w.grant("Projects", "lr").await;
    let place = w.resolve(&w.you, THEIRS).await;
    let (sharing, to) = (w.sharing(&w.you), account("you@localhost"));
    let add = RightsChange::Add(Rights::ALL);
    assert_eq!(sharing.grant(place.clone(), &to, add).await.err().unwrap().kind(), Kind::Denied);
    assert_eq!(sharing.revoke(place.clone(), &to).await.err().unwrap().kind(), Kind::Denied);
    assert_eq!(sharing.grantable(place.clone(), &to).await.err().unwrap().kind(), Kind::Denied);
    assert_eq!(access_list(place).err().unwrap().kind(), Kind::Denied);
    let place = w.resolve(&w.you, "INBOX").await;
    assert_eq!(access_list(place).unwrap().owner, None, "a mailbox of one's own");
}

#[tokio::test]
async fn a_right_revoked_meanwhile_refuses_the_change() {
    let w = with_projects().await;
    w.grant("Projects", "lra").await;
    let place = w.resolve(&w.you, THEIRS).await;
    w.grant("Projects", "lr").await;
    let add = RightsChange::Add(Rights::ALL);
    let refused = w.sharing(&w.you).grant(place, &account("you@localhost"), add).await;
    assert_eq!(refused.err().unwrap().kind(), Kind::Denied);
}

#[tokio::test]
async fn revoking_all_rights_removes_the_link() {
    let w = with_projects().await;
    w.grant("Projects", "lr").await;
    let taken = Grantee::Account { name: w.you.record.name.clone(), negative: true };
    let read = RightsChange::Replace(Rights::READ);
    let place = w.resolve(&w.me, "Projects").await;
    w.sharing(&w.me).grant(place.clone(), &taken, read).await.unwrap();
    assert_eq!(w.resolve(&w.you, THEIRS).await.rights.to_string(), "l");
    let list = access_list(place.clone()).unwrap();
    assert_eq!(list.owner.as_deref(), Some("me@localhost"));
    let entries: Vec<_> = list.entries.iter().map(|e| (e.negative, e.rights.to_string())).collect();
    assert_eq!(entries, [(false, "lr".to_owned()), (true, "r".to_owned())]);
    w.sharing(&w.me).revoke(place.clone(), &taken).await.unwrap();
    assert_eq!(w.resolve(&w.you, THEIRS).await.rights.to_string(), "lr");
    w.sharing(&w.me).revoke(place, &account("you@localhost")).await.unwrap();
    assert!(w.is_missing(&w.you, THEIRS).await);
    assert_eq!(w.you.account.state().links().count(), 0);
}

#[tokio::test]
async fn grantable_are_all_rights_but_to_the_inbox() {
    let w = with_projects().await;
    let grantable = async |name: &str, to: Grantee| {
        let found = w.sharing(&w.me).grantable(w.resolve(&w.me, name).await, &to).await.unwrap();
        (found.always, found.each)
    };
    let (none, all) = (Rights::NONE, Rights::ALL);
    assert_eq!(grantable("Projects", account("you@localhost")).await, (none, all));
    assert_eq!(grantable("Projects", account("me@localhost")).await, (all, none));
    assert_eq!(grantable("Projects", Grantee::Anyone).await, (none, none));
    assert_eq!(grantable("inbox", account("you@localhost")).await, (none, none));
}

/// A user who changes rights repeatedly does not make the other account's log grow.
#[tokio::test]
async fn only_the_first_right_appends_to_the_sharees_log() {
    let w = with_projects().await;
    let at = || w.you.account.state().position();
    w.grant("Projects", "lr").await;
    let offered = at();
    for rights in ["lr", "lri", "l", "lr", "lr"] {
        w.grant("Projects", rights).await;
    }
    let minus = Grantee::Account { name: w.you.record.name.clone(), negative: true };
    for _ in 0..3 {
        let place = w.resolve(&w.me, "Projects").await;
        w.sharing(&w.me).grant(place.clone(), &minus, RightsChange::Replace(Rights::READ)).await.unwrap();
        w.sharing(&w.me).revoke(place, &minus).await.unwrap();
    }
    w.you.account.catch_up().await.unwrap();
    assert_eq!(at(), offered);
    assert_eq!(w.resolve(&w.you, THEIRS).await.rights.to_string(), "lr");
    // The same below it: a mailbox created there is offered once.
    ops::create(w.sharing(&w.me), w.me.headroom, "Projects/a", SpecialUses::default()).await.unwrap();
    w.you.account.catch_up().await.unwrap();
    let below = at();
    assert_eq!(below.0, offered.0 + 1);
    w.grant("Projects/a", "lr").await;
    assert_eq!(at(), below);
    // Renewed rights are one entry.
    w.grant("Projects", "").await;
    assert_eq!(at(), below);
    w.grant("Projects", "lr").await;
    assert_eq!(at().0, below.0 + 1);
}

#[tokio::test]
async fn a_removed_link_returns_with_the_next_right() {
    let w = with_projects().await;
    w.grant("Projects", "lr").await;
    let theirs = w.resolve(&w.you, THEIRS).await;
    w.user(&w.you).drop_link(&theirs).await.unwrap();
    assert!(w.is_missing(&w.you, THEIRS).await);
    w.resolve(&w.me, "Projects").await.account.catch_up().await.unwrap();
    w.grant("Projects", "lr").await;
    assert_eq!(w.resolve(&w.you, THEIRS).await.rights.to_string(), "lr");
}

/// A thief of `server.key` replaces the public key of an account, to get what is shared with it.
#[tokio::test]
async fn a_share_is_sealed_only_to_signed_keys() {
    let w = with_projects().await;
    for name in ["Plans", "Notes", "Letters"] {
        ops::create(w.sharing(&w.me), w.me.headroom, name, SpecialUses::default()).await.unwrap();
    }
    let (id, name) = (w.you.record.id, w.you.record.name.clone());
    let (_, root) = w.directory.unlock(&name, Secret::new(b"secret").unwrap()).await.unwrap();
    let thief = RootKey::generate(&SeededRandom::new(9));
    let forge = async |public, identity: Option<Identity>| {
        let forged = w.directory.update(&name, |record| {
            (record.public, record.identity) = (public, identity.clone().map(Box::new));
            Ok(())
        });
        forged.await.unwrap();
    };
    let right = Identity::of(&root, id);
    let at = async || {
        w.you.account.catch_up().await.ok();
        w.store.names_below(&format!("acct/{id}/log")).await.unwrap().len()
    };
    // The first offer is refused too, if only the key was replaced.
    forge(thief.delivery_key(id), Some(right.clone())).await;
    w.grant("Projects", "lr").await;
    assert_eq!(at().await, 0, "nothing is offered");
    forge(root.delivery_key(id), Some(right.clone())).await;
    w.grant("Projects", "lr").await;
    assert_eq!(w.resolve(&w.you, THEIRS).await.rights.to_string(), "lr");
    // Later offers are refused with any record of the thief.
    let before = at().await;
    for (mailbox, identity) in
        [("Plans", Some(Identity::of(&thief, id))), ("Notes", Some(right.clone())), ("Letters", None)]
    {
        forge(thief.delivery_key(id), identity).await;
        w.grant(mailbox, "lr").await;
        assert_eq!(at().await, before, "{mailbox}");
    }
    // The owner corrects the record, and even gets another key.
    w.directory.set_password(&name, &root, Secret::new(b"secret").unwrap()).await.unwrap();
    w.grant("Plans", "lr").await;
    assert_eq!(at().await, before + 1);
    w.directory.rekey(&name, &root, UnverifiedSlots::Refuse).await.unwrap();
    w.grant_only("Notes", "lr").await;
    assert_eq!(at().await, before + 2);
}

/// Accounts of earlier versions can be shared with as before.
#[tokio::test]
async fn an_account_is_trusted_until_it_has_an_identity() {
    let w = with_projects().await;
    let name = w.you.record.name.clone();
    let stripped = w.directory.update(&name, |record| {
        record.identity = None;
        Ok(())
    });
    stripped.await.unwrap();
    w.grant("Projects", "lr").await;
    assert_eq!(w.resolve(&w.you, THEIRS).await.rights.to_string(), "lr");
    assert_eq!(w.me.account.state().pinned_identity(w.you.id()), None);
}
