//! Ctrl-C and SIGTERM: what is complete is committed, then the command ends. A second one ends it
//! at once; what was committed is there in either case.

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::output::warn;

/// Becomes true at the first signal.
///
/// # Errors
/// If the system does not let them be caught.
pub fn on_signals() -> Result<watch::Receiver<bool>> {
    let on = |kind| signal(kind).context("cannot listen to signals");
    let (mut interrupt, mut terminate) = (on(SignalKind::interrupt())?, on(SignalKind::terminate())?);
    let (stop, watched) = watch::channel(false);
    tokio::spawn(async move {
        let mut first = true;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if !first {
                crate::log::finish();
                std::process::exit(i32::from(crate::exit::TEMPORARY));
            }
            first = false;
            warn("sealpost: stopping after a commit of all complete messages");
            stop.send_replace(true);
        }
    });
    Ok(watched)
}
