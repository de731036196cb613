//! Clients that wait in IDLE for a delivery, and how long the notification took.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

/// Deliveries that clients in IDLE wait for, by account.
#[derive(Debug, Default)]
pub struct Notices(Mutex<HashMap<usize, Account>>);

#[derive(Debug, Default)]
struct Account {
    /// Clients in IDLE.
    waiting: usize,
    /// Deliveries that some clients have not been notified of, oldest first.
    due: VecDeque<Due>,
    /// How many deliveries there were.
    count: u64,
}

#[derive(Debug)]
struct Due {
    id: u64,
    sent: Duration,
    /// Clients that were not notified yet.
    left: usize,
    notified: Arc<Notify>,
}

/// A delivery in progress.
#[derive(Debug)]
pub struct Announced {
    account: usize,
    id: u64,
    notified: Arc<Notify>,
}

impl Announced {
    /// Returns when all clients that were in IDLE were notified.
    pub async fn notified(&self) {
        self.notified.notified().await;
    }
}

impl Notices {
    /// A client of `account` is in IDLE from now on. Returns the first `next` for
    /// [`Notices::notified`].
    pub fn enter(&self, account: usize) -> u64 {
        let mut accounts = self.lock();
        let account = accounts.entry(account).or_default();
        account.waiting += 1;
        account.count
    }

    /// It left IDLE; `next` is its next delivery without a notification.
    pub fn leave(&self, account: usize, next: u64) {
        let mut accounts = self.lock();
        let Some(account) = accounts.get_mut(&account) else { return };
        account.waiting = account.waiting.saturating_sub(1);
        account.due.iter_mut().filter(|due| due.id >= next).for_each(Due::one_less);
        account.due.retain(|due| due.left > 0);
    }

    /// A delivery to `account` is completely sent now. `None` if no client waits for it.
    pub fn announce(&self, account: usize, now: Duration) -> Option<Announced> {
        let mut accounts = self.lock();
        let of = accounts.get_mut(&account).filter(|of| of.waiting > 0)?;
        let (id, notified) = (of.count, Arc::new(Notify::new()));
        of.count += 1;
        of.due.push_back(Due { id, sent: now, left: of.waiting, notified: notified.clone() });
        Some(Announced { account, id, notified })
    }

    /// It was rejected, or not all clients were notified in time: ends the wait. Returns how many
    /// were not notified.
    pub fn retract(&self, announced: &Announced) -> usize {
        let mut accounts = self.lock();
        let Some(account) = accounts.get_mut(&announced.account) else { return 0 };
        let left = account.due.iter().find(|due| due.id == announced.id).map_or(0, |due| due.left);
        account.due.retain(|due| due.id != announced.id);
        left
    }

    /// A client in IDLE was notified of one more message: returns when it was sent, if known.
    pub fn notified(&self, account: usize, next: &mut u64) -> Option<Duration> {
        let mut accounts = self.lock();
        let account = accounts.get_mut(&account)?;
        let due = account.due.iter_mut().find(|due| due.id >= *next)?;
        *next = due.id + 1;
        let sent = due.sent;
        due.one_less();
        account.due.retain(|due| due.left > 0);
        Some(sent)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<usize, Account>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Due {
    fn one_less(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.notified.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test]
    async fn each_idle_client_is_notified_once_per_delivery() {
        let notices = Notices::default();
        assert!(notices.announce(3, ms(1)).is_none(), "no client waits");
        let (mut a, mut b) = (notices.enter(3), notices.enter(3));
        let first = notices.announce(3, ms(10)).unwrap();
        let second = notices.announce(3, ms(20)).unwrap();
        assert_eq!(notices.notified(3, &mut a), Some(ms(10)));
        assert_eq!(notices.notified(3, &mut b), Some(ms(10)));
        first.notified().await;
        assert_eq!(notices.notified(3, &mut a), Some(ms(20)));
        assert_eq!(notices.notified(3, &mut a), None, "a message from elsewhere");
        notices.leave(3, b);
        second.notified().await;
        assert_eq!(notices.retract(&second), 0);
    }

    #[test]
    fn later_idle_clients_get_no_earlier_deliveries() {
        let notices = Notices::default();
        let mut early = notices.enter(1);
        let announced = notices.announce(1, ms(5)).unwrap();
        let mut late = notices.enter(1);
        assert_eq!(notices.notified(1, &mut late), None);
        assert_eq!(notices.retract(&announced), 1);
        assert_eq!(notices.notified(1, &mut early), None, "it was retracted");
    }
}
