//! Users' rights to a mailbox, and changes of them (RFC 4314, `docs/decisions/0010-sharing.md`).
//!
//! A mailbox that was never shared has no list: its owner has all rights. The first right for another account
//! turns it into a share. The owner's rights cannot change, and `anyone` cannot have rights, because that
//! would include the operator.

use sealpost_account::AccountState;
use sealpost_account::acl::{Acl, AclEntry};
use sealpost_account::rights::Rights;
use sealpost_account::share::rekey_due;
use sealpost_base::{AccountId, Error, Result};
use sealpost_directory::{AccountName, AccountRecord, Directory};
use sealpost_vault::Hash;

use crate::access::Access;
use crate::resolve::ResolvedMailbox;
use crate::share::Sharing;
use crate::share::due_offers::{is_due, set_due};
use crate::share::recipient::pretend_trusted_key;
use crate::share::rekey::{is_due_after, offered_key, rekey_if_due};

/// The subject of rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grantee {
    /// One account.
    Account {
        /// Its name.
        name: AccountName,
        /// Whether the entry denies rights instead of granting them (RFC 4314 §2).
        negative: bool,
    },
    /// All accounts (`anyone`).
    Anyone,
}

/// A change of rights (RFC 4314 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RightsChange {
    /// Sets exactly these rights.
    Replace(Rights),
    /// Adds these rights.
    Add(Rights),
    /// Removes these rights.
    Remove(Rights),
}

/// The effect of a change of rights on the mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granted {
    /// The mailbox stays in its log.
    InPlace,
    /// The mailbox became a share: it is in another log, with other UIDs.
    Shared,
}

/// The accounts with rights to a mailbox, and those rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessList {
    /// The name of the owner's account, which has all rights; `None` if the user owns it.
    pub owner: Option<String>,
    /// The rights of other accounts.
    pub entries: Vec<AclEntry>,
}

/// Rights that an account can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantableRights {
    /// Rights that it always has.
    pub always: Rights,
    /// Rights that can be granted individually.
    pub each: Rights,
}

impl RightsChange {
    /// The rights after the change.
    pub fn applied(self, had: Rights) -> Rights {
        match self {
            RightsChange::Replace(rights) => rights,
            RightsChange::Add(rights) => had.with(rights),
            RightsChange::Remove(rights) => had.without(rights),
        }
    }
}

impl Sharing<'_> {
    /// Changes the rights of a grantee to a mailbox, and offers a link to an account that gets rights.
    /// `Shared` if the mailbox was not shared before.
    ///
    /// # Errors
    /// `Denied` without the right to do so; `Invalid` if the grantee is `anyone` or the owner; `Limit` if the
    /// list is full; as [`Sharing::make`].
    pub async fn grant(
        self,
        mailbox: ResolvedMailbox,
        to: &Grantee,
        change: RightsChange,
    ) -> Result<Granted> {
        let mailbox = mailbox.require(Rights::ADMINISTER)?;
        let Grantee::Account { name, negative } = to else {
            if change.applied(Rights::NONE).is_empty() {
                return Ok(Granted::InPlace);
            }
            let text = "rights for anyone would include the operator, but only the owner and named users may \
                        read this mailbox";
            return Err(Error::invalid(text));
        };
        let (to, negative) = (Identified::of(self.directory, name).await?, *negative);
        if owns(&mailbox, to.id()) {
            let kept = if negative {
                Rights::ALL.without(change.applied(Rights::NONE))
            } else {
                change.applied(Rights::ALL)
            };
            return match kept {
                Rights::ALL => Ok(Granted::InPlace),
                _ => Err(owner_keeps_all()),
            };
        }
        let set = |acl: &mut Acl| acl.set(to.id(), to.name(), negative, |had| change.applied(had));
        if let Access::Share { .. } = mailbox.access {
            self.change_list(&mailbox, set).await?;
            self.offer(&mailbox, &to).await?;
            return Ok(Granted::InPlace);
        }
        let mut acl = Acl::default();
        set(&mut acl)?;
        if acl.members().next().is_none() {
            return Ok(Granted::InPlace);
        }
        let share = self.make(&mailbox, &acl).await?;
        self.offer(&share, &to).await?;
        Ok(Granted::Shared)
    }

    /// Sends the key of a share to an account that has just got its first right there; nothing else makes
    /// that account's log grow. For a name without an account it does the same amount of work: the share's
    /// own log gets the entry, so that timing reveals nothing.
    async fn offer(self, share: &ResolvedMailbox, to: &Identified) -> Result<()> {
        match to {
            Identified::Account(record) => self.offer_to(share, record).await,
            Identified::NoAccount { id, .. } if !is_due(&share.account, *id) => Ok(()),
            Identified::NoAccount { id, .. } => {
                let again = |state: &AccountState| {
                    Ok((state.about().map(|about| about.event()).into_iter().collect(), ()))
                };
                pretend_trusted_key(self.user.account, *id).await?;
                let owner = share.account.state().about().map(|about| about.owner);
                if let Some(owner) = owner {
                    offered_key(self.directory, self.user.account, &share.account, owner, *id, None).await?;
                }
                share.account.commit(again).await?;
                set_due(&share.account, &[*id], false).await
            }
        }
    }

    /// Removes an entry from the list of a mailbox. The account need not exist any more.
    ///
    /// # Errors
    /// `Denied` without the right to do so; `Invalid` if it is the owner's.
    pub async fn revoke(self, mailbox: ResolvedMailbox, from: &Grantee) -> Result<()> {
        let mailbox = mailbox.require(Rights::ADMINISTER)?;
        let Grantee::Account { name, negative } = from else { return Ok(()) };
        let from = Identified::of(self.directory, name).await?;
        if !negative && owns(&mailbox, from.id()) {
            return Err(owner_keeps_all());
        }
        if mailbox.access == Access::Own {
            return Ok(());
        }
        self.change_list(&mailbox, |acl| {
            acl.remove(name.as_str(), *negative);
            Ok(())
        })
        .await?;
        // Without the negative entry the account may have rights again.
        if *negative {
            self.offer(&mailbox, &from).await?;
        }
        Ok(())
    }

    /// Changes the list of a share by one entry in its log, if the user still has the right to do so. If an
    /// account loses its last right, the share gets a new key.
    async fn change_list(
        self,
        share: &ResolvedMailbox,
        change: impl Fn(&mut Acl) -> Result<()> + Send + Sync,
    ) -> Result<()> {
        let access = share.access;
        let committed = share.account.commit(|state| {
            if !access.rights(state).contains(Rights::ADMINISTER) {
                return Err(Error::denied("you may no longer administer this mailbox"));
            }
            let before = state.acl();
            let mut acl = before.clone();
            change(&mut acl)?;
            if acl == before {
                return Ok((Vec::new(), ()));
            }
            let due = is_due_after(&before, &acl).then(|| rekey_due(true));
            Ok((std::iter::once(acl.event()).chain(due).collect(), ()))
        });
        committed.await?;
        // The revocation is complete in any case; a failed rekey stays due.
        if let Err(error) = rekey_if_due(self.directory, self.user.account, &share.account).await {
            tracing::warn!(share = %share.account.id(), %error, "a shared mailbox has no new key yet");
        }
        Ok(())
    }

    /// The rights that can be granted to an account, or in the same way to a name without an account.
    ///
    /// # Errors
    /// `Denied` without the right to grant any.
    pub async fn grantable(self, mailbox: ResolvedMailbox, to: &Grantee) -> Result<GrantableRights> {
        let mailbox = mailbox.require(Rights::ADMINISTER)?;
        let none = GrantableRights { always: Rights::NONE, each: Rights::NONE };
        let Grantee::Account { name, negative } = to else { return Ok(none) };
        let to = Identified::of(self.directory, name).await?;
        Ok(match (owns(&mailbox, to.id()), negative) {
            (true, false) => GrantableRights { always: Rights::ALL, each: Rights::NONE },
            (true, true) => none,
            // The inbox cannot be shared.
            (false, _) if is_inbox(&mailbox) => none,
            (false, _) => GrantableRights { always: Rights::NONE, each: Rights::ALL },
        })
    }
}

