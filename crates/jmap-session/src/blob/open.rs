//! The bytes of a blob, read on demand.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use sealpost_account::decoded::Span;
use sealpost_account::{Account, Message};
use sealpost_base::{Error, Kind, ObjectId, Result};
use sealpost_jmap::GivenId;
use sealpost_jmap::capability::Capability;
use sealpost_mailbox::emails::Email;
use sealpost_mailbox::shared_accounts::Reach;
use sealpost_mime::decode::Encoding;
use sealpost_mime::text::NoText;
use sealpost_mime::{Layer, Outline, Scanner, Structure};
use sealpost_vault::upload::Upload;

use super::id::{BlobBase, BlobName};
use crate::scope::Scope;

/// A blob that exists: a message, an upload, or a range of bytes in one of them.
#[derive(Clone)]
pub(crate) struct Blob {
    account: Arc<Account>,
    object: Object,
    span: Span,
}

/// The object that contains the blob.
#[derive(Clone)]
enum Object {
    Message(Message),
    Upload(Upload),
}

/// Opens a blob. `None` if it does not exist, if no email of this account contains it, or if the login's
/// scopes do not grant what it belongs to: a response must not reveal which blobs there are.
///
/// # Errors
/// Store errors; `Corrupt` if the message is damaged.
pub(crate) async fn open(scope: &Scope<'_>, id: &GivenId) -> Result<Option<Blob>> {
    let name = id.resolve(&scope.created).and_then(|id| BlobName::parse(id.as_str()));
    match name {
        Some(name) => open_named(scope, &name).await,
        None => Ok(None),
    }
}

async fn open_named(scope: &Scope<'_>, name: &BlobName) -> Result<Option<Blob>> {
    let mut blob = match &name.base {
        BlobBase::Message(object) => open_message(scope, *object).await?,
        // An upload is of no type: any scope opens it.
        _ if !scope.user().grants(Capability::Blob) => None,
        upload => match upload.upload_for(scope.reach()) {
            Some(text) => open_upload(scope, text).await?,
            None => None,
        },
    };
    for step in &name.steps {
        let Some(around) = &blob else { return Ok(None) };
        let outline = around.outline().await?;
        let Some((range, encoding)) = part_at(&outline, step) else { return Ok(None) };
        blob = Some(around.part(range, encoding).await?);
    }
    Ok(blob)
}

/// The message that this object first held, from any log of the account, or the medium of a card: what the
/// login's scopes grant.
async fn open_message(scope: &Scope<'_>, object: ObjectId) -> Result<Option<Blob>> {
    if !scope.user().grants(Capability::Mail) {
        return Ok(open_card_medium(scope, object));
    }
    let logs = scope.logs().await?;
    let found = logs.look(|states| {
        let email = Email::find(states, object)?;
        Some((email.stored.0, email.message(states)?))
    });
    let found = found.await?;
    let Some((log, message)) = found else { return Ok(open_card_medium(scope, object)) };
    let Some(account) = logs.iter().find(|account| account.id() == log) else { return Ok(None) };
    Ok(Some(Blob::message(account.clone(), message)))
}

/// The picture or sound of a contact card that this object holds.
fn open_card_medium(scope: &Scope<'_>, object: ObjectId) -> Option<Blob> {
    if scope.reach() != Reach::Own || !scope.user().grants(Capability::Contacts) {
        return None;
    }
    let medium = scope.account().state().card_medium(object)?;
    Some(Blob::message(scope.account().clone(), medium))
}

/// The upload of that text, unless it was collected.
async fn open_upload(scope: &Scope<'_>, text: &str) -> Result<Option<Blob>> {
    let account = scope.account();
    let Some(upload) = account.uploaded(text) else { return Ok(None) };
    let exists = account.has_upload(&upload).await?;
    let span = Span { layers: Vec::new(), range: 0..upload.size() };
    Ok(exists.then(|| Blob { account: account.clone(), object: Object::Upload(upload), span }))
}

