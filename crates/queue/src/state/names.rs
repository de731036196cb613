//! [`Names`]: a table of values that many rows share. Each row has a number in place of the value.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by number, each for as long as a row uses it.
#[derive(Clone)]
pub struct Names<T> {
    values: Vec<Option<(T, u32)>>,
    numbers: HashMap<T, u32>,
    free: Vec<u32>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Names { values: Vec::new(), numbers: HashMap::new(), free: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Names<T> {
    /// The number of `value`, which one more row uses from now on.
    pub fn hold(&mut self, value: &T) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            if let Some((_, rows)) = &mut self.values[*number as usize] {
                *rows += 1;
            }
            return *number;
        }
        let entry = Some((value.clone(), 1));
        let number = match self.free.pop() {
            Some(number) => {
                self.values[number as usize] = entry;
                number
            }
            None => {
                self.values.push(entry);
                (self.values.len() - 1) as u32
            }
        };
        self.numbers.insert(value.clone(), number);
        number
    }

    /// Notes that one row less uses the number.
    pub fn release(&mut self, number: u32) {
        let Some(slot) = self.values.get_mut(number as usize) else { return };
        let Some((value, rows)) = slot else { return };
        *rows -= 1;
        if *rows == 0 {
            self.numbers.remove(value);
            *slot = None;
            self.free.push(number);
        }
    }

    /// The value of a number in use.
    pub fn get(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)?.as_ref().map(|(value, _)| value)
    }

    /// All values and how many rows use each.
    pub fn iter(&self) -> impl Iterator<Item = (&T, u32)> {
        self.values.iter().flatten().map(|(value, rows)| (value, *rows))
    }

    /// Bytes of memory, without those that values own on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.values.capacity() * size_of::<Option<(T, u32)>>()
            + self.numbers.capacity() * (size_of::<(T, u32)>() + 1)
            + self.free.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_free_when_no_row_has_it() {
        let mut names = Names::default();
        let (a, b) = (names.hold(&"a"), names.hold(&"b"));
        assert_eq!(names.hold(&"a"), a);
        names.release(a);
        assert_eq!(names.get(a), Some(&"a"));
        names.release(a);
        assert_eq!(names.get(a), None);
        assert_eq!(names.hold(&"c"), a);
        assert_eq!(names.iter().collect::<Vec<_>>(), [(&"c", 1), (&"b", 1)]);
        assert_ne!(a, b);
    }
}
