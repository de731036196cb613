//! Reads one group of messages: first the structures, which locate their parts, then their bytes.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::join_all;
use sealpost_account::Account;
use sealpost_base::{Budget, Error, Permit, Result};
use sealpost_index::{PackReads, PieceReads};
use sealpost_mime::structure::StoredStructure;
use sealpost_mime::{Outline, Structure};
use sealpost_vault::message::MessageReader;

use super::{
    MessageRow, MessageSource, Outcome, Outcomes, Prepared, ReadPlan, STRUCTURE_FACTOR, drawn_for_structure,
    is_one_chunk, locates_by_outline, reads_stored,
};

/// The structure of a message, from one of two sources.
pub enum FoundStructure {
    /// From a segment, in its stored form.
    Stored(Vec<u8>),
    /// From the message, or cached from an earlier read.
    Decoded(Arc<Structure>),
}

impl FoundStructure {
    /// The stored form of the structure.
    ///
    /// # Errors
    /// `Corrupt` if a segment's structure is malformed.
    pub fn read(&self) -> Result<StoredStructure<'_>> {
        match self {
            FoundStructure::Stored(stored) => StoredStructure::decode(stored),
            FoundStructure::Decoded(structure) => Ok(StoredStructure::of(structure)),
        }
    }
}

/// The sources of messages.
pub(super) struct Sources {
    pub(super) packs: Arc<PackReads>,
    pub(super) structures: Arc<PieceReads>,
}

/// The parts of a message that the plan needs before its bytes.
#[derive(Default)]
struct Known {
    structure: Option<Result<FoundStructure>>,
    outline: Option<Result<Outline>>,
    /// Their memory.
    permit: Option<Permit>,
}

impl Sources {
    /// Reads what the plan needs before bytes: from a segment if one has it, otherwise from the message.
    /// `None` if there is no memory for it.
    async fn known<R: MessageRow, P: ReadPlan>(
        &self,
        account: &Account,
        plan: &P,
        reader: &MessageReader,
        row: &R,
        budget: Option<&Budget>,
    ) -> Option<Known> {
        if !reads_stored(plan, row.message()) {
            return Some(Known::default());
        }
        let locates = locates_by_outline(plan, row.message());
        let mut stored = Vec::new();
        if self.structures.get(row.number(), row.message().object, &mut stored).await {
            match in_segment(plan, locates, stored, budget) {
                Ok(known) => return known,
                Err(error) => tracing::debug!(%error, "a structure in a segment; the message has it too"),
            }
        }
        let structure = account.structure_by(reader, row.message()).await;
        // Weighed at once, so that it does not wait unaccounted for the others.
        let permit = structure.as_ref().map_or(Some(None), |found| weigh(plan, found.weight(), budget))?;
        if !plan.reads_structure() {
            let outline = structure.map(|structure| structure.outline());
            return Some(Known { structure: None, outline: Some(outline), permit });
        }
        let outline = locates.then(|| match &structure {
            Ok(structure) => Ok(structure.outline()),
            Err(e) => Err(Error::new(e.kind(), e.to_string())),
        });
        Some(Known { structure: Some(structure.map(FoundStructure::Decoded)), outline, permit })
    }
}

/// The same from a segment; `locates`: sections are located by the outline.
fn in_segment(
    plan: &impl ReadPlan,
    locates: bool,
    stored: Vec<u8>,
    budget: Option<&Budget>,
) -> Result<Option<Known>> {
    if !plan.reads_structure() {
        let outline = Outline::decode(&stored)?;
        let permit = weigh(plan, outline.weight(), budget);
        return Ok(permit.map(|permit| Known { structure: None, outline: Some(Ok(outline)), permit }));
    }
    let structure = StoredStructure::decode(&stored)?;
    let outline = locates.then(|| Ok(structure.outline()));
    let permit = weigh(plan, stored.len() + structure.weight(), budget);
    let structure = Some(Ok(FoundStructure::Stored(stored)));
    Ok(permit.map(|permit| Known { structure, outline, permit }))
}

/// Acquires the memory that a structure or an outline of that weight takes beyond its reservation. `None` if
/// there is none, which never happens without a budget.
fn weigh(plan: &impl ReadPlan, weight: usize, budget: Option<&Budget>) -> Option<Option<Permit>> {
    let more = (STRUCTURE_FACTOR * weight).saturating_sub(drawn_for_structure(plan));
    match budget {
        Some(budget) if more > 0 => budget.try_acquire(more).map(Some),
        _ => Some(None),
    }
}

