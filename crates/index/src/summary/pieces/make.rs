//! Making header segments of messages that none covers.

use futures::StreamExt;
use sealpost_account::{Message, MessageNumber};
use sealpost_base::{Error, ObjectId, Result};
use sealpost_mime::Structure;
use sealpost_vault::message::MessageReader;

use super::super::content::Content;
use super::super::segment_writer::Numbered;
use super::segment::PieceWriter;
use crate::Index;
use crate::packs::{PackReads, Packed};

/// Messages that are read at once.
const AT_ONCE: usize = 8;

/// The content of a piece: nothing if it is too long for a segment.
type Made = Result<Option<Vec<u8>>>;

impl Index {
    /// Makes the pieces of `messages`, which ascend, and stores them in segments. An unreadable
    /// message is left out: a request for it gets the error.
    ///
    /// # Errors
    /// If a segment could not be stored.
    pub(in super::super) async fn build_pieces(
        &self,
        content: Content,
        messages: Vec<Numbered>,
    ) -> Result<()> {
        let mut segment = PieceWriter::new(content);
        let packs = PackReads::new(self, Packed::Messages, self.budget());
        packs.expect(messages.iter().map(|(number, _)| MessageNumber(*number))).await;
        let mut made = futures::stream::iter(messages)
            .map(|(number, message)| {
                let (index, packs) = (self.clone(), packs.clone());
                // On any worker: opening a message takes longer than reading it.
                tokio::spawn(async move {
                    let made = index.make_piece(content, number, &message, &packs).await;
                    (number, message.object, made)
                })
            })
            .buffered(AT_ONCE);
        let mut stored = Ok(());
        while let Some(one) = made.next().await {
            let one: (u32, ObjectId, Made) =
                one.map_err(|e| Error::internal("making header segments panicked").with_source(e))?;
            match one {
                (number, object, Ok(Some(plain))) => segment.push(number, object, &plain)?,
                (number, object, Ok(None)) => segment.push_elsewhere(number, object),
                (_, _, Err(_)) => continue,
            }
            if segment.is_full() {
                let full = std::mem::replace(&mut segment, PieceWriter::new(content));
                stored = stored.and(self.write_pieces(full).await.map(drop));
            }
        }
        stored.and(self.write_pieces(segment).await.map(drop))
    }

    async fn make_piece(&self, content: Content, number: u32, message: &Message, packs: &PackReads) -> Made {
        let most = content.most_message_bytes();
        if content == Content::Structures && message.layout.sealed_structure as usize > 2 * most {
            // Sealed it is no longer than it is and a little: reading it to find out how long is
            // not worth it.
            return Ok(None);
        }
        // Never a reader that asks elsewhere: a header that is not here is not fetched for a segment.
        let reader =
            MessageReader::new(self.store(), self.id(), message.object, &message.key, message.layout);
        let reader = match packs.piece(number, message.object).await {
            Some(piece) => reader.with_piece(piece),
            None => reader,
        };
        let structure = reader.structure().await?;
        if content == Content::Structures {
            return Ok(Some(structure).filter(|structure| structure.len() <= most));
        }
        let header = Structure::decode(&structure)?.root.header;
        let bytes = usize::try_from(header.end - header.start).unwrap_or(usize::MAX);
        if bytes > most {
            return Ok(None);
        }
        let mut plain = Vec::with_capacity(bytes);
        let mut raw = reader.raw(header);
        while let Some(piece) = raw.next().await {
            plain.extend_from_slice(&piece?);
        }
        match plain.len() == bytes {
            true => Ok(Some(plain)),
            false => Err(Error::corrupt("a message is shorter than its structure says")),
        }
    }
}
