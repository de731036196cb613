//! REPLACE and UID REPLACE in IMAP's words (RFC 8508): a new message comes, an old one goes. How is for
//! [`sealpost_mailbox::append::replace`] to say.

use sealpost_account::rights::Rights;
use sealpost_base::Uid;
use sealpost_imap::types::{AppendHead, Code, Replaces, SeqRange, SequenceSet, Status};
use sealpost_mailbox::Refusal;
use sealpost_mailbox::append::{self, Replaced};

use super::append::append_uid;
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
        let view = self.writable()?;
        let (old, opened) = (target(view, replaces)?, view.opened());
        // RFC 8508 §4.1: what STORE, EXPUNGE and APPEND need together.
        opened.check_may_take_out()?;
        let place = self.place_for_messages(&head.mailbox).await?.require(Rights::INSERT)?;
        let size = append::size_of(&opened, old).ok_or_else(gone)?;
        let parts = self.quota_parts()?;
        let freed = if parts.quota().counts_together(&opened, &place) { size } else { 0 };
        let (message, _memory) = self.receive(&place, freed).await?;
        let replacing = append::replace(parts.quota(), (&opened, old), &place, message, freed);
        let Replaced { placed, expunged } =
            self.await_with_progress(replacing).await?.map_err(|refusal| match refusal {
                Refusal::MessagesGone => gone().into(),
                refusal => Failure::from(refusal),
            })?;
        self.own.extend(placed.alone.map(|at| (place.account.id(), at)));
        self.own.extend(expunged);
        self.log.count("appended", 1);
        // RFC 8508 §4.3: before the EXPUNGE, so that the client knows what came for it.
        let uids = placed.uids.get(..1).ok_or_else(gone)?;
        if let Some(code) = append_uid(placed.uid_validity, uids) {
            self.connection.out().status(None, Status::Ok, Some(&code), "replacement message ready");
        }
        Ok(Reply::ok("REPLACE completed"))
    }
}

/// The one message that is to go.
fn target(view: &View, replaces: Replaces) -> Result<Uid, Reply> {
    let number = SequenceSet::new(vec![SeqRange { start: replaces.number, end: replaces.number }]);
    let set = number.ok_or_else(|| Reply::bad("a message number is missing"))?;
    targets::resolve(view, &set, replaces.uid)?.first().ok_or_else(gone)
}

/// RFC 8508 §3.2: NO if the old message cannot be removed.
fn gone() -> Reply {
    Reply::no(Code::ExpungeIssued, "the message to be replaced no longer exists")
}
