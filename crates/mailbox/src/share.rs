//! Turns mailboxes into shares, offers shares, creates mailboxes below them, and deletes them
//! (`docs/decisions/0010-sharing.md`).

pub(crate) mod due_offers;
pub mod leftovers;
pub(crate) mod recipient;
pub mod rekey;

use std::sync::Arc;

use sealpost_account::acl::Acl;
use sealpost_account::rights::Rights;
use sealpost_account::share::{self, About, Link};
use sealpost_account::{Account, Offer, ops, share_notice, usage};
use sealpost_base::{AccountId, Error, Kind, MailboxId, Random, Result, Timestamp, limits};
use sealpost_directory::{AccountName, AccountRecord, Directory, ShareRecord, Usage};
use sealpost_vault::{AccountKeys, RootKey};

use crate::access::Access;
use crate::refusal::{OverQuota, Refusal};
use crate::resolve::{ResolvedMailbox, User, follow};
use crate::usage_tracker::UsageTracker;
use due_offers::{is_due, set_due};
use recipient::trusted_key;
use rekey::offered_key;

/// The environment for sharing a user's mailboxes.
#[derive(Clone, Copy)]
pub struct Sharing<'a> {
    /// The user.
    pub user: User<'a>,
    /// The name of the user's account.
    pub name: &'a str,
    /// The directory of accounts and of share owners.
    pub directory: &'a Directory,
    /// The source of ids and keys.
    pub random: &'a dyn Random,
    /// The usage of other accounts.
    pub usage: &'a UsageTracker,
    /// Leftovers of shares from before this time are removed: see [`leftovers::removable_before`].
    pub before: Timestamp,
}