/// Reads the messages of a group that have requested parts and are one chunk, all of them with a single store
/// request.
async fn read_parts<R: MessageRow, P: ReadPlan>(
    plan: &P,
    group: &[R],
    readers: &[MessageReader],
    known: &[Option<Known>],
) -> Vec<Option<Vec<Bytes>>> {
    if !plan.reads_bytes() || plan.begins_with_all() {
        return Vec::new();
    }
    let is_read = |(row, known): (&R, &Option<Known>)| {
        let Some(known) = known else { return false };
        let outline = known.outline.as_ref().and_then(|outline| outline.as_ref().ok());
        let reads = plan.locates_in_bytes() || outline.is_some_and(|outline| plan.reads_bytes_of(outline));
        is_one_chunk(row.message()) && reads
    };
    let reads: Vec<bool> = group.iter().zip(known).map(is_read).collect();
    let wanted = readers.iter().zip(&reads).filter(|(_, reads)| **reads).map(|(reader, _)| reader.clone());
    let mut whole = MessageReader::whole(wanted.collect()).await.into_iter();
    // The damage may be outside the requested part, which is then read separately.
    reads.iter().map(|reads| if *reads { whole.next()?.ok() } else { None }).collect()
}

/// Reads a group in order. With a budget, leaves out whatever there is no memory for.
pub(super) async fn prepare<R: MessageRow, P: ReadPlan>(
    account: Arc<Account>,
    plan: Arc<P>,
    sources: Sources,
    group: Vec<R>,
    permit: Option<Permit>,
    budget: Option<Budget>,
) -> Outcomes<R, P> {
    let permit = permit.map(Arc::new);
    let mut readers = Vec::with_capacity(group.len());
    for row in &group {
        readers.push(sources.packs.reader(row.number(), row.message()).await);
    }
    let mut whole = match plan.begins_with_all() && readers.iter().all(MessageReader::is_small) {
        true => MessageReader::whole(readers.clone()).await.into_iter(),
        false => Vec::new().into_iter(),
    };
    let known = || {
        let known = group.iter().zip(&readers);
        known.map(|(row, reader)| sources.known(&account, &*plan, reader, row, budget.as_ref()))
    };
    let waits = |row: &R| reads_stored(&*plan, row.message()) && !sources.structures.is_open(row.number());
    let at_once: Option<Vec<_>> = match group.iter().any(waits) {
        true => None,
        false => known().map(FutureExt::now_or_never).collect(),
    };
    let known = match at_once {
        Some(known) => known,
        // The store serves concurrent requests faster than sequential ones.
        None => join_all(known()).await,
    };
    let parts = read_parts(&*plan, &group, &readers, &known).await;
    let mut parts = parts.into_iter();
    let mut prepared = Vec::with_capacity(group.len());
    for ((row, known), reader) in group.into_iter().zip(known).zip(readers) {
        // The damage may be after the start, which is then read separately.
        let whole = whole.next().and_then(Result::ok).or(parts.next().flatten());
        let Some(Known { structure, mut outline, permit: mut weighed }) = known else {
            prepared.push(Outcome::Crowded(row));
            continue;
        };
        if outline.is_none() && plan.reads_outline() {
            outline = Some(match &whole {
                Some(pieces) => Ok(Outline::without_parts(pieces.first().map_or(&[], |piece| piece))),
                // Not readable as a whole; the section that is sought may be.
                None => {
                    let structure = Box::pin(account.structure_by(&reader, row.message()));
                    structure.await.map(|found| found.outline())
                }
            });
            let weight =
                outline.as_ref().and_then(|outline| outline.as_ref().ok()).map_or(0, Outline::weight);
            match weigh(&*plan, weight, budget.as_ref()) {
                Some(None) => {}
                Some(more) => weighed = more,
                None => {
                    prepared.push(Outcome::Crowded(row));
                    continue;
                }
            }
        }
        let source = MessageSource { account: account.clone(), reader, message: row.message().clone() };
        let opened = plan.open(source, whole, outline).await;
        let _permits = (permit.clone(), weighed);
        prepared.push(Outcome::Prepared(Prepared { row, structure, opened, _permits }));
    }
    prepared
}
