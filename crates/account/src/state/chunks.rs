//! A state as chunks of bytes and back: what checkpoints are made of.
//!
//! A chunk holds a block of messages, a block of one mailbox's rows, or what is left: small enough
//! to be handled one at a time, and named so that a block in which nothing changed has the same
//! name and the same bytes in the next checkpoint. `docs/format/checkpoint.md` gives the bytes.

mod contacts;
mod content;

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};
use sealpost_base::{
    AccountId, Error, MailboxId, ModSeq, Position, Result, Timestamp, Uid, UidValidity, limits,
};
use sealpost_vault::Epoch;
use sealpost_vault::entry::Generation;

use super::bounded::Bounded;
use super::flags::{FlagSet, FlagTable, KeywordId};
use super::mailbox::{Mailbox, Row, Vanished};
use super::messages::{MessageNumber, MessageTable, NUMBERS as MESSAGES_PER_CHUNK};
use super::objects::Objects;
use super::records::Records;
use super::thread_links::ThreadLinks;
use super::visible::{Departed, shows};
use super::{AccountState, GONE_BYTES, LINK_BYTES, MESSAGE_BYTES, ROW_BYTES, TOMBSTONE_BYTES, Tombstone};
use crate::event::{Message, SpecialUse};
use crate::share::Link;
use crate::special_use::SpecialUses;
use crate::thread::ThreadId;
use content::{Content, Kind};

/// UIDs in one chunk of rows.
const UIDS_PER_CHUNK: u32 = 2048;
/// What a state takes that has nothing but the first mailboxes, in bytes.
const LEAST_BYTES: usize = 8 * 1024;
/// Expunged placements in one chunk.
const TOMBSTONES_PER_CHUNK: usize = 4096;

/// Tombstones of one kind in one chunk.
const GONE_PER_CHUNK: usize = 4096;
/// About what the contact cards of one chunk take, in bytes.
const CARDS_CHUNK_BYTES: usize = 128 * 1024;
/// Links with known threads in one chunk.
const LINKS_PER_CHUNK: u64 = 4096;

const VERSION: u32 = 2;

#[derive(Encode, Decode)]
struct StateHeader {
    #[n(0)]
    version: u32,
    #[n(1)]
    position: Position,
    #[n(2)]
    last_uid_validity: u32,
    #[n(3)]
    next_mailbox: u32,
    #[n(4)]
    next_message: u32,
    #[n(5)]
    mailboxes: Vec<MailboxHead>,
    #[n(6)]
    subscriptions: BTreeSet<String>,
    #[n(7)]
    keywords: Vec<String>,
    #[n(8)]
    flag_sets: Vec<Option<FlagSet>>,
    #[n(9)]
    generation: Option<Generation>,
    /// Tombstones up to these positions are forgotten: of messages, of placements, of mailboxes.
    #[n(10)]
    gone_floors: [Position; 3],
    #[n(11)]
    parents_changed: Position,
    /// How many links with known threads are forgotten.
    #[n(12)]
    first_link: u64,
    /// The latest epoch in which the owner sealed an entry; `None`: the first.
    #[n(13)]
    owner_epoch: Option<u32>,
}

#[derive(Encode, Decode)]
struct MailboxHead {
    #[n(0)]
    id: MailboxId,
    #[n(1)]
    name: String,
    #[n(2)]
    uid_validity: UidValidity,
    #[n(3)]
    uid_next: Uid,
    #[n(4)]
    created: ModSeq,
    #[n(5)]
    highest_modseq: ModSeq,
    #[n(6)]
    special_use: Option<SpecialUse>,
    #[n(7)]
    recent_from: Uid,
    #[n(8)]
    keywords: BTreeSet<KeywordId>,
    #[n(9)]
    vanished_floor: ModSeq,
    /// Set if there are several; `special_use` is none then.
    #[n(11)]
    special_uses: Option<Vec<SpecialUse>>,
    #[n(12)]
    properties_changed: ModSeq,
    #[n(13)]
    counts_changed: ModSeq,
    #[n(15)]
    link: Option<Link>,
}

#[derive(Default, Encode, Decode)]
struct RowsChunk {
    #[n(0)]
    uids: Vec<u32>,
    #[n(1)]
    messages: Vec<u32>,
    #[n(2)]
    flags: Vec<u32>,
    #[n(3)]
    modseqs: Vec<u64>,
    #[n(4)]
    saved: Vec<i64>,
}

/// The names of a state's chunks, in an order in which they can be restored.
pub struct ChunkNames(Vec<String>);