/// The access list of a mailbox.
///
/// # Errors
/// `Denied` without the right to read it.
pub fn access_list(mailbox: ResolvedMailbox) -> Result<AccessList> {
    let mailbox = mailbox.require(Rights::ADMINISTER)?;
    let state = mailbox.account.state();
    let owner = match mailbox.access {
        Access::Own => None,
        // A corrupt share does not name its owner.
        Access::Share { .. } => state.about().map(|about| about.owner_name),
    };
    Ok(AccessList { owner, entries: state.acl().entries().to_vec() })
}

/// Whether it is the inbox of the user's own account.
fn is_inbox(mailbox: &ResolvedMailbox) -> bool {
    mailbox.access == Access::Own && mailbox.account.state().inbox().id() == mailbox.mailbox
}

/// Whether that account owns the mailbox.
fn owns(mailbox: &ResolvedMailbox, account: AccountId) -> bool {
    match mailbox.access {
        Access::Own => mailbox.account.id() == account,
        Access::Share { user, owner } => match mailbox.account.state().about() {
            Some(about) => about.owner == account,
            None => owner && user == account,
        },
    }
}

/// The meaning of an identifier in a list. No reply reveals which of the two it is: otherwise a user who may
/// share a mailbox could probe which names have an account (decision 72).
enum Identified {
    /// An account.
    Account(Box<AccountRecord>),
    /// No account. The id belongs to no account and is always the same for a name, so that the list treats it
    /// like any other.
    NoAccount { id: AccountId, name: String },
}

impl Identified {
    async fn of(directory: &Directory, name: &AccountName) -> Result<Self> {
        Ok(match directory.find(name).await? {
            Some(record) => Identified::Account(Box::new(record)),
            None => {
                let hash = Hash::of(format!("sealpost identifier without an account v1 {name}").as_bytes());
                let mut id = AccountId([0; 16]);
                id.0.copy_from_slice(&hash.0[..16]);
                Identified::NoAccount { id, name: name.to_string() }
            }
        })
    }

    fn id(&self) -> AccountId {
        match self {
            Identified::Account(record) => record.id,
            Identified::NoAccount { id, .. } => *id,
        }
    }

    fn name(&self) -> &str {
        match self {
            Identified::Account(record) => record.name.as_str(),
            Identified::NoAccount { name, .. } => name,
        }
    }
}

fn owner_keeps_all() -> Error {
    Error::invalid("the owner always has all rights")
}
