//! Files and directories on this machine's disk, for every part that has some: whom a new one belongs to, and errors that
//! name the file, what keeps the process from it, and its owner.
//!
//! Nothing here knows what is in a file.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod owner;
