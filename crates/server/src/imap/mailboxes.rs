//! CREATE, DELETE, RENAME, SUBSCRIBE, UNSUBSCRIBE in IMAP's words (RFC 3501 §6.3.3 to §6.3.7; RFC 6154 §3): what
//! they do is for [`sealpost_mailbox::ops`] to say.

use sealpost_account::{SpecialUse, SpecialUses};
use sealpost_base::Position;
use sealpost_imap::types::{Code, Mailbox, MailboxAttribute, Status};
use sealpost_mailbox::ops::{self, Created, Deleted};

use super::object_id;
use super::reply::{Failure, Outcome, Reply};
use super::session::Session;

/// What is said of a mailbox that was made and could not be shared.
const UNSHARED: &str = "CREATE completed, but it is not shared as the mailbox above it is";

impl Session {
    /// CREATE.
    pub(super) async fn create(&mut self, name: &Mailbox, uses: &[MailboxAttribute]) -> Outcome {
        let uses = uses.iter().map(special_use).collect::<Result<SpecialUses, Reply>>()?;
        self.account()?;
        if !sealpost_account::share::is_of_others(name.as_str()) {
            self.refresh_quota().await?;
        }
        let creating = ops::create(self.sharing()?, self.own_headroom(), name.as_str(), uses);
        let Created { entry, not_shared } = creating.await?;
        self.note_own_entry(entry);
        let Some(error) = not_shared else { return self.created(name).await };
        // The mailbox is made, and NO would say that it is not.
        tracing::warn!(user = %self.user, %error, "a new mailbox is not shared as the one above it is");
        self.created(name).await.map(|created| Reply { text: UNSHARED.into(), ..created })
    }

    /// The mailbox was made; MAILBOXID, unless somebody deleted it already (RFC 8474 §4.1).
    async fn created(&mut self, name_asked: &Mailbox) -> Outcome {
        let name = name_asked.as_str();
        let found = match Mailbox::new(name.strip_suffix('/').unwrap_or(name)) {
            Ok(name) => self.place(&name).await.ok(),
            Err(_) => None,
        };
        let code = found.and_then(|place| {
            let state = place.account.state();
            object_id::code(place.account.id(), state.mailbox(place.mailbox)?)
        });
        self.tell_name_if_other(name_asked);
        Ok(match code {
            Some(code) => Reply::ok_with(code, "CREATE completed"),
            None => Reply::ok("CREATE completed"),
        })
    }

    /// DELETE.
    pub(super) async fn delete(&mut self, name: &Mailbox) -> Outcome {
        let deleted = ops::delete(self.resolver()?, name.as_str()).await?;
        let Deleted { account, mailbox, name: deleted_name, entry } = deleted;
        self.note_own_entry(entry);
        if let Some(deleted_name) = deleted_name {
            self.tell_deleted(name, &deleted_name);
        }
        if self.view.as_ref().is_some_and(|view| view.is_at(&account, mailbox)) {
            // Other sessions are thrown out; the one that asked for it knows what it did.
            self.view = None;
            self.connection.out().status(
                None,
                Status::Ok,
                Some(&Code::Closed),
                "the selected mailbox was deleted",
            );
        }
        Ok(Reply::ok("DELETE completed"))
    }

    /// RENAME.
    pub(super) async fn rename(&mut self, from: &Mailbox, to: &Mailbox) -> Outcome {
        self.refresh_quota().await?;
        let renaming = ops::rename(self.resolver()?, self.own_headroom(), from.as_str(), to.as_str());
        let entry = renaming.await?;
        self.note_own_entry(entry);
        self.tell_renamed(from, to);
        Ok(Reply::ok("RENAME completed"))
    }

    /// SUBSCRIBE, UNSUBSCRIBE.
    pub(super) async fn subscribe(&mut self, name: &Mailbox, on: bool) -> Outcome {
        let entry = ops::subscribe(self.account()?, name.as_str(), on).await.map_err(Failure::from)?;
        self.note_own_entry(entry);
        Ok(Reply::ok(if on { "SUBSCRIBE completed" } else { "UNSUBSCRIBE completed" }))
    }

    /// The command at hand made this entry in the log of the session's own account.
    fn note_own_entry(&mut self, entry: Option<Position>) {
        let own = self.account.as_ref().zip(entry).map(|(account, at)| (account.id(), at));
        self.own.extend(own);
    }
}

/// The special use that an attribute stands for, if it can be given to a mailbox (RFC 6154 §3).
pub(super) fn special_use(attribute: &MailboxAttribute) -> Result<SpecialUse, Reply> {
    Ok(match attribute {
        MailboxAttribute::Archive => SpecialUse::Archive,
        MailboxAttribute::Drafts => SpecialUse::Drafts,
        // RFC 8457 §3
        MailboxAttribute::Important => SpecialUse::Important,
        MailboxAttribute::Junk => SpecialUse::Junk,
        MailboxAttribute::Sent => SpecialUse::Sent,
        MailboxAttribute::Trash => SpecialUse::Trash,
        // \All and \Flagged are views of other mailboxes, which do not exist here.
        _ => return Err(Reply::no(Code::UseAttr, format!("{attribute} is not supported"))),
    })
}
