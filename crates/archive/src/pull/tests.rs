//! The engine against servers that misbehave, each written down line by line, with a copy in memory.

mod formats;
mod memory;
mod server;
mod whole;
