//! Pictures and sounds of cards (RFC 9610 §3): a blob, or the bytes of a "data:" URI, becomes an object
//! of the card, and is a blob from then on.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::TryStreamExt;
use sealpost_account::{Message, NewMessage, Stored, Unplaced};
use sealpost_base::limits::{CARD_MEDIA, CARD_MEDIA_BYTES};
use sealpost_base::{Result, Timestamp};
use sealpost_jmap::error::{SetErrorDetail, SetErrorType};
use sealpost_jmap::{GivenId, SetError};
use serde_json::{Map, Value};

use crate::blob::{self, Blob, BlobName};
use crate::scope::Scope;

/// Bytes by which the type of a picture is recognized.
const HEAD_BYTES: usize = 64;
/// The type of bytes of which nothing says more.
const ANY_TYPE: &str = "application/octet-stream";

/// What a card refers to.
pub(super) struct CardMedia {
    /// All of it.
    pub(super) messages: Vec<Message>,
    /// What of it is new: removed from the store if the card is refused.
    pub(super) unplaced: Unplaced,
}

impl CardMedia {
    /// Notes an object that is new.
    fn push(&mut self, stored: Stored, now: Timestamp) -> Message {
        let message = stored.message(now);
        self.unplaced.push(NewMessage { stored, flags: Arc::default(), received: now });
        message
    }
}

/// Where the bytes of a medium are.
enum Source {
    /// The card has it already.
    Known(Message),
    Blob(Blob),
    Data {
        bytes: Vec<u8>,
        media_type: String,
    },
}

/// Stores what the media of a card refer to, and puts ids of blobs into the card; `known` is what it had.
/// The card is valid, and the caller holds memory for reading a blob.
pub(super) async fn store(
    scope: &Scope<'_>,
    card: &mut Map<String, Value>,
    known: &[Message],
) -> Result<Result<CardMedia, SetError>> {
    let unplaced = Unplaced::of(scope.account().clone());
    let mut media = CardMedia { messages: Vec::new(), unplaced };
    let Some(Value::Object(entries)) = card.get_mut("media") else { return Ok(Ok(media)) };
    let holds_bytes = |medium: &&Value| medium.get("blobId").is_some() || data_of(medium).is_some();
    if entries.values().filter(holds_bytes).count() > CARD_MEDIA {
        return Ok(Err(wrong(format!("a card has at most {CARD_MEDIA} pictures and sounds"))));
    }
    for (key, medium) in entries.iter_mut() {
        let source = match source(scope, medium, known).await? {
            Ok(Some(source)) => source,
            Ok(None) => continue,
            Err(error) => return Ok(Err(error)),
        };
        if let Err(error) = store_one(scope, medium, source, &mut media).await? {
            return Ok(Err(error.describe(format!("media/{key}: not what its kind needs, or too large"))));
        }
    }
    Ok(Ok(media))
}

/// The text of a "data:" URI behind the scheme.
fn data_of(medium: &Value) -> Option<&str> {
    let uri = medium.get("uri")?.as_str()?;
    let (scheme, data) = uri.split_at_checked(5)?;
    scheme.eq_ignore_ascii_case("data:").then_some(data)
}

async fn source(
    scope: &Scope<'_>,
    medium: &Value,
    known: &[Message],
) -> Result<Result<Option<Source>, SetError>> {
    if let Some(data) = data_of(medium) {
        let read = read_data(data).map(|(bytes, media_type)| Source::Data { bytes, media_type });
        return Ok(read.map(Some).ok_or_else(|| wrong("a \"data:\" URI cannot be read".to_owned())));
    }
    let Some(id) = medium.get("blobId").and_then(Value::as_str) else { return Ok(Ok(None)) };
    let given = GivenId::from(id.to_owned());
    let name = given.resolve(&scope.created).and_then(|id| BlobName::parse(id.as_str()));
    let has = |message: &&Message| name == Some(BlobName::of_message(message.object));
    if let Some(message) = known.iter().find(has) {
        return Ok(Ok(Some(Source::Known(message.clone()))));
    }
    Ok(match blob::open(scope, &given).await? {
        Some(blob) => Ok(Some(Source::Blob(blob))),
        None => {
            let missing = given.resolve(&scope.created).cloned().map(Into::into);
            let error = SetError::from(SetErrorType::BlobNotFound);
            Err(error.with(SetErrorDetail::NotFound(missing.into_iter().collect())))
        }
    })
}