/// Finds a part by its section number. A message in that part is a blob of its own, and so are its parts.
fn part_at(outline: &Outline, path: &[u32]) -> Option<(Range<u64>, Encoding)> {
    let (part, layers) = outline.part_within(path)?;
    let is_inside = (1..path.len()).any(|len| {
        let around = outline.part_within(&path[..len]);
        around.is_none_or(|(around, _)| !around.is_multipart())
    });
    let is_blob = !is_inside && layers.is_empty() && !part.is_multipart();
    is_blob.then(|| (part.body(), part.encoding().unwrap_or_default()))
}

impl Blob {
    /// The blob of a whole message.
    pub(crate) fn message(account: Arc<Account>, message: Message) -> Self {
        let span = Span { layers: Vec::new(), range: 0..message.size() };
        Blob { account, object: Object::Message(message), span }
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.span.range.end - self.span.range.start
    }

    /// The account that stores it.
    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// The parts of the blob, parsed as a message.
    async fn outline(&self) -> Result<Outline> {
        match &self.object {
            // The store has the structure of a whole message.
            Object::Message(message)
                if self.span.layers.is_empty() && self.span.range == (0..message.size()) =>
            {
                Ok(self.account.structure(message).await?.outline())
            }
            _ => Ok(self.scan().await?.outline()),
        }
    }

    /// A range of the blob, decoded from its transfer encoding. Reads the range once to find the decoded
    /// size, unless that is cached.
    ///
    /// # Errors
    /// As [`open`].
    pub(crate) async fn part(&self, range: Range<u64>, encoding: Encoding) -> Result<Blob> {
        let mut span = Span { layers: self.span.layers.clone(), range: self.inside(range) };
        if matches!(encoding, Encoding::Base64 | Encoding::QuotedPrintable) {
            span.layers.push(Layer { range: span.range, encoding });
            let decoded = match &self.object {
                Object::Message(message) => self.account.decoded(message, &span.layers).await?,
                Object::Upload(upload) => self.account.upload_decoded(upload, &span.layers).await?,
            };
            span.range = 0..decoded.size();
        }
        Ok(Blob { account: self.account.clone(), object: self.object.clone(), span })
    }

    /// A range of the blob as a stream, cut at the blob's end. The stream holds at most
    /// [`sealpost_vault::message::READER_BYTES`].
    ///
    /// # Errors
    /// As [`open`].
    pub(crate) async fn bytes(&self, range: Range<u64>) -> Result<BoxStream<'static, Result<Bytes>>> {
        let span = Span { layers: self.span.layers.clone(), range: self.inside(range) };
        match &self.object {
            Object::Message(message) => self.account.bytes(message, span).await,
            Object::Upload(upload) => self.account.upload_bytes(upload, span).await,
        }
    }

    /// A range of the blob, in memory.
    ///
    /// # Errors
    /// As [`open`].
    pub(crate) async fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = self.bytes(range).await?;
        let mut all = Vec::new();
        while let Some(piece) = bytes.try_next().await? {
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }

    /// The structure of the blob, parsed as a message. Any bytes parse, if as a message without a header.
    ///
    /// # Errors
    /// As [`open`].
    pub(crate) async fn scan(&self) -> Result<Structure> {
        let mut scanner = Scanner::with_sink(NoText);
        let mut bytes = self.bytes(0..self.size()).await?;
        let mut size = 0;
        while let Some(piece) = bytes.try_next().await? {
            size += piece.len() as u64;
            scanner.push(&piece);
        }
        if size != self.size() {
            return Err(Error::new(Kind::Corrupt, "a blob is shorter than it should be"));
        }
        Ok(scanner.finish().0)
    }

    /// Translates a range of the blob to a range of the innermost layer.
    fn inside(&self, range: Range<u64>) -> Range<u64> {
        let Range { start, end } = self.span.range;
        start.saturating_add(range.start).min(end)..start.saturating_add(range.end).min(end)
    }
}
