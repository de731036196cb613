//! New emails: composed, imported or copied. Messages are stored one by one; one entry makes all of a log's
//! new messages visible.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::TryStreamExt;
use sealpost_account::object_id::email_id_of;
use sealpost_account::rights::Rights;
use sealpost_account::{Account, Flags, Ingest, Later, Message, NewMessage, Stored, Unplaced};
use sealpost_base::limits::JMAP_EMAIL_BYTES;
use sealpost_base::{AccountId, Error, Kind, MailboxId, ObjectId, Timestamp};
use sealpost_directory::Usage;
use sealpost_jmap::email::{Email, EmailFields, Keyword};
use sealpost_jmap::error::{SetErrorDetail, SetErrorType};
use sealpost_jmap::id::{BlobId, CreationId, EmailId, ThreadId};
use sealpost_jmap::true_set::TrueSet;
use sealpost_jmap::{GivenId, SetError};
use sealpost_mailbox::email_change::{
    EmailChange, EmailRefusal, Place, PlaceEdit, add_emails, change_emails,
};
use sealpost_mailbox::emails::{Email as StoredEmail, EmailFlags};
use sealpost_mailbox::flags::permitted;
use sealpost_mailbox::shared_accounts::{READS, Reach};
use sealpost_vault::message::READER_BYTES;

use super::compose::{Base64Lines, BlobEncoding, Piece, TextEncoding};
use super::keywords::keywords_of;
use super::refused::{Refused, of_object};
use crate::blob::{self, Blob, BlobName};
use crate::entries::Entries;
use crate::method::Failure;
use crate::scope::Scope;

/// Memory for the record of a new email, in bytes.
const RECORD_BYTES: usize = 2 * size_of::<NewMessage>() + 512;

/// An email to add.
pub(super) struct NewEmail {
    /// The source of its message.
    pub(super) message: Source,
    /// The mailboxes to place it in; at least one.
    pub(super) places: BTreeSet<Place>,
    pub(super) flags: Flags,
    pub(super) received: Timestamp,
}

/// The source of a new email's message.
pub(super) enum Source {
    /// Composed from an Email object.
    Composed(Box<Email>),
    /// A blob.
    Blob(BlobId),
    /// A message of another account's log.
    Stored(Arc<Account>, Box<Message>),
}

impl Source {
    /// Memory for the longest text during encoding, in bytes.
    fn text_bytes(&self) -> usize {
        match self {
            Source::Blob(_) | Source::Stored(..) => 0,
            Source::Composed(email) => {
                let values = email.fields.body_values.iter().flat_map(|values| values.values());
                values.map(|value| value.value.len()).max().unwrap_or(0) * TextEncoding::GROWTH
            }
        }
    }
}

/// The outcome of each new email, by its creation id.
pub(super) type Added = Vec<(CreationId, Result<Email, SetError>)>;

/// Adds emails, each independently. Returns the id, blob, thread and size of each, or its error.
///
/// # Errors
/// If the server failed. Some of the emails may have been added.
pub(super) async fn add(
    scope: &mut Scope<'_>,
    entries: &mut Entries,
    new: Vec<(CreationId, NewEmail)>,
) -> Result<Added, Failure> {
    let text_bytes = new.iter().map(|(_, email)| email.message.text_bytes()).max().unwrap_or(0);
    let _permit = scope.permit(Later::BYTES + new.len() * RECORD_BYTES + text_bytes).await;
    let logs = scope.logs().await?.targets();
    let mut added = Added::new();
    // A shared mailbox may have been removed since the lookup.
    let (new, gone): (Vec<_>, Vec<_>) =
        new.into_iter().partition(|(_, email)| first_log(&logs, email).is_some());
    for (creation, _) in gone {
        added.push((creation, Err(of_object(EmailRefusal::Mailboxes.into())?)));
    }
    for log in &logs {
        let of_log = |email: &NewEmail| first_log(&logs, email) == Some(log.id());
        let mut batch = Batch::new(log, scope);
        for (creation, email) in new.iter().filter(|(_, email)| of_log(email)) {
            match store(scope, log, email, &mut batch.later).await {
                Ok(stored) => batch.push(creation, email, stored),
                Err(refused) => added.push((creation.clone(), Err(of_object(refused)?))),
            }
        }
        added.extend(batch.place(scope, entries).await?);
    }
    for (creation, result) in &added {
        if let Ok(email) = result
            && let Some(id) = email.fields.id.clone().flatten()
        {
            scope.created.insert(creation.clone(), id.into());
        }
    }
    Ok(added)
}

/// The first log that the email is placed in.
fn first_log(logs: &[Arc<Account>], email: &NewEmail) -> Option<AccountId> {
    let mut ids = logs.iter().map(|log| log.id());
    ids.find(|log| email.places.iter().any(|(other, _)| other == log))
}

/// Emails of one log, stored but not yet placed.
struct Batch<'a> {
    log: AccountId,
    account: &'a Arc<Account>,
    later: Later,
    unplaced: Unplaced,
    /// The caller's rights in the log: flags that they do not permit are left out (RFC 4314 §4).
    rights: Rights,
    emails: Vec<(CreationId, &'a NewEmail, ObjectId)>,
}

