//! Stores that misbehave and inputs of fuzzing, for the tests of all crates above `base`: no
//! program depends on this.
//!
//! [`faulty`] wraps any object store and fails by a seeded plan. [`fake_s3`] is a server in memory
//! that speaks as much of S3 as the vault needs, and makes the faults that a test asks for.
//! [`corpus`] replays the corpus of fuzzing. [`web_push`] is a device that decrypts pushes.

pub mod corpus;
pub mod fake_s3;
pub mod faulty;
pub mod web_push;
