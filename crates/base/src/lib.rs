//! Foundations of all other crates: ids, clock, randomness, the memory budget, limits and error kinds.
//!
//! No I/O and no runtime. Time and randomness are traits, so that tests and simulations control them. Only
//! this crate implements the real ones (`clippy.toml` bans them elsewhere).

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod budget;
pub mod calendar;
pub mod clock;
pub mod counted;
pub mod cross_protocol;
pub mod error;
pub mod ids;
pub mod limits;
pub mod memory;
pub mod metrics;
pub mod random;
pub mod suggest;
pub mod uid_set;

pub use budget::{Budget, Permit};
pub use clock::{Clock, FakeClock, SystemClock, Timestamp};
pub use counted::counted;
pub use error::{Error, Kind, Result};
pub use ids::{AccountId, IdentityId, MailboxId, ModSeq, ObjectId, Position, SubmissionId, Uid, UidValidity};
pub use memory::MemoryDivision;
pub use random::{Random, SeededRandom, SystemRandom};
pub use uid_set::UidSet;