impl IntoIterator for ChunkNames {
    type Item = String;
    type IntoIter = std::vec::IntoIter<String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl AccountState {
    /// The names of the chunks that this state consists of.
    pub fn chunk_names(&self) -> ChunkNames {
        let mut contents = vec![Content::StateHeader];
        contents.extend(self.messages.block_ids().map(Content::Messages));
        for mailbox in self.mailboxes.values() {
            contents.extend(mailbox.blocks(UIDS_PER_CHUNK).map(|block| Content::Rows(mailbox.id, block)));
            if !mailbox.vanished.is_empty() {
                contents.push(Content::Vanished(mailbox.id));
            }
        }
        if !self.contacts.is_untouched() {
            contents.push(Content::Contacts);
            contents.extend(self.card_blocks().into_iter().map(Content::Cards));
        }
        contents.extend((0..self.tombstones.len().div_ceil(TOMBSTONES_PER_CHUNK)).map(Content::Buried));
        for (kind, _) in Kind::ALL {
            let blocks = self.gone_len(kind).div_ceil(GONE_PER_CHUNK);
            contents.extend((0..blocks).map(|block| Content::RemovedPlacement(kind, block)));
        }
        let links = &self.thread_links;
        if links.first() < links.end() {
            let blocks = links.first() / LINKS_PER_CHUNK..=(links.end() - 1) / LINKS_PER_CHUNK;
            contents.extend(blocks.map(Content::Links));
        }
        if !self.objects.by_name().is_empty() {
            contents.push(Content::Objects);
        }
        contents.extend((!self.identities.is_untouched()).then_some(Content::Identities));
        contents.extend((!self.submissions.is_untouched()).then_some(Content::Submissions));
        ChunkNames(contents.iter().map(Content::name).collect())
    }

    /// The bytes of the chunk of that name; empty if this state has no such chunk.
    pub fn chunk(&self, name: &str) -> Vec<u8> {
        let bytes = match Content::parse(name) {
            None => return Vec::new(),
            Some(Content::StateHeader) => minicbor::to_vec(self.head()),
            Some(Content::Messages(block)) => {
                let first = block.saturating_mul(MESSAGES_PER_CHUNK);
                let messages = self.messages.with_appearance_from(first);
                let messages = messages.take_while(|(number, ..)| number.0 / MESSAGES_PER_CHUNK == block);
                minicbor::to_vec(messages.collect::<Vec<_>>())
            }
            Some(Content::Rows(mailbox, block)) => {
                let Some(mailbox) = self.mailboxes.get(&mailbox) else { return Vec::new() };
                minicbor::to_vec(RowsChunk::new(mailbox.block(block, UIDS_PER_CHUNK)))
            }
            Some(Content::Vanished(mailbox)) => {
                let Some(mailbox) = self.mailboxes.get(&mailbox) else { return Vec::new() };
                minicbor::to_vec(&mailbox.vanished)
            }
            Some(Content::Buried(block)) => {
                let tombstone =
                    self.tombstones.iter_from(block * TOMBSTONES_PER_CHUNK).take(TOMBSTONES_PER_CHUNK);
                minicbor::to_vec(tombstone.collect::<Vec<_>>())
            }
            Some(Content::RemovedPlacement(kind, block)) => {
                let from = block * GONE_PER_CHUNK;
                let departed = &self.departed;
                match kind {
                    Kind::Messages => gone_chunk(departed.messages.iter_from(from)),
                    Kind::Placements => gone_chunk(departed.parted.iter_from(from)),
                    Kind::Mailboxes => gone_chunk(departed.mailboxes.iter_from(from)),
                    Kind::Cards => gone_chunk(self.contacts.gone_cards.iter_from(from)),
                    Kind::AddressBooks => gone_chunk(self.contacts.gone_books.iter_from(from)),
                }
            }
            Some(Content::Links(block)) => {
                let (begin, links) = (block * LINKS_PER_CHUNK, &self.thread_links);
                let count = (begin + LINKS_PER_CHUNK).saturating_sub(links.first().max(begin));
                minicbor::to_vec(links.from(begin).take(count as usize).collect::<Vec<_>>())
            }
            Some(Content::Contacts) => minicbor::to_vec(self.contacts_head()),
            Some(Content::Cards(block)) => minicbor::to_vec(self.card_block(block)),
            Some(Content::Objects) => {
                let objects = self
                    .objects
                    .by_name()
                    .iter()
                    .map(|(name, value)| (name, <&minicbor::bytes::ByteSlice>::from(value.as_slice())));
                minicbor::to_vec(objects.collect::<BTreeMap<_, _>>())
            }
            Some(Content::Identities) => return self.identities.chunk(),
            Some(Content::Submissions) => return self.submissions.chunk(),
        };
        bytes.unwrap_or_default()
    }

    fn gone_len(&self, kind: Kind) -> usize {
        match kind {
            Kind::Messages => self.departed.messages.len(),
            Kind::Placements => self.departed.parted.len(),
            Kind::Mailboxes => self.departed.mailboxes.len(),
            Kind::Cards => self.contacts.gone_cards.len(),
            Kind::AddressBooks => self.contacts.gone_books.len(),
        }
    }

    fn head(&self) -> StateHeader {
        let mailbox = |m: &Mailbox| MailboxHead {
            id: m.id,
            name: m.name.clone(),
            uid_validity: m.uid_validity,
            uid_next: m.uid_next,
            created: m.created,
            highest_modseq: m.highest_modseq,
            special_use: single(m.special_uses),
            special_uses: several(m.special_uses),
            recent_from: m.recent_from,
            keywords: m.keywords.iter().collect(),
            vanished_floor: m.vanished_floor,
            properties_changed: m.properties_changed,
            counts_changed: m.counts_changed,
            link: m.link.clone(),
        };
        let departed = &self.departed;
        StateHeader {
            version: VERSION,
            position: self.position,
            last_uid_validity: self.last_uid_validity,
            next_mailbox: self.next_mailbox,
            next_message: self.messages.next(),
            mailboxes: self.mailboxes.values().map(mailbox).collect(),
            subscriptions: self.subscriptions.clone(),
            keywords: self.flags.keywords().to_vec(),
            flag_sets: self.flags.sets().map(|set| set.cloned()).collect(),
            generation: Some(self.generation).filter(|generation| *generation > Generation::default()),
            gone_floors: [departed.messages.floor(), departed.parted.floor(), departed.mailboxes.floor()],
            parents_changed: self.parents_changed,
            first_link: self.thread_links.first(),
            owner_epoch: Some(self.owner_epoch.0).filter(|epoch| *epoch > Epoch::FIRST.0),
        }
    }
}

fn gone_chunk<const C: usize>(
    rows: impl Iterator<Item = [u64; C]>,
) -> Result<Vec<u8>, minicbor::encode::Error<std::convert::Infallible>> {
    minicbor::to_vec(rows.take(GONE_PER_CHUNK).collect::<Vec<_>>())
}

fn single(uses: SpecialUses) -> Option<SpecialUse> {
    uses.iter().next().filter(|_| uses.iter().count() == 1)
}

fn several(uses: SpecialUses) -> Option<Vec<SpecialUse>> {
    Some(uses.iter().collect::<Vec<_>>()).filter(|uses| uses.len() > 1)
}

impl RowsChunk {
    fn new(rows: impl Iterator<Item = Row>) -> Self {
        let mut chunk = RowsChunk::default();
        for row in rows {
            chunk.uids.push(row.uid.get());
            chunk.messages.push(row.message.0);
            chunk.flags.push(row.flags.0);
            chunk.modseqs.push(row.modseq.0);
            chunk.saved.push(row.saved.0);
        }
        chunk
    }
}

/// About the most that a state takes which consists of these chunks and a delivery for each of
/// `entries`, in bytes.
pub(crate) fn expected_bytes<'a>(names: impl Iterator<Item = &'a str>, entries: usize) -> usize {
    let bytes = names.map(|name| match Content::parse(name) {
        Some(Content::Messages(_)) => MESSAGES_PER_CHUNK as usize * MESSAGE_BYTES,
        Some(Content::Rows(..)) => UIDS_PER_CHUNK as usize * ROW_BYTES,
        Some(Content::Buried(_)) => TOMBSTONES_PER_CHUNK * TOMBSTONE_BYTES,
        Some(Content::RemovedPlacement(..)) => GONE_PER_CHUNK * GONE_BYTES,
        Some(Content::Links(_)) => LINKS_PER_CHUNK as usize * LINK_BYTES,
        Some(Content::Cards(_)) => CARDS_CHUNK_BYTES,
        _ => 4096,
    });
    LEAST_BYTES + bytes.sum::<usize>() + entries * (MESSAGE_BYTES + ROW_BYTES)
}

