//! COPY and MOVE (RFC 3501 §6.4.7, RFC 6851). Within a log: one entry, however many messages, and no message is touched.
//! Into another log, one that a mailbox is shared by: see `between.rs`.

use std::sync::Arc;

use sealpost_account::Applied;
use sealpost_account::directory::Usage;
use sealpost_account::rights::Rights;
use sealpost_account::state::{AccountState, Mailbox as State};
use sealpost_base::{UidSet, UidValidity};
use sealpost_imap::types::{Code, Mailbox, SequenceSet, Status};
use sealpost_mailbox::copy::{self, Kind};
use sealpost_mailbox::memory::reserve;
use sealpost_mailbox::quota::QuotaHeadroom;
use sealpost_mailbox::resolve::ResolvedMailbox;

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
        let needed = Rights::DELETE_MESSAGES.with(Rights::EXPUNGE);
        if !view.rights(&view.account().state()).contains(needed) {
            return Err(Reply::no(Code::NoPerm, "you do not have the right to take messages out").into());
        }
        let targets = targets::resolve(view, set, uid)?;
        let placed = self.put(&targets, uid, to, Kind::Move).await?;
        let Some(code) = placed else { return Ok(Reply::ok("MOVE completed, no messages")) };
        // RFC 6851 §4.3: before the expunges, so that the client knows where they went.
        self.connection.out().status(None, Status::Ok, Some(&code), "moved");
        Ok(Reply::ok("MOVE completed"))
    }

    /// Places `targets` in `to`; COPYUID, or `None` if there was nothing to place.
    async fn put(
        &mut self,
        targets: &UidSet,
        uid: bool,
        to: &Mailbox,
        kind: Kind,
    ) -> Result<Option<Code>, Failure> {
        let account = self.view()?.account().clone();
        let to = self.place_for_messages(to).await?.require(Rights::INSERT)?;
        if !Arc::ptr_eq(&account, &to.account) {
            return self.put_between(targets, uid, &to, kind).await;
        }
        // The log entry has them, and the answer has both them and their new UIDs.
        let _memory = reserve(&self.ctx.accounts, &[targets; 6]).await?;
        let headroom = match kind {
            Kind::Copy => Some(self.headroom_at(&to).await?),
            Kind::Move => None,
        };
        let committed = self
            .change_selected(targets.len(), |view, state| {
                let Ok(source) = view.mailbox_in(state) else { return Ok((Vec::new(), Ok(0))) };
                let decided = may_put(state, targets, source, uid, &to, headroom.as_ref());
                let events = match &decided {
                    Ok(count) if *count > 0 => copy::events(
                        state,
                        targets,
                        source,
                        to.mailbox,
                        to.access.rights(state),
                        kind,
                        *count,
                    ),
                    _ => Vec::new(),
                };
                Ok((events, decided))
            })
            .await?;
        committed.value?;
        Ok(committed.applied.into_iter().find_map(copy_uid))
    }
}

/// How many messages there are to place, if they may be.
fn may_put(
    state: &AccountState,
    targets: &UidSet,
    source: &State,
    uid: bool,
    to: &ResolvedMailbox,
    headroom: Option<&QuotaHeadroom>,
) -> Result<u32, Reply> {
    if state.mailbox(to.mailbox).is_none() || !to.access.rights(state).contains(Rights::INSERT) {
        return Err(Reply::try_create());
    }
    let (count, bytes) = copy::measure(state, source, targets);
    check_all_there(targets, count, uid)?;
    if let Some(headroom) = headroom {
        headroom.check(state, Usage::of_messages(count as u64, bytes))?;
    }
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// RFC 2180 §4.4.1: all or nothing, so one that another session has expunged refuses all.
pub(super) fn check_all_there(targets: &UidSet, count: usize, uid: bool) -> Result<(), Reply> {
    if count < targets.len() && !uid {
        return Err(Reply::no(Code::ExpungeIssued, "some of the messages no longer exist"));
    }
    Ok(())
}

/// COPYUID: both sets ascending, so that the n-th of one is the n-th of the other (RFC 4315 §3).
fn copy_uid(applied: Applied) -> Option<Code> {
    let Applied::Placed { uid_validity, from, uids, .. } = applied else { return None };
    copied(uid_validity, &from, &uids)
}

/// The same for messages that went into another log.
pub(super) fn copied(uid_validity: UidValidity, from: &UidSet, uids: &UidSet) -> Option<Code> {
    let set = |uids: &UidSet| SequenceSet::from_ranges(uids.ranges().map(|(a, b)| a.get()..=b.get()));
    Some(Code::CopyUid { uid_validity: uid_validity.0.get(), from: set(from)?, to: set(uids)? })
}
