//! APPEND (RFC 3501 §6.3.11): the message goes into the store as it comes in, whatever its size.
//!
//! Everything that can be refused is refused before the client is asked to send the message. One that is refused
//! halfway is read to its end and thrown away, so that the connection goes on.

use sealpost_account::rights::Rights;
use sealpost_account::{Flags, NewMessage, ops};
use sealpost_base::{Kind, Timestamp};
use sealpost_imap::server::Event;
use sealpost_imap::types::{AppendHead, Code, SequenceSet};

use super::connection::End;
use super::flags;
use super::place::Place;
use super::reply::{Failure, Outcome, Reply};
use super::session::Session;

impl Session {
    /// APPEND.
    pub(super) async fn append(&mut self, head: AppendHead) -> Outcome {
        let received = head.date.map_or_else(|| self.ctx.clock.now(), |date| date.timestamp());
        let (place, flags) = match self.accept(&head).await {
            Ok(accepted) => accepted,
            Err(failure) => {
                self.connection.refuse_append();
                return Err(failure);
            }
        };
        self.receive(&head, place, flags, received).await
    }

    /// Whether the message may come: where to, and with which flags.
    async fn accept(&self, head: &AppendHead) -> Result<(Place, Flags), Failure> {
        self.account()?;
        self.catch_up().await?;
        let flags = flags::from_wire(&head.flags)?;
        let place = self.place_for_messages(&head.mailbox).await?.require(Rights::INSERT)?;
        let state = place.account.state();
        ops::check_flags(&state, &flags)?;
        self.check_quota(&state, head.size)?;
        drop(state);
        Ok((place, flags))
    }

    async fn receive(
        &mut self,
        head: &AppendHead,
        place: Place,
        flags: Flags,
        received: Timestamp,
    ) -> Outcome {
        let mut ingest = match place.account.ingest().await {
            Ok(ingest) => ingest,
            Err(error) => {
                self.connection.refuse_append();
                return Err(error.into());
            }
        };
        if head.sync {
            self.connection.out().continuation("send the message");
        }
        self.connection.set_bulk(true);
        loop {
            match self.connection.next_of_message().await? {
                Event::AppendData(octets) => {
                    if let Err(error) = ingest.write(&octets).await {
                        self.connection.refuse_append();
                        return Err(error.into());
                    }
                }
                Event::AppendEnd => break,
                Event::Bad { reason, .. } => return Err(Reply::bad(reason).into()),
                Event::Fatal { reason } => return Err(End::Fatal(reason).into()),
                Event::No { code: Some(code), reason, .. } => return Err(Reply::no(code, reason).into()),
                _ => return Err(Reply::bad("expected the rest of the message").into()),
            }
        }
        let stored = ingest.finish().await?;
        let message = NewMessage { stored, flags, received };
        match place.account.append(place.mailbox, vec![message]).await {
            Ok((uid_validity, uids)) => {
                self.log.count("appended", 1);
                let uids = SequenceSet::from_numbers(uids.into_iter().map(|uid| uid.get()));
                let text = "APPEND completed";
                // RFC 4315 §3
                Ok(match uids {
                    Some(uids) => {
                        Reply::ok_with(Code::AppendUid { uid_validity: uid_validity.0.get(), uids }, text)
                    }
                    None => Reply::ok(text),
                })
            }
            // The mailbox was deleted while the message came in.
            Err(error) if error.kind() == Kind::NotFound => Err(Reply::try_create().into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether `more` octets may be added to what the account's mailboxes hold.
    pub(super) fn check_quota(&self, state: &sealpost_account::AccountState, more: u64) -> Result<(), Reply> {
        let Some(quota) = self.quota else { return Ok(()) };
        let used: u64 = state.mailboxes().map(|mailbox| mailbox.bytes()).sum();
        if used.saturating_add(more) > quota {
            return Err(Reply::no(Code::OverQuota, "the account is full"));
        }
        Ok(())
    }
}
