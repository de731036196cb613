//! Keeping the segments few and free of what is gone: small neighbours become one, what was purged
//! is left out, what is not needed is removed.
//!
//! A summary is written again only when its segment at least doubles or loses something, and a
//! round writes a bounded number of segments. New segments are there before old ones go, so a crash
//! in between leaves one too many.

use std::collections::BTreeMap;

use sealpost_base::{ObjectId, Result, limits};

use super::content::Content;
use super::known::Stored;
use super::segment::{Found, SegmentName, SegmentWriter};
use super::segment_writer::BUILD_BYTES;
use super::{Parts, Sent};
use crate::Index;
use sealpost_account::MessageNumber;

/// Segments that are written again in one round.
const REWRITES: usize = 32;

/// Segments that become one, at most.
const GROUP_SEGMENTS: usize = 8;
/// Segments that overlap and become as many as they need, at most.
const OVERLAPPING_SEGMENTS: usize = 3;
/// Memory for what was in them, for one that is read, and for one that is written with what is sealed of it.
const COMPACTION_BYTES: usize = (OVERLAPPING_SEGMENTS + 4) * limits::TEXT_SEGMENT_BYTES;

/// What is to be done with the segments there are.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    /// To be removed: nothing in them is alive, or another one has it all.
    remove: Vec<SegmentName>,
    /// To be written again, the segments of a group as one; what matters most first.
    rewrite: Vec<Vec<SegmentName>>,
}

