//! Signed numbers in the order of unsigned ones, for packing.

/// A number such that smaller signed ones are smaller.
pub(super) fn from_signed(number: i64) -> u64 {
    number as u64 ^ 1 << 63
}

/// What [`from_signed`] was given.
pub(super) fn to_signed(number: u64) -> i64 {
    (number ^ 1 << 63) as i64
}
