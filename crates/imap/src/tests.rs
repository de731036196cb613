//! Proof of the codec: known answers both ways, round trips, and imap-codec as a judge.

mod known_commands;
mod known_responses;
mod oracle;
mod round_trip;
mod strategy;
mod values;
mod wrong_commands;
