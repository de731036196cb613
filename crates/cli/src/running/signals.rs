//! The signals that a server listens to, on a thread with a small runtime of its own.
//!
//! If the workers of the server's runtime are all busy for ever, no task there would see a signal,
//! or notice that the time to stop is over. This thread does, and ends the process: acknowledged
//! data is safe.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::{exit, log};

/// What the process may take beyond its grace time, to end what has no timeout of its own.
const BEYOND_GRACE: Duration = Duration::from_secs(2);

/// Signals that came. Made before the server says that it is ready, so that none is missed.
pub struct Signals {
    stop: watch::Receiver<bool>,
    hang_up: watch::Receiver<()>,
    ends: watch::Sender<bool>,
}

/// What a signal asks the server to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// SIGTERM, SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

/// What the thread waits for.
struct Caught {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// From now on these signals no longer end the process by themselves. After the first one that
    /// stops, the process ends within `grace` and a moment in any case.
    ///
    /// # Errors
    /// If the system does not let them be caught.
    pub fn listen(grace: Duration) -> Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let caught = {
            // The caller may be a task of another runtime, in which `block_on` panics.
            let _entered = runtime.enter();
            Caught::new()?
        };
        let (stops, stop) = watch::channel(false);
        let (hangs_up, hang_up) = watch::channel(());
        let (ends, end) = watch::channel(false);
        std::thread::Builder::new()
            .name("sealpost-signals".into())
            .spawn(move || runtime.block_on(caught.pass_on(stops, hangs_up, end, grace)))
            .context("no thread for signals")?;
        Ok(Signals { stop, hang_up, ends })
    }

    /// Waits for the next. Cancel-safe.
    pub async fn next(&mut self) -> Action {
        tokio::select! {
            Ok(_) = self.stop.wait_for(|stop| *stop) => Action::Stop,
            Ok(()) = self.hang_up.changed() => Action::Reload,
            // The thread lives as long as the process.
            else => std::future::pending().await,
        }
    }

    /// The process stops, whether a signal said so or not: its grace time begins.
    pub fn begin_end(&self) {
        self.ends.send_replace(true);
    }
}

impl Caught {
    fn new() -> Result<Self> {
        let on = |kind| signal(kind).context("cannot listen to signals");
        Ok(Caught {
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
            hang_up: on(SignalKind::hangup())?,
        })
    }

    async fn pass_on(
        mut self,
        stop: watch::Sender<bool>,
        hang_up: watch::Sender<()>,
        mut end: watch::Receiver<bool>,
        grace: Duration,
    ) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => break,
                _ = self.interrupt.recv() => break,
                _ = self.hang_up.recv() => drop(hang_up.send(())),
                Ok(()) = end.changed() => break,
            }
        }
        stop.send_replace(true);
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = sleep(grace + BEYOND_GRACE) => tracing::error!("the server did not stop in time; exiting now"),
        }
        log::finish();
        std::process::exit(i32::from(exit::FAILED));
    }
}
