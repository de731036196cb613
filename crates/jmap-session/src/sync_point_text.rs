//! How far a client has followed the changes in one log, as text: `{position:x}`, and `_`, a letter for the
//! type and the number of an id `{:x}` if a response ended within the entry after that.

use sealpost_account::state::{ChangeKey, SyncPoint};
use sealpost_base::Position;

/// Between a position and an id.
pub(crate) const WITHIN: char = '_';
/// The most digits behind a position: a letter, and 128 bits.
pub(crate) const WITHIN_BYTES: usize = 2 + 32;

/// The text of a point.
pub(crate) fn write_point<T: ChangeKey>(point: SyncPoint<T>) -> String {
    match point.within {
        None => format!("{:x}", point.position.0),
        Some(last) => format!("{:x}{WITHIN}{}{:x}", point.position.0, T::LETTER, last.to_number()),
    }
}

/// The point with that text, which may have other texts too; `None` if there is none.
pub(crate) fn read_point<T: ChangeKey>(text: &str) -> Option<SyncPoint<T>> {
    let (position, within) = match text.split_once(WITHIN) {
        None => (text, None),
        Some((position, id)) => {
            let number = u128::from_str_radix(id.strip_prefix(T::LETTER)?, 16).ok()?;
            (position, Some(T::from_number(number)?))
        }
    };
    let position = u64::from_str_radix(position, 16).ok().map(Position)?;
    Some(SyncPoint { position, within })
}
