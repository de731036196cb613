//! [`Submission`]: one message that streams into the queue.

use sealpost_base::{Permit, limits};
use sealpost_directory::Address;
use sealpost_dns::DnsName;
use sealpost_mailauth::dkim::{BodyHash, SigningOptions, sign};
use sealpost_mime::header::{raw_fields, unfold};
use sealpost_queue::envelope::{Facts, Mail, MailSubmission, Source, TlsDemand};
use sealpost_queue::{BodyWriter, HEADER_MARGIN_BYTES};

use super::{Accepted, Order, Outbox, Refusal, Reservation};
use crate::domain_keys::DomainKey;
use crate::header::{Collector, Completed, Stamp, complete};
use crate::lines::LineEnds;

/// Bytes of a piece for the conversion of line ends.
const PIECE_BYTES: usize = 8 * 1024;
/// Bytes of one signature field, at most: an RSA key of 4096 bits, and all names that are signed.
const SIGNATURE_BYTES: usize = 4096;

/// A message that streams into the queue. If it is dropped before [`Submission::finish`] returns, nothing of
/// it stays. It cannot be used after a refusal.
pub struct Submission {
    outbox: Outbox,
    order: Order,
    lines: LineEnds,
    /// The message, until it is too large to be held without a permit. So a client that sends little and then
    /// nothing delays no other session.
    head: Vec<u8>,
    memory: Memory,
    stage: Stage,
    /// Bytes that have arrived.
    size: u64,
}

/// The permits of a message.
#[derive(Default)]
struct Memory {
    message: Option<Permit>,
    /// For a large header.
    header: Option<Permit>,
}

/// A message that the queue can take.
pub struct ReadySubmission {
    outbox: Outbox,
    mail: Mail,
    /// Its recipients count already.
    reserved: Option<Reservation>,
    memory: Memory,
}

impl ReadySubmission {
    /// The queue takes it. It is durable when this returns. `submission`: its account has a record of it,
    /// to which the queue reports what becomes of it.
    ///
    /// # Errors
    /// `Store`, also if it is not known whether it is durable.
    pub async fn accept(self, submission: Option<MailSubmission>) -> Result<Accepted, Refusal> {
        let ReadySubmission { outbox, mail, reserved, memory } = self;
        let (message_id, size, recipients) =
            (mail.message_id.clone(), mail.facts.size, mail.recipients.len() as u64);
        let is_users = mail.source == Source::Submission;
        let id = outbox.0.parts.queue.accept(Mail { submission, ..mail }).await?;
        drop((reserved, memory));
        if is_users {
            let metrics = &outbox.0.metrics;
            metrics.accepted.increment();
            metrics.recipients.add(recipients);
        }
        Ok(Accepted { id, message_id, size })
    }
}

enum Stage {
    Header(Collector),
    Body(Box<Begun>),
}

/// A message whose header is complete.
struct Begun {
    /// The completed header, with its empty line: the signature covers it.
    header: Vec<u8>,
    /// Whether it is so large that it is in `writer` too, and not before the body in the log.
    is_written: bool,
    message_id: Option<String>,
    tls: TlsDemand,
    received: u32,
    /// The keys that sign, and their domain.
    signing: Option<Signing>,
    writer: BodyWriter,
    eight_bit: bool,
}

struct Signing {
    domain: DnsName,
    keys: Vec<DomainKey>,
    hash: BodyHash,
}

impl Submission {
    pub(super) fn new(outbox: Outbox, order: Order) -> Self {
        Submission {
            outbox,
            order,
            lines: LineEnds::default(),
            head: Vec::new(),
            memory: Memory::default(),
            stage: Stage::Header(Collector::default()),
            size: 0,
        }
    }

    /// Bytes that have arrived so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether other sessions may have to wait for memory that it holds.
    pub fn holds_budget(&self) -> bool {
        self.memory.message.is_some()
    }