/// Makes a state from its chunks, in the order of [`AccountState::chunk_names`].
pub struct Restore {
    state: AccountState,
    headless: bool,
    lenient: bool,
}

fn decode<'a, T: Decode<'a, ()>>(bytes: &'a [u8]) -> Result<T> {
    minicbor::decode(bytes).map_err(|e| Error::undecodable("a checkpoint chunk", e))
}

impl Restore {
    /// Nothing restored yet.
    pub fn new(account: AccountId) -> Self {
        Restore { state: AccountState::new(account), headless: true, lenient: false }
    }

    /// As [`Restore::new`], for a checkpoint of which chunks are missing: what refers to a missing
    /// message is left out.
    pub fn lenient(account: AccountId) -> Self {
        Restore { lenient: true, ..Self::new(account) }
    }

    /// Adds one chunk.
    ///
    /// # Errors
    /// `Corrupt` if it is not what its name says, or does not fit what came before; `Retry` if this version
    /// knows no such chunk. Names are authentic, so a newer version made it, and the state without it would
    /// lack what is in it.
    pub fn chunk(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let bad = || Error::corrupt(format!("checkpoint chunk {name} does not fit the others"));
        let newer = || Error::from_newer_version(format!("checkpoint chunk {name}"));
        let content = Content::parse(name).ok_or_else(newer)?;
        if self.headless != (content == Content::StateHeader) {
            return Err(bad());
        }
        let at = self.state.position;
        match content {
            Content::StateHeader => self.head(decode(bytes)?)?,
            Content::Messages(_) => {
                for (number, message, at) in decode::<Vec<(MessageNumber, Message, Position)>>(bytes)? {
                    if !self.state.messages.restore_push(number.0, &message, at) {
                        return Err(bad());
                    }
                }
            }
            Content::Rows(mailbox, _) => self.rows(mailbox, decode(bytes)?).ok_or_else(bad)?,
            Content::Vanished(mailbox) => {
                let vanished: Vec<Vanished> = decode(bytes)?;
                self.state.mailboxes.get_mut(&mailbox).ok_or_else(bad)?.vanished = vanished;
            }
            Content::Buried(_) => {
                for tombstone in decode::<Vec<Tombstone>>(bytes)? {
                    if !self.state.messages.retain(tombstone.message) {
                        if self.lenient {
                            continue;
                        }
                        return Err(bad());
                    }
                    self.state.flags.retain(tombstone.flags);
                    self.state.tombstones.push(&tombstone);
                }
            }
            Content::RemovedPlacement(Kind::Messages, _) => {
                restore_gone(&mut self.state.departed.messages, bytes)?
            }
            Content::RemovedPlacement(Kind::Placements, _) => {
                restore_gone(&mut self.state.departed.parted, bytes)?
            }
            Content::RemovedPlacement(Kind::Mailboxes, _) => {
                restore_gone(&mut self.state.departed.mailboxes, bytes)?
            }
            Content::RemovedPlacement(Kind::Cards, _) => {
                restore_gone(&mut self.state.contacts.gone_cards, bytes)?
            }
            Content::RemovedPlacement(Kind::AddressBooks, _) => {
                restore_gone(&mut self.state.contacts.gone_books, bytes)?
            }
            Content::Contacts => self.contacts(decode(bytes)?).ok_or_else(bad)?,
            Content::Cards(_) => self.cards(decode(bytes)?).ok_or_else(bad)?,
            Content::Links(_) => {
                for [link, thread] in decode::<Vec<[ThreadId; 2]>>(bytes)? {
                    if !self.state.thread_links.restore_push(link, thread) {
                        return Err(bad());
                    }
                }
            }
            Content::Objects => {
                let objects: BTreeMap<String, minicbor::bytes::ByteVec> = decode(bytes)?;
                let objects = objects.into_iter().map(|(name, value)| (name, value.into())).collect();
                self.state.objects = Objects::restore(objects, self.state.position);
            }
            Content::Identities => self.state.identities = Records::restore(bytes, at).ok_or_else(bad)?,
            Content::Submissions => self.state.submissions = Records::restore(bytes, at).ok_or_else(bad)?,
        }
        Ok(())
    }