impl Sharing<'_> {
    /// Turns a mailbox of the user's own account into a share. Other sessions that have it open lose it,
    /// because its UIDs change. A refused call leaves nothing behind.
    pub async fn make(self, place: &ResolvedMailbox, acl: &Acl) -> Result<ResolvedMailbox> {
        let own = self.user.account;
        leftovers::remove(self.user.accounts, self.directory, self.before, own).await;
        share::check_can_be_shared(&own.state(), place.mailbox)?;
        let link = self.new_link();
        let record = self.record_share(own.id(), &link).await?;
        // Leftovers are found again later if this fails.
        let mut refused = false;
        let remembered = own.commit(|state| {
            let events = vec![share::unlinked(&link)];
            let checked = share::check_can_be_shared(state, place.mailbox)
                .and_then(|()| ops::check_objects(state, &events));
            refused = checked.is_err();
            checked.map(|()| (events, ()))
        });
        if let Err(error) = remembered.await {
            if refused {
                self.directory.delete_share(&record).await?;
            }
            return Err(error);
        }
        match self.fill_share(own, place, &link, acl).await {
            Ok(share) => {
                tracing::info!(account = %self.name, "a mailbox is shared now");
                let mailbox = share.state().inbox().id();
                let access = Access::Share { user: own.id(), owner: true };
                Ok(ResolvedMailbox { account: share, mailbox, access, rights: Rights::ALL, ..place.clone() })
            }
            Err(error) => {
                leftovers::abandon(self.directory, own, link.share).await;
                Err(error)
            }
        }
    }

    /// Moves the contents of a mailbox into its share.
    async fn fill_share(
        self,
        own: &Account,
        place: &ResolvedMailbox,
        link: &Link,
        acl: &Acl,
    ) -> Result<Arc<Account>> {
        let name = match own.state().mailbox(place.mailbox) {
            Some(mailbox) => mailbox.name().to_owned(),
            None => return Err(Error::not_found("the mailbox is gone")),
        };
        let above = own.state().last_uid_validity();
        let share = self.begin_share(link, above).await?;
        let noted = share::noted(&share.state());
        own.commit(|_| Ok((vec![noted.clone()], ()))).await?;
        let about = About { owner: own.id(), owner_name: self.name.to_owned(), name, closed: false };
        own.move_into_share(place.mailbox, &share, link.clone(), &about, acl).await?;
        Ok(share)
    }

    /// The id and the key of a new share.
    fn new_link(self) -> Link {
        let random = self.random;
        Link { share: AccountId::random(random), root: RootKey::generate(random), owner: None }
    }

    /// Records a share of that account, so that deleting the account also deletes the share.
    async fn record_share(self, owner: AccountId, link: &Link) -> Result<ShareRecord> {
        let public = AccountKeys::derive(&link.root, link.share).public();
        self.directory.record_share(owner, link.share, public).await
    }

    /// Creates the log of a recorded share. The UIDVALIDITY of its inbox is greater than `above`.
    async fn begin_share(self, link: &Link, above: u32) -> Result<Arc<Account>> {
        let share = self.user.accounts.open(link.share, &link.root).await?;
        share.commit(|state| Ok((vec![share::numbered_above(state, above)], ()))).await?;
        Ok(share)
    }

    /// Offers a share to an account that has a right there and to which an offer is due: the account gets the
    /// key and a link, unless it has one.
    pub async fn offer_to(self, place: &ResolvedMailbox, to: &AccountRecord) -> Result<()> {
        if !is_due(&place.account, to.id) {
            return Ok(());
        }
        let about = {
            let state = place.account.state();
            state.about().ok_or_else(|| Error::corrupt("a share record names no owner"))?
        };
        let share = &place.account;
        let sealed = async {
            let public = trusted_key(self.user.account, to).await?;
            // The share's present key: the user's own link may have an earlier one.
            let own = self.user.account;
            let root = offered_key(self.directory, own, share, about.owner, to.id, Some(public)).await?;
            let Some(root) = root else { return Ok(()) };
            let link = Link { share: share.id(), root, owner: Some(about.owner_name) };
            self.user.accounts.offer(to.id, &public, Offer { link, name: about.name, below: None }).await
        };
        match sealed.await {
            // The reply to the user does not reveal it, as for names without an account. The offer stays due.
            Err(error) if error.kind() == Kind::Corrupt => {
                tracing::error!(share = %place.account.id(), %error, "a shared mailbox is not offered");
                return Ok(());
            }
            sealed => sealed?,
        }
        set_due(&place.account, &[to.id], false).await
    }

    /// Offers a share to all accounts with rights there.
    async fn offer_to_members(self, place: &ResolvedMailbox) -> Result<()> {
        let acl = place.account.state().acl();
        for member in acl.members() {
            let Ok(name) = AccountName::parse(&member.name) else { continue };
            // Another account may have that name now.
            if let Some(record) = self.directory.find(&name).await?.filter(|r| r.id == member.account) {
                self.offer_to(place, &record).await?;
            }
        }
        Ok(())
    }

    /// Lets new mailboxes of the account inherit from a share above them (RFC 4314 §4, CREATE).
    pub async fn inherit(self, made: &[String]) -> Result<()> {
        for name in made {
            let Some(parent) = self.nearest(name) else { continue };
            let parent = self.user.resolve(&parent).await?;
            let acl = parent.account.state().acl();
            if parent.access == Access::Own || acl.members().next().is_none() {
                continue;
            }
            let place = self.user.resolve(name).await?;
            let place = self.make(&place, &acl.for_new_share()).await?;
            self.offer_to_members(&place).await?;
        }
        Ok(())
    }

    /// CREATE below another user's mailbox, with the `k` right there (RFC 4314 §4). The new mailbox belongs
    /// to that user and has the same access control list.
    pub async fn create_for_other(self, name: &str) -> Result<(), Refusal> {
        let none = || Error::denied(format!("only other users' mailboxes are below {}", share::OTHERS));
        let taken = ops::find(&self.user.account.state(), name).is_some();
        let parent_name = self.nearest(name).ok_or_else(none)?;
        let parent = self.user.resolve(&parent_name).await?.require(Rights::CREATE)?;
        if taken {
            return Err(Error::conflict(format!("mailbox {name} exists")).into());
        }
        let (Access::Share { .. }, Some(about)) = (parent.access, parent.account.state().about()) else {
            return Err(none().into());
        };
        let below = name.strip_prefix(parent_name.as_str()).unwrap_or(name).trim_start_matches('/');
        let full = format!("{}/{below}", about.name);
        sealpost_account::name::check(&full)?;
        let owner = AccountName::parse(&about.owner_name)?;
        let owner = self.directory.find(&owner).await?.filter(|record| record.id == about.owner);
        let owner = owner.ok_or_else(|| Error::invalid("the owner has no account any more"))?;
        let usage = self.usage.usage(owner.id).await?;
        if let Some(resource) = owner.quotas().exceeded(usage, Usage { mailboxes: 1, ..Usage::default() }) {
            return Err(OverQuota(resource).into());
        }
        if self.directory.shares_of(owner.id).await?.len() >= limits::SHARES {
            let text = "the owner has reached the limit on shared mailboxes";
            return Err(Error::limit(text).into());
        }
        let to_owner = trusted_key(self.user.account, &owner).await?;
        let acl = parent.account.state().acl().for_new_share();
        let (link, about) = (self.new_link(), About { name: full, ..about });
        let record = self.record_share(owner.id, &link).await?;
        let made = match self.begin_below(&parent, &link, &about, &acl).await {
            Ok(made) => made,
            Err(error) => {
                // No account has received the key.
                self.directory.delete_share(&record).await?;
                return Err(error.into());
            }
        };
        // The owner first: a mailbox to which only readers had links would have no owner.
        let offer = Offer { link: link.clone(), name: below.to_owned(), below: Some(parent.account.id()) };
        self.user.accounts.offer(owner.id, &to_owner, offer).await?;
        let offer = Offer {
            link: Link { owner: Some(about.owner_name.clone()), ..link.clone() },
            name: about.name.clone(),
            below: None,
        };
        // The share exists from here on. A member that gets no link now gets one with the next SETACL.
        let mut offered = Vec::new();
        for member in acl.members() {
            let Ok(name) = AccountName::parse(&member.name) else { continue };
            let told = async {
                match self.directory.find(&name).await?.filter(|r| r.id == member.account) {
                    Some(to) => {
                        let public = trusted_key(self.user.account, &to).await?;
                        self.user.accounts.offer(to.id, &public, offer.clone()).await
                    }
                    None => Ok(()),
                }
            };
            match told.await {
                Ok(()) => offered.push(member.account),
                Err(error) => {
                    tracing::warn!(share = %link.share, %error, "cannot link a new shared mailbox to a \
                    member's account")
                }
            }
        }
        set_due(&made, &offered, false).await?;
        Ok(())
    }

    /// Creates the log of a share below another one, with the same list.
    async fn begin_below(
        self,
        parent: &ResolvedMailbox,
        link: &Link,
        about: &About,
        acl: &Acl,
    ) -> Result<Arc<Account>> {
        // UIDVALIDITY must exceed that of any earlier mailbox below the share, whose log has the highest.
        let above = parent.account.state().last_uid_validity();
        let share = self.begin_share(link, above).await?;
        let noted = share::noted(&share.state());
        parent.account.commit(|_| Ok((vec![noted.clone()], ()))).await?;
        share.commit(|_| Ok((vec![about.event(), acl.event()], ()))).await?;
        Ok(share)
    }

    /// The nearest existing mailbox above a name.
    fn nearest(self, name: &str) -> Option<String> {
        let state = self.user.account.state();
        let mut above = name.rmatch_indices('/').map(|(at, _)| &name[..at]);
        above.find_map(|name| state.mailbox_named(name)).map(|mailbox| mailbox.name().to_owned())
    }
}

