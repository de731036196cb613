//! Making segments of messages that no segment covers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use sealpost_base::{Error, ObjectId, Result, limits};
use sealpost_mime::{Structure, Text};
use sealpost_vault::message::MessageReader;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Entry;
use super::content::Content;
use super::known::Known;
use super::segment::SegmentWriter;
use crate::Index;
use crate::packs::{PackReads, Packed};
use sealpost_account::Message;
use sealpost_account::{AccountState, MessageNumber};

/// Uncovered messages that are worth a segment; fewer are read one by one at each request.
pub(super) const WORTH_MESSAGES: usize = 256;
/// Messages whose structure and text are read by one task, at once.
const GROUP_MESSAGES: usize = 4;
/// Tasks that read at once.
const TASKS: usize = 2;
/// Memory that making a segment takes: the segment, what is sealed of it, the texts that are read
/// at once, twice while they are opened, and those of the group before. Of a message with more than
/// that in its header one is opened at a time.
pub(super) const BUILD_BYTES: usize =
    3 * limits::TEXT_SEGMENT_BYTES + (2 * TASKS + 1) * GROUP_MESSAGES * limits::TEXT_BYTES;

/// A message by its number.
pub(super) type Numbered = (u32, Message);

/// Messages from `first` on that no segment covers, as many as one segment holds, and whether they
/// are worth one. A segment does not reach over another: messages between two segments are worth
/// one however few they are, because no more will come.
pub(super) fn uncovered(state: &AccountState, known: &Known, first: u32) -> (Vec<Numbered>, bool) {
    let mut found = Vec::new();
    let mut next = known.next_uncovered(first);
    while let Some(from) = next.take() {
        for (number, message) in state.messages_from(from) {
            if known.covering(number.0).is_some() {
                if !found.is_empty() {
                    return (found, true);
                }
                next = known.next_uncovered(number.0);
                break;
            }
            found.push((number.0, message.clone()));
            if found.len() == limits::SUMMARY_SEGMENT_MESSAGES {
                return (found, true);
            }
        }
    }
    let worth = found.len() >= WORTH_MESSAGES;
    (found, worth)
}

/// What was made of a message, and the permit that bounds how many are in memory at a time.
pub(super) type Made<'a, T> = (Result<T>, Option<SemaphorePermit<'a>>);

/// The entry of a message.
async fn make_entry<'a>(content: Content, reader: &MessageReader, limit: &'a Semaphore) -> Made<'a, Entry> {
    let (read, permit) = reader.structure_and_text_within(limit).await;
    let made = read.and_then(|(structure, text)| {
        let envelope = Structure::decode_envelope(&structure)?;
        drop(structure);
        let text = Text::decode(&text)?;
        Ok(match content {
            Content::Summaries => Entry::new(&envelope, &text),
            _ => Entry::of_text(&envelope, text),
        })
    });
    (made, permit)
}

