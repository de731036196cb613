//! Log entries that operations make.

use sealpost_account::account::Committed;
use sealpost_base::Position;

/// The log entry that a change made, if there was anything to change.
pub(crate) fn entry_of<T>(committed: &Committed<T>) -> Option<Position> {
    (!committed.applied.is_empty()).then_some(committed.position)
}
