//! CREATE, DELETE, RENAME, SUBSCRIBE, UNSUBSCRIBE (RFC 3501 §6.3.3 to §6.3.7; RFC 6154 §3).

use std::sync::Arc;

use sealpost_account::{Applied, SpecialUse, SpecialUses, ops};
use sealpost_imap::types::{Code, Mailbox, MailboxAttribute, Status};

use super::object_id;
use super::reply::{Outcome, Reply};
use super::session::Session;

impl Session {
    /// CREATE. Superior names that are missing are made too; a trailing delimiter declares the intent to create
    /// inferior names and is otherwise ignored (RFC 3501 §6.3.3). Special uses move to the new mailbox from those that have
    /// them: that is what the client asks for (RFC 6154 §3).
    pub(super) async fn create(&mut self, name: &Mailbox, uses: &[MailboxAttribute]) -> Outcome {
        let uses = uses.iter().map(special_use).collect::<Result<SpecialUses, Reply>>()?;
        let account = self.account()?;
        let committed =
            account.commit(|state| Ok((ops::create_mailbox(state, name.as_str(), uses)?, ()))).await?;
        // The last one that was made: those before it are its superiors.
        let made = committed.applied.into_iter().rev().find_map(|applied| match applied {
            Applied::Created(id) => Some(id),
            _ => None,
        });
        let state = account.state();
        // RFC 8474 §4.1
        let code = made.and_then(|id| state.mailbox(id)).and_then(|m| object_id::code(account.id(), m));
        drop(state);
        self.tell_name_if_other(name);
        Ok(match code {
            Some(code) => Reply::ok_with(code, "CREATE completed"),
            // Somebody deleted it already.
            None => Reply::ok("CREATE completed"),
        })
    }

    /// DELETE. Inferior names stay, and the name stays above them as one that cannot be selected (RFC 3501 §6.3.4).
    pub(super) async fn delete(&mut self, name: &Mailbox) -> Outcome {
        let account = self.account()?.clone();
        // RFC 9051 §6.3.5: an error for a name that is only a level above others.
        if ops::find(&account.state(), name.as_str()).is_none()
            && ops::is_level(&account.state(), name.as_str())
        {
            return Err(Reply::no(Code::HasChildren, "that is no mailbox, only a level above others").into());
        }
        let deleted = account
            .commit(|state| {
                let mailbox = ops::existing(state, name.as_str())?;
                let deleted = (mailbox.id(), mailbox.name().to_owned());
                Ok((ops::delete_mailbox(state, name.as_str())?, deleted))
            })
            .await?
            .value;
        let (deleted, deleted_name) = deleted;
        self.tell_deleted(name, &deleted_name);
        if self
            .view
            .as_ref()
            .is_some_and(|view| Arc::ptr_eq(view.account(), &account) && view.mailbox() == deleted)
        {
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

    /// RENAME. INBOX stays and its messages move (RFC 3501 §6.3.5).
    pub(super) async fn rename(&mut self, from: &Mailbox, to: &Mailbox) -> Outcome {
        let account = self.account()?;
        account.commit(|state| Ok((ops::rename_mailbox(state, from.as_str(), to.as_str())?, ()))).await?;
        self.tell_renamed(from, to);
        Ok(Reply::ok("RENAME completed"))
    }

    /// SUBSCRIBE, UNSUBSCRIBE. A name that does not exist may be subscribed to: it may come back (RFC 3501 §6.3.6).
    pub(super) async fn subscribe(&mut self, name: &Mailbox, on: bool) -> Outcome {
        self.account()?.commit(|state| Ok((ops::subscribe(state, name.as_str(), on)?, ()))).await?;
        Ok(Reply::ok(if on { "SUBSCRIBE completed" } else { "UNSUBSCRIBE completed" }))
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
