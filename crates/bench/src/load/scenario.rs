//! Scenarios: what clients do, in phases, described in small TOML files.
//!
//! A [`Scenario`] is complete and valid: parameters are filled in, commands are cut at their
//! placeholders, numbers are within bounds. All mistakes of a file are reported at once, each with
//! its line and, where there is one, the name that was probably meant. `docs/guide/bench.md` is the
//! reference.

mod bar;
mod builtin;
mod read;
mod request;
mod safety;
mod step;
pub mod template;
mod value;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::load::protocol::Protocol;

pub use bar::Bar;
pub use builtin::{BUILT_IN, BuiltIn, find};
pub use read::{Overrides, PHASE_KEYS};
pub use request::{Piece, Request};
pub use step::{Action, Batch, Expect, Fill, Step, VERBS};
pub use value::{Pause, count, duration, exponential, uniform};

/// The most phases of a scenario.
pub const PHASES: usize = 100;
/// The most steps of a phase.
pub const STEPS: usize = 200;
/// The most connections of a phase.
pub const CONNECTIONS: u64 = 100_000;

/// A scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// A description, in one line.
    pub about: String,
    /// Parameters that may be set, with their values.
    pub set: Vec<(String, String)>,
    /// Phases, in order.
    pub phases: Vec<Phase>,
}

/// A phase: clients that all do the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// It prepares the measurements of later phases.
    pub setup: bool,
    /// The number of clients.
    pub connections: u64,
    /// How long they run.
    pub extent: Extent,
    /// Rounds a second in all: an open loop. Without it, every client begins its next round after
    /// the last: a closed loop.
    pub rate: Option<f64>,
    /// The distribution of the rounds of an open loop.
    pub arrivals: Arrivals,
    /// The time over which clients start.
    pub ramp: Duration,
    /// How many clients may be active at once; `None`: all.
    pub at_once: Option<u64>,
    /// A client's pause after a round.
    pub think: Pause,
    /// How many commands a client has in flight at most.
    pub pipeline: usize,
    /// Steps of a client after connecting, and again after each reconnect.
    pub first: Vec<Step>,
    /// A round: all of them in order, or one of them by weight.
    pub steps: Vec<Step>,
    /// Steps before it leaves.
    pub last: Vec<Step>,
    /// Clients stay as they are until the scenario ends, in IDLE if that was their last step.
    pub hold: bool,
    /// It continues while the phases after it run, up to the first that is not alongside too.
    pub alongside: bool,
    /// Recipients of a delivery.
    pub recipients: usize,
    /// SMTP clients log in.
    pub auth: bool,
    /// Messages that a round reads or writes, if they are to be reported.
    pub messages: Option<u64>,
    /// Conditions that must hold at the end.
    pub bars: Vec<Bar>,
}

impl Phase {
    /// A setup phase that speaks IMAP and has no steps yet: one round for each client, all at once.
    pub fn bare(name: impl Into<String>, connections: u64) -> Self {
        Phase {
            name: name.into(),
            protocol: Protocol::Imap,
            setup: true,
            connections,
            extent: Extent::Each(1),
            rate: None,
            arrivals: Arrivals::Poisson,
            ramp: Duration::ZERO,
            at_once: None,
            think: Pause::NONE,
            pipeline: 1,
            first: Vec::new(),
            steps: Vec::new(),
            last: Vec::new(),
            hold: false,
            alongside: false,
            recipients: 1,
            auth: false,
            messages: None,
            bars: Vec::new(),
        }
    }
}

/// The extent of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// So many rounds of every client.
    Each(u64),
    /// So many rounds of all clients together.
    Total(u64),
    /// Rounds are begun for this time.
    Time(Duration),
}

/// How the rounds of an open loop are spread over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Independently of each other, like those of many users.
    Poisson,
    /// Evenly.
    Constant,
}

impl Phase {
    /// Whether a round is one step, drawn by weight.
    pub fn is_weighted(&self) -> bool {
        self.steps.iter().any(|step| step.weight.is_some())
    }

    /// All steps.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.first.iter().chain(&self.steps).chain(&self.last)
    }

    /// Whether it uses the bench's own mailboxes.
    pub fn has_mailboxes(&self) -> bool {
        self.actions().flat_map(Action::templates).any(|template| template.mailboxes() > 0)
    }

    /// All actions.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.all_steps().flat_map(|step| &step.actions)
    }
}

impl Scenario {
    /// Reads a scenario; `file` is its name in messages.
    ///
    /// # Errors
    /// All mistakes, a line each.
    pub fn parse(file: &str, text: &str, overrides: &Overrides) -> Result<Self, String> {
        read::scenario(file, text, overrides)
    }

    /// The protocols that it uses.
    pub fn protocols(&self) -> BTreeSet<Protocol> {
        self.phases.iter().map(|phase| phase.protocol).collect()
    }

    /// The most clients that are active at once.
    pub fn most_connections(&self) -> u64 {
        let (mut most, mut stay, mut alongside) = (0, 0, 0);
        for phase in &self.phases {
            let own = phase.at_once.map_or(phase.connections, |at_once| at_once.min(phase.connections));
            most = most.max(stay + alongside + own);
            match (phase.hold, phase.alongside) {
                (true, _) => stay += phase.connections,
                (_, true) => alongside += phase.connections,
                _ => alongside = 0,
            }
        }
        most
    }

    /// Whether it uses the bench's own mailboxes with `protocol`.
    pub fn has_mailboxes(&self, protocol: Protocol) -> bool {
        self.phases.iter().filter(|phase| phase.protocol == protocol).any(Phase::has_mailboxes)
    }

    /// Whether clients log in.
    pub fn logs_in(&self) -> bool {
        let always = [Protocol::Imap, Protocol::Jmap];
        self.phases.iter().any(|phase| always.contains(&phase.protocol) || phase.auth)
    }

    /// Names of the data sets that it sends.
    pub fn data(&self) -> BTreeSet<String> {
        self.phases.iter().flat_map(Phase::actions).filter_map(Action::data).map(str::to_owned).collect()
    }

    /// The changes outside the bench's own mailboxes, as text; empty if there are none.
    pub fn writes_elsewhere(&self) -> Vec<String> {
        safety::writes_elsewhere(self)
    }
}

#[cfg(test)]
mod tests;
