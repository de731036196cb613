//! A block of rows: a packed column for each of their numbers.

use crate::state::packed::Packed;

/// At most as many rows as a column may have numbers.
#[derive(Clone)]
pub(super) struct Block<const C: usize>(pub(super) [Packed; C]);

impl<const C: usize> Block<C> {
    pub(super) fn new(rows: &[[u64; C]]) -> Self {
        let mut numbers = Vec::with_capacity(rows.len());
        Block(std::array::from_fn(|column| {
            numbers.clear();
            numbers.extend(rows.iter().map(|row| row[column]));
            Packed::new(&numbers)
        }))
    }

    pub(super) fn len(&self) -> usize {
        self.0[0].len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.iter().map(Packed::heap_bytes).sum()
    }

    pub(super) fn row(&self, at: usize) -> [u64; C] {
        std::array::from_fn(|column| self.0[column].get(at))
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = [u64; C]> + '_ {
        (0..self.len()).map(|at| self.row(at))
    }

    pub(super) fn last_key(&self) -> u64 {
        self.0[0].get(self.len() - 1)
    }

    pub(super) fn lower_bound(&self, key: u64) -> usize {
        lower_bound(&self.0[0], key)
    }

    pub(super) fn update(
        &mut self,
        places: std::ops::Range<usize>,
        change: &mut impl FnMut(&[u64; C]) -> Option<[u64; C]>,
    ) {
        let mut columns: [Option<Vec<u64>>; C] = std::array::from_fn(|_| None);
        for at in places {
            let row = self.row(at);
            let Some(new) = change(&row) else { continue };
            for (column, numbers) in columns.iter_mut().enumerate() {
                if new[column] != row[column] {
                    numbers.get_or_insert_with(|| self.0[column].iter().collect())[at] = new[column];
                }
            }
        }
        for (column, numbers) in columns.into_iter().enumerate() {
            if let Some(numbers) = numbers {
                self.0[column] = Packed::new(&numbers);
            }
        }
    }
}

/// Where in an ascending column the first number is that is `key` or more.
pub(in crate::state) fn lower_bound(numbers: &Packed, key: u64) -> usize {
    let len = numbers.len();
    if len == 0 || key <= numbers.get(0) {
        return 0;
    }
    // Without holes the number says where it is; holes only move it towards the front.
    let guess = usize::try_from(key - numbers.get(0)).unwrap_or(usize::MAX);
    if guess < len && numbers.get(guess) == key {
        return guess;
    }
    let (mut low, mut high) = (1, len.min(guess.saturating_add(1)));
    while low < high {
        let middle = low.midpoint(high);
        if numbers.get(middle) < key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
