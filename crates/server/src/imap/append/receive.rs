//! The messages of one command, as they come in: what is held is one ingest, and a record of each message before it ([`Kept`]).
//!
//! Whatever waits here tells the client from time to time, so that whoever is gone is noticed though what was sent is not read yet.
//!
//! A literal8 may bring parts encoded as `binary`. They are stored in base64, as BODY[…] has to show them (RFC 3516 §4.4,
//! §6); one with NUL elsewhere is refused. What comes in a plain literal is stored as it is, NUL included, and octets
//! above 127 in its header, whether or not UTF8=ACCEPT is on (`docs/decisions/0016-imap4rev2-utf8-objects.md`).

use bytes::Bytes;
use sealpost_account::directory::Usage;
use sealpost_account::{Flags, Ingest, NewMessage, ops};
use sealpost_base::{Timestamp, limits};
use sealpost_imap::server::Event;
use sealpost_imap::types::{AppendLiteral, AppendMessage, Code};
use sealpost_mailbox::flags::permitted;
use sealpost_mailbox::resolve::ResolvedMailbox;
use sealpost_mime::unbinary::Unbinary;

use super::catenate::READ_BYTES;
use super::kept::Kept;
use crate::imap::connection::End;
use crate::imap::flags;
use crate::imap::reply::{Failure, Reply};
use crate::imap::session::Session;

/// What has come in so far.
pub(super) struct Received {
    done: Kept,
    current: Option<Incoming>,
    /// Octets of all messages, the present one included.
    octets: u64,
    /// Octets that this command frees: those of the message that is replaced.
    freed: u64,
    keyword_bytes: usize,
    parts: usize,
}

/// A message of which not everything is there.
struct Incoming {
    flags: Flags,
    received: Timestamp,
    catenate: bool,
    ingest: Option<Ingest>,
    /// The octets that come are those of a literal8, and may not have NUL.
    binary: bool,
    /// They are a whole message, whose binary parts are encoded on the way.
    unbinary: Option<Unbinary>,
}

impl Session {
    /// Takes the messages of the command under way, up to its end; none of them is visible yet. `freed` octets are
    /// given back by the command itself.
    pub(in crate::imap) async fn receive(
        &mut self,
        place: &ResolvedMailbox,
        freed: u64,
    ) -> Result<Kept, Failure> {
        let done = self.ctx.appends.begin(&place.account);
        let mut received = Received { done, current: None, octets: 0, freed, keyword_bytes: 0, parts: 0 };
        loop {
            match self.connection.next_of_message().await? {
                Event::AppendMessage(message) => {
                    received.complete(self, place).await?;
                    received.begin(self, place, &message)?;
                }
                Event::AppendUrl(url) => self.catenate(place, &mut received, &url).await?,
                Event::AppendLiteral(literal) => {
                    received.announce(self, place, literal).await?;
                    if literal.sync {
                        self.connection.out().continuation("send the message");
                    }
                    self.connection.set_bulk(true);
                }
                Event::AppendData(octets) => received.data(self, &octets).await?,
                Event::NeedContinuation => {
                    self.connection.out().continuation("go on");
                }
                Event::AppendEnd => {
                    received.complete(self, place).await?;
                    received.done.store().await?;
                    return Ok(received.done);
                }
                Event::Bad { code, reason, .. } => return Err(Reply { code, ..Reply::bad(reason) }.into()),
                Event::Fatal { reason } => return Err(End::Fatal(reason).into()),
                Event::No { code, reason, .. } => {
                    return Err(Reply { code, ..Reply::refused(reason) }.into());
                }
                Event::Command(_) | Event::Line(_) | Event::AppendBegin(_) | Event::Http => {
                    return Err(Reply::bad("expected the rest of the message").into());
                }
            }
        }
    }
}

impl Received {
    /// A message begins.
    fn begin(
        &mut self,
        session: &Session,
        place: &ResolvedMailbox,
        message: &AppendMessage,
    ) -> Result<(), Failure> {
        if self.done.len() >= limits::IMAP_APPEND_MESSAGES {
            let text = format!("a command has at most {} messages", limits::IMAP_APPEND_MESSAGES);
            return Err(Reply::no(Code::Limit, text).into());
        }
        // RFC 4314 §4: flags that may not be set are left out, and nothing fails.
        let flags = permitted(&flags::from_wire(&message.flags)?, place.rights);
        self.keyword_bytes += flags.keywords.iter().map(String::len).sum::<usize>();
        if self.keyword_bytes > limits::IMAP_APPEND_KEYWORD_BYTES {
            return Err(Reply::no(Code::Limit, "too many keywords in one command").into());
        }
        ops::check_flags(&place.account.state(), &flags)?;
        let received = message.date.map_or_else(|| session.ctx.clock.now(), |date| date.timestamp());
        let catenate = message.catenate;
        self.current =
            Some(Incoming { flags, received, catenate, ingest: None, binary: false, unbinary: None });
        Ok(())
    }

    /// Octets of the message will come.
    async fn announce(
        &mut self,
        session: &mut Session,
        place: &ResolvedMailbox,
        literal: AppendLiteral,
    ) -> Result<(), Failure> {
        if literal.utf8 && !session.dialect.utf8_accept() {
            // RFC 6855 §4: only after ENABLE.
            return Err(Reply::bad("UTF8 is not enabled").into());
        }
        let catenate = self.current.as_ref().is_some_and(|incoming| incoming.catenate);
        if literal.size == 0 && !catenate {
            return Err(nothing());
        }
        self.part()?;
        self.expect(session, place, literal.size).await?;
        if let Some(incoming) = &mut self.current {
            incoming.binary = literal.binary;
            incoming.unbinary = (literal.binary && !literal.utf8 && !catenate).then(Unbinary::new);
        }
        Ok(())
    }