    /// Takes the next bytes of the message, cut anywhere.
    ///
    /// # Errors
    /// Why it is refused, as soon as that is known.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.size += bytes.len() as u64;
        let limit = self.outbox.0.parts.limits.message_size;
        if self.size > limit {
            return Err(Refusal::TooLarge(limit));
        }
        if self.memory.message.is_none() && self.head.len() + bytes.len() <= limits::SMTP_HEAD_BYTES {
            // Keep no more than that: thousands of sessions may wait for memory with so much.
            self.head.reserve_exact(bytes.len());
            self.head.extend_from_slice(bytes);
            return Ok(());
        }
        self.draw_memory().await?;
        self.pass(bytes).await
    }

    /// Acquires the memory for a message of any size, unless it has that. Afterwards [`Submission::write`] does
    /// not wait for other submissions.
    ///
    /// # Errors
    /// As [`Submission::write`].
    pub async fn draw_memory(&mut self) -> Result<(), Refusal> {
        if self.memory.message.is_some() {
            return Ok(());
        }
        self.memory.message = Some(self.outbox.0.memory.acquire(limits::SUBMISSION_MEMORY_BYTES).await);
        let head = std::mem::take(&mut self.head);
        self.pass(&head).await
    }

    /// Completes the message, which is durable when this returns.
    ///
    /// # Errors
    /// Why it is refused; `Store` also if it is not known whether it is durable.
    pub async fn finish(self) -> Result<Accepted, Refusal> {
        self.ready().await?.accept(None).await
    }

    /// The message is complete: everything is checked, and its body stored if it is large. Dropped before
    /// [`ReadySubmission::accept`] returns, it leaves nothing in the queue.
    ///
    /// # Errors
    /// As [`Submission::finish`].
    pub async fn ready(mut self) -> Result<ReadySubmission, Refusal> {
        let head = std::mem::take(&mut self.head);
        self.pass(&head).await?;
        let mut last = Vec::new();
        std::mem::take(&mut self.lines).finish(&mut last);
        self.take(&last).await?;
        let begun = match self.stage {
            Stage::Body(begun) => begun,
            Stage::Header(collector) => begin(&self.outbox, &self.order, collector).await?,
        };
        let recipients = self.order.recipients.len();
        // What the server sends in the name of an account has limits of its own.
        let account = self.order.account.as_ref().filter(|_| self.order.source == Source::Submission);
        let reserved = account.map(|account| self.outbox.reserve(account, recipients)).transpose()?;
        let mail = begun.into_mail(self.order, self.outbox.0.parts.clock.now()).await?;
        Ok(ReadySubmission { outbox: self.outbox, mail, reserved, memory: self.memory })
    }

    async fn pass(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let mut clean = Vec::new();
        for piece in bytes.chunks(PIECE_BYTES) {
            clean.clear();
            self.lines.push(piece, &mut clean);
            self.take(&clean).await?;
        }
        Ok(())
    }

    /// Takes bytes whose lines end with CRLF.
    async fn take(&mut self, mut bytes: &[u8]) -> Result<(), Refusal> {
        if let Stage::Header(collector) = &mut self.stage {
            let taken = collector.push(bytes)?;
            bytes = &bytes[taken..];
            if collector.len() > limits::SUBMISSION_SMALL_HEADER_BYTES && self.memory.header.is_none() {
                // Do not wait: the submission holds memory already.
                let permit = self.outbox.0.memory.try_acquire(2 * limits::SUBMISSION_HEADER_BYTES);
                self.memory.header = Some(permit.ok_or(Refusal::NoMemory)?);
            }
            if !collector.is_done() {
                return Ok(());
            }
            let collector = std::mem::take(collector);
            self.stage = Stage::Body(begin(&self.outbox, &self.order, collector).await?);
        }
        match &mut self.stage {
            Stage::Body(begun) => begun.write(bytes).await,
            Stage::Header(_) => Ok(()),
        }
    }
}

