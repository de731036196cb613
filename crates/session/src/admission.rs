//! The limits of connections: their number, in total and per address, and their memory.
//!
//! A connection is charged its worst case before it acquires memory from the budget
//! ([`limits::CONNECTION_BYTES`], and [`limits::TLS_BYTES`] more for TLS), so that all of them together fit
//! into their part of the memory. A session that waits for its client takes much less: it *rests*
//! ([`Admitted::rest`]), and is charged only what it keeps. Before it reads bytes from its client, or reports
//! to it, it *stirs* ([`Admitted::stir`]): it is charged the worst case again, and waits if others have the
//! memory. A connection beyond the limits gets a temporary error before anything is allocated for it.
//!
//! Silent clients cannot occupy all connections. A connection is a *stranger* until it has logged in or named
//! a recipient. If memory is short, the oldest stranger is closed for a connection that arrives or stirs. So
//! thousands of half-open handshakes cost an honest client nothing, as long as it logs in faster than they
//! arrive. TLS handshakes in progress cost more than waiting connections, and have a lower limit by the same
//! rule ([`handshakes`]).
//!
//! One account, or one sender of mail, cannot occupy all of them either. A holder of connections gets another
//! one, or stirs another one, only while the free memory is at least as much as its own ([`counts`]). Alone
//! it has half, two such holders have a third each, and others always have as much as the greediest. Its
//! further connections wait for each other.
//!
//! When users need more than is free, accounts lend some of theirs ([`Admission::with_loan`]): while users
//! rest, their accounts need not be loaded. No more is lent than users hold. If an account then waits for
//! memory, strangers are closed to return it.

mod counts;
mod handshakes;

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll};

use sealpost_account::{Accounts, Borrower};
use sealpost_auth::throttle::Network;
use sealpost_base::{AccountId, limits};
use tokio::sync::Notify;

pub use self::handshakes::Handshake;

use self::counts::{Counts, Entry, Holder, Lender};
use self::handshakes::Handshakes;
use crate::settings::Connections;

/// Strangers are closed for others only when they are more than all connections divided by this. Fewer would
/// only replace each other.
const STRANGERS_SHARE: usize = 16;
/// Connections that a holder may have and stir, however many others have.
const LEAST_HELD: usize = 8;
/// The fraction of the connections' memory for handshakes, as a divisor.
const HANDSHAKES_SHARE: usize = 8;
/// Concurrent handshakes that are possible with any memory.
const LEAST_HANDSHAKES: usize = 8;

/// Counts connections of all listeners. Clones share the counts.
#[derive(Clone)]
pub struct Admission(Arc<Shared>);

struct Shared {
    limits: Connections,
    counts: Mutex<Counts>,
    handshakes: Handshakes,
}

/// There is no memory for a connection, and it must not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMemory;

/// Assigns a connection to an account while another task owns it ([`Admitted::handle`]). It has no effect
/// once the connection has ended.
#[derive(Clone)]
pub struct AdmittedHandle {
    admission: Admission,
    number: u64,
}

/// A counted connection; dropping it ends that.
pub struct Admitted {
    admission: Admission,
    network: Option<Network>,
    number: u64,
    /// Its charge unless it rests.
    most: usize,
    rests: bool,
    leave: Arc<Notify>,
}

impl Admission {
    /// Without connections; all connections together may cost `bytes`.
    pub fn new(limits: Connections, bytes: usize) -> Self {
        Self::over(limits, bytes, None)
    }

    /// As [`Admission::new`], with a loan from `accounts` of up to `most` bytes when users have taken all
    /// memory.
    pub fn with_loan(limits: Connections, bytes: usize, accounts: Accounts, most: usize) -> Self {
        let admission = Self::over(limits, bytes, Some(Lender::new(accounts.clone(), most)));
        let shared: Weak<Shared> = Arc::downgrade(&admission.0);
        accounts.set_borrower(shared);
        admission
    }

    fn over(limits: Connections, bytes: usize, lender: Option<Lender>) -> Self {
        let handshakes = (bytes / HANDSHAKES_SHARE / limits::TLS_HANDSHAKE_BYTES).max(LEAST_HANDSHAKES);
        let counts = Mutex::new(Counts::new(bytes, lender));
        Admission(Arc::new(Shared { limits, counts, handshakes: Handshakes::new(handshakes) }))
    }

