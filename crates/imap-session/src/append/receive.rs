//! Receives the messages of one command.
//!
//! Every wait here sends progress reports to the client, so that the session notices a disconnect although it
//! does not read input meanwhile.
//!
//! A literal8 may contain parts with the encoding `binary`. They are stored as base64, which BODY[…] must
//! return (RFC 3516 §4.4, §6); NUL elsewhere in it is refused. The content of a plain literal is stored
//! unchanged, including NUL and bytes above 127 in its header, with or without UTF8=ACCEPT
//! (`docs/decisions/0016-imap4rev2-utf8-objects.md`).

use bytes::Bytes;
use sealpost_account::Unplaced;
use sealpost_base::{Permit, limits};
use sealpost_imap::server::Event;
use sealpost_imap::types::{AppendLiteral, AppendMessage, Code};
use sealpost_mailbox::Refusal;
use sealpost_mailbox::append::Append;
use sealpost_mailbox::resolve::ResolvedMailbox;
use sealpost_mime::unbinary::Unbinary;

use super::catenate::{READ_BYTES, catenate};
use crate::connection::End;
use crate::flags;
use crate::reply::{Failure, Reply};
use crate::responses::Responses;
use crate::user::User;

/// The messages received so far.
pub(super) struct Received {
    append: Append,
    parts: usize,
    /// Whether the current message is assembled from parts.
    catenate: bool,
    /// Whether the current bytes are from a literal8 outside binary parts, so that they must not contain NUL.
    binary: bool,
    /// Set for a whole message in a literal8: encodes its binary parts while it is read.
    unbinary: Option<Unbinary>,
}

/// Receives the messages of the current command up to its end; none is visible yet. The command itself frees
/// `freed` bytes. The caller must hold the memory for their records until they are placed.
pub(crate) async fn receive(
    user: &User,
    responses: &mut Responses,
    resolved: &ResolvedMailbox,
    freed: u64,
) -> Result<(Unplaced, Vec<Permit>), Failure> {
    let most = user.shared.ctx.settings.message_size;
    let append = Append::begin(&user.shared.appends, resolved.clone(), freed, most);
    let mut received = Received { append, parts: 0, catenate: false, binary: false, unbinary: None };
    loop {
        match responses.connection.next_of_message().await? {
            Event::AppendMessage(message) => {
                received.complete(user, responses).await?;
                received.begin(user, &message)?;
            }
            Event::AppendUrl(url) => catenate(user, responses, &mut received, &url).await?,
            Event::AppendLiteral(literal) => {
                received.announce(user, responses, literal).await?;
                if literal.sync {
                    responses.out().continuation("send the message");
                }
                responses.connection.set_bulk(true);
            }
            Event::AppendData(bytes) => received.data(&bytes).await?,
            Event::NeedContinuation => {
                responses.out().continuation("go on");
            }
            Event::AppendEnd => {
                received.complete(user, responses).await?;
                return Ok(received.append.finish().await?);
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

impl Received {
    /// Starts a message.
    fn begin(&mut self, user: &User, message: &AppendMessage) -> Result<(), Failure> {
        let flags = flags::from_wire(&message.flags)?;
        let received = message.date.map_or_else(|| user.shared.ctx.clock.now(), |date| date.timestamp());
        let beside = if message.catenate { READ_BYTES } else { 0 };
        self.append.message(&flags, received, beside)?;
        (self.catenate, self.binary, self.unbinary) = (message.catenate, false, None);
        Ok(())
    }

    /// Announces bytes of the message.
    async fn announce(
        &mut self,
        user: &User,
        responses: &mut Responses,
        literal: AppendLiteral,
    ) -> Result<(), Failure> {
        if literal.utf8 && !responses.dialect.utf8_accept() {
            // RFC 6855 §4: only after ENABLE.
            return Err(Reply::bad("UTF8 is not enabled").into());
        }
        let catenate = self.catenate && self.append.has_message();
        if literal.size == 0 && !catenate {
            return Err(Refusal::Empty.into());
        }
        self.part()?;
        self.expect(user, responses, literal.size).await?;
        self.binary = literal.binary;
        self.unbinary = (literal.binary && !literal.utf8 && !catenate).then(Unbinary::new);
        Ok(())
    }

    /// Announces another part of the message.
    pub(super) fn part(&mut self) -> Result<(), Failure> {
        self.parts += 1;
        if self.parts > limits::IMAP_CATENATE_PARTS {
            let text = format!("a command has at most {} parts", limits::IMAP_CATENATE_PARTS);
            return Err(Reply::no(Code::Limit, text).into());
        }
        Ok(())
    }

    /// Checks that `more` bytes may arrive, and acquires memory for them.
    ///
    /// # Errors
    /// `NO [TOOBIG]` for the message, `NO [OVERQUOTA]` for the command.
    pub(super) async fn expect(
        &mut self,
        user: &User,
        responses: &mut Responses,
        more: u64,
    ) -> Result<(), Failure> {
        self.check_begun()?;
        let expecting = self.append.expect(user.user_quota(), more);
        Ok(responses.await_with_progress(expecting).await??)
    }

    async fn data(&mut self, bytes: &Bytes) -> Result<(), Failure> {
        let Some(unbinary) = &mut self.unbinary else {
            if self.binary && memchr::memchr(0, bytes).is_some() {
                return Err(unknown_encoding());
            }
            return self.write(bytes).await;
        };
        let mut encoded = Vec::with_capacity(bytes.len());
        unbinary.push(bytes, &mut encoded);
        if unbinary.has_nul() {
            return Err(unknown_encoding());
        }
        Ok(self.append.write_longer(&encoded).await?)
    }

    /// Writes the next announced bytes of the message.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.check_begun()?;
        Ok(self.append.write(bytes).await?)
    }

    /// Completes the current message.
    async fn complete(&mut self, user: &User, responses: &mut Responses) -> Result<(), Failure> {
        if let Some(mut unbinary) = self.unbinary.take() {
            let mut encoded = Vec::new();
            unbinary.finish(&mut encoded);
            if unbinary.has_nul() {
                return Err(unknown_encoding());
            }
            self.append.write_longer(&encoded).await?;
        }
        if self.append.has_message() {
            let completing = self.append.complete(user.user_quota());
            responses.await_with_progress(completing).await??;
            responses.report_progress(self.append.len(), 0).await?;
        }
        Ok(())
    }

    fn check_begun(&self) -> Result<(), Reply> {
        if self.append.has_message() { Ok(()) } else { Err(Reply::bad("a message is missing")) }
    }
}

fn unknown_encoding() -> Failure {
    Reply::no(Code::UnknownCte, "NUL where no part is encoded as binary").into()
}
