//! A server that runs until it is told to stop.
//!
//! SIGTERM or SIGINT: every session says goodbye (BYE, 421) and the process ends within the `timeouts.stop` of the
//! configuration. A second one: it ends at once; what was acknowledged is safe in either case. SIGHUP: a changed
//! certificate is loaded.

use std::process::ExitCode;

use anyhow::{Context, Result};
use sealpost_server::Server;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit;

/// The signals a server listens to. Made before it says that it is ready, so that none is missed.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// From now on these signals no longer end the process by themselves.
    ///
    /// # Errors
    /// If the system does not let them be caught.
    pub fn listen() -> Result<Self> {
        let on = |kind| signal(kind).context("cannot listen to signals");
        Ok(Signals {
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
            hang_up: on(SignalKind::hangup())?,
        })
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Serves until a signal says stop, then stops.
pub async fn until_stopped(server: Server, mut signals: Signals) -> ExitCode {
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => break,
            _ = signals.interrupt.recv() => break,
            _ = signals.hang_up.recv() => reload(&server).await,
        }
    }
    tracing::info!("stopping");
    let grace = server.context().settings.timeouts.stop;
    tokio::select! {
        cut_off = server.stop(grace) => {
            if cut_off > 0 {
                tracing::warn!(sessions = cut_off, "sessions that did not end in time were cut off");
            }
            ExitCode::SUCCESS
        }
        () = signals.stop() => ExitCode::from(exit::FAILED),
    }
}

async fn reload(server: &Server) {
    match server.reload().await {
        Ok(true) => tracing::info!("the certificate was replaced"),
        Ok(false) => tracing::info!("the certificate has not changed"),
        Err(e) => tracing::warn!(error = %e, "the certificate cannot be used; the old one stays"),
    }
}
