//! Numbers packed into as many bits as they need: a column of a block of rows.
//!
//! A number is the least of its block, plus where it is in it if the numbers ascend one by one,
//! plus a difference of so many bits, in thousands if all of them are (milliseconds that are whole
//! seconds). The few differences that need more bits are kept apart, so that one large message
//! among small ones costs one word and not five hundred wide fields.

/// Most numbers in a column.
pub(super) const MOST: usize = 512;

/// Differences of more bits than this are never kept apart: the index is in the same word.
const APART_BITS: u32 = 48;
/// What numbers may have as a common measure besides 1.
const THOUSAND: u64 = 1000;

/// A column of at most [`MOST`] numbers.
#[derive(Clone, Default)]
pub(super) struct Packed {
    /// What is added to all numbers.
    base: u64,
    /// The fields, then what is kept apart: the difference above 16 bits of index, ascending by index.
    words: Box<[u64]>,
    len: u16,
    apart: u16,
    /// What a difference of 1 stands for.
    measure: u16,
    /// Bits of a field.
    width: u8,
    /// 1 if each number is expected to be one more than the number before it.
    slope: u8,
}

/// How numbers are packed best.
struct Plan {
    base: u64,
    slope: u8,
    measure: u16,
    width: u8,
    apart: usize,
    bits: usize,
}

impl Packed {
    /// These numbers, of which there must be at most [`MOST`].
    pub(super) fn new(numbers: &[u64]) -> Self {
        debug_assert!(numbers.len() <= MOST, "a block has a bound");
        let level = Plan::of(numbers, 0);
        let rising = if level.bits > 0 { Some(Plan::of(numbers, 1)) } else { None };
        let plan = rising.filter(|rising| rising.bits < level.bits).unwrap_or(level);
        let fields = (numbers.len() * usize::from(plan.width)).div_ceil(64);
        let mut packed = Packed {
            base: plan.base,
            words: vec![0; fields + plan.apart].into(),
            len: numbers.len() as u16,
            apart: plan.apart as u16,
            measure: plan.measure,
            width: plan.width,
            slope: plan.slope,
        };
        let mut next = fields;
        for (i, number) in numbers.iter().enumerate() {
            let difference = packed.difference(i, *number);
            if bits_of(difference) > u32::from(plan.width) {
                packed.words[next] = difference << 16 | i as u64;
                next += 1;
            } else {
                packed.put(i, difference);
            }
        }
        packed
    }

    /// How many numbers there are.
    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// The number at that place, which must be below [`Packed::len`].
    #[inline]
    pub(super) fn get(&self, i: usize) -> u64 {
        let expected = self.base.wrapping_add(u64::from(self.slope) * i as u64);
        let mut difference = if self.width == 0 { 0 } else { self.field(i) };
        if self.apart > 0
            && let Some(apart) = self.kept_apart(i)
        {
            difference = apart;
        }
        expected.wrapping_add(difference.wrapping_mul(u64::from(self.measure)))
    }

    /// The numbers, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// The number that all of them are, where nothing more is kept of them.
    pub(super) fn same(&self) -> Option<u64> {
        (self.len > 0 && self.slope == 0 && self.width == 0 && self.apart == 0).then_some(self.base)
    }

    /// Replaces a number, mostly in place; if it needs more bits, all numbers are packed again.
    pub(super) fn set(&mut self, i: usize, number: u64) {
        if self.get(i) == number {
            return;
        }
        let expected = self.base.wrapping_add(u64::from(self.slope) * i as u64);
        let fits = number.checked_sub(expected).is_some_and(|difference| {
            difference % u64::from(self.measure) == 0
                && bits_of(difference / u64::from(self.measure)) <= u32::from(self.width)
        });
        if fits && self.kept_apart(i).is_none() {
            self.put(i, self.difference(i, number));
            return;
        }
        let mut numbers: Vec<u64> = self.iter().collect();
        numbers[i] = number;
        *self = Packed::new(&numbers);
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        super::table::heap_bytes(self.words.len() * 8)
    }

    fn difference(&self, i: usize, number: u64) -> u64 {
        let expected = self.base.wrapping_add(u64::from(self.slope) * i as u64);
        number.wrapping_sub(expected) / u64::from(self.measure)
    }

    #[inline]
    fn field(&self, i: usize) -> u64 {
        let width = usize::from(self.width);
        let (word, shift) = (i * width / 64, i * width % 64);
        let mut value = self.words[word] >> shift;
        if shift + width > 64 {
            value |= self.words[word + 1] << (64 - shift);
        }
        value & (u64::MAX >> (64 - width))
    }

    /// Writes a difference that fits into its field.
    fn put(&mut self, i: usize, difference: u64) {
        let width = usize::from(self.width);
        if width == 0 {
            return;
        }
        let mask = u64::MAX >> (64 - width);
        let (word, shift) = (i * width / 64, i * width % 64);
        self.words[word] = self.words[word] & !(mask << shift) | difference << shift;
        if shift + width > 64 {
            let rest = 64 - shift;
            self.words[word + 1] = self.words[word + 1] & !(mask >> rest) | difference >> rest;
        }
    }

