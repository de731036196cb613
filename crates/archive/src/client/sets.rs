//! Sets of UIDs, divided.

use sealpost_base::UidSet;

/// Most ranges in one command.
const RANGES: usize = 200;
/// Most messages in one command.
const MESSAGES: usize = 500;

/// The set divided into what one command asks for.
pub fn commands(set: &UidSet) -> impl Iterator<Item = UidSet> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let mut part = set.slice(at..set.len().min(at + MESSAGES));
        if part.range_count() > RANGES {
            part = UidSet::from_ranges(part.ranges().take(RANGES));
        }
        at += part.len();
        (!part.is_empty()).then_some(part)
    })
}
