//! [`TouchedSet`]: mails that entries were about, for the runner, which looks at each again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::MailId;
use crate::event::{Batch, Event};

/// Mails that are noted one by one; with more, all are looked at.
const MAILS: usize = 100_000;

/// What was touched since the last time.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// All mails are to be looked at.
    pub(crate) all: bool,
    /// These are.
    pub(crate) mails: Vec<MailId>,
}

/// Collects it, once there is a runner.
#[derive(Default)]
pub(crate) struct TouchedSet {
    is_watched: AtomicBool,
    touched: Mutex<Touched>,
}

impl TouchedSet {
    /// From now on it is collected.
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

/// The mail that an event changes, so that something else may be due.
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
