//! Checking header segments against the messages they are made from, for `sealpost check`.

use futures::StreamExt;
use sealpost_account::{AccountState, MessageNumber};
use sealpost_base::{AccountId, Error, Result};
use sealpost_mime::Structure;
use sealpost_vault::index::SegmentReader;
use sealpost_vault::message::MessageReader;
use sealpost_vault::{AccountKeys, Store};

use super::super::content::Content;
use super::super::segment::SegmentName;
use super::segment::PieceSegment;

/// Messages read at once.
const AT_ONCE: usize = 8;

/// Reads the segment back and compares what it has of each message that there still is with the
/// message. A message that cannot be read says nothing about the segment.
///
/// # Errors
/// As [`super::super::verify`].
pub(in super::super) async fn verify(
    store: &Store,
    (keys, account): (&AccountKeys, AccountId),
    state: &AccountState,
    (content, name, path): (Content, SegmentName, &str),
) -> Result<()> {
    let wrong = |what: &str| Error::corrupt(format!("{path}: {what}"));
    let object = store.read(path).await?;
    let segment = PieceSegment::open(content, &SegmentReader::new(keys, account, path, &object)?)?;
    let (mut counted, mut scratch) = (0, Vec::new());
    let mut pieces = Vec::new();
    for (number, object, piece) in segment.entries() {
        counted += 1;
        if !name.covers(number) {
            return Err(wrong("it holds a message that its name does not cover"));
        }
        let message = state.message(MessageNumber(number)).filter(|message| message.object == object);
        let mut plain = Vec::new();
        if piece.read(content, &mut scratch, &mut plain)?
            && let Some(message) = message
        {
            pieces.push((message, plain));
        }
    }
    if counted != name.entries {
        return Err(wrong("it holds more or fewer messages than its name says"));
    }
    let mut compared = futures::stream::iter(pieces)
        .map(|(message, plain)| async move {
            let reader = MessageReader::new(store, account, message.object, &message.key, message.layout);
            let made = original(content, &reader).await.ok()?;
            Some((message.object, made == plain))
        })
        .buffer_unordered(AT_ONCE);
    while let Some(same) = compared.next().await {
        if let Some((object, false)) = same {
            return Err(wrong(&format!("what it says about message {object} is not what the message says")));
        }
    }
    Ok(())
}

/// What a segment has of that message.
async fn original(content: Content, reader: &MessageReader) -> Result<Vec<u8>> {
    let structure = reader.structure().await?;
    if content == Content::Structures {
        return Ok(structure);
    }
    let header = Structure::decode(&structure)?.root.header;
    let mut raw = reader.raw(header);
    let mut plain = Vec::new();
    while let Some(bytes) = raw.next().await {
        plain.extend_from_slice(&bytes?);
    }
    Ok(plain)
}
