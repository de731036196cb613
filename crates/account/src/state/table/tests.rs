//! Tables against plain vectors.

use proptest::prelude::*;

use super::*;

/// What is done to a table.
#[derive(Debug, Clone)]
enum Step {
    /// So many rows are pushed, with keys so far apart.
    Push(usize, u64),
    Extend(usize, u64),
    /// A part of the rows, of which every n-th, changes.
    Update(f64, f64, usize, u64),
    /// Removes every n-th row of a part, in ranges so long.
    Remove(f64, f64, usize, usize),
    /// Every n-th row is removed.
    Retain(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let part = || (0.0..1.0f64, prop_oneof![Just(0.001), 0.0..1.0f64]);
    let step = prop_oneof![
        2 => (0usize..150, 1u64..4).prop_map(|(n, gap)| Step::Push(n, gap)),
        2 => (0usize..1500, 1u64..4).prop_map(|(n, gap)| Step::Extend(n, gap)),
        2 => (part(), 1usize..5, any::<u16>()).prop_map(|((a, b), n, v)| Step::Update(a, b, n, v.into())),
        2 => (part(), 1usize..400, 1usize..400).prop_map(|((a, b), n, long)| Step::Remove(a, b, n, long)),
        1 => (2usize..40).prop_map(Step::Retain),
    ];
    prop::collection::vec(step, 0..14)
}

/// The indices of a part of so many rows.
fn part(len: usize, from: f64, share: f64) -> std::ops::Range<usize> {
    let from = (len as f64 * from) as usize;
    from..(from + (len as f64 * share) as usize + 1).min(len)
}

fn rows(model: &[[u64; 3]], n: usize, gap: u64) -> Vec<[u64; 3]> {
    let last = model.last().map_or(0, |row| row[0]);
    (1..=n as u64).map(|i| [last + i * gap, i * 7919 % 100, u64::MAX - i * i]).collect()
}

fn check(table: &Table<3>, model: &[[u64; 3]]) -> Result<(), TestCaseError> {
    prop_assert_eq!(table.len(), model.len());
    prop_assert_eq!(table.iter().collect::<Vec<_>>(), model);
    prop_assert_eq!(table.iter().rev().collect::<Vec<_>>(), model.iter().rev().copied().collect::<Vec<_>>());
    let mut keys = Vec::new();
    table.runs_from(table.start(), |first, last| keys.extend(first..=last));
    prop_assert_eq!(keys, model.iter().map(|row| row[0]).collect::<Vec<_>>());
    for such in [0, 1, 50, 99] {
        let found = model.iter().copied().find(|row| row[1] > such);
        prop_assert_eq!(table.find_by::<1>(|number| number > such), found);
        let found = model.iter().copied().find(|row| row[2] == such);
        prop_assert_eq!(table.find_by::<2>(|number| number == such), found);
    }
    let above: Vec<_> = model.iter().copied().filter(|row| row[1] > 50).collect();
    prop_assert_eq!(table.above::<1>(50, table.start()).collect::<Vec<_>>(), above);
    prop_assert_eq!(table.last_key(), model.last().map(|row| row[0]));
    let bytes: usize = table.blocks.iter().map(Block::heap_bytes).sum();
    prop_assert_eq!(table.packed_bytes, bytes, "the sum is kept");
    prop_assert!(table.waiting.len() < WAITING && table.blocks.iter().all(|block| block.len() > 0));
    let end = model.last().map_or(0, |row| row[0]) + 3;
    for key in (0..end).step_by(1 + end as usize / 23) {
        let found = model.binary_search_by_key(&key, |row| row[0]).ok().map(|at| model[at]);
        prop_assert_eq!(table.find(key), found);
        let (from, to) = (table.lower_bound(key), table.lower_bound(key + 700).max(table.lower_bound(key)));
        let between: Vec<_> =
            model.iter().copied().filter(|row| (key..key + 700).contains(&row[0])).collect();
        prop_assert_eq!(table.range(from, to).collect::<Vec<_>>(), between);
        let above: Vec<_> = model.iter().copied().filter(|row| row[0] >= key && row[1] > 50).collect();
        prop_assert_eq!(table.above::<1>(50, from).collect::<Vec<_>>(), above);
        let mut keys = Vec::new();
        table.runs_from(from, |first, last| keys.extend(first..=last));
        let behind = model.iter().map(|row| row[0]).filter(|found| *found >= key);
        prop_assert_eq!(keys, behind.collect::<Vec<_>>());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_table_equals_a_naive_vector(steps in steps()) {
        let mut table = Table::<3>::default();
        let mut model: Vec<[u64; 3]> = Vec::new();
        for step in steps {
            match step {
                Step::Push(n, gap) => {
                    let rows = rows(&model, n, gap);
                    rows.iter().for_each(|row| table.push(*row));
                    model.extend(rows);
                }
                Step::Extend(n, gap) => {
                    let rows = rows(&model, n, gap);
                    table.extend(rows.iter().copied());
                    model.extend(rows);
                }
                Step::Update(from, share, n, value) => {
                    let part = part(model.len(), from, share);
                    let Some([first, last]) = ends(&model[part.clone()]) else { continue };
                    let change = |row: &[u64; 3]| row[0].is_multiple_of(n as u64).then_some([row[0], row[1], value]);
                    table.update(table.lower_bound(first), table.lower_bound(last + 1), change);
                    model[part].iter_mut().for_each(|row| *row = change(row).unwrap_or(*row));
                }
                Step::Remove(from, share, n, long) => {
                    let part = part(model.len(), from, share);
                    let Some([first, last]) = ends(&model[part]) else { continue };
                    let starts = (first..=last).step_by(n + long);
                    let ranges: Vec<_> = starts.map(|a| (a, (a + long as u64 - 1).min(last))).collect();
                    let mut gone = Vec::new();
                    table.remove(ranges.iter().copied(), |row| gone.push(*row));
                    let goes = |row: &[u64; 3]| ranges.iter().any(|(a, b)| (*a..=*b).contains(&row[0]));
                    let (out, kept) = model.iter().copied().partition::<Vec<_>, _>(goes);
                    prop_assert_eq!(gone, out);
                    model = kept;
                }
                Step::Retain(n) => {
                    let keep = |row: &mut [u64; 3]| { row[1] += 1; !row[0].is_multiple_of(n as u64) };
                    table.retain(keep);
                    model.retain_mut(keep);
                    for from in [0, model.len() / 3, model.len() / 2, model.len()] {
                        prop_assert_eq!(table.iter_from(from).collect::<Vec<_>>(), model[from..].to_vec());
                    }
                }
            }
            check(&table, &model)?;
        }
    }

    #[test]
    fn rows_are_found_by_their_place_however_they_came(counts in prop::collection::vec(0usize..1200, 1..8)) {
        let mut table = Table::<3>::default();
        let mut model: Vec<[u64; 3]> = Vec::new();
        for (i, count) in counts.into_iter().enumerate() {
            let rows = rows(&model, count, 1);
            if i % 2 == 0 { table.extend(rows.clone()) } else { rows.iter().for_each(|row| table.push(*row)) }
            model.extend(rows);
            for from in (0..=model.len()).step_by(301).chain([model.len()]) {
                prop_assert_eq!(table.iter_from(from).collect::<Vec<_>>(), model[from..].to_vec());
            }
        }
    }
}

fn ends(rows: &[[u64; 3]]) -> Option<[u64; 2]> {
    Some([rows.first()?[0], rows.last()?[0]])
}

#[test]
fn removals_merge_sparse_blocks() {
    let mut table = Table::<3>::default();
    table.extend((1..=100_000).map(|n| [n, n, 1]));
    let full = table.heap_bytes();
    table.remove((0..1000).map(|n| (n * 100 + 1, n * 100 + 99)), |_| ());
    assert_eq!(table.len(), 1000);
    assert!(table.blocks.len() < 10 && table.heap_bytes() < full / 2, "{}", table.blocks.len());
}
