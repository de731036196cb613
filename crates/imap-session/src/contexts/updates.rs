//! The removals and insertions that update a client's list of results, in the order in which the client
//! applies them (RFC 5267 §4.3.2 to §4.3.4).

use sealpost_base::Uid;
use sealpost_imap::types::SequenceSet;
use sealpost_search::Match;

/// The most pairs in one response, so that clients can take the line.
const PAIRS: usize = 200;
/// The most ranges in one response, as in VANISHED.
const RANGES: usize = 400;

/// Results with their position in the list: 0 for a list in mailbox order, otherwise from 1.
pub(super) type Pairs = Vec<(u32, Vec<Uid>)>;

/// Results for a list in mailbox order, which the client keeps in order itself.
pub(super) fn unplaced(uids: impl Iterator<Item = Uid>) -> Pairs {
    let uids: Vec<Uid> = uids.collect();
    if uids.is_empty() { Vec::new() } else { vec![(0, uids)] }
}

/// The positions of removed results, from the end of the list, so that no removal moves the next one.
pub(super) fn removals(list: &[Match], goes: impl Fn(Uid) -> bool) -> Pairs {
    let mut pairs = runs(list, goes);
    pairs.reverse();
    pairs
}

/// The positions of new results in the list that has them, from the start, so that all earlier results are in
/// place already.
pub(super) fn insertions(list: &[Match], is_new: impl Fn(Uid) -> bool) -> Pairs {
    runs(list, is_new)
}

fn runs(list: &[Match], such: impl Fn(Uid) -> bool) -> Pairs {
    let mut pairs: Pairs = Vec::new();
    let mut running = false;
    for (index, found) in list.iter().enumerate() {
        let follows = std::mem::replace(&mut running, such(found.uid));
        match pairs.last_mut() {
            _ if !running => {}
            Some((_, run)) if follows => run.push(found.uid),
            _ => pairs.push((index as u32 + 1, vec![found.uid])),
        }
    }
    pairs
}

/// The pairs as written, split into responses; results without a number are left out.
pub(super) fn responses(
    pairs: Pairs,
    number: impl Fn(Uid) -> Option<u32>,
) -> impl Iterator<Item = Vec<(u32, SequenceSet)>> {
    let mut all: Vec<(u32, SequenceSet)> = Vec::new();
    for (position, uids) in pairs {
        let Some(set) = SequenceSet::from_numbers(uids.into_iter().filter_map(&number)) else { continue };
        let mut at = position;
        for ranges in set.ranges().chunks(RANGES) {
            if let Some(part) = SequenceSet::new(ranges.to_vec()) {
                let len =
                    part.ranges().iter().map(|range| range.resolve(u32::MAX).count() as u32).sum::<u32>();
                all.push((at, part));
                // The rest of the set follows it, if positions matter at all.
                at += if position == 0 { 0 } else { len };
            }
        }
    }
    let mut all = all.into_iter().peekable();
    std::iter::from_fn(move || {
        all.peek()?;
        let (mut response, mut ranges) = (Vec::new(), 0);
        while let Some((_, set)) = all.peek() {
            ranges += set.ranges().len();
            if !response.is_empty() && (ranges > RANGES || response.len() == PAIRS) {
                break;
            }
            response.extend(all.next());
        }
        Some(response)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use sealpost_search::MailboxIndex;

    use super::*;

    fn list(uids: &[u32]) -> Vec<Match> {
        let found =
            |n: &u32| Uid::new(*n).map(|uid| Match { mailbox: MailboxIndex::FIRST, uid, relevance: 100 });
        uids.iter().filter_map(found).collect()
    }

    /// A client that applies the responses to its list.
    fn apply(list: &mut Vec<u32>, add: bool, responses: impl Iterator<Item = Vec<(u32, SequenceSet)>>) {
        for (position, set) in responses.flatten() {
            let numbers: Vec<u32> = set.ranges().iter().flat_map(|range| range.resolve(u32::MAX)).collect();
            let at = position as usize - 1;
            if add {
                list.splice(at..at, numbers);
            } else {
                let removed: Vec<u32> = list.splice(at..at + numbers.len(), []).collect();
                assert_eq!(removed, numbers);
            }
        }
    }

    /// RFC 5267 §4.3.3: the preferred representation.
    #[test]
    fn neighbours_are_one_pair() {
        let new = list(&[2731, 2732, 2733, 2734, 2735]);
        let pairs = insertions(&new, |uid| uid.get() < 2734);
        let written: Vec<_> = responses(pairs, |uid| Some(uid.get())).collect();
        let set = SequenceSet::from_ranges([2731..=2733]).unwrap();
        assert_eq!(written, vec![vec![(1, set)]]);
    }

    #[test]
    fn long_updates_are_several_responses() {
        let scattered: Vec<u32> = (0..1000).map(|n| n * 2 + 1).collect();
        let uids = scattered.iter().map(|n| Uid::new(*n).unwrap());
        let written: Vec<_> = responses(unplaced(uids), |uid| Some(uid.get())).collect();
        assert_eq!(written.iter().map(Vec::len).sum::<usize>(), 3);
        assert!(written.iter().flatten().all(|(at, set)| *at == 0 && set.ranges().len() <= RANGES));
        let mut client = Vec::new();
        let all = insertions(&list(&scattered), |_| true);
        apply(&mut client, true, responses(all, |uid| Some(uid.get())));
        assert_eq!(client, scattered);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn a_client_that_applies_the_updates_has_the_list(
            order in Just((1u32..30).collect::<Vec<_>>()).prop_shuffle(),
            before in proptest::collection::vec(any::<bool>(), 30),
            after in proptest::collection::vec(any::<bool>(), 30),
        ) {
            let within = |such: &[bool]| -> Vec<u32> {
                order.iter().copied().filter(|n| such[*n as usize]).collect()
            };
            let (old, new) = (within(&before), within(&after));
            let mut client = old.clone();
            let number = |uid: Uid| Some(uid.get());
            let goes = removals(&list(&old), |uid| !after[uid.get() as usize]);
            apply(&mut client, false, responses(goes, number));
            let comes = insertions(&list(&new), |uid| !before[uid.get() as usize]);
            apply(&mut client, true, responses(comes, number));
            prop_assert_eq!(client, new);
        }
    }
}
