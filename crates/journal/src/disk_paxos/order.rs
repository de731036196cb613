//! The order of entries in a listing, and the last entry, from their names alone.

use sealpost_base::Position;

use crate::Tail;
use crate::ballot::{Ballot, EntryName};

/// The end of the chain among `places`, by their names: the last entry of the greatest ballot. `None` if it
/// is `known`.
pub(crate) fn last_of(places: &[EntryName], known: &Tail) -> Option<EntryName> {
    let plain = places.iter().filter(|place| place.is_plain()).map(|place| place.position).max();
    // Entries of conditional creates count. An entry with a ballot precedes or follows them.
    let (position, ballot) = match plain {
        Some(plain) if plain > known.position => (plain, Ballot::NONE),
        _ => (known.position, known.ballot.unwrap_or(Ballot::NONE)),
    };
    let later = places.iter().filter(|place| !place.is_plain() && place.position >= position);
    let greatest = later.copied().max_by_key(|place| (place.ballot, place.position));
    match greatest {
        Some(place) if place.position > position && place.ballot >= ballot => Some(place),
        _ if position > known.position => Some(EntryName::plain(position)),
        _ => None,
    }
}

/// The entries after `known` that lead to `last`, in order, as far as they are among `places`, which are
/// sorted by position. The time depends on the number of listed positions, not on their distance.
pub(crate) fn leading_to(places: &[EntryName], last: EntryName, known: Position) -> Vec<EntryName> {
    let mut found = vec![last];
    let mut child = last;
    let mut end = places.partition_point(|place| place.position < last.position);
    while let Some(before) = places[..end].last()
        && before.position > known
    {
        let position = before.position;
        let begin = places[..end].partition_point(|place| place.position < position);
        let there = &places[begin..end];
        end = begin;
        let parent = if child.is_plain() {
            // It was created after the entry that was the end at that time.
            let plain = there.iter().find(|place| place.is_plain());
            plain.or(there.iter().max_by_key(|place| place.ballot))
        } else {
            there.iter().find(|place| place.ballot == child.parent)
        };
        // A missing entry was trimmed or is lost; the hash in its child shows which. Assume that its parent's
        // ballot is the parent's ballot of its child.
        child = parent.copied().unwrap_or(EntryName { position, ballot: child.parent, parent: child.parent });
        found.extend(parent);
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealpost_base::{Random, SeededRandom};

    /// For any listing, the result ascends from after the known end to the last entry.
    #[test]
    fn any_listing_gives_a_chain_or_its_end() {
        let random = SeededRandom::new(1);
        let ballots: Vec<_> =
            std::iter::successors(Some(Ballot::NONE), |last| last.above(&random)).take(4).collect();
        let some = |ballots: &[Ballot]| ballots[random.below(4) as usize];
        for _ in 0..2000 {
            let place = || EntryName {
                position: Position(1 + random.below(6)),
                ballot: some(&ballots),
                parent: some(&ballots),
            };
            let mut places: Vec<_> = (0..random.below(12)).map(|_| place()).collect();
            places.sort_by_key(|place| place.position);
            let known = Tail { position: Position(random.next_u64() % 4), ..Tail::EMPTY };
            let Some(last) = last_of(&places, &known) else { continue };
            assert!(last.position > known.position);
            let found = leading_to(&places, last, known.position);
            assert_eq!(found.last(), Some(&last));
            assert!(found.windows(2).all(|pair| pair[0].position < pair[1].position));
            assert!(found[0].position > known.position);
        }
    }

    /// The time depends on the length of the list, not on the distance between positions.
    #[test]
    fn a_far_position_is_not_counted_down_from() {
        let far = [1, 2, 1 << 47, u64::MAX].map(|position| EntryName::plain(Position(position)));
        let last = last_of(&far, &Tail::EMPTY).unwrap();
        assert_eq!(leading_to(&far, last, Position::ZERO), far);
    }
}
