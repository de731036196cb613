//! Checking segments against the messages they are made from, for `sealpost check`.

use futures::StreamExt;
use sealpost_base::{AccountId, Error, Result};
use sealpost_mime::{Structure, Text};
use sealpost_vault::index::SegmentReader;
use sealpost_vault::message::MessageReader;
use sealpost_vault::{AccountKeys, Store};

use super::content::Content;
use super::segment::{Found, Segment, SegmentName};
use super::{Entry, Parts};
use sealpost_account::{AccountState, MessageNumber};

/// Messages read at once.
const AT_ONCE: usize = 8;

/// Reads the segment at `path` back and compares what it says of each message that there still is
/// with the message's stored structure and text. A message that cannot be read says nothing about
/// the segment.
///
/// # Errors
/// `Corrupt` if the seal is broken, the segment cannot be read or says something else; what the store says.
pub async fn verify(
    store: &Store,
    keys: &AccountKeys,
    account: AccountId,
    state: &AccountState,
    path: &str,
) -> Result<()> {
    let wrong = |what: &str| Error::corrupt(format!("{path}: {what}"));
    let mut names = path.rsplit('/');
    let name = names.next().unwrap_or_default().parse::<SegmentName>();
    let name = name.map_err(|_| wrong("not the name of a segment"))?;
    let folder = names.next().unwrap_or_default();
    let content = Content::ALL.into_iter().find(|content| content.folder() == folder);
    let content = content.ok_or_else(|| wrong("not a folder of segments"))?;
    if content.is_pieces() {
        return super::pieces::verify(store, (keys, account), state, (content, name, path)).await;
    }
    let object = store.read(path).await?;
    let segment = Segment::open(content, &SegmentReader::new(keys, account, path, &object)?, Parts::ALL)?;
    let mut counted = 0;
    let mut messages = Vec::new();
    for (number, object, found) in segment.entries() {
        counted += 1;
        if !name.covers(number) {
            return Err(wrong("it holds a message that its name does not cover"));
        }
        let message = state.message(MessageNumber(number)).filter(|message| message.object == object);
        if let (Some(message), Found::Summary(sent, complete, parts)) = (message, found) {
            let entry = Entry {
                sent,
                headers_complete: complete,
                fields: parts[0].to_owned(),
                ids: parts[1].to_owned(),
                headers: parts[2].to_owned(),
            };
            messages.push((message.clone(), entry));
        }
    }
    if counted != name.entries {
        return Err(wrong("it holds more or fewer messages than its name says"));
    }
    let mut compared = futures::stream::iter(messages)
        .map(|(message, entry)| async move {
            let reader = MessageReader::new(store, account, message.object, &message.key, message.layout);
            let (structure, text) = reader.structure_and_text().await.ok()?;
            let (envelope, text) = (Structure::decode_envelope(&structure).ok()?, Text::decode(&text).ok()?);
            let made = match content {
                Content::Summaries => Entry::new(&envelope, &text),
                _ => Entry::of_text(&envelope, text),
            };
            Some((message.object, made == entry))
        })
        .buffer_unordered(AT_ONCE);
    while let Some(same) = compared.next().await {
        if let Some((object, false)) = same {
            return Err(wrong(&format!("what it says about message {object} is not what the message says")));
        }
    }
    Ok(())
}
