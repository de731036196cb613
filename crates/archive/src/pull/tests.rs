//! The engine against misbehaving servers, each scripted line by line, with a backup in memory.

pub(crate) mod copies;
mod formats;
mod helping;
mod hostile;
pub(crate) mod memory;
mod nul;
mod others;
mod ownership;
pub(crate) mod pulled;
mod restored;
pub(crate) mod server;
mod stand_ins;
mod touched;
mod unreached;
mod whole;
mod words;
