//! The log entries of operations.

use sealpost_account::account::Committed;
use sealpost_base::Position;

/// The log entry of a change; `None` if there was nothing to change.
pub(crate) fn entry_of<T>(committed: &Committed<T>) -> Option<Position> {
    (!committed.applied.is_empty()).then_some(committed.position)
}