    /// What is restored so far.
    pub(crate) fn state(&self) -> &AccountState {
        &self.state
    }

    /// The restored state.
    ///
    /// # Errors
    /// `Corrupt` if there was no head.
    pub fn finish(self) -> Result<AccountState> {
        if self.headless || self.state.mailbox_named(super::INBOX).is_none() {
            return Err(Error::corrupt("a checkpoint without a head"));
        }
        Ok(self.state)
    }

    fn head(&mut self, head: StateHeader) -> Result<()> {
        if head.version > VERSION {
            return Err(Error::from_newer_version(format!("checkpoint version {}", head.version)));
        }
        if head.version != VERSION {
            return Err(Error::corrupt(format!("checkpoint version {} is not known here", head.version)));
        }
        if !matches!(head.flag_sets.first(), Some(Some(set)) if *set == FlagSet::default()) {
            return Err(Error::corrupt("a checkpoint without the empty set of flags"));
        }
        let (keywords, sets) = (head.keywords.len(), head.flag_sets.len());
        let mailboxes: BTreeSet<_> = head.mailboxes.iter().map(|m| m.id).collect();
        let names: BTreeSet<_> = head.mailboxes.iter().map(|m| &m.name).collect();
        if keywords > limits::KEYWORDS
            || sets > limits::FLAG_SETS
            || mailboxes.len() != head.mailboxes.len()
            || names.len() != head.mailboxes.len()
            || mailboxes.last().is_some_and(|last| last.0 >= head.next_mailbox)
            || head.first_link / LINKS_PER_CHUNK >= u64::from(u32::MAX)
        {
            return Err(Error::corrupt("a checkpoint head that contradicts itself"));
        }
        let state = &mut self.state;
        state.position = head.position;
        state.generation = head.generation.unwrap_or_default();
        state.owner_epoch = head.owner_epoch.map_or(Epoch::FIRST, Epoch);
        state.objects = Objects::restore(BTreeMap::new(), head.position);
        state.last_uid_validity = head.last_uid_validity;
        state.next_mailbox = head.next_mailbox;
        state.messages = MessageTable::restore(head.next_message);
        state.flags = FlagTable::restore(head.keywords, head.flag_sets);
        state.thread_links = ThreadLinks::restore(head.first_link);
        let [messages, placements, mailboxes] = head.gone_floors;
        state.departed = Departed {
            messages: Bounded::restore(messages),
            parted: Bounded::restore(placements),
            mailboxes: Bounded::restore(mailboxes),
            appeared: Position::ZERO,
        };
        state.parents_changed = head.parents_changed;
        state.subscriptions = head.subscriptions;
        state.by_name = head.mailboxes.iter().map(|m| (m.name.clone(), m.id)).collect();
        state.mailboxes = head.mailboxes.into_iter().map(|m| (m.id, m.into())).collect();
        self.headless = false;
        Ok(())
    }