    fn kept_apart(&self, i: usize) -> Option<u64> {
        let apart = &self.words[self.words.len() - usize::from(self.apart)..];
        let found = apart.binary_search_by_key(&(i as u64), |word| word & 0xffff).ok()?;
        Some(apart[found] >> 16)
    }
}

impl Plan {
    /// The best there is with that slope.
    fn of(numbers: &[u64], slope: u8) -> Self {
        let slope_of = |i: usize| u64::from(slope) * i as u64;
        let mut base = u64::MAX;
        for (i, number) in numbers.iter().enumerate() {
            match number.checked_sub(slope_of(i)) {
                Some(rest) => base = base.min(rest),
                None => return Plan { base: 0, slope, measure: 1, width: 64, apart: 0, bits: usize::MAX },
            }
        }
        if numbers.is_empty() {
            base = 0;
        }
        let differences = || numbers.iter().enumerate().map(|(i, number)| number - slope_of(i) - base);
        let measure = if differences().all(|difference| difference % THOUSAND == 0) { THOUSAND } else { 1 };
        // How many differences need so many bits.
        let mut needing = [0usize; 65];
        differences().for_each(|difference| needing[bits_of(difference / measure) as usize] += 1);
        let widest = needing.iter().rposition(|count| *count > 0).unwrap_or(0);
        let mut best = (numbers.len() * widest, widest, 0);
        let mut apart = 0;
        for width in (0..widest).rev() {
            apart += needing[width + 1];
            let bits = numbers.len() * width + apart * 64;
            if bits < best.0 && widest as u32 <= APART_BITS {
                best = (bits, width, apart);
            }
        }
        let (bits, width, apart) = best;
        Plan { base, slope, measure: measure as u16, width: width as u8, apart, bits }
    }
}

fn bits_of(number: u64) -> u32 {
    64 - number.leading_zeros()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers as columns have them: nearly equal, one by one with gaps, in thousands, with a few
    /// large ones, anything.
    fn numbers() -> impl Strategy<Value = Vec<u64>> {
        let offset = prop_oneof![Just(0), Just(u64::MAX - 5_000_000_000), 0..1u64 << 40, any::<u64>()];
        let step = prop_oneof![Just(0u64), Just(1), Just(2), Just(1000)];
        let noise = prop_oneof![
            8 => 0u64..3,
            2 => 0u64..70_000,
            1 => Just(1u64 << 47),
            1 => Just(u64::MAX),
        ];
        let kind = prop_oneof![Just(0u64), Just(1), Just(1000)];
        (offset, step, kind, prop::collection::vec(noise, 0..=MOST)).prop_map(
            |(offset, step, kind, noise)| {
                let number = |(i, noise): (usize, u64)| {
                    offset.wrapping_add(step * i as u64).wrapping_add(noise.wrapping_mul(kind))
                };
                noise.into_iter().enumerate().map(number).collect()
            },
        )
    }

    proptest! {
        #[test]
        fn packed_rows_are_read_back(numbers in numbers()) {
            let packed = Packed::new(&numbers);
            prop_assert_eq!(packed.iter().collect::<Vec<_>>(), numbers);
        }

        #[test]
        fn any_number_can_be_put_anywhere(
            mut numbers in numbers(),
            puts in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![0u64..5, any::<u64>()]), 0..20),
        ) {
            let mut packed = Packed::new(&numbers);
            for (at, number) in puts {
                if numbers.is_empty() { break; }
                let at = at.index(numbers.len());
                numbers[at] = number;
                packed.set(at, number);
                prop_assert_eq!(packed.iter().collect::<Vec<_>>(), numbers.clone());
            }
        }
    }

    #[test]
    fn packed_size_depends_on_the_differences_of_numbers() {
        let words = |numbers: &[u64]| Packed::new(numbers).words.len();
        let equal = [77; MOST];
        assert_eq!(words(&equal), 0);
        assert_eq!((Packed::new(&equal).same(), Packed::new(&[]).same()), (Some(77), None));
        let ascending: Vec<u64> = (5..5 + MOST as u64).collect();
        assert_eq!((words(&ascending), Packed::new(&ascending).same()), (0, None));
        let seconds: Vec<u64> = (0..MOST as u64).map(|n| 1_700_000_000_123 + n * 7 % 256 * 1000).collect();
        assert_eq!(words(&seconds), MOST / 8, "a byte each");
        let mut sizes: Vec<u64> = (0..MOST as u64).map(|n| 1000 + n % 256).collect();
        (sizes[7], sizes[300]) = (1 << 40, 123_456_789);
        assert_eq!(words(&sizes), MOST / 8 + 2, "and a word for each large one");
    }
}
