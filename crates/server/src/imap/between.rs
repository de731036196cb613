//! COPY and MOVE into another log: into or out of a shared mailbox.
//!
//! Every message is sealed anew for the log it goes to. They become visible together, by one entry there; only then, for
//! MOVE, another entry expunges them where they were. A crash in between leaves both: a message may be doubled, never lost.

use sealpost_account::directory::Usage;
use sealpost_account::event::Event;
use sealpost_account::rights::Rights;
use sealpost_account::state::Mailbox as State;
use sealpost_account::{Flags, Message, NewMessage, Unplaced, ops};
use sealpost_base::{Error, Kind as ErrorKind, Uid, UidSet, limits};
use sealpost_imap::types::Code;
use sealpost_mailbox::copy::Kind;
use sealpost_mailbox::flags;
use sealpost_mailbox::resolve::ResolvedMailbox;

use super::connection::End;
use super::copy::{check_all_there, copied};
use super::reply::{Failure, Reply};
use super::session::Session;

/// A message that goes.
struct Going {
    uid: Uid,
    message: Message,
    flags: Flags,
}

impl Session {
    /// Places the messages in another log; COPYUID, or `None` if there was nothing to place.
    pub(super) async fn put_between(
        &mut self,
        targets: &UidSet,
        uid: bool,
        to: &ResolvedMailbox,
        kind: Kind,
    ) -> Result<Option<Code>, Failure> {
        if targets.len() > limits::COPY_BETWEEN {
            let most = limits::COPY_BETWEEN;
            let text = format!("at most {most} messages at once go into or out of a shared mailbox");
            return Err(Reply::no(Code::Limit, text).into());
        }
        let (ctx, account) = (self.ctx.clone(), self.view()?.account().clone());
        let going = self.going(targets, to.rights)?;
        check_all_there(targets, going.len(), uid)?;
        going.iter().try_for_each(|going| ops::check_flags(&to.account.state(), &going.flags))?;
        if going.is_empty() {
            return Ok(None);
        }
        let octets = going.iter().map(|going| going.message.size()).sum();
        let usage = Usage::of_messages(going.len() as u64, octets);
        // What is moved from one mailbox of an account to another, shared or not, adds nothing to what it holds.
        let freed = if kind == Kind::Move && self.has_same_owner(to)? { usage } else { Usage::default() };
        self.check_quota_at(to, usage.without(freed)).await?;
        let from: UidSet = going.iter().map(|going| going.uid).collect();
        let goal = going.len();
        let mut new = Unplaced::of(to.account.clone());
        for Going { uid, message, flags } in going {
            if self.connection.is_stopping() {
                return Err(End::Shutdown.into());
            }
            self.report_progress(new.messages().len(), goal).await?;
            let sealing = ctx.accounts.reseal(&account, &message, to.account.id());
            let stored = self.await_with_progress(sealing).await?.map_err(|error| unreadable(uid, error))?;
            new.push(NewMessage { stored, flags: flags.into(), received: message.received });
        }
        // Sealing takes a while: the right may be gone, and the room.
        let placed = self.place_messages(to, new, freed).await?;
        if kind == Kind::Move {
            self.take_out(&from).await?;
        }
        Ok(copied(placed.uid_validity, &from, &placed.uids.into_iter().collect()))
    }

    /// The messages as they are now, with the flags that they may have where they go (RFC 4314 §4).
    fn going(&self, targets: &UidSet, rights: Rights) -> Result<Vec<Going>, Failure> {
        let view = self.view()?;
        let state = view.account().state();
        let mailbox = view.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
        let rows = targets.ranges().flat_map(|(first, last)| mailbox.rows(first..=last));
        let going = rows.filter_map(|row| {
            let flags = flags::permitted(&state.flags_by_name(row.flags), rights);
            Some(Going { uid: row.uid, message: state.message(row.message)?, flags })
        });
        Ok(going.collect())
    }

    /// Expunges what is in another log now.
    pub(super) async fn take_out(&mut self, uids: &UidSet) -> Result<(), Failure> {
        let taking = self.change_selected(0, |view, state| {
            if !view.rights(state).contains(Rights::EXPUNGE) {
                return Err(Error::denied("EXPUNGE right revoked during MOVE"));
            }
            let taken = |mailbox: &State| Event::Expunged { mailbox: mailbox.id(), uids: uids.clone() };
            Ok((view.mailbox_in(state).ok().map(taken).into_iter().collect(), ()))
        });
        match taking.await {
            // The client must not do it all again.
            Err(Failure::Reply(Reply { code, text, .. })) => {
                let text = format!("the messages were copied but not removed from the source: {text}");
                Err(Reply { code, ..Reply::refused(text) }.into())
            }
            taken => taken.map(drop),
        }
    }
}

fn unreadable(uid: Uid, error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Corrupt | ErrorKind::NotFound => {
            tracing::error!(%uid, %error, "a message could not be read");
            Reply::no(Code::Corruption, format!("message UID {uid} is damaged; nothing was copied")).into()
        }
        _ => error.into(),
    }
}
