//! A client that writes into a mailbox while another one reads it.

use std::time::Duration;

use anyhow::{Result, ensure};
use sealpost_base::{Clock, SeededRandom, SystemClock};
use sealpost_bench::load::data::DataSet;

use super::{ASIDE, NAME};
use crate::imap::Imap;

/// Flags a message, delivers one and files one away, `rate` times a second, until it is dropped.
/// The mailbox keeps its size.
///
/// # Errors
/// If the server refuses, or the connection is lost.
pub async fn write(session: &mut Imap, messages: u64, rate: f64, data: &DataSet) -> Result<()> {
    let clock = SystemClock::new();
    let random = SeededRandom::new(17);
    let (began, pause) = (clock.monotonic(), Duration::from_secs_f64(1.0 / rate));
    for round in 0u32.. {
        let due = began + pause * round;
        tokio::time::sleep(due.saturating_sub(clock.monotonic())).await;
        let any = || 1 + random.below(messages);
        session.ok(&format!("STORE {} +FLAGS.SILENT (\\Flagged)", any())).await?;
        let nth = messages + u64::from(round);
        let appended = session.append(NAME, "\\Seen", &data.message(nth)).await?;
        ensure!(appended.is_ok(), "APPEND: {}", appended.status);
        session.ok(&format!("MOVE {} {ASIDE}", any())).await?;
    }
    Ok(())
}