/// Completes the header, and refuses a message that may not be sent.
async fn begin(outbox: &Outbox, order: &Order, collector: Collector) -> Result<Box<Begun>, Refusal> {
    let parts = &outbox.0.parts;
    let unique = format!("{:016x}{:016x}", parts.random.next_u64(), parts.random.next_u64());
    let stamp = Stamp { now: parts.clock.now(), unique: &unique, domain: &parts.hostname };
    let (header, body) = collector.finish();
    let Completed { bytes: header, senders, message_id } = complete(&header, &stamp)?;
    let mut addresses: Vec<&str> = senders.iter().map(String::as_str).collect();
    // MAIL FROM:<> is for notifications (RFC 8098 §3), whose From is checked like any.
    addresses.extend(Some(order.from.as_str()).filter(|from| !from.is_empty()));
    if let Some(account) = &order.account {
        outbox.check_senders(account, &addresses).await?;
    }
    let fields = Fields::of(&header);
    if fields.received >= limits::RECEIVED_FIELDS {
        return Err(Refusal::Loop);
    }
    let signing = match senders.first() {
        Some(from) => signing(outbox, from).await?,
        None => None,
    };
    let signatures = signing.as_ref().map_or(0, |signing| signing.keys.len() * SIGNATURE_BYTES);
    let signatures = signatures.min(HEADER_MARGIN_BYTES);
    let before = order.trace.len() + signatures;
    let is_written = before + header.len() > limits::QUEUE_INLINE_BYTES / 2;
    let mut writer = parts.queue.begin_body(if is_written { before } else { before + header.len() });
    if is_written {
        writer.write(&header).await?;
    }
    let mut begun = Box::new(Begun {
        header,
        is_written,
        message_id: Some(message_id).filter(|id| id.len() <= limits::MESSAGE_ID_BYTES),
        tls: match order.tls {
            // RFC 8689 §4.1: REQUIRETLS goes before the header field.
            TlsDemand::Policy if fields.waives_tls => TlsDemand::Waive,
            tls => tls,
        },
        received: u32::try_from(fields.received + 1).unwrap_or(u32::MAX),
        signing,
        writer,
        eight_bit: false,
    });
    begun.write(&body).await?;
    Ok(begun)
}

/// The signing keys of the domain of an address, if this server serves it and it has keys.
async fn signing(outbox: &Outbox, from: &str) -> Result<Option<Signing>, Refusal> {
    let parts = &outbox.0.parts;
    let Ok(address) = Address::parse(from) else { return Ok(None) };
    if !parts.directory.serves(address.domain()).await? {
        return Ok(None);
    }
    let keys = parts.domain_keys.signing(address.domain()).await?;
    // RFC 6376 §3.5: the domain in its form of A-labels.
    let domain = keys.first().map(|key| key.domain.clone());
    Ok(domain.map(|domain| Signing { domain, keys, hash: BodyHash::default() }))
}

impl Begun {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.eight_bit |= !bytes.is_ascii();
        if let Some(signing) = &mut self.signing {
            signing.hash.push(bytes);
        }
        self.writer.write(bytes).await?;
        Ok(())
    }

    /// Signs the message, and stores the part of it that does not go into the log.
    async fn into_mail(self, order: Order, now: sealpost_base::Timestamp) -> Result<Mail, Refusal> {
        let utf8_header = !self.header.is_ascii();
        let mut header = match self.signing {
            None => Vec::new(),
            Some(Signing { domain, keys, hash }) => {
                let timestamp = u64::try_from(now.seconds()).unwrap_or(0);
                let options = SigningOptions { domain: domain.as_str(), timestamp, expiry: None };
                let keys: Vec<_> = keys.iter().map(|key| (&*key.selector, key.signer())).collect();
                sign(&self.header, hash, options, &keys)?
            }
        };
        header.extend_from_slice(&order.trace);
        if !self.is_written {
            header.extend_from_slice(&self.header);
        }
        let size = header.len() as u64 + self.writer.size();
        Ok(Mail {
            accepted: now,
            account: order.account.map(|account| account.id),
            from: order.from,
            recipients: order.recipients,
            ret: order.ret,
            envid: order.envid,
            facts: Facts { size, eight_bit: self.eight_bit, utf8_header, received: self.received },
            tls: self.tls,
            release: order.release,
            header,
            body: self.writer.finish().await?,
            message_id: self.message_id,
            source: order.source,
            submission: None,
            report_on: None,
        })
    }
}

/// Facts of a header besides From and Sender.
struct Fields {
    received: usize,
    waives_tls: bool,
}

impl Fields {
    fn of(header: &[u8]) -> Self {
        let mut found = Fields { received: 0, waives_tls: false };
        for (name, field) in raw_fields(header) {
            if name.eq_ignore_ascii_case(b"Received") {
                found.received += 1;
            } else if name.eq_ignore_ascii_case(b"TLS-Required") {
                let value = &field[memchr::memchr(b':', field).map_or(0, |colon| colon + 1)..];
                // RFC 8689 §3: the one value that there is.
                found.waives_tls |= unfold(value).trim().eq_ignore_ascii_case("no");
            }
        }
        found
    }
}