    /// Another part of a message is wanted.
    pub(super) fn part(&mut self) -> Result<(), Failure> {
        self.parts += 1;
        if self.parts > limits::IMAP_CATENATE_PARTS {
            let text = format!("a command has at most {} parts", limits::IMAP_CATENATE_PARTS);
            return Err(Reply::no(Code::Limit, text).into());
        }
        Ok(())
    }

    /// Makes sure that so many octets more may come, and that there is somewhere to put them.
    ///
    /// # Errors
    /// `NO [TOOBIG]` for the message, `NO [OVERQUOTA]` for the command.
    pub(super) async fn expect(
        &mut self,
        session: &mut Session,
        place: &ResolvedMailbox,
        more: u64,
    ) -> Result<(), Failure> {
        let Some(incoming) = &mut self.current else { return Err(Reply::bad("a message is missing").into()) };
        let most = session.ctx.settings.message_size;
        let size = incoming.ingest.as_ref().map_or(0, Ingest::size);
        if size.saturating_add(more) > most {
            return Err(too_big(most));
        }
        self.octets = self.octets.saturating_add(more);
        self.check_quota(session, place).await?;
        let Some(incoming) = &mut self.current else { return Ok(()) };
        if incoming.ingest.is_none() {
            let beside = if incoming.catenate { READ_BYTES } else { 0 };
            incoming.ingest = Some(session.await_with_progress(place.account.ingest_beside(beside)).await??);
        }
        Ok(())
    }

    async fn data(&mut self, session: &Session, octets: &Bytes) -> Result<(), Failure> {
        let Some(incoming) = &mut self.current else { return self.write(octets).await };
        let Some(unbinary) = &mut incoming.unbinary else {
            if incoming.binary && memchr::memchr(0, octets).is_some() {
                return Err(unknown_encoding());
            }
            return self.write(octets).await;
        };
        let mut encoded = Vec::with_capacity(octets.len());
        unbinary.push(octets, &mut encoded);
        if unbinary.has_nul() {
            return Err(unknown_encoding());
        }
        self.write_encoded(session, &encoded).await
    }

    /// Octets that may be more than were announced.
    async fn write_encoded(&mut self, session: &Session, octets: &[u8]) -> Result<(), Failure> {
        let most = session.ctx.settings.message_size;
        let size =
            self.current.as_ref().and_then(|incoming| incoming.ingest.as_ref()).map_or(0, Ingest::size);
        if size.saturating_add(octets.len() as u64) > most {
            return Err(too_big(most));
        }
        self.write(octets).await
    }

    /// The next octets of the message, expected before.
    pub(super) async fn write(&mut self, octets: &[u8]) -> Result<(), Failure> {
        let Some(incoming) = &mut self.current else { return Err(missing()) };
        let Some(ingest) = &mut incoming.ingest else { return Err(missing()) };
        Ok(ingest.write(octets).await?)
    }

    /// The present message is all there.
    async fn complete(&mut self, session: &mut Session, place: &ResolvedMailbox) -> Result<(), Failure> {
        if let Some(mut unbinary) = self.current.as_mut().and_then(|incoming| incoming.unbinary.take()) {
            let mut encoded = Vec::new();
            unbinary.finish(&mut encoded);
            if unbinary.has_nul() {
                return Err(unknown_encoding());
            }
            self.write_encoded(session, &encoded).await?;
        }
        let Some(Incoming { flags, received, ingest, .. }) = self.current.take() else { return Ok(()) };
        let ingest = ingest.filter(|ingest| ingest.size() > 0).ok_or_else(nothing)?;
        let stored = self.done.finish(&place.account, ingest).await?;
        let flags = self.done.shared(flags);
        session.await_with_progress(self.done.push(NewMessage { stored, flags, received })).await??;
        session.report_progress(self.done.len(), 0).await?;
        // Encoding may have made it larger than was announced.
        let octets = self.done.octets();
        if octets > self.octets {
            self.octets = octets;
            self.check_quota(session, place).await?;
        }
        Ok(())
    }

    /// Whether there is room for all that came and was announced (RFC 8508 §3.4: only what the command adds counts).
    async fn check_quota(&mut self, session: &Session, place: &ResolvedMailbox) -> Result<(), Failure> {
        match self.octets.saturating_sub(self.freed) {
            0 => Ok(()),
            net => {
                // A message that is replaced makes room for one.
                let messages = (self.done.len() + usize::from(self.current.is_some())) as u64;
                let messages = messages.saturating_sub(u64::from(self.freed > 0));
                session.check_quota_at(place, Usage::of_messages(messages, net)).await
            }
        }
    }
}

fn unknown_encoding() -> Failure {
    Reply::no(Code::UnknownCte, "NUL where no part is encoded as binary").into()
}

/// RFC 4469 §4.2, RFC 7889 §4
fn too_big(most: u64) -> Failure {
    Reply::no(Code::TooBig, format!("message exceeds the limit of {most} bytes")).into()
}

fn missing() -> Failure {
    Reply::bad("a message is missing").into()
}

/// RFC 3502 §6.3.11: a message of no octets is an error, by which a client cancels the command.
fn nothing() -> Failure {
    Reply::refused("empty message: nothing was appended").into()
}
