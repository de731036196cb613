//! Making packs of messages that have none.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use sealpost_base::{Result, limits};
use sealpost_vault::pack::{self, Member};
use tokio::time::sleep;

use super::{PackReads, Packed};
use crate::Index;
use crate::summary::{Known, SegmentName, Stored};
use sealpost_account::Message;
use sealpost_account::{AccountState, MessageNumber};

/// Messages without a pack that are worth one; fewer are read one by one.
pub(super) const WORTH_MESSAGES: usize = 16;
/// Packs of one kind that are made in one round.
pub(super) const ROUND_PACKS: usize = 32;
/// Messages read at once.
const AT_ONCE: usize = 8;
/// Memory that making a pack takes: its pieces, what is written, and what is read at once.
pub(super) const MAKING_BYTES: usize = 2 * limits::PACK_BYTES + AT_ONCE * limits::PACKED_MESSAGE_BYTES;

/// How long a new session has the store for itself before messages are read to be packed.
const PAUSE: Duration = Duration::from_secs(2);

/// A message by its number.
pub(super) type Numbered = (u32, Message);

/// The content of one pack: messages whose numbers ascend, with none left out between them that
/// could be packed.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) messages: Vec<Numbered>,
    bytes: u64,
}

impl Plan {
    fn fits(&self, bytes: u64) -> bool {
        self.messages.len() < limits::PACK_MESSAGES && self.bytes + bytes <= limits::PACK_BYTES as u64
    }

    fn push(&mut self, number: u32, message: Message, bytes: u64) {
        self.messages.push((number, message));
        self.bytes += bytes;
    }
}

/// Packs of the messages from `first` on that none covers, at most [`ROUND_PACKS`], and the number
/// below which there is nothing more to pack.
fn uncovered(kind: Packed, state: &AccountState, known: &Known, first: u32) -> (Vec<Plan>, u32) {
    let mut plans = vec![Plan::default()];
    let mut examined = state.next_message();
    for (number, message) in state.messages_from(first) {
        let Some(bytes) = kind.size(&message) else { continue };
        let covered = known.covering(number.0).is_some();
        if let Some(last) = plans.last_mut()
            && !covered
            && last.fits(bytes)
        {
            last.push(number.0, message, bytes);
            continue;
        }
        if plans.last().is_some_and(|last| !last.messages.is_empty()) {
            if plans.iter().filter(|plan| plan.messages.len() >= WORTH_MESSAGES).count() >= ROUND_PACKS {
                examined = number.0;
                break;
            }
            plans.push(Plan::default());
        }
        if let Some(last) = plans.last_mut().filter(|_| !covered) {
            last.push(number.0, message, bytes);
        }
    }
    // More may come behind the last ones.
    let few = |plan: &Plan| plan.messages.len() < WORTH_MESSAGES;
    if let Some((number, _)) = plans.last().filter(|plan| few(plan)).and_then(|plan| plan.messages.first()) {
        examined = examined.min(*number);
    }
    plans.retain(|plan| !few(plan));
    (plans, examined)
}

impl Index {
    /// Starts to pack what came, if it is worth it.
    pub(crate) fn pack_if_due(&self) {
        let new =
            self.state().next_message().saturating_sub(self.derived.packs.examined.load(Ordering::Relaxed));
        if new as usize >= WORTH_MESSAGES {
            self.pack_in_background();
        }
    }

    /// Starts a round of packing unless one is under way.
    pub(super) fn pack_in_background(&self) {
        let due = self.store().wants_packs() && !self.is_damaged();
        if !due || self.derived.packs.making.swap(true, Ordering::AcqRel) {
            return;
        }
        let account = self.clone();
        tokio::spawn(async move {
            let packed = account.pack().await;
            account.derived.packs.making.store(false, Ordering::Release);
            if let Err(e) = packed {
                tracing::debug!(account = %account.id(), error = %e, "messages were not packed");
            }
        });
    }

    /// Packs messages that have no pack, and puts small packs together: one round.
    ///
    /// # Errors
    /// What the store says. What is left undone is done the next time.
    async fn pack(&self) -> Result<()> {
        self.pack_delivered_first().await?;
        let _permit = self.budget().acquire_whole(MAKING_BYTES).await;
        let _change = self.derived.packs.change.lock().await;
        self.pack_from(self.derived.packs.examined.load(Ordering::Relaxed)).await?;
        for kind in Packed::ALL {
            self.merge_packs(kind, super::compaction::MANY).await?;
        }
        Ok(())
    }

