//! Open files: a server has one for each connection, and the store needs some too.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files kept for the store, the log and the listeners when connections are counted against the limit.
const RESERVED_FILES: u64 = 128;

/// Raises the process's limit of open files as far as the system allows, and returns the number of
/// connections that fit into it.
///
/// Without it a server on most systems would run out of descriptors at 1,024 files, and the failure
/// would not be a refused connection but the next file to open: a delivery.
pub fn room_for_connections() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let mut allowed = limit.current;
    if limit.current != limit.maximum
        && setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).is_ok()
    {
        allowed = limit.maximum;
    }
    // No limit at all is `None`.
    let allowed = allowed.unwrap_or(u64::MAX);
    usize::try_from(allowed.saturating_sub(RESERVED_FILES)).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_as_high_as_it_can_be() {
        let room = room_for_connections();
        let limit = getrlimit(Resource::Nofile);
        assert!(limit.current == limit.maximum || room >= 1);
        assert_eq!(room, room_for_connections(), "a second time changes nothing");
    }
}
