//! [`Forwarding`]: one forwarded message that streams into the queue.

use sealpost_base::{Permit, limits};
use sealpost_directory::Outside;
use sealpost_queue::envelope::{Mail, Notify, Recipient, Ret, Source, TlsDemand};
use sealpost_queue::{BodyWriter, MailId};
use sealpost_smtp::types::ReversePath;

use super::Forwarder;
use super::scan::{MARK_FIELD, Scan};
use crate::lines::LineEnds;
use crate::outbox::Refusal;

/// Bytes of a piece for the conversion of line ends.
const PIECE_BYTES: usize = 8 * 1024;

/// The envelope of a forwarded message.
pub struct Onward {
    /// The sender of the message.
    pub sender: ReversePath,
    /// The recipients, at least one, and their requested reports.
    pub recipients: Vec<(Outside, Option<Notify>, Option<String>)>,
    /// RET.
    pub ret: Option<Ret>,
    /// ENVID, decoded.
    pub envid: Option<String>,
    /// The demand on TLS; `Policy` lets the header field TLS-Required decide.
    pub tls: TlsDemand,
}

/// A message that streams into the queue unchanged. If it is dropped before [`Forwarding::finish`] returns,
/// nothing of it stays.
pub struct Forwarding {
    forwarder: Forwarder,
    onward: Onward,
    lines: LineEnds,
    scan: Scan,
    /// The marks of the aliases, as fields.
    header: Vec<u8>,
    writer: BodyWriter,
    _memory: Permit,
}

impl Onward {
    /// A message from `sender` without requests for reports.
    pub fn plain(sender: ReversePath, outside: Vec<Outside>) -> Self {
        let recipients = outside.into_iter().map(|to| (to, None, None)).collect();
        Onward { sender, recipients, ret: None, envid: None, tls: TlsDemand::Policy }
    }

    fn outside(&self) -> Vec<Outside> {
        self.recipients.iter().map(|(to, _, _)| to.clone()).collect()
    }
}

impl Forwarder {
    /// Begins a message. Waits for its permit.
    pub async fn begin(&self, onward: Onward) -> Forwarding {
        let memory = self.0.parts.memory.acquire(limits::FORWARDING_MEMORY_BYTES).await;
        let mut aliases: Vec<_> = onward.recipients.iter().map(|(to, _, _)| &to.alias).collect();
        aliases.sort();
        aliases.dedup();
        let (mut header, mut marks) = (String::new(), Vec::new());
        for alias in aliases {
            let of_alias = self.marks(alias);
            header.extend(of_alias.first().map(|mark| format!("{MARK_FIELD}: {mark}\r\n")));
            marks.extend(of_alias);
        }
        let header = header.into_bytes();
        let writer = self.0.parts.queue.begin_body(header.len());
        let (lines, scan) = (LineEnds::default(), Scan::new(marks));
        Forwarding { forwarder: self.clone(), onward, lines, scan, header, writer, _memory: memory }
    }
}

impl Forwarding {
    /// Takes the next bytes of the message, its Received field included, cut anywhere.
    ///
    /// # Errors
    /// `Loop` or `Store`.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let mut clean = Vec::new();
        for piece in bytes.chunks(PIECE_BYTES) {
            clean.clear();
            self.lines.push(piece, &mut clean);
            self.take(&clean).await?;
        }
        Ok(())
    }

    /// Completes the message. The queue has it when this returns.
    ///
    /// # Errors
    /// Why it is refused; `Store` also if the queue may have it all the same.
    pub async fn finish(mut self) -> Result<MailId, Refusal> {
        let mut last = Vec::new();
        std::mem::take(&mut self.lines).finish(&mut last);
        self.take(&last).await?;
        let Forwarding { forwarder, onward, scan, header, writer, .. } = self;
        let inner = &forwarder.0;
        let outside = onward.outside();
        let Some(first) = outside.first() else {
            return Err(sealpost_base::Error::internal("a message to forward has no recipients").into());
        };
        let from = forwarder.reverse_path(&onward.sender, &first.alias).await?;
        let mut facts = scan.facts;
        facts.size = header.len() as u64 + writer.size();
        let body = writer.finish().await?;
        forwarder.count(&outside)?;
        let recipients = onward.recipients.into_iter();
        let mail = Mail {
            accepted: inner.parts.clock.now(),
            account: None,
            from,
            recipients: recipients.map(|(to, notify, orcpt)| recipient(&to, notify, orcpt)).collect(),
            ret: onward.ret,
            envid: onward.envid,
            facts,
            tls: if onward.tls == TlsDemand::Policy { scan.tls } else { onward.tls },
            release: None,
            header,
            body,
            message_id: scan.message_id,
            source: Source::Forward,
            submission: None,
            report_on: None,
        };
        let id = inner.parts.queue.accept(mail).await?;
        inner.metrics.accepted.increment();
        tracing::info!(mail = %id, recipients = outside.len(), alias = %first.alias, "queued a message to forward");
        Ok(id)
    }

    async fn take(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.scan.push(bytes);
        let too_many = self.scan.facts.received as usize > limits::RECEIVED_FIELDS;
        if self.scan.is_marked || too_many {
            self.forwarder.0.metrics.looped.increment();
            return Err(Refusal::Loop);
        }
        self.writer.write(bytes).await?;
        Ok(())
    }
}

fn recipient(to: &Outside, notify: Option<Notify>, orcpt: Option<String>) -> Recipient {
    Recipient { address: to.address.as_str().to_owned(), notify, orcpt }
}
