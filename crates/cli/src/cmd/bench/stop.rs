//! Ctrl-C, SIGTERM and a closed terminal: the run ends in order, and the results so far are shown.
//! A second signal ends this process at once, and with it the server it started, which gets no
//! signals of a terminal.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::output::warn;

/// The exit status after a second signal, as shells have it.
const INTERRUPTED: i32 = 130;

/// What must not outlive this process.
#[derive(Debug, Clone)]
pub struct Started {
    /// Its processes' group.
    pub group: Pid,
    /// The directory of its data, if that is removed with it.
    pub dir: Option<PathBuf>,
}

/// Listens to signals for as long as the process lives.
pub struct Stop {
    stopped: watch::Receiver<bool>,
    started: Arc<Mutex<Option<Started>>>,
}

impl Stop {
    /// From now on; a run ends within `timeout`.
    ///
    /// # Errors
    /// If the system does not let signals be caught.
    pub fn on_signals(timeout: Duration) -> Result<Self> {
        let on = |kind| signal(kind).context("cannot listen to signals");
        let (mut interrupt, mut terminate) = (on(SignalKind::interrupt())?, on(SignalKind::terminate())?);
        let mut hang_up = on(SignalKind::hangup())?;
        let (stop, stopped) = watch::channel(false);
        let started: Arc<Mutex<Option<Started>>> = Arc::default();
        let ends_too = started.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hang_up.recv() => {}
                }
                if stop.send_replace(true) {
                    end_at_once(ends_too.lock().unwrap_or_else(PoisonError::into_inner).take());
                }
                warn(format_args!(
                    "stopping within {} s (--timeout); press Ctrl-C again to exit at once",
                    timeout.as_secs_f64()
                ));
            }
        });
        Ok(Stop { stopped, started })
    }

    /// Becomes true with the first signal.
    pub fn stopped(&self) -> watch::Receiver<bool> {
        self.stopped.clone()
    }

    /// A second signal ends this too.
    pub fn ends_too(&self, started: Option<Started>) {
        *self.started.lock().unwrap_or_else(PoisonError::into_inner) = started;
    }

    /// What comes of `work`, if no signal comes first.
    ///
    /// # Errors
    /// Its own, or that a signal came.
    pub async fn unless<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut stopped = self.stopped();
        tokio::select! {
            done = work => done,
            Ok(_) = stopped.wait_for(|stopped| *stopped) => bail!("stopped before anything was measured"),
        }
    }
}

fn end_at_once(started: Option<Started>) {
    if let Some(started) = started {
        let _ = kill_process_group(started.group, Signal::KILL);
        if let Some(dir) = started.dir {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
    std::process::exit(INTERRUPTED);
}
