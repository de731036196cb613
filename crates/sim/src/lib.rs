//! Seeded histories of several nodes on one store that delays, fails, loses replies, repeats
//! requests and shows writes late, with nodes that pause, die and have wrong clocks; and what must
//! hold whatever happens.
//!
//! A history is one world ([`world`]): a bucket ([`bucket`]), nodes ([`node`]) with accounts of
//! their own over it, and clients that note the replies they get ([`acknowledged`]). In the end the
//! one true log is found without the code under test, by walking back the hashes of everything that
//! was ever written, and replayed; every reply and every state shown must follow from it
//! ([`truth`]).
//! Time is virtual, everything is drawn from the seed: the same seed gives the same history.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod acknowledged;
pub mod bucket;
pub mod clients;
pub mod node;
pub mod plan;
pub mod truth;
pub mod world;

pub use plan::Plan;
pub use world::{Outcome, history};