impl User<'_> {
    /// Deletes a share: first for all users, in its own log, then its name here. The owner's name is removed
    /// when a session of the owner next reads the share.
    pub async fn delete_share(self, place: &ResolvedMailbox) -> Result<()> {
        let access = place.access;
        let closed = place.account.commit(|state| {
            if !access.rights(state).contains(Rights::DELETE_MAILBOX) {
                return Err(Error::denied("you may no longer delete this mailbox"));
            }
            let about = state.about().ok_or_else(|| Error::corrupt("a share record names no owner"))?;
            let about = About { closed: true, ..about };
            // RFC 4314 §4: the list is deleted with the mailbox.
            Ok((vec![about.event(), Acl::default().event()], ()))
        });
        closed.await?;
        let own = self.account;
        let share = place.account.id();
        own.commit(|state| Ok((share_notice::forgotten(state, share).into_iter().collect(), ()))).await?;
        let link = own.state().link(place.own).cloned();
        if let Some(link) = link {
            // The rights are revoked, so following the link removes it.
            follow(self.accounts, own, place.own, &link).await?;
        }
        Ok(())
    }

    /// Removes the link to another user's mailbox that this user may not delete, from this user's names only.
    /// A user who may grant rights there can offer it again.
    pub async fn drop_link(self, place: &ResolvedMailbox) -> Result<()> {
        let own = self.account;
        let share = place.account.id();
        let committed = own.commit(|state| {
            let link = state.link(place.own).filter(|link| link.share == share);
            let Some(link) = link else { return Ok((Vec::new(), ())) };
            let forgotten = share_notice::forgotten(state, share);
            Ok((share::removed(state, place.own, link).into_iter().chain(forgotten).collect(), ()))
        });
        committed.await?;
        if let Err(error) = set_due(&place.account, &[own.id()], true).await {
            tracing::warn!(%share, %error, "SETACL cannot bring back a link that was removed before the \
                rights are taken away and given again");
        }
        Ok(())
    }

    /// The usage of the shares that the user's own account owns.
    pub async fn usage_in_own_shares(self) -> Result<Usage> {
        let own = self.account;
        let links: Vec<(MailboxId, Link)> = {
            let state = own.state();
            let links = state.links().filter(|(_, link)| link.owner.is_none());
            links.map(|(mailbox, link)| (mailbox.id(), link.clone())).collect()
        };
        let mut held = Usage::default();
        for (mailbox, link) in links {
            let (share, _, _) = follow(self.accounts, own, mailbox, &link).await?;
            held = held.with(usage::of_share(&share.state()));
        }
        Ok(held)
    }
}