    /// Counts a connection from `peer` (`None`: a Unix socket, which counts only in the total). `None` if it
    /// exceeds a limit. It does not rest.
    pub fn admit(&self, peer: Option<IpAddr>) -> Option<Admitted> {
        let network = peer.map(Network::of);
        let mut counts = self.lock();
        let here = network.and_then(|network| counts.networks.get(&network).copied()).unwrap_or_default();
        if network.is_some() && here >= self.0.limits.per_address {
            return None;
        }
        let bytes = limits::CONNECTION_BYTES;
        if counts.connections.len() >= self.0.limits.total && !counts.send_strangers_away(1, None) {
            return None;
        }
        let missing = counts.missing_to_come(bytes);
        if missing > 0 && !counts.send_strangers_away(missing, None) && !counts.borrow(missing) {
            return None;
        }
        if let Some(network) = network {
            counts.networks.insert(network, here + 1);
        }
        counts.bytes += bytes;
        counts.next += 1;
        let (number, leave) = (counts.next, Arc::new(Notify::new()));
        counts.strangers.insert(number, leave.clone());
        counts.connections.insert(number, Entry { bytes, holder: None, waits: false });
        Some(Admitted { admission: self.clone(), network, number, most: bytes, rests: false, leave })
    }

    /// The number of connections.
    pub fn total(&self) -> usize {
        self.lock().connections.len()
    }

    /// Their charge, in bytes.
    pub fn charged(&self) -> usize {
        self.lock().bytes
    }

    /// The number of resting IMAP sessions that fit, without TLS and with the maximum loan.
    pub fn places(&self) -> usize {
        self.0.limits.total.min(self.lock().room_at_most() / limits::RESTING_BYTES)
    }

