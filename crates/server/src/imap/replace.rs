//! REPLACE and UID REPLACE (RFC 8508): a new message comes, an old one goes, and nobody ever sees both or neither.
//!
//! One log entry if both are in one account's log. Between two logs, of which one is another user's, the new message is
//! appended first and the old one expunged then, so that an interruption can leave both but never neither.

use std::sync::Arc;

use sealpost_account::event::Event;
use sealpost_account::rights::Rights;
use sealpost_account::{AccountState, Message, NewMessage};
use sealpost_base::{Error, Kind, Uid, UidSet, UidValidity};
use sealpost_imap::types::{AppendHead, Code, Replaces, SequenceSet, Status};

use super::append::append_uid;
use super::place::Place;
use super::reply::{Failure, Outcome, Reply};
use super::session::Session;
use super::targets;
use super::view::View;

impl Session {
    /// REPLACE.
    pub(super) async fn replace(&mut self, head: &AppendHead, replaces: Replaces) -> Outcome {
        self.account()?;
        self.catch_up().await?;
        if !replaces.uid && self.dialect.uid_only() {
            return Err(super::uid_only::uid_required().into());
        }
        // RFC 8508 §3.5: only in the selected state, where the old message is.
        let old = target(self.writable()?, replaces)?;
        {
            // RFC 8508 §4.1: what STORE, EXPUNGE and APPEND need together.
            let view = self.writable()?;
            let needed = Rights::DELETE_MESSAGES.with(Rights::EXPUNGE);
            if !view.rights(&view.account().state()).contains(needed) {
                return Err(Reply::no(Code::NoPerm, "you do not have the right to take messages out").into());
            }
        }
        let place = self.place_for_messages(&head.mailbox).await?.require(Rights::INSERT)?;
        let freed = {
            let view = self.writable()?;
            let size = size_of(&view.account().state(), view, old).ok_or_else(gone)?;
            if Arc::ptr_eq(view.account(), &place.account) { size } else { 0 }
        };
        let mut messages = self.receive(&place, freed).await?;
        let message = messages.pop().ok_or_else(|| Reply::bad("a message is missing"))?;
        let (uid_validity, uid) = self.exchange(old, &place, message).await?;
        self.log.count("appended", 1);
        // RFC 8508 §4.3: before the EXPUNGE, so that the client knows what came for it.
        if let Some(code) = append_uid(uid_validity, &[uid]) {
            self.connection.out().status(None, Status::Ok, Some(&code), "replacement message ready");
        }
        Ok(Reply::ok("REPLACE completed"))
    }

    async fn exchange(
        &self,
        old: Uid,
        place: &Place,
        message: NewMessage,
    ) -> Result<(UidValidity, Uid), Failure> {
        // The mailbox was deleted while the message came in.
        let no_mailbox = |error: Error| match error.kind() {
            Kind::NotFound => Failure::from(Reply::try_create()),
            _ => error.into(),
        };
        place.still_takes_messages()?;
        let view = self.writable()?;
        if Arc::ptr_eq(view.account(), &place.account) {
            let replaced = place.account.replace((view.mailbox(), old), place.mailbox, message).await;
            return Ok(replaced.map_err(no_mailbox)?.ok_or_else(gone)?);
        }
        let appended = place.account.append(place.mailbox, vec![message]).await;
        let (uid_validity, uids) = appended.map_err(no_mailbox)?;
        let uid = *uids.first().ok_or_else(gone)?;
        let event = Event::Expunged { mailbox: view.mailbox(), uids: UidSet::range(old, old) };
        view.account().commit(|_| Ok((vec![event.clone()], ()))).await?;
        Ok((uid_validity, uid))
    }
}

/// The one message that is to go.
fn target(view: &View, replaces: Replaces) -> Result<Uid, Reply> {
    let number = SequenceSet::new(vec![sealpost_imap::types::SeqRange {
        start: replaces.number,
        end: replaces.number,
    }]);
    let set = number.ok_or_else(|| Reply::bad("a message number is missing"))?;
    targets::resolve(view, &set, replaces.uid)?.first().ok_or_else(gone)
}

fn size_of(state: &AccountState, view: &View, uid: Uid) -> Option<u64> {
    let row = view.mailbox_in(state).ok()?.row(uid)?;
    state.message(row.message).map(Message::size)
}

/// RFC 8508 §3.2: NO if the old message cannot be removed.
fn gone() -> Reply {
    Reply::no(Code::ExpungeIssued, "the message to be replaced no longer exists")
}
