//! COPY and MOVE in IMAP's words (RFC 3501 §6.4.7, RFC 6851): within a log for [`sealpost_mailbox::copy`] to do, between
//! logs, one of which a mailbox is shared by, for [`sealpost_mailbox::cross_account_copy`].

use std::sync::Arc;

use sealpost_account::rights::Rights;
use sealpost_base::UidSet;
use sealpost_imap::types::{Code, Mailbox, SequenceSet, Status};
use sealpost_mailbox::copy::{self, Copied, Kind};
use sealpost_mailbox::cross_account_copy::CrossAccountCopy;
use sealpost_mailbox::resolve::ResolvedMailbox;

use super::connection::End;
use super::reply::{Failure, Outcome, Reply};
use super::session::Session;
use super::targets;

impl Session {
    /// COPY.
    pub(super) async fn copy(&mut self, uid: bool, set: &SequenceSet, to: &Mailbox) -> Outcome {
        let targets = targets::resolve(self.view()?, set, uid)?;
        self.refresh_quota().await?;
        let placed = self.put(&targets, uid, to, Kind::Copy).await?;
        self.warn_of_quota();
        Ok(match placed {
            Some(code) => Reply::ok_with(code, "COPY completed"),
            None => Reply::ok("COPY completed, no messages"),
        })
    }

    /// MOVE. The expunges are told with everything else at the end of the command.
    pub(super) async fn move_messages(&mut self, uid: bool, set: &SequenceSet, to: &Mailbox) -> Outcome {
        let view = self.writable()?;
        // RFC 6851 §4.2: what STORE, COPY and EXPUNGE need together.
        view.opened().check_may_take_out()?;
        let targets = targets::resolve(view, set, uid)?;
        let placed = self.put(&targets, uid, to, Kind::Move).await?;
        let Some(code) = placed else { return Ok(Reply::ok("MOVE completed, no messages")) };
        // RFC 6851 §4.3: before the expunges, so that the client knows where they went.
        self.connection.out().status(None, Status::Ok, Some(&code), "moved");
        Ok(Reply::ok("MOVE completed"))
    }

    /// Places `targets` in `to`; COPYUID, or `None` if there was nothing to place. By number, all or none: one that another
    /// session has expunged refuses all (RFC 2180 §4.4.1).
    async fn put(
        &mut self,
        targets: &UidSet,
        uid: bool,
        to: &Mailbox,
        kind: Kind,
    ) -> Result<Option<Code>, Failure> {
        let source = self.view()?.opened();
        let to = self.place_for_messages(to).await?.require(Rights::INSERT)?;
        if !Arc::ptr_eq(&source.account, &to.account) {
            return self.put_between(targets, uid, &to, kind).await;
        }
        let parts = self.quota_parts()?;
        let copying = copy::within_log(parts.quota(), &source, targets, !uid, &to, kind);
        let copied = self.await_with_progress(copying).await??;
        let entry = copied.as_ref().and_then(|copied| copied.entry);
        self.own.extend(entry.map(|at| (source.account.id(), at)));
        Ok(copied.as_ref().and_then(copy_uid))
    }

    /// The same between logs.
    async fn put_between(
        &mut self,
        targets: &UidSet,
        uid: bool,
        to: &ResolvedMailbox,
        kind: Kind,
    ) -> Result<Option<Code>, Failure> {
        let (source, parts) = (self.view()?.opened(), self.quota_parts()?);
        let (from_log, to_log, accounts) = (source.account.id(), to.account.id(), self.ctx.accounts.clone());
        let copy = CrossAccountCopy::begin(parts.quota(), source, targets, !uid, to, kind).await?;
        let Some(mut copy) = copy else { return Ok(None) };
        loop {
            if self.connection.is_stopping() {
                return Err(End::Shutdown.into());
            }
            self.report_progress(copy.sealed(), copy.len()).await?;
            if !self.await_with_progress(copy.seal_next(&accounts)).await?? {
                break;
            }
        }
        let placed = self.await_with_progress(copy.place(parts.quota())).await??;
        self.own.extend(placed.copied.entry.map(|at| (to_log, at)));
        let expunged = self.await_with_progress(placed.expunge()).await??;
        self.own.extend(expunged.map(|at| (from_log, at)));
        Ok(copy_uid(&placed.copied))
    }
}

/// COPYUID: both sets ascending, so that the n-th of one is the n-th of the other (RFC 4315 §3).
fn copy_uid(copied: &Copied) -> Option<Code> {
    let set = |uids: &UidSet| SequenceSet::from_ranges(uids.ranges().map(|(a, b)| a.get()..=b.get()));
    let (from, to) = (set(&copied.from)?, set(&copied.uids)?);
    Some(Code::CopyUid { uid_validity: copied.uid_validity.0.get(), from, to })
}
