//! The bytes of a blob, read as they are needed.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use sealpost_account::decoded::Span;
use sealpost_account::{Account, Message};
use sealpost_base::{Error, Kind, ObjectId, Result};
use sealpost_jmap::GivenId;
use sealpost_mailbox::account_changes::at_once;
use sealpost_mailbox::emails::Email;
use sealpost_mime::decode::Encoding;
use sealpost_mime::text::NoText;
use sealpost_mime::{Layer, Outline, Scanner, Structure};
use sealpost_vault::upload::Upload;

use super::id::{BlobBase, BlobName};
use crate::scope::Scope;

/// A blob that exists: a message or an upload, or bytes in it.
#[derive(Clone)]
pub(crate) struct Blob {
    account: Arc<Account>,
    object: Object,
    span: Span,
}

/// What a blob is, or is in.
#[derive(Clone)]
enum Object {
    Message(Message),
    Upload(Upload),
}

/// The blob with that id. `None` if there is none, or if it is in no email of this account: what is
/// in others is not told apart from what is nowhere.
///
/// # Errors
/// What the store says; `Corrupt` if the message is damaged.
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
        BlobBase::Upload(text) => open_upload(scope, text).await?,
    };
    for step in &name.steps {
        let Some(around) = &blob else { return Ok(None) };
        let outline = around.outline().await?;
        let Some((range, encoding)) = part_at(&outline, step) else { return Ok(None) };
        blob = Some(around.part(range, encoding).await?);
    }
    Ok(blob)
}

/// The message that this object first held, in whichever log of the account.
async fn open_message(scope: &Scope<'_>, object: ObjectId) -> Result<Option<Blob>> {
    let logs = scope.logs().await?;
    let found = at_once(&logs, |states| {
        let email = Email::find(states, object)?;
        Some((email.stored.0, email.message(states)?))
    })
    .await?;
    let Some((log, message)) = found else { return Ok(open_card_medium(scope, object)) };
    let Some(account) = logs.iter().find(|account| account.id() == log) else { return Ok(None) };
    Ok(Some(Blob::message(account.clone(), message)))
}

/// The picture or sound of a contact card that this object holds.
fn open_card_medium(scope: &Scope<'_>, object: ObjectId) -> Option<Blob> {
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

/// Where the part of that number is. The message in it is a blob of its own, and so are its parts.
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
    /// A whole message.
    pub(crate) fn message(account: Arc<Account>, message: Message) -> Self {
        let span = Span { layers: Vec::new(), range: 0..message.size() };
        Blob { account, object: Object::Message(message), span }
    }

    /// Its bytes.
    pub(crate) fn size(&self) -> u64 {
        self.span.range.end - self.span.range.start
    }

    /// The account that it is read from.
    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Its parts, if it is taken for a message.
    async fn outline(&self) -> Result<Outline> {
        match &self.object {
            // Of a whole message the structure is stored.
            Object::Message(message)
                if self.span.layers.is_empty() && self.span.range == (0..message.size()) =>
            {
                Ok(self.account.structure(message).await?.outline())
            }
            _ => Ok(self.scan().await?.outline()),
        }
    }

    /// Some of its bytes, without that encoding: reads them through once, unless that was done
    /// lately.
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

    /// These of its bytes, cut at its end, in pieces. The stream holds at most
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

    /// These of its bytes, in memory.
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

    /// The structure of the message that it is. Anything is a message, if one without a header.
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

    /// The range in the bytes that the innermost layer comes to.
    fn inside(&self, range: Range<u64>) -> Range<u64> {
        let Range { start, end } = self.span.range;
        start.saturating_add(range.start).min(end)..start.saturating_add(range.end).min(end)
    }
}
