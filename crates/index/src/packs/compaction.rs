//! Keeping the packs few and free of what is gone: small neighbours become one, what was purged is left out.
//!
//! New packs are there before old ones go, so a crash in between leaves one too many. A round makes
//! a bounded number of packs; packs that hold what was purged go in any case, and what else they
//! held is packed in a later round.

use sealpost_base::{Result, limits};

use super::Packed;
use super::make::{MAKING_BYTES, Numbered, ROUND_PACKS};
use crate::Index;
use crate::summary::{SegmentName, Stored};
use sealpost_account::AccountState;

/// Small packs that are put together between two checkpoints.
pub(super) const MANY: usize = 4;

/// What is to be done with the packs there are.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    /// To be removed: nothing in them is alive, or others have it.
    remove: Vec<SegmentName>,
    /// To be written again, those of a group as one, those first that hold what is gone.
    rewrite: Vec<Group>,
}

/// Neighbours of which one pack can be made.
#[derive(Debug, Default, PartialEq, Eq)]
struct Group {
    packs: Vec<SegmentName>,
    /// Those of them with something that is gone.
    dead: Vec<SegmentName>,
    /// Size on disk, of each.
    bytes: Vec<u64>,
}

impl Group {
    /// Leaves out packs at the front that are much larger than what would be added to them.
    fn trim(&mut self) {
        while self.dead.is_empty() && self.bytes.len() > 1 {
            let rest: u64 = self.bytes[1..].iter().sum();
            if self.bytes[0] <= 2 * rest {
                return;
            }
            self.packs.remove(0);
            self.bytes.remove(0);
        }
    }
}

