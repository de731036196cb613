//! Repairs a broken log: an entry that others have read is missing, or the last one is damaged. The operator
//! accepts the loss, and the log records it, so that all nodes treat the rest alike. Needs no account key.

use sealpost_base::{Error, Position, Result, limits};
use sealpost_vault::AppendMode;
use sealpost_vault::entry::{self, CountedEntries, Generation, Renumbering};

use crate::log::Took;
use crate::noise::Unfit;
use crate::read::Object;
use crate::replay::{Cover, Replay, Step};
use crate::{Append, EntryName, Journal, Tail};

/// How often the repair restarts because of concurrent appends.
const ATTEMPTS: usize = 8;

/// A break in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// The entry at this position does not follow the last readable one before it.
    Unchained(Position),
    /// The entry at this position, the last one, is damaged.
    DamagedEnd(Position),
}

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The breaks.
    pub breaks: Vec<Break>,
    /// The position of the record about them.
    pub position: Position,
}

/// The rest of a broken log.
struct Left {
    breaks: Vec<Break>,
    /// The position from which the renumbering must state what counts.
    from: Position,
    counted: CountedEntries,
    /// The last entry.
    tail: Tail,
    /// The position for the renumbering: after all objects behind the last entry.
    free: Position,
}

impl Journal {
    /// Records that the log continues with its readable entries. `None` if the log is not broken.
    /// `without_checkpoints` ignores the existing checkpoints, because they are unreadable.
    ///
    /// # Errors
    /// Store errors; `Retry` if others keep appending.
    pub async fn repair(&self, without_checkpoints: bool) -> Result<Option<Repaired>> {
        for _ in 0..ATTEMPTS {
            self.look_again();
            let Some(left) = self.left(without_checkpoints).await? else { return Ok(None) };
            let renumbering = Renumbering::of(left.from, left.counted);
            if let Some(position) = self.state(&left, &renumbering).await? {
                return Ok(Some(Repaired { breaks: left.breaks, position }));
            }
        }
        Err(Error::retry("too many concurrent appends to the log; retry"))
    }

    /// Appends the renumbering; `None` if others were first.
    async fn state(&self, left: &Left, renumbering: &Renumbering) -> Result<Option<Position>> {
        if self.store.append_mode() == AppendMode::Siblings {
            self.judge.pass_over_damage();
            let generation = left.tail.generation.next();
            let header = entry::Header { generation, ..self.header(&left.tail) };
            let sealed = entry::seal_renumbering(self.judge.key(), &header, renumbering);
            let appended = self.chain.append(&left.tail, sealed, &self.marks(left.tail.position)).await?;
            return Ok(match appended {
                Append::Done(tail) => Some(tail.position),
                Append::Lost | Append::Trimmed => None,
            });
        }
        let passed_over = (left.tail.position.0 + 1..left.free.0).map(Position);
        for position in passed_over {
            self.mark(position).await?;
        }
        let (took, tail) = self.renumber(&left.tail, left.free, renumbering).await?;
        Ok(matches!(took, Took::Ours).then_some(tail.position))
    }

    /// The rest of the log; `None` if it is not broken.
    async fn left(&self, without_checkpoints: bool) -> Result<Option<Left>> {
        let mut checkpoints = self.checkpoints().await?;
        checkpoints.retain(|_| !without_checkpoints);
        // Entries below the older of the last two checkpoints are not needed.
        let needed = checkpoints.get(1).copied().unwrap_or_default();
        let listed: Vec<EntryName> = self.listed_after(&Tail::EMPTY).await?;
        let listed: Vec<EntryName> = listed.into_iter().filter(|place| place.position >= needed).collect();
        let before = Position(needed.0.saturating_sub(1));
        let places = self.without_far(before, listed).await?;
        // A checkpoint covers the trimmed entries.
        let is_trimmed = !checkpoints.is_empty() && places.first().is_none_or(|first| first.position.0 > 1);
        let mut replay = (!is_trimmed).then(|| Replay::after(Tail::EMPTY));
        let (mut breaks, mut from) = (Vec::new(), None::<Position>);
        let (mut damaged, mut generation) = (None, Generation::default());
        let mut occupied = Vec::new();
        for place in &places {
            let object = self.object(place, true).await?;
            occupied.push(place.position);
            let (object, origin, header) = match object {
                Object::Entry(object, origin, header) => (object, origin, header),
                Object::Unfit(Unfit::Damaged) => {
                    damaged = Some(place.position);
                    continue;
                }
                Object::Unfit(Unfit::Noise) | Object::Gone => continue,
            };
            (damaged, generation) = (None, generation.max(header.generation));
            let entry = self.opened(None, place, &object, origin, header);
            let Some(replay) = &mut replay else {
                replay = Some(Replay::after(entry.tail()));
                continue;
            };
            let mut step = replay.next(&entry);
            if step != Step::Counts
                && let Some(cover) = self.cover_of(entry.position, &places).await?
            {
                replay.continue_by(cover);
                step = replay.next(&entry);
            }
            if step == Step::Counts {
                continue;
            }
            let fork = replay.fork_of(&entry.prev);
            let renumbered = entry.renumbered_from().map_or(fork, |stated| stated.min(fork));
            from = Some(from.map_or(renumbered, |from| from.min(renumbered)));
            breaks.push(Break::Unchained(entry.position));
            // Everything from here on counts.
            let everything = Renumbering::of(fork, CountedEntries::NONE);
            let position = Position(u64::MAX);
            replay.continue_by(Cover { position, generation: entry.generation, renumbering: everything });
            replay.next(&entry);
        }
        let replay = replay.unwrap_or_else(|| Replay::after(Tail::EMPTY));
        breaks.extend(damaged.map(Break::DamagedEnd));
        if breaks.is_empty() {
            return Ok(None);
        }
        let tail = Tail { generation: generation.max(replay.tail().generation), ..replay.tail() };
        let from = from.unwrap_or_else(|| tail.position.next());
        let mut free = tail.position.next();
        while occupied.contains(&free) && free.0 - tail.position.0 < limits::LOG_GAP {
            free = free.next();
        }
        Ok(Some(Left { breaks, from, counted: replay.counted_from(from), tail, free }))
    }
}
