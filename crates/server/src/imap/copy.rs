//! COPY and MOVE (RFC 3501 §6.4.7, RFC 6851): one log entry, however many messages, and no message is touched.

use sealpost_account::event::Event;
use sealpost_account::rights::Rights;
use sealpost_account::state::{AccountState, Mailbox as State};
use sealpost_account::{Applied, Message};
use sealpost_base::{MailboxId, UidSet};
use sealpost_imap::types::{Code, Mailbox, SequenceSet, Status};

use super::reply::{Failure, Outcome, Reply};
use super::session::Session;
use super::targets;

impl Session {
    /// COPY.
    pub(super) async fn copy(&mut self, uid: bool, set: &SequenceSet, to: &Mailbox) -> Outcome {
        let targets = targets::resolve(self.view()?, set, uid)?;
        let event = |from, uids, to| Event::Copied { from, uids, to };
        let placed = self.put(&targets, uid, to, true, event).await?;
        Ok(match placed {
            Some(code) => Reply::ok_with(code, "COPY completed"),
            None => Reply::ok("COPY completed, no messages"),
        })
    }

    /// MOVE. The expunges are told with everything else at the end of the command.
    pub(super) async fn move_messages(&mut self, uid: bool, set: &SequenceSet, to: &Mailbox) -> Outcome {
        let targets = targets::resolve(self.writable()?, set, uid)?;
        let event = |from, uids, to| Event::Moved { from, uids, to };
        let placed = self.put(&targets, uid, to, false, event).await?;
        let Some(code) = placed else { return Ok(Reply::ok("MOVE completed, no messages")) };
        // RFC 6851 §4.3: before the expunges, so that the client knows where they went.
        self.connection.out().status(None, Status::Ok, Some(&code), "moved");
        Ok(Reply::ok("MOVE completed"))
    }

    /// Commits the event that places `targets` in `to`; COPYUID, or `None` if there was nothing to place.
    async fn put(
        &self,
        targets: &UidSet,
        uid: bool,
        to: &Mailbox,
        adds: bool,
        event: fn(MailboxId, UidSet, MailboxId) -> Event,
    ) -> Result<Option<Code>, Failure> {
        let view = self.view()?;
        let from = view.mailbox();
        let to = self.place_for_messages(to).await?.require(Rights::INSERT)?;
        let committed = view
            .account()
            .commit(|state| {
                let decided = self.may_put(state, targets, from, uid, to.mailbox, adds);
                let events = match &decided {
                    Ok(true) => vec![event(from, targets.clone(), to.mailbox)],
                    _ => Vec::new(),
                };
                Ok((events, decided))
            })
            .await?;
        committed.value?;
        Ok(committed.applied.into_iter().find_map(copy_uid))
    }

    /// Whether there are messages to place, and they may be.
    fn may_put(
        &self,
        state: &AccountState,
        targets: &UidSet,
        from: MailboxId,
        uid: bool,
        to: MailboxId,
        adds: bool,
    ) -> Result<bool, Reply> {
        if state.mailbox(to).is_none() {
            return Err(Reply::try_create());
        }
        let Some(source) = state.mailbox(from) else { return Ok(false) };
        let (count, bytes) = measure(state, source, targets);
        // RFC 2180 §4.4.1: all or nothing, so one that another session has expunged refuses all.
        if count < targets.len() && !uid {
            return Err(Reply::no(Code::ExpungeIssued, "some of the messages no longer exist"));
        }
        if adds {
            self.check_quota(state, bytes)?;
        }
        Ok(count > 0)
    }
}

/// How many of the messages exist, and how many octets they have together.
fn measure(state: &AccountState, mailbox: &State, uids: &UidSet) -> (usize, u64) {
    let rows = uids.ranges().flat_map(|(first, last)| mailbox.rows(first..=last));
    rows.fold((0, 0), |(count, bytes), row| {
        (count + 1, bytes + state.message(row.message).map_or(0, Message::size))
    })
}

/// COPYUID: both sets ascending, so that the n-th of one is the n-th of the other (RFC 4315 §3).
fn copy_uid(applied: Applied) -> Option<Code> {
    let Applied::Placed { uid_validity, from, uids, .. } = applied else { return None };
    let set = |uids: &UidSet| SequenceSet::from_ranges(uids.ranges().map(|(a, b)| a.get()..=b.get()));
    Some(Code::CopyUid { uid_validity: uid_validity.0.get(), from: set(&from)?, to: set(&uids)? })
}