/// `live` says how many messages there are from one number to another that could be packed, and
/// their size; `None` if that is too much for one pack. Groups have `least` packs, or one with
/// something that is gone.
fn plan(packs: &[Stored], least: usize, live: impl Fn(u32, u32) -> Option<(usize, u64)>) -> Plan {
    let mut plan = Plan::default();
    let mut kept: Vec<Stored> = Vec::new();
    for pack in packs {
        if live(pack.name.first, pack.name.last).is_none_or(|(count, _)| count == 0) {
            plan.remove.push(pack.name);
            continue;
        }
        // Two processes made them at the same time.
        match kept.last().filter(|last| pack.name.first <= last.name.last).copied() {
            Some(last) if pack.name.entries <= last.name.entries => plan.remove.push(pack.name),
            Some(last) => {
                plan.remove.push(last.name);
                kept.pop();
                kept.push(*pack);
            }
            None => kept.push(*pack),
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    for pack in kept {
        let fits = |group: &&mut Group| live(group.packs[0].first, pack.name.last).is_some();
        let at = match groups.last_mut().filter(fits) {
            Some(_) => groups.len() - 1,
            None => {
                groups.push(Group::default());
                groups.len() - 1
            }
        };
        let group = &mut groups[at];
        group.packs.push(pack.name);
        group.bytes.push(pack.bytes);
        let alive = live(pack.name.first, pack.name.last).map(|(count, _)| count);
        if alive != Some(pack.name.entries as usize) {
            group.dead.push(pack.name);
        }
    }
    groups.iter_mut().for_each(Group::trim);
    groups.retain(|group| !group.dead.is_empty() || group.packs.len() >= least.max(2));
    groups.sort_by_key(|group| (group.dead.is_empty(), std::cmp::Reverse(group.packs.len())));
    plan.rewrite = groups;
    plan
}

/// The messages from one number to another that can be packed.
fn packable(
    kind: Packed,
    state: &AccountState,
    first: u32,
    last: u32,
) -> impl Iterator<Item = (Numbered, u64)> {
    let between = state.messages_from(first).take_while(move |(number, _)| number.0 <= last);
    between.filter_map(move |(number, message)| {
        let size = kind.size(&message)?;
        Some(((number.0, message), size))
    })
}

fn live(kind: Packed, state: &AccountState, first: u32, last: u32) -> Option<(usize, u64)> {
    let (mut count, mut bytes) = (0, 0);
    for (_, size) in packable(kind, state, first, last) {
        count += 1;
        bytes += size;
        if count > limits::PACK_MESSAGES || bytes > limits::PACK_BYTES as u64 {
            return None;
        }
    }
    Some((count, bytes))
}

impl Index {
    /// Packs what is not packed, puts small packs together, and leaves out what was purged; nothing
    /// on a store that needs no packs.
    ///
    /// # Errors
    /// What the store says. What is left undone is done the next time.
    pub async fn compact_packs(&self) -> Result<()> {
        if !self.store().wants_packs() || self.is_damaged() {
            return Ok(());
        }
        let _permit = self.budget().acquire_whole(MAKING_BYTES).await;
        let _change = self.derived.packs.change.lock().await;
        self.list_packs().await?;
        // Whole messages first: structures are read from their packs.
        for kind in Packed::ALL.into_iter().rev() {
            self.merge_packs(kind, 2).await?;
        }
        self.pack_from(0).await
    }

    /// Merges neighbours, at least `least` of them at once. The caller holds memory and `change`.
    pub(super) async fn merge_packs(&self, kind: Packed, least: usize) -> Result<()> {
        let known = self.packs_of(kind).await?;
        let plan = {
            let state = self.state();
            plan(known.segments(), least, |first, last| live(kind, &state, first, last))
        };
        for name in plan.remove {
            self.remove_pack(kind, name).await?;
        }
        for (at, group) in plan.rewrite.into_iter().enumerate() {
            if at >= ROUND_PACKS {
                for name in group.dead {
                    self.remove_pack(kind, name).await?;
                }
                continue;
            }
            let (Some(first), Some(last)) = (group.packs.first(), group.packs.last()) else { continue };
            let messages: Vec<Numbered> =
                packable(kind, &self.state(), first.first, last.last).map(|(message, _)| message).collect();
            let written = self.make_pack(kind, messages).await?;
            for name in group.packs.into_iter().filter(|name| !written.contains(name)) {
                self.remove_pack(kind, name).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(first: u32, last: u32, entries: u32) -> SegmentName {
        SegmentName { first, last, entries }
    }

    /// As if every message were alive, except those of `dead`, and had 4 KiB.
    fn plan_with(packs: &[SegmentName], least: usize, dead: std::ops::Range<u32>) -> Plan {
        let stored = |name: &SegmentName| Stored { name: *name, bytes: u64::from(name.entries) * 4096 };
        let mut packs: Vec<Stored> = packs.iter().map(stored).collect();
        packs.sort_unstable();
        plan(&packs, least, |first, last| {
            let count = (first..=last).filter(|n| !dead.contains(n)).count();
            (count <= limits::PACK_MESSAGES).then_some((count, count as u64 * 4096))
        })
    }

    fn groups(plan: &Plan) -> Vec<Vec<SegmentName>> {
        plan.rewrite.iter().map(|group| group.packs.clone()).collect()
    }

    #[test]
    fn small_neighbours_become_one() {
        let [a, b, c] = [name(0, 1023, 1024), name(1024, 1039, 16), name(1040, 1055, 16)];
        assert_eq!(groups(&plan_with(&[a, b, c], 2, 0..0)), [vec![b, c]]);
        assert_eq!(plan_with(&[a, b, c], 4, 0..0), Plan::default());
    }

    #[test]
    fn a_large_one_is_not_written_again_for_a_few() {
        let [a, b, c] = [name(0, 99, 100), name(100, 115, 16), name(116, 131, 16)];
        assert_eq!(groups(&plan_with(&[a, b, c], 2, 0..0)), [vec![b, c]]);
        let more = name(132, 170, 39);
        assert_eq!(groups(&plan_with(&[a, b, c, more], 2, 0..0)), [vec![a, b, c, more]]);
    }

    #[test]
    fn purged_messages_are_left_out_of_packs() {
        let [a, b] = [name(0, 1023, 1024), name(1024, 2047, 1024)];
        let one = plan_with(&[a, b], 4, 1024..1025);
        assert_eq!((groups(&one), one.remove), (vec![vec![b]], vec![]));
        let all = plan_with(&[a, b], 4, 0..1024);
        assert_eq!((groups(&all), all.remove), (vec![], vec![a]));
    }

    #[test]
    fn of_two_that_overlap_one_stays() {
        let [a, b, c] = [name(0, 99, 100), name(50, 200, 151), name(190, 210, 21)];
        assert_eq!(plan_with(&[a, b, c], 4, 0..0).remove, [a, c]);
    }
}
