//! REPLACE and UID REPLACE (RFC 8508): a new message comes, an old one goes, and nobody ever sees both or neither.
//!
//! One log entry if both are in one account's log. Between two logs, of which one is another user's, the new message is
//! appended first and the old one expunged then, so that an interruption can leave both but never neither.

use std::sync::Arc;

use sealpost_account::directory::Usage;
use sealpost_account::rights::Rights;
use sealpost_account::{AccountState, Unplaced};
use sealpost_base::{Error, Uid, UidSet, UidValidity};
use sealpost_imap::types::{AppendHead, Code, Replaces, SequenceSet, Status};
use sealpost_mailbox::resolve::ResolvedMailbox;

use super::append::{append_uid, not_placed};
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
        may_take_out(self.writable()?)?;
        let place = self.place_for_messages(&head.mailbox).await?.require(Rights::INSERT)?;
        let freed = {
            let view = self.writable()?;
            let size = size_of(&view.account().state(), view, old).ok_or_else(gone)?;
            if self.has_same_owner(&place)? { size } else { 0 }
        };
        let (message, _drawn) = self.receive(&place, freed).await?.into_messages();
        let (uid_validity, uid) = self.exchange(old, &place, message, freed).await?;
        self.log.count("appended", 1);
        // RFC 8508 §4.3: before the EXPUNGE, so that the client knows what came for it.
        if let Some(code) = append_uid(uid_validity, &[uid]) {
            self.connection.out().status(None, Status::Ok, Some(&code), "replacement message ready");
        }
        Ok(Reply::ok("REPLACE completed"))
    }

    async fn exchange(
        &mut self,
        old: Uid,
        place: &ResolvedMailbox,
        message: Unplaced,
        freed: u64,
    ) -> Result<(UidValidity, Uid), Failure> {
        let freed = Usage::of_messages(u64::from(freed > 0), freed);
        if !place.still_takes_messages() {
            return Err(Reply::try_create().into());
        }
        let view = self.writable()?;
        // So may that to take the old one out, and somebody may have done it already: before anything is changed.
        may_take_out(view)?;
        let (log, mailbox, validity) = (view.account().clone(), view.mailbox(), view.uid_validity());
        size_of(&log.state(), view, old).ok_or_else(gone)?;
        let one_log = Arc::ptr_eq(&log, &place.account);
        let placed = if one_log {
            let headroom = self.headroom_at(place).await?;
            let octets = message.messages().iter().map(|new| new.stored.size()).sum();
            let (more, check) = (Usage::of_messages(1, octets), headroom.checking(freed));
            let replacing = place.account.replace((mailbox, old), place.mailbox, message, |state| {
                let still = state.mailbox(mailbox).is_none_or(|mailbox| mailbox.uid_validity() == validity);
                let still =
                    if still { Ok(()) } else { Err(Error::not_found("the mailbox is another one now")) };
                still.and_then(|()| check.as_ref().map_or(Ok(()), |check| check(state, more)))
            });
            let replaced = self.await_with_progress(replacing).await?;
            let replaced =
                replaced.map_err(|error| not_placed(&error, place, &headroom, more.without(freed)))?;
            let placed = replaced.ok_or_else(gone)?;
            self.own.extend(placed.alone.map(|at| (place.account.id(), at)));
            placed
        } else {
            let placed = self.place_messages(place, message, freed).await?;
            self.take_out(&UidSet::range(old, old)).await?;
            placed
        };
        let uid = *placed.uids.first().ok_or_else(gone)?;
        Ok((placed.uid_validity, uid))
    }
}

/// RFC 8508 §4.1: what STORE, EXPUNGE and APPEND need together.
fn may_take_out(view: &View) -> Result<(), Reply> {
    let needed = Rights::DELETE_MESSAGES.with(Rights::EXPUNGE);
    match view.rights(&view.account().state()).contains(needed) {
        true => Ok(()),
        false => Err(Reply::no(Code::NoPerm, "you do not have the right to take messages out")),
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
    Some(state.message_size(row.message))
}

/// RFC 8508 §3.2: NO if the old message cannot be removed.
fn gone() -> Reply {
    Reply::no(Code::ExpungeIssued, "the message to be replaced no longer exists")
}