    /// Packs structures that came with deliveries. If there were any, a session has just begun, and
    /// has the store for a moment before other messages are read to be packed.
    ///
    /// # Errors
    /// What the store says.
    pub(crate) async fn pack_delivered_first(&self) -> Result<()> {
        if self.store().wants_packs() && !self.is_damaged() && self.pack_delivered().await? {
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Packs structures that came with deliveries, for which nothing has to be read; whether there were any.
    async fn pack_delivered(&self) -> Result<bool> {
        let _permit = self.budget().acquire_whole(MAKING_BYTES).await;
        let _change = self.derived.packs.change.lock().await;
        let (kind, first) = (Packed::Structures, self.derived.packs.examined.load(Ordering::Relaxed));
        let known = self.packs_of(kind).await?;
        let (mut plans, _) = uncovered(kind, &self.state(), &known, first);
        let delivered = self.delivered();
        plans
            .retain(|plan| plan.messages.iter().all(|(_, message)| delivered.get(&message.object).is_some()));
        let any = !plans.is_empty();
        for plan in plans {
            self.make_pack(kind, plan.messages).await?;
        }
        Ok(any)
    }

    /// Makes packs of the messages from `first` on that have none. The caller holds memory and
    /// `change`.
    pub(super) async fn pack_from(&self, first: u32) -> Result<()> {
        let mut examined = u32::MAX;
        // Whole messages first: structures are read from their packs.
        for kind in Packed::ALL.into_iter().rev() {
            let known = self.packs_of(kind).await?;
            let (plans, up_to) = uncovered(kind, &self.state(), &known, first);
            examined = examined.min(up_to);
            for plan in plans {
                self.make_pack(kind, plan.messages).await?;
            }
        }
        self.derived.packs.examined.store(examined, Ordering::Relaxed);
        Ok(())
    }

    /// Makes a pack, or several if something cannot be read in between. What is in other packs is
    /// read from there.
    pub(super) async fn make_pack(&self, kind: Packed, messages: Vec<Numbered>) -> Result<Vec<SegmentName>> {
        // Structures are in packs of whole messages too.
        let of = |kind| PackReads::new(self, kind, self.budget());
        let sources = match kind {
            Packed::Structures => vec![of(kind), of(Packed::Messages)],
            Packed::Messages => vec![of(kind)],
        };
        for source in &sources {
            source.survey(messages.iter().map(|(number, _)| MessageNumber(*number))).await;
        }
        let mut pieces = futures::stream::iter(messages)
            .map(|(number, message)| {
                let sources = &sources;
                async move {
                    let mut reader = self.reader(&message);
                    for source in sources {
                        if let Some(piece) = source.piece(number, message.object).await {
                            reader = reader.with_piece(piece);
                            break;
                        }
                    }
                    let piece = match kind {
                        Packed::Structures => reader.structure_piece().await,
                        Packed::Messages => reader.object_piece().await,
                    };
                    piece.map(|piece| Member { number, object: message.object, piece })
                }
            })
            .buffered(AT_ONCE);
        let (mut written, mut members) = (Vec::new(), Vec::new());
        while let Some(member) = pieces.next().await {
            match member {
                Ok(member) => members.push(member),
                // A pack says by its name that all is in it that could be packed.
                Err(e) => {
                    tracing::debug!(account = %self.id(), error = %e, "a message was not packed");
                    written.extend(self.write_pack(kind, &std::mem::take(&mut members)).await?);
                }
            }
        }
        written.extend(self.write_pack(kind, &members).await?);
        Ok(written)
    }

    /// Writes a pack, unless it is empty. An existing pack of the same name has the same content.
    async fn write_pack(&self, kind: Packed, members: &[Member]) -> Result<Option<SegmentName>> {
        let (Some(first), Some(last)) = (members.first(), members.last()) else { return Ok(None) };
        let name = SegmentName { first: first.number, last: last.number, entries: members.len() as u32 };
        let path = kind.path(self.id(), name);
        let sealed = pack::seal(&self.keys(), self.id(), &path, members, self.random())?;
        let bytes = sealed.len() as u64;
        self.store().put_new(&path, sealed).await?;
        self.derived.packs.add(kind, Stored { name, bytes });
        Ok(Some(name))
    }
}