    /// The number that fits with TLS.
    pub fn places_with_tls(&self) -> usize {
        let each = limits::RESTING_BYTES + limits::RESTING_TLS_BYTES;
        self.0.limits.total.min(self.lock().room_at_most() / each)
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Borrower for Shared {
    fn repay(&self, bytes: usize) {
        self.lock().repay(bytes);
    }
}

impl Admitted {
    /// Assigns the connection to an account after a login: it is no longer closed for others. False if the
    /// account has too many.
    pub fn logged_in(&self, account: AccountId) -> bool {
        self.handle().logged_in(account)
    }

    /// Notes that it brings mail for an account: it is no longer closed for others, unless too many do.
    pub fn sends(&self) {
        self.handle().held_by(Holder::Senders);
    }

    /// A handle for tasks that do not own it.
    pub fn handle(&self) -> AdmittedHandle {
        AdmittedHandle { admission: self.admission.clone(), number: self.number }
    }

    /// Charges it for TLS; false if there is no memory for that. It does not rest.
    pub fn speaks_tls(&mut self) -> bool {
        self.takes_up_to(limits::CONNECTION_BYTES + limits::TLS_BYTES)
    }

    /// Charges it `bytes` more for its protocol; false if there is no memory for that. It does not rest.
    pub fn holds_more(&mut self, bytes: usize) -> bool {
        self.takes_up_to(self.most.saturating_add(bytes))
    }

    fn takes_up_to(&mut self, most: usize) -> bool {
        let mut counts = self.admission.lock();
        let before = counts.connections.get(&self.number).map_or(0, |entry| entry.bytes);
        let missing = counts.missing_to_come(most - before.min(most));
        if missing > 0 && !counts.send_strangers_away(missing, Some(self.number)) && !counts.borrow(missing) {
            return false;
        }
        counts.charge(self.number, most);
        (self.most, self.rests) = (most, false);
        true
    }

    /// Marks it as waiting for its client, with no more than `bytes` beside those of TLS. That is its charge
    /// until it stirs, at most the charge without resting.
    pub fn rest(&mut self, bytes: usize) {
        let tls = if self.most > limits::CONNECTION_BYTES { limits::RESTING_TLS_BYTES } else { 0 };
        let mut counts = self.admission.lock();
        counts.charge(self.number, self.most.min(bytes.saturating_add(tls)));
        counts.give_back();
        counts.wake_next();
        self.rests = true;
    }

    /// Whether it rests.
    pub fn rests(&self) -> bool {
        self.rests
    }

    /// Charges it the worst case again, before it reads or sends. Waits while others have the memory, or
    /// while its holder has more than is free for others. Cancel-safe.
    ///
    /// # Errors
    /// If it is a stranger, and no other stranger may be closed for it.
    pub async fn stir(&mut self) -> Result<(), NoMemory> {
        let stirring = Stirring(self);
        poll_fn(|cx| stirring.poll(cx)).await?;
        stirring.0.rests = false;
        Ok(())
    }

    /// Whether others wait for memory that it holds: of its own holder, or of a holder with less.
    pub fn is_wanted(&self) -> bool {
        !self.rests && self.admission.lock().is_wanted(self.number)
    }

    /// Admits its TLS handshake.
    pub fn handshake(&self) -> Handshake {
        self.admission.0.handshakes.enter()
    }

    /// Notified when it must be closed for another connection.
    pub fn leave(&self) -> Arc<Notify> {
        self.leave.clone()
    }
}

impl AdmittedHandle {
    /// As [`Admitted::logged_in`].
    pub fn logged_in(&self, account: AccountId) -> bool {
        self.held_by(Holder::Account(account))
    }

    fn held_by(&self, holder: Holder) -> bool {
        let total = self.admission.0.limits.total;
        let mut counts = self.admission.lock();
        let Some(entry) = counts.connections.get(&self.number) else { return false };
        let (before, bytes) = (entry.holder, entry.bytes);
        if before == Some(holder) {
            return true;
        }
        let connections = counts.holders.get(&holder).map_or(0, |held| held.connections) + 1;
        let others = counts.held.connections + 1;
        let may = connections <= LEAST_HELD
            || connections <= total.saturating_sub(others) && !counts.stays_greedy(holder, bytes);
        if !may {
            return false;
        }
        counts.let_go(self.number);
        counts.give(self.number, holder);
        counts.strangers.remove(&self.number);
        counts.borrow_for_users();
        true
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.admission.lock();
        counts.let_go(self.number);
        counts.strangers.remove(&self.number);
        if let Some(entry) = counts.connections.remove(&self.number) {
            counts.bytes -= entry.bytes;
        }
        if let Some(network) = self.network
            && let Some(here) = counts.networks.get_mut(&network)
        {
            *here -= 1;
            if *here == 0 {
                counts.networks.remove(&network);
            }
        }
        counts.give_back();
        counts.wake_next();
    }
}

/// A connection that stirs, and may wait for memory; dropping it ends that.
struct Stirring<'a>(&'a mut Admitted);

impl Stirring<'_> {
    fn poll(&self, cx: &Context<'_>) -> Poll<Result<(), NoMemory>> {
        let Admitted { admission, number, most, rests, .. } = &*self.0;
        if !rests {
            return Poll::Ready(Ok(()));
        }
        let mut counts = admission.lock();
        let Some(entry) = counts.connections.get(number) else { return Poll::Ready(Err(NoMemory)) };
        let (more, holder) = (most.saturating_sub(entry.bytes), entry.holder);
        // Those that came before are ahead.
        let is_next = counts.next_waiting().is_none_or(|next| next == *number);
        let may = is_next && holder.is_none_or(|holder| counts.may_stir_with_loan(holder, more));
        let missing = counts.missing_to_stir(more);
        let is_there = may
            && (missing == 0
                || holder.is_some() && counts.borrow(missing)
                || counts.send_strangers_away(missing, Some(*number)));
        if is_there {
            counts.leave_queue(*number);
            counts.charge(*number, *most);
            counts.wake_next();
            return Poll::Ready(Ok(()));
        }
        let Some(holder) = holder else { return Poll::Ready(Err(NoMemory)) };
        counts.join_queue(*number, holder, cx.waker());
        Poll::Pending
    }
}

impl Drop for Stirring<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.admission.lock();
        if counts.connections.get(&self.0.number).is_some_and(|entry| entry.waits) {
            counts.leave_queue(self.0.number);
            counts.wake_next();
        }
    }
}

#[cfg(test)]
mod tests;