impl<'a> Batch<'a> {
    fn new(account: &'a Arc<Account>, scope: &Scope<'_>) -> Self {
        let (later, unplaced) = (account.later(), Unplaced::of(account.clone()));
        let rights = match scope.reach() {
            Reach::Own => Rights::ALL,
            Reach::SharedBy(_) => account.state().rights_of(scope.account().id()),
        };
        Batch { log: account.id(), account, later, unplaced, rights, emails: Vec::new() }
    }

    fn push(&mut self, creation: &CreationId, email: &'a NewEmail, stored: Stored) {
        // That by which its id names it: a copy keeps the one of the original.
        let object = stored.message(email.received).first_object();
        self.emails.push((creation.clone(), email, object));
        let flags = Arc::new(permitted(&email.flags, self.rights));
        self.unplaced.push(NewMessage { stored, flags, received: email.received });
    }

    /// Makes the messages durable, places them, then adds their placements in other logs.
    async fn place(mut self, scope: &Scope<'_>, entries: &mut Entries) -> Result<Added, Failure> {
        if self.emails.is_empty() {
            return Ok(Added::new());
        }
        self.later.store().await?;
        let writer = scope.writer().await?;
        let targets: Vec<Vec<MailboxId>> =
            self.emails.iter().map(|(_, email, _)| mailboxes_in(email, self.log)).collect();
        let (written, usage) = (&mut entries.written, Usage::default());
        let placed = add_emails(writer, self.account, self.unplaced, &targets, usage, written).await;
        let placed = placed.map_err(Failure::from)?;
        let mut results: Vec<Result<(), Refused>> =
            placed.into_iter().map(|placed| placed.map_err(Refused::from)).collect();
        spread(scope, entries, self.log, &self.emails, &mut results).await?;
        let found = scope.look(|logs| {
            let find = |(_, _, object): &(_, _, ObjectId)| StoredEmail::find(logs, *object);
            self.emails.iter().map(find).collect::<Vec<_>>()
        });
        let found = found.await?;
        let mut added = Added::new();
        for (((creation, email, object), result), found) in self.emails.into_iter().zip(results).zip(found) {
            added.push((
                creation,
                match (result, found) {
                    (Ok(()), Some(found)) => Ok(shown(&found, &email.flags)),
                    // It came into a mailbox that the caller may add to, and not read.
                    (Ok(()), None) if !self.rights.contains(READS) => Ok(unread(object)),
                    // Another client expunged it at once.
                    (Ok(()), None) => Err(SetErrorType::NotFound.into()),
                    (Err(refused), _) => Err(of_object(refused)?),
                },
            ));
        }
        Ok(added)
    }
}

fn mailboxes_in(email: &NewEmail, log: AccountId) -> Vec<MailboxId> {
    email.places.iter().filter(|(other, _)| *other == log).map(|(_, mailbox)| *mailbox).collect()
}

/// Adds placements in mailboxes of other logs. If one fails, the email is not added at all.
async fn spread(
    scope: &Scope<'_>,
    entries: &mut Entries,
    log: AccountId,
    emails: &[(CreationId, &NewEmail, ObjectId)],
    results: &mut [Result<(), Refused>],
) -> Result<(), Failure> {
    let (mut which, mut changes) = (Vec::new(), Vec::new());
    for (index, (_, email, object)) in emails.iter().enumerate() {
        let add: BTreeSet<Place> = email.places.iter().filter(|(other, _)| *other != log).copied().collect();
        if results[index].is_ok() && !add.is_empty() {
            let edit = PlaceEdit::Change { add, remove: BTreeSet::new() };
            changes.push((*object, EmailChange::Update { flags: None, mailboxes: Some(edit) }));
            which.push(index);
        }
    }
    if which.is_empty() {
        return Ok(());
    }
    let writer = scope.writer().await?;
    let done = change_emails(writer, &changes, &mut entries.written).await?;
    let mut undone = Vec::new();
    for (index, done) in which.into_iter().zip(done) {
        if let Err(refusal) = done {
            undone.push((emails[index].2, EmailChange::Destroy));
            results[index] = Err(refusal.into());
        }
    }
    change_emails(writer, &undone, &mut entries.written).await?;
    Ok(())
}

/// The properties of a new email in the response (RFC 8621 §4.6).
fn shown(email: &StoredEmail, asked: &Flags) -> Email {
    let keywords = keywords_of(&email.flags);
    let is_as_asked = keywords.0.len() == asked_keywords(asked).0.len();
    let fields = EmailFields {
        keywords: (!is_as_asked).then_some(Some(keywords)),
        id: Some(EmailId::new(email_id_of(email.object))),
        blob_id: BlobName::of_message(email.object).id(),
        thread_id: Some(ThreadId::new(email.thread.to_string())),
        size: Some(email.size),
        ..EmailFields::default()
    };
    Email { fields, ..Email::default() }
}