impl Index {
    /// The summary of one message, from what is stored with it, or from the cache; with the permit under
    /// which it was made.
    pub(super) async fn make_summary<'a>(
        &self,
        message: &Message,
        limit: &'a Semaphore,
    ) -> Made<'a, Arc<Entry>> {
        let cache = &self.derived.summaries;
        if let Some(entry) = cache.get(&message.object) {
            return (Ok(entry), None);
        }
        let (entry, permit) = make_entry(Content::Summaries, &self.reader(message), limit).await;
        let entry = entry.map(Arc::new);
        if let Ok(entry) = &entry {
            cache.put(self.id(), message.object, entry.clone(), entry.bytes());
        }
        (entry, permit)
    }

    /// Makes the summaries of `messages`, which ascend, returns each that a segment can hold, and
    /// stores them in segments. An unreadable message is left out: a request for it gets the error.
    ///
    /// # Errors
    /// If a segment could not be stored; all summaries were handed out nevertheless.
    pub(super) async fn build(
        &self,
        content: Content,
        messages: Vec<Numbered>,
        mut each: impl FnMut(u32, ObjectId, Result<Entry>),
    ) -> Result<()> {
        let mut stored = Ok(());
        let mut segment = SegmentWriter::new(content);
        let packs = PackReads::new(self, Packed::Messages, self.budget());
        packs.expect(messages.iter().map(|(number, _)| MessageNumber(*number))).await;
        let groups: Vec<Vec<Numbered>> = messages.chunks(GROUP_MESSAGES).map(<[_]>::to_vec).collect();
        let mut groups = futures::stream::iter(groups)
            .map(|group| {
                let (account, packs) = (self.clone(), packs.clone());
                tokio::spawn(async move { account.make_group(content, group, &packs).await })
            })
            .buffered(TASKS);
        while let Some(group) = groups.next().await {
            let group = group.map_err(|e| Error::internal("making summaries panicked").with_source(e))?;
            for (number, object, entry) in group {
                match &entry {
                    Ok(None) => segment.push_elsewhere(number, object, ""),
                    Ok(Some(entry)) => {
                        segment.push(number, object, entry.sent, entry.headers_complete, entry.parts());
                    }
                    Err(_) => {}
                }
                if let Some(entry) = entry.transpose() {
                    each(number, object, entry);
                }
                if segment.is_full() {
                    let full = std::mem::replace(&mut segment, SegmentWriter::new(content));
                    stored = stored.and(self.write_segment(full).await.map(drop));
                }
            }
        }
        stored.and(self.write_segment(segment).await.map(drop))
    }

    async fn make_group(
        &self,
        content: Content,
        group: Vec<Numbered>,
        packs: &PackReads,
    ) -> Vec<(u32, ObjectId, Result<Option<Entry>>)> {
        let limit = &Semaphore::new(1);
        let made = futures::stream::iter(group).map(|(number, message)| async move {
            let cached = self.derived.summaries.get(&message.object);
            let entry = match cached.filter(|_| content == Content::Summaries) {
                Some(entry) => Ok(Entry::clone(&entry)),
                None => {
                    let reader = packs.reader(MessageNumber(number), &message).await;
                    make_entry(content, &reader, limit).await.0
                }
            };
            // A summary that no segment can hold may be a hundred times as long, and is not kept
            // until it has a permit.
            let fits =
                |entry: &Entry| content != Content::Summaries || entry.bytes() <= limits::SUMMARY_BYTES;
            (number, message.object, entry.map(|entry| Some(entry).filter(fits)))
        });
        made.buffered(GROUP_MESSAGES).collect().await
    }

    /// Makes segments of all messages that no segment covers, except of the last few.
    ///
    /// # Errors
    /// What the store says.
    pub(super) async fn extend(&self, content: Content) -> Result<()> {
        // In this order, as everywhere: the holder of the lock waits for no memory.
        let _permit = self.budget().acquire_whole(BUILD_BYTES).await;
        let _change = self.segment_list(content).change.lock().await;
        self.extend_locked(content).await
    }

    /// As [`Index::extend`], for a holder of the lock and enough budget.
    pub(super) async fn extend_locked(&self, content: Content) -> Result<()> {
        let mut first = 0;
        loop {
            // Another process may have made some meanwhile.
            let known = self.list_segments(content).await?;
            let (messages, worth) = uncovered(&self.state(), &known, first);
            let Some((last, _)) = messages.last() else { return Ok(()) };
            // What could not be read stays uncovered, and is not tried again now.
            let Some(next) = last.checked_add(1) else { return Ok(()) };
            first = next;
            if worth {
                match content.is_pieces() {
                    true => self.build_pieces(content, messages).await?,
                    false => self.build(content, messages, |_, _, _| {}).await?,
                }
            }
        }
    }

    /// Starts [`Index::extend`] if enough messages arrived since the last request.
    pub(crate) fn extend_if_due(&self) {
        let next = self.state().next_message();
        for content in Content::ALL {
            let covered = self.segment_list(content).covered();
            if covered.is_some_and(|covered| next.saturating_sub(covered) as usize >= WORTH_MESSAGES) {
                self.extend_in_background(content);
            }
        }
    }

    /// The same after a request, also if no segment is known: then this makes the first ones.
    pub(super) fn extend_after_stream(&self, content: Content) {
        let (next, covered) =
            (self.state().next_message(), self.segment_list(content).covered().unwrap_or(0));
        if next.saturating_sub(covered) as usize >= WORTH_MESSAGES {
            self.extend_in_background(content);
        }
    }

    /// Starts [`Index::extend`] unless it is under way.
    pub(super) fn extend_in_background(&self, content: Content) {
        if self.segment_list(content).extending.swap(true, Ordering::AcqRel) {
            return;
        }
        let account = self.clone();
        tokio::spawn(async move {
            let extended = account.extend(content).await;
            account.segment_list(content).extending.store(false, Ordering::Release);
            if let Err(e) = extended {
                tracing::debug!(account = %account.id(), error = %e, "index segments were not stored");
            }
        });
    }
}
