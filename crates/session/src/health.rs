//! Whether the server is alive: every accept loop responds to a health check between two connections.
//!
//! A response proves that the runtime runs tasks, that its timers and sockets work, and that the loop is
//! neither stuck nor ended. `/healthz` and the watchdog of the service manager use it. It covers no store: a
//! server that cannot reach its store gives temporary errors, and no restart helps.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// The accept loops of a server, and their health.
pub struct Health {
    /// Counts the health checks of all loops.
    asked: watch::Sender<u64>,
    loops: Mutex<Vec<Loop>>,
    lost: watch::Sender<Option<&'static str>>,
}

/// An accept loop as the health check sees it.
#[derive(Clone)]
struct Loop {
    protocol: &'static str,
    answered: watch::Receiver<u64>,
}

/// An accept loop's side: dropped when the loop ends.
pub struct Heartbeat {
    protocol: &'static str,
    asked: watch::Receiver<u64>,
    answered: watch::Sender<u64>,
    lost: watch::Sender<Option<&'static str>>,
}

/// The failure of a health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unhealthy {
    /// The accept loop of this protocol does not respond.
    Stuck(&'static str),
    /// The accept loop of this protocol has ended.
    Lost(&'static str),
}

impl Default for Health {
    fn default() -> Self {
        Health { asked: watch::Sender::new(0), loops: Mutex::default(), lost: watch::Sender::new(None) }
    }
}

impl Health {
    /// Registers an accept loop.
    pub fn heartbeat(&self, protocol: &'static str) -> Heartbeat {
        let (answered, answers) = watch::channel(*self.asked.borrow());
        let seen = Loop { protocol, answered: answers };
        self.loops.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        Heartbeat { protocol, asked: self.asked.subscribe(), answered, lost: self.lost.clone() }
    }

    /// Checks all accept loops.
    ///
    /// # Errors
    /// The first that does not respond within `within`.
    pub async fn check(&self, within: Duration) -> Result<(), Unhealthy> {
        let mut asked = 0;
        self.asked.send_modify(|count| {
            *count += 1;
            asked = *count;
        });
        let loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let answers = loops.into_iter().map(|mut one| async move {
            match tokio::time::timeout(within, one.answered.wait_for(|answered| *answered >= asked)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(_)) => Err(Unhealthy::Lost(one.protocol)),
                Err(_) => Err(Unhealthy::Stuck(one.protocol)),
            }
        });
        futures::future::try_join_all(answers).await.map(drop)
    }

    /// Waits until an accept loop ends although the server runs, and returns its protocol. The only remedy is
    /// a restart: no loop accepts its connections any more.
    pub async fn lost(&self) -> &'static str {
        let mut lost = self.lost.subscribe();
        // The sender lives as long as `self`, so this completes only when a loop is lost.
        lost.wait_for(Option::is_some).await.ok().and_then(|lost| *lost).unwrap_or_default()
    }
}

impl Heartbeat {
    /// Waits for the next health check. Cancel-safe.
    pub async fn asked(&mut self) {
        if self.asked.changed().await.is_err() {
            // There are no more health checks.
            std::future::pending::<()>().await;
        }
    }

    /// Responds that the loop is alive.
    pub fn answer(&mut self) {
        self.answered.send_replace(*self.asked.borrow_and_update());
    }

    /// Notes that the loop ends although the server runs.
    pub fn lose(&self) {
        self.lost.send_replace(Some(self.protocol));
    }
}

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unhealthy::Stuck(protocol) => write!(f, "the accept loop of {protocol} does not answer"),
            Unhealthy::Lost(protocol) => write!(f, "the listener of {protocol} is lost"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn beat(mut heartbeat: Heartbeat) {
        loop {
            heartbeat.asked().await;
            heartbeat.answer();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_is_stuck_or_gone_is_found() {
        let (health, within) = (Health::default(), Duration::from_secs(1));
        assert_eq!(health.check(within).await, Ok(()), "nothing listens, so nothing is wrong");
        let imap = tokio::spawn(beat(health.heartbeat("imap")));
        let stuck = health.heartbeat("smtp");
        assert_eq!(health.check(within).await, Err(Unhealthy::Stuck("smtp")));
        let smtp = tokio::spawn(beat(stuck));
        assert_eq!(health.check(within).await, Ok(()));
        assert_eq!(health.check(within).await, Ok(()), "again");
        imap.abort();
        assert_eq!(health.check(within).await, Err(Unhealthy::Lost("imap")));
        smtp.abort();
    }

    #[tokio::test]
    async fn waiters_learn_of_a_lost_listener() {
        let health = Health::default();
        let heartbeat = health.heartbeat("lmtp");
        let mut waits = Box::pin(health.lost());
        assert!(futures::poll!(&mut waits).is_pending());
        heartbeat.lose();
        assert_eq!((waits.await, health.lost().await), ("lmtp", "lmtp"));
    }
}
