//! The plan of one history: drawn from its seed.

use std::time::Duration;

use sealpost_base::{Random, SeededRandom};
use sealpost_vault::AppendMode;

/// The plan of one history. Chances are per thousand.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Whether the store's conditional creates are reliable.
    pub append_mode: AppendMode,
    /// Nodes.
    pub nodes: usize,
    /// Clients, each on a node that it chooses again for every command.
    pub clients: usize,
    /// Commands of each client.
    pub commands: usize,
    /// Requests that fail before they have an effect.
    pub fail: u64,
    /// Answers with an object that have one wrong bit.
    pub wrong: u64,
    /// Writes that happen and are answered with an error.
    pub lose_reply: u64,
    /// Writes that happen once more later: soon, or hours later.
    pub repeat: u64,
    /// Writes that get stuck half-way: some readers see them, some do not, until they are written
    /// again. Only without conditional create, where a write that was not acknowledged may be on
    /// some of the store's machines.
    pub stick: u64,
    /// The longest delay of a request, before and after its effect.
    pub delay: Duration,
    /// How often the world pauses, kills or replaces a node.
    pub trouble_every: Duration,
    /// The longest pause of a node.
    pub pause: Duration,
    /// The most that a node's clock is wrong, in either direction.
    pub skew: Duration,
    /// Whether several nodes change an account's record.
    pub records: bool,
    /// How often the world has a node that does not see an entry of the log as it is, for a while.
    pub holes: u64,
    /// How often an attacker without a key writes an object among log entries, manifests and marks.
    pub noise: u64,
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        let random = SeededRandom::new(seed ^ 0x5ea1_9057);
        let below = |bound: u64| random.next_u64() % bound;
        let calm = below(8) == 0;
        let chance = |most: u64| if calm { 0 } else { random.next_u64() % (most + 1) };
        let wrong = if calm { 0 } else { SeededRandom::new(seed ^ 0x0b17).below(30) };
        let append_mode = if below(3) == 0 { AppendMode::Conditional } else { AppendMode::Siblings };
        Plan {
            append_mode,
            nodes: 2 + below(3) as usize,
            clients: 2 + below(6) as usize,
            commands: 6 + below(20) as usize,
            fail: chance(60),
            wrong,
            lose_reply: chance(80),
            repeat: chance(60),
            stick: if append_mode == AppendMode::Siblings { chance(40) } else { 0 },
            delay: Duration::from_millis(1 + below(200)),
            trouble_every: Duration::from_millis(50 + below(3000)),
            pause: [Duration::from_millis(300), Duration::from_secs(30), Duration::from_secs(2 * 3600)]
                [below(3) as usize],
            skew: [Duration::ZERO, Duration::from_secs(3600), Duration::from_secs(30 * 24 * 3600)]
                [below(3) as usize],
            records: below(8) == 0,
            holes: if calm { 0 } else { SeededRandom::new(seed ^ 0x401e).below(500) },
            noise: if calm { 0 } else { SeededRandom::new(seed ^ 0x901e).below(300) },
        }
    }
}
