//! [`TouchedSet`]: the mails that recent entries changed. The runner checks each of them again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::MailId;
use crate::event::{Batch, Event};

/// Mails in the set; beyond it the runner checks all mails.
const MAILS: usize = 100_000;

/// The mails that changed since the last check.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Whether to check all mails.
    pub(crate) all: bool,
    /// The mails to check.
    pub(crate) mails: Vec<MailId>,
}

/// Collects them, once there is a runner.
#[derive(Default)]
pub(crate) struct TouchedSet {
    is_watched: AtomicBool,
    touched: Mutex<Touched>,
}

impl TouchedSet {
    /// Starts collecting.
    pub(crate) fn watch(&self) {
        self.is_watched.store(true, Ordering::Release);
    }

    pub(crate) fn take(&self) -> Touched {
        std::mem::take(&mut *self.touched.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn note(&self, batch: &Batch) {
        if !self.is_watched.load(Ordering::Acquire) {
            return;
        }
        let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        for event in &batch.events {
            touched.all |= matches!(event, Event::RuleRemoved(_) | Event::AllReleased);
            touched.mails.extend(mail_of(event));
        }
        if touched.mails.len() > MAILS {
            *touched = Touched { all: true, mails: std::mem::take(&mut touched.mails) };
        }
    }
}

/// The mail that an event changes. Its due time may be another one then.
pub(super) fn mail_of(event: &Event) -> Option<MailId> {
    match event {
        Event::Attempted(attempted) => Some(attempted.mail),
        Event::Held(held) => Some(held.mail),
        Event::DelayReported(mail)
        | Event::Released(mail)
        | Event::Retried(mail)
        | Event::Removed(mail)
        | Event::Canceled(mail) => Some(*mail),
        _ => None,
    }
}