    fn rows(&mut self, mailbox: MailboxId, chunk: RowsChunk) -> Option<()> {
        let state = &mut self.state;
        let mailbox = state.mailboxes.get_mut(&mailbox)?;
        let len = chunk.uids.len();
        let lengths = [chunk.messages.len(), chunk.flags.len(), chunk.modseqs.len(), chunk.saved.len()];
        let mut last = mailbox.last_uid();
        for uid in &chunk.uids {
            if *uid <= last || *uid >= mailbox.uid_next.get() {
                return None;
            }
            last = *uid;
        }
        if lengths.iter().any(|l| *l != len) {
            return None;
        }
        let mut rows = Vec::with_capacity(len);
        for i in 0..len {
            let number = MessageNumber(chunk.messages[i]);
            if !state.messages.retain(number) {
                if self.lenient {
                    continue;
                }
                return None;
            }
            let flags = state.flags.retain(super::FlagSetId(chunk.flags[i]));
            rows.push(Row {
                uid: Uid::new(chunk.uids[i])?,
                message: number,
                modseq: Position(chunk.modseqs[i]),
                flags,
                saved: Timestamp(chunk.saved[i]),
            });
            let set = state.flags.set(flags);
            mailbox.count(set, 1);
            if shows(set.system) {
                state.messages.set_visible(number, state.messages.visible(number).saturating_add(1));
            }
            mailbox.bytes = mailbox.bytes.saturating_add(state.messages.size(number));
        }
        mailbox.extend(rows);
        Some(())
    }
}

/// Adds tombstones as a checkpoint holds them.
fn restore_gone<const C: usize>(gone: &mut Bounded<C>, bytes: &[u8]) -> Result<()> {
    let mut last = gone.floor().0;
    for row in decode::<Vec<[u64; C]>>(bytes)? {
        if row[0] < last || row[0] == gone.floor().0 || gone.len() >= limits::TOMBSTONES {
            return Err(Error::corrupt("a checkpoint with tombstones out of order, or too many"));
        }
        last = row[0];
        gone.push(row);
    }
    Ok(())
}

impl From<MailboxHead> for Mailbox {
    fn from(head: MailboxHead) -> Self {
        Mailbox {
            recent_from: head.recent_from,
            uid_next: head.uid_next,
            highest_modseq: head.highest_modseq,
            keywords: head.keywords.into_iter().collect(),
            vanished_floor: head.vanished_floor,
            properties_changed: head.properties_changed,
            counts_changed: head.counts_changed,
            link: head.link,
            special_uses: head.special_uses.into_iter().flatten().chain(head.special_use).collect(),
            ..Mailbox::new(head.id, head.name, head.uid_validity, None, head.created)
        }
    }
}