/// `live` says how many messages there are from one number to another.
fn plan(content: Content, segments: &[Stored], live: impl Fn(u32, u32) -> usize) -> Plan {
    let mut plan = Plan::default();
    let mut kept: Vec<(Stored, usize)> = Vec::new();
    for segment in segments {
        let alive = live(segment.name.first, segment.name.last);
        if alive == 0 || segments.iter().any(|other| has_all_of(&other.name, &segment.name)) {
            plan.remove.push(segment.name);
        } else {
            kept.push((*segment, alive));
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    for (Stored { name, bytes }, alive) in kept {
        let dead = (name.entries as usize).saturating_sub(alive);
        match groups.last_mut() {
            Some(group) if group.takes(content, &name, bytes, &live) => {
                group.last = group.last.max(name.last);
                group.dead += dead;
                group.bytes += bytes;
                group.segments.push(name);
            }
            _ => {
                groups.push(Group { first: name.first, last: name.last, dead, bytes, segments: vec![name] });
            }
        }
    }
    groups.retain(|group| group.segments.len() > 1 || group.dead > 0);
    groups.sort_by_key(|group| std::cmp::Reverse((group.segments.len().min(2), group.dead)));
    plan.rewrite = groups.into_iter().map(|group| group.segments).collect();
    plan
}

/// Segments that are written again together.
struct Group {
    first: u32,
    last: u32,
    /// Summaries of messages that are gone.
    dead: usize,
    /// On disk.
    bytes: u64,
    segments: Vec<SegmentName>,
}

impl Group {
    /// Whether `segment`, which begins after the others, belongs to them: it overlaps, so that some
    /// summaries are there twice, or one segment can hold all.
    fn takes(
        &self,
        content: Content,
        segment: &SegmentName,
        bytes: u64,
        live: impl Fn(u32, u32) -> usize,
    ) -> bool {
        let overlaps = segment.first <= self.last;
        let fits = || {
            live(self.first, self.last.max(segment.last)) <= limits::SUMMARY_SEGMENT_MESSAGES
                && self.bytes + bytes <= content.merged_bytes()
        };
        match overlaps || Self::overlap(&self.segments) {
            true => self.segments.len() < OVERLAPPING_SEGMENTS && (overlaps || fits()),
            false => self.segments.len() < GROUP_SEGMENTS && fits(),
        }
    }

    fn overlap(segments: &[SegmentName]) -> bool {
        segments.windows(2).any(|pair| pair[1].first <= pair[0].last)
    }
}

/// Whether `other` reaches as far as `segment` and holds as much. Of two that do so for each other one stays.
fn has_all_of(other: &SegmentName, segment: &SegmentName) -> bool {
    let reaches = other.first <= segment.first && other.last >= segment.last;
    let (more, as_much) = (other.entries > segment.entries, other.entries == segment.entries);
    let same = (other.first, other.last) == (segment.first, segment.last);
    other != segment && reaches && (more || as_much && !same)
}

impl Index {
    /// Makes segments of uncovered messages, and puts the segments in order; does nothing if no
    /// client ever requested summaries.
    ///
    /// # Errors
    /// What the store says. What is left undone is done the next time.
    pub async fn compact_summaries(&self) -> Result<()> {
        for content in Content::ALL {
            self.compact(content).await?;
        }
        Ok(())
    }

    async fn compact(&self, content: Content) -> Result<()> {
        if self.segments(content).await?.segments().is_empty() {
            return Ok(());
        }
        let _permit = self.budget().acquire_whole(COMPACTION_BYTES.max(BUILD_BYTES)).await;
        let _change = self.segment_list(content).change.lock().await;
        self.extend_locked(content).await?;
        let known = self.list_segments(content).await?;
        let plan = {
            let state = self.state();
            plan(content, known.segments(), |first, last| state.messages_between(first, last))
        };
        for segment in plan.remove {
            self.remove_segment(content, segment).await?;
        }
        for group in plan.rewrite.into_iter().take(REWRITES) {
            match content.is_pieces() {
                true => self.rewrite_pieces(content, group).await?,
                false => self.rewrite(content, group).await?,
            }
        }
        Ok(())
    }

    pub(super) async fn remove_segment(&self, content: Content, segment: SegmentName) -> Result<()> {
        self.segment_list(content).forget(segment);
        self.store().delete(&segment.path(content, self.id())).await
    }

    /// Writes the segments of a group again: as one if that is enough, each summary once, without
    /// what is gone.
    async fn rewrite(&self, content: Content, group: Vec<SegmentName>) -> Result<()> {
        let mut rows: BTreeMap<u32, (ObjectId, OwnedRow)> = BTreeMap::new();
        let mut bytes = 0;
        let overlap = Group::overlap(&group);
        for name in &group {
            // A segment that is missing or damaged now is made again later.
            let Some(segment) = self.read_segment(content, *name, Parts::ALL).await? else { return Ok(()) };
            let state = self.state();
            for (number, object, found) in segment.entries() {
                if state.message(MessageNumber(number)).is_some_and(|message| message.object == object) {
                    let row = OwnedRow::new(found);
                    bytes += row.bytes();
                    rows.insert(number, (object, row));
                }
            }
            // Together they are too much for one: they stay as they are.
            if group.len() > 1 && bytes > content.segment_bytes() && !overlap {
                return Ok(());
            }
        }
        let mut written = Vec::new();
        let mut writer = SegmentWriter::new(content);
        for (number, (object, row)) in &rows {
            match row {
                OwnedRow::Summary(sent, complete, parts) => {
                    let parts = parts.each_ref().map(String::as_str);
                    writer.push(*number, *object, *sent, *complete, parts);
                }
                OwnedRow::Elsewhere(signature) => writer.push_elsewhere(*number, *object, signature),
            }
            if writer.is_full() {
                let full = std::mem::replace(&mut writer, SegmentWriter::new(content));
                written.extend(self.write_segment(full).await?);
            }
        }
        written.extend(self.write_segment(writer).await?);
        for name in group.into_iter().filter(|name| !written.contains(name)) {
            self.remove_segment(content, name).await?;
        }
        Ok(())
    }
}

/// What a segment says about a message, for a while longer than the segment is in memory.
enum OwnedRow {
    Summary(Option<Sent>, bool, [String; 3]),
    Elsewhere(String),
}

impl OwnedRow {
    fn new(found: Found<'_>) -> Self {
        match found {
            Found::Summary(sent, complete, parts) => {
                OwnedRow::Summary(sent, complete, parts.map(str::to_owned))
            }
            Found::Elsewhere(signature) => OwnedRow::Elsewhere(signature.to_owned()),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            OwnedRow::Summary(_, _, parts) => parts.iter().map(String::len).sum(),
            OwnedRow::Elsewhere(signature) => signature.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(first: u32, last: u32, entries: u32) -> SegmentName {
        SegmentName { first, last, entries }
    }

    /// As if every message below `next` were alive, except those of `dead`.
    fn plan_with(segments: &[SegmentName], dead: std::ops::Range<u32>) -> Plan {
        let stored = |name: &SegmentName| Stored { name: *name, bytes: u64::from(name.entries) * 300 };
        let mut segments: Vec<Stored> = segments.iter().map(stored).collect();
        segments.sort_unstable();
        plan(Content::Summaries, &segments, |first, last| {
            (first..=last).filter(|n| !dead.contains(n)).count()
        })
    }

    #[test]
    fn full_segments_are_left_alone() {
        let full = [name(0, 1023, 1024), name(1024, 2047, 1024), name(2048, 2303, 256)];
        assert_eq!(plan_with(&full, 0..0), Plan::default());
    }

    #[test]
    fn small_neighbours_become_one() {
        let [a, b, c] = [name(0, 1023, 1024), name(1024, 1279, 256), name(1280, 1535, 256)];
        assert_eq!(plan_with(&[a, b, c], 0..0).rewrite, [vec![b, c]]);
        // What is left of a segment counts, not what was in it.
        assert_eq!(plan_with(&[a, b, c], 0..600).rewrite, [vec![a, b, c]]);
    }

    #[test]
    fn segments_that_overlap_are_written_again_together() {
        let [a, b, c] = [name(0, 1023, 1024), name(100, 1123, 1024), name(1124, 2100, 900)];
        assert_eq!(plan_with(&[a, b, c], 0..0).rewrite, [vec![a, b]]);
    }

    #[test]
    fn segments_with_purged_rows_are_rewritten_or_removed() {
        let [a, b] = [name(0, 1023, 1024), name(1024, 2047, 1024)];
        let one = plan_with(&[a, b], 1024..1025);
        assert_eq!((one.rewrite, one.remove), (vec![vec![b]], vec![]));
        let all = plan_with(&[a, b], 0..1024);
        assert_eq!((all.rewrite, all.remove), (vec![], vec![a]));
    }

    #[test]
    fn of_segments_that_hold_the_same_one_stays() {
        let [a, b, c] = [name(0, 1023, 1024), name(5, 900, 896), name(0, 1023, 1000)];
        let plan = plan_with(&[a, b, c], 0..0);
        assert_eq!((plan.rewrite, plan.remove), (vec![], vec![c, b]));
        // One that reaches far and holds little has not what it reaches over.
        let wide = name(0, 1023, 3);
        assert!(plan_with(&[wide, b], 0..0).remove.is_empty());
    }
}