fn asked_keywords(flags: &Flags) -> TrueSet<Keyword> {
    keywords_of(&EmailFlags { system: flags.system, keywords: flags.keywords.clone() })
}

/// What a client learns of an email that it may not read: its id.
fn unread(object: ObjectId) -> Email {
    let fields = EmailFields { id: Some(EmailId::new(email_id_of(object))), ..EmailFields::default() };
    Email { fields, ..Email::default() }
}

/// Stores the message of an email; it is durable when `later` is.
async fn store(
    scope: &Scope<'_>,
    log: &Account,
    email: &NewEmail,
    later: &mut Later,
) -> Result<Stored, Refused> {
    let pieces = match &email.message {
        Source::Stored(source, message) => {
            return Ok(scope.user().ctx().accounts.reseal(source, message, log.id()).await?);
        }
        Source::Composed(email) => scope.composer().compose(email),
        Source::Blob(id) => vec![Piece::Blob(id.clone(), BlobEncoding::Identity)],
    };
    let blobs = blobs_of(scope, &pieces).await?;
    check_size(&pieces, &blobs)?;
    let beside = if blobs.is_empty() { 0 } else { READER_BYTES };
    let mut ingest = log.ingest_beside(beside).await?;
    let most = scope.message_size();
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => ingest.write(&bytes).await?,
            Piece::Text(text, encoding) => ingest.write(encoding.encode(text).as_bytes()).await?,
            Piece::Blob(id, encoding) => {
                let blob = blobs.get(&id).ok_or_else(|| Error::internal("a blob that was not opened"))?;
                write_blob(&mut ingest, blob, encoding, most)
                    .await
                    .map_err(|refused| missing(refused, &id))?;
            }
        }
        if ingest.size() > most {
            return Err(too_large(most).into());
        }
    }
    Ok(ingest.finish_later(later).await?)
}

/// Writes the bytes of a blob, up to the maximum size of a message.
async fn write_blob(
    ingest: &mut Ingest,
    blob: &Blob,
    encoding: BlobEncoding,
    most: u64,
) -> Result<(), Refused> {
    let mut lines = Base64Lines::default();
    let mut bytes = blob.bytes(0..blob.size()).await?;
    while let Some(piece) = bytes.try_next().await? {
        match encoding {
            BlobEncoding::Identity => ingest.write(&piece).await?,
            BlobEncoding::Base64 => ingest.write(lines.push(&piece).as_bytes()).await?,
        }
        if ingest.size() > most {
            return Err(too_large(most).into());
        }
    }
    if encoding == BlobEncoding::Base64 {
        ingest.write(lines.finish().as_bytes()).await?;
    }
    Ok(())
}

/// Checks the total size of all parts. Several parts may refer to the same text or blob.
fn check_size(pieces: &[Piece<'_>], blobs: &BTreeMap<BlobId, Blob>) -> Result<(), SetError> {
    let size = |piece: &Piece<'_>| match piece {
        Piece::Bytes(bytes) => bytes.len() as u64,
        Piece::Text(text, _) => text.len() as u64,
        Piece::Blob(id, BlobEncoding::Base64) => blobs.get(id).map_or(0, Blob::size),
        // A single blob, imported or forwarded: the limit on message size applies.
        Piece::Blob(id, BlobEncoding::Identity) if pieces.len() > 1 => blobs.get(id).map_or(0, Blob::size),
        Piece::Blob(..) => 0,
    };
    let sum = pieces.iter().map(size).fold(0, u64::saturating_add);
    if sum > JMAP_EMAIL_BYTES { Err(too_large(JMAP_EMAIL_BYTES)) } else { Ok(()) }
}

fn too_large(most: u64) -> SetError {
    SetError::from(SetErrorType::TooLarge).describe(format!("a message has at most {most} bytes"))
}

/// Maps the error of an upload that was collected during the read to `blobNotFound`.
fn missing(refused: Refused, id: &BlobId) -> Refused {
    match refused {
        Refused::Server(error) if error.kind() == Kind::NotFound => blob_not_found(vec![id.clone()]).into(),
        refused => refused,
    }
}

fn blob_not_found(missing: Vec<BlobId>) -> SetError {
    SetError::from(SetErrorType::BlobNotFound).with(SetErrorDetail::NotFound(missing))
}

/// Opens the blobs of a message.
///
/// # Errors
/// `blobNotFound` with every missing id (RFC 8621 §4.6).
async fn blobs_of(scope: &Scope<'_>, message: &[Piece<'_>]) -> Result<BTreeMap<BlobId, Blob>, Refused> {
    let (mut blobs, mut missing) = (BTreeMap::new(), Vec::new());
    for piece in message {
        let Piece::Blob(id, _) = piece else { continue };
        if blobs.contains_key(id) || missing.contains(id) {
            continue;
        }
        match blob::open(scope, &GivenId::from(id.clone())).await? {
            Some(blob) => drop(blobs.insert(id.clone(), blob)),
            None => missing.push(id.clone()),
        }
    }
    if missing.is_empty() { Ok(blobs) } else { Err(blob_not_found(missing).into()) }
}
