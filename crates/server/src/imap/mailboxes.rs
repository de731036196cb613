//! CREATE, DELETE, RENAME, SUBSCRIBE, UNSUBSCRIBE (RFC 3501 §6.3.3 to §6.3.7; RFC 6154 §3).

use sealpost_account::account::Committed;
use sealpost_account::directory::Usage;
use sealpost_account::event::Event;
use sealpost_account::rights::Rights;
use sealpost_account::{AccountState, Applied, SpecialUse, SpecialUses, metadata, ops};
use sealpost_imap::types::{Code, Mailbox, MailboxAttribute, Status};
use sealpost_mailbox::Access;
use sealpost_mailbox::quota::OverQuota;

use super::object_id;
use super::reply::{Failure, Outcome, Reply};
use super::session::Session;

/// What is said of a mailbox that was made and could not be shared.
const UNSHARED: &str = "CREATE completed, but it is not shared as the mailbox above it is";

impl Session {
    /// CREATE. Superior names that are missing are made too; a trailing delimiter declares the intent to create
    /// inferior names and is otherwise ignored (RFC 3501 §6.3.3). Special uses move to the new mailbox from those that have
    /// them: that is what the client asks for (RFC 6154 §3).
    pub(super) async fn create(&mut self, name: &Mailbox, uses: &[MailboxAttribute]) -> Outcome {
        let uses = uses.iter().map(special_use).collect::<Result<SpecialUses, Reply>>()?;
        let account = self.account()?.clone();
        let name_asked = name;
        let name = name.as_str().strip_suffix('/').unwrap_or(name.as_str());
        if sealpost_account::share::is_of_others(name) {
            if !uses.is_empty() {
                return Err(Reply::no(Code::UseAttr, "special uses are for one's own mailboxes").into());
            }
            self.create_for_other(name).await?;
            return self.created(name_asked).await;
        }
        self.refresh_quota().await?;
        let committed = self.commit_mailboxes(|state| ops::create_mailbox(state, name, uses)).await?;
        self.note_own(account.id(), &committed);
        let made: Vec<String> = {
            let state = account.state();
            let made = committed.applied.into_iter().filter_map(|applied| match applied {
                Applied::Created(id) => Some(state.mailbox(id)?.name().to_owned()),
                _ => None,
            });
            made.collect()
        };
        // The mailbox is made, and NO would say that it is not.
        match self.inherit(&made).await {
            Err(Failure::End(end)) => Err(end.into()),
            Err(Failure::Reply(reply)) => {
                tracing::warn!(account = %account.id(), reply = %reply.text, "a new mailbox is not shared as the one above it is");
                self.created(name_asked).await.map(|created| Reply { text: UNSHARED.into(), ..created })
            }
            Ok(()) => self.created(name_asked).await,
        }
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

    /// DELETE. What another user shares without the right to delete it is taken from this user's own names alone (decision
    /// 10). Inferior names stay, and the name stays above them as one that cannot be selected (RFC 3501 §6.3.4).
    pub(super) async fn delete(&mut self, name: &Mailbox) -> Outcome {
        let account = self.account()?.clone();
        // RFC 9051 §6.3.5: an error for a name that is only a level above others.
        if ops::find(&account.state(), name.as_str()).is_none()
            && ops::is_level(&account.state(), name.as_str())
        {
            return Err(Reply::no(Code::HasChildren, "that is no mailbox, only a level above others").into());
        }
        let place = self.place(name).await?;
        let of_other = matches!(place.access, Access::Share { owner: false, .. });
        let may_delete = place.rights.contains(Rights::DELETE_MAILBOX);
        let (log, deleted) = (place.account.clone(), place.mailbox);
        let deleted_name = account.state().any_mailbox(place.own).map(|m| m.name().to_owned());
        if place.access == Access::Own {
            let deleting = account.commit(|state| Ok((ops::delete_mailbox(state, name.as_str())?, ())));
            let committed = deleting.await?;
            self.note_own(account.id(), &committed);
        } else if of_other && !may_delete {
            self.drop_link(&place).await?;
        } else {
            self.delete_share(&place).await?;
        }
        if let Some(deleted_name) = deleted_name {
            self.tell_deleted(name, &deleted_name);
        }
        if self.view.as_ref().is_some_and(|view| view.is_at(&log, deleted)) {
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
        self.refresh_quota().await?;
        let renaming =
            self.commit_mailboxes(|state| ops::rename_mailbox(state, from.as_str(), to.as_str())).await?;
        let account = self.account()?.clone();
        self.note_own(account.id(), &renaming);
        if account.state().links().next().is_some() {
            // Shares learn their new names when they are looked at.
            self.links().await?;
        }
        self.tell_renamed(from, to);
        Ok(Reply::ok("RENAME completed"))
    }

    /// Makes a change of the tree of names, unless it makes more mailboxes, or copies more metadata, than the account may have
    /// (RFC 9208 §5.3, §5.4).
    async fn commit_mailboxes(
        &self,
        decide: impl Fn(&AccountState) -> sealpost_base::Result<Vec<Event>> + Send + Sync,
    ) -> Result<Committed<Result<(), OverQuota>>, Failure> {
        let committed = self
            .account()?
            .commit(|state| {
                let events = decide(state)?;
                let more = Usage {
                    mailboxes: ops::mailboxes_made(&events) as u64,
                    annotations: metadata::growth(state, &events),
                    ..Usage::default()
                };
                Ok(match self.check_quota(state, more) {
                    Ok(()) => (events, Ok(())),
                    Err(over) => (Vec::new(), Err(over)),
                })
            })
            .await?;
        committed.value?;
        Ok(committed)
    }

    /// SUBSCRIBE, UNSUBSCRIBE. A name that does not exist may be subscribed to: it may come back (RFC 3501 §6.3.6).
    pub(super) async fn subscribe(&mut self, name: &Mailbox, on: bool) -> Outcome {
        let account = self.account()?.clone();
        let committed = account.commit(|state| Ok((ops::subscribe(state, name.as_str(), on)?, ()))).await?;
        self.note_own(account.id(), &committed);
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
