//! The other nodes on the bus: those that send signs of life, and those that fell silent without a
//! goodbye.
//!
//! A silent node may be killed, or be disconnected from the bus alone, continue, and be unable to
//! report its appends. Other nodes cannot know which; so they poll the store while a node is
//! missed, and for a day at most, because it may be gone permanently.

use std::collections::HashMap;
use std::time::Duration;

use sealpost_base::limits::BUS_NODES;
use tokio::time::Instant;

use super::PROMISE;
use super::connection::SEND;

/// How often a node says that it is there.
pub(super) const PRESENCE_INTERVAL: Duration = Duration::from_secs(2);
/// After so much silence it is missed: it was not heard twice, though the bus may once have taken a
/// message as late as it may.
const MISSED: Duration = Duration::from_secs(6);
/// After so much silence it is missed no more.
const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);

// A node checks for missed ones as often as it sends its own sign of life, and polls at once then:
// two seconds remain for the store to reply.
const _: () = assert!(MISSED.as_secs() + PRESENCE_INTERVAL.as_secs() + 2 <= PROMISE.as_secs());
const _: () = assert!(MISSED.as_secs() > PRESENCE_INTERVAL.as_secs() + SEND.as_secs());

/// When each of them was heard last.
#[derive(Debug, Default)]
pub(super) struct Others(HashMap<u64, Instant>);

impl Others {
    /// It is there. Beyond [`BUS_NODES`] others are not remembered, and so never missed.
    pub fn hear(&mut self, node: u64, now: Instant) {
        if self.0.len() < BUS_NODES || self.0.contains_key(&node) {
            self.0.insert(node, now);
        }
    }

    /// It leaves, and has sent all notices.
    pub fn leaves(&mut self, node: u64) {
        self.0.remove(&node);
    }

    /// Whether a node is missed.
    pub fn misses(&mut self, now: Instant) -> bool {
        self.0.retain(|_, heard| now.saturating_duration_since(*heard) < FORGOTTEN);
        self.0.values().any(|heard| now.saturating_duration_since(*heard) >= MISSED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_node_is_missed_for_up_to_a_day() {
        let (mut others, began) = (Others::default(), Instant::now());
        let after = |seconds| began + Duration::from_secs(seconds);
        others.hear(1, began);
        others.hear(2, began);
        assert!(!others.misses(after(5)), "one message that was taken as late as it may be");
        others.hear(1, after(5));
        assert!(others.misses(after(6)));
        others.hear(2, after(6));
        assert!(!others.misses(after(7)));
        others.leaves(1);
        assert!(!others.misses(after(11)), "who said that it goes is missed by nobody");
        assert!(others.misses(after(3600)));
        assert!(!others.misses(after(24 * 3600 + 6)));
        assert!(!others.misses(after(24 * 3600 + 7)), "it is forgotten");
    }

    #[test]
    fn state_about_other_nodes_is_bounded() {
        let (mut others, began) = (Others::default(), Instant::now());
        for node in 0..2 * BUS_NODES as u64 {
            others.hear(node, began);
        }
        assert_eq!(others.0.len(), BUS_NODES);
    }
}