async fn store_one(
    scope: &Scope<'_>,
    medium: &mut Value,
    source: Source,
    media: &mut CardMedia,
) -> Result<Result<(), SetError>> {
    let (message, found_type) = match source {
        Source::Known(message) => (message, None),
        Source::Data { bytes, media_type } => {
            let head = bytes.get(..HEAD_BYTES).unwrap_or(&bytes);
            let picture = picture_type(head);
            if bytes.len() as u64 > CARD_MEDIA_BYTES || !suits(medium, picture) {
                return Ok(Err(wrong(String::new())));
            }
            let mut ingest = scope.account().ingest().await?;
            ingest.write(&bytes).await?;
            let stored = ingest.finish().await?;
            (media.push(stored, scope.composer().now), Some(media_type))
        }
        Source::Blob(blob) => {
            let size = blob.size();
            let picture = if size <= CARD_MEDIA_BYTES {
                picture_type(&blob.read(0..HEAD_BYTES as u64).await?)
            } else {
                None
            };
            if size > CARD_MEDIA_BYTES || !suits(medium, picture) {
                return Ok(Err(wrong(String::new())));
            }
            let mut ingest = scope.account().ingest().await?;
            let mut bytes = blob.bytes(0..size).await?;
            while let Some(piece) = bytes.try_next().await? {
                ingest.write(&piece).await?;
            }
            let stored = ingest.finish().await?;
            (media.push(stored, scope.composer().now), picture.map(str::to_owned))
        }
    };
    if let Value::Object(medium) = medium {
        medium.remove("uri");
        medium.insert("blobId".to_owned(), Value::String(BlobName::of_message(message.object).to_string()));
        // RFC 9610 §3: a medium with a blob has a type.
        let media_type = medium.entry("mediaType").or_insert(Value::Null);
        if media_type.is_null() {
            *media_type = Value::String(found_type.unwrap_or_else(|| ANY_TYPE.to_owned()));
        }
    }
    media.messages.push(message);
    Ok(Ok(()))
}

fn wrong(why: String) -> SetError {
    SetError::invalid_properties(vec!["media".to_owned()], why)
}

/// RFC 9610 §3.5: a photo is a picture, by its bytes and by what the client says.
fn suits(medium: &Value, picture: Option<&str>) -> bool {
    let said = medium.get("mediaType").and_then(Value::as_str);
    let is_photo = medium.get("kind").and_then(Value::as_str) == Some("photo");
    let is_said_picture = said.is_none_or(|said| said.to_ascii_lowercase().starts_with("image/"));
    !is_photo || picture.is_some() && is_said_picture
}

/// The type of a picture, by its first bytes.
fn picture_type(head: &[u8]) -> Option<&'static str> {
    const BEGINNINGS: [(&[u8], &str); 6] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"BM", "image/bmp"),
        (b"II*\0", "image/tiff"),
        (b"MM\0*", "image/tiff"),
    ];
    let at = |from: usize, bytes: &[u8]| head.get(from..).is_some_and(|rest| rest.starts_with(bytes));
    if at(0, b"RIFF") && at(8, b"WEBP") {
        return Some("image/webp");
    }
    if at(4, b"ftyp") {
        let is_avif = at(8, b"avif") || at(8, b"avis");
        let is_heif = [&b"heic"[..], b"heix", b"mif1", b"msf1"].iter().any(|brand| at(8, brand));
        return if is_avif { Some("image/avif") } else { is_heif.then_some("image/heic") };
    }
    BEGINNINGS.iter().find(|(beginning, _)| at(0, beginning)).map(|(_, media_type)| *media_type)
}

/// The bytes and the media type of a "data:" URI (RFC 2397), without its scheme.
fn read_data(data: &str) -> Option<(Vec<u8>, String)> {
    let (header, body) = data.split_once(',')?;
    let (media_type, is_base64) = match header.len().checked_sub(7).and_then(|at| header.split_at_checked(at))
    {
        Some((media_type, ";base64" | ";BASE64" | ";Base64")) => (media_type, true),
        _ => (header, false),
    };
    let media_type = if media_type.is_empty() { "text/plain" } else { media_type };
    let bytes = percent_decoded(body)?;
    let bytes = if is_base64 { STANDARD.decode(bytes).ok()? } else { bytes };
    Some((bytes, media_type.to_owned()))
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push((high * 16 + low) as u8);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_uris_are_read() {
        let read = |data: &str| read_data(data).map(|(bytes, of)| (String::from_utf8(bytes).unwrap(), of));
        let found = |text: &str, of: &str| Some((text.to_owned(), of.to_owned()));
        assert_eq!(read("image/png;base64,aGFsbG8="), found("hallo", "image/png"));
        assert_eq!(read(",a%20b"), found("a b", "text/plain"));
        assert_eq!(read("text/x;charset=utf-8,%c3%a9"), found("é", "text/x;charset=utf-8"));
        assert_eq!(read(";base64,aGFsbG8%3D"), found("hallo", "text/plain"));
        for bad in ["", "image/png", ",%", ",%4", ",%zz", ";base64,a", ";base64,#"] {
            assert!(read_data(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn pictures_are_known_by_their_bytes() {
        assert_eq!(picture_type(b"\x89PNG\r\n\x1a\nrest"), Some("image/png"));
        assert_eq!(picture_type(b"RIFF....WEBPVP8 "), Some("image/webp"));
        assert_eq!(picture_type(b"....ftypavif"), Some("image/avif"));
        for other in [&b""[..], b"<svg>", b"RIFF....WAVE", b"....ftypmp42", b"GIF"] {
            assert_eq!(picture_type(other), None);
        }
    }
}
