//! The limits of connections: their number, in all and from each address, and their memory.
//!
//! A connection is charged its worst case before it acquires memory from the budget
//! ([`limits::CONNECTION_BYTES`], and [`limits::TLS_BYTES`] more while it speaks TLS), so that all
//! of them together fit into their part of the memory. A session that only waits for its client
//! takes much less: it *rests* ([`Admitted::rest`]), and is charged what it keeps. Before it reads
//! bytes of its client, or has something to report to it, it *stirs* ([`Admitted::stir`]): it is
//! charged the worst case again, and waits for that if others have the memory. A connection beyond
//! the limits gets a temporary error before anything is allocated for it.
//!
//! Silent clients cannot occupy connections. A connection is a *stranger* until it has logged in or
//! named a recipient; when there is no memory, the oldest stranger is closed for the connection
//! that arrives or stirs. So thousands of half-open handshakes cost an honest client nothing as
//! long as it is quicker than they are many. TLS handshakes under way, which cost more than
//! connections that wait, have a lower limit of their own ([`handshakes`]), by the same rule.
//!
//! One account, or one sender of mail, cannot occupy all of them either: a holder of connections
//! gets another one, or stirs another connection, only while the free memory is at least as much as
//! its own ([`counts`]). Alone it has half, two such have a third each, and others always have as
//! much as the greediest. Its connections beyond that wait for each other.
//!
//! When users have taken all of it, accounts lend some of their memory ([`Admission::with_loan`]):
//! while users rest, their accounts need not be loaded.

mod counts;
mod handshakes;

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use sealpost_account::Accounts;
use sealpost_auth::throttle::Network;
use sealpost_base::{AccountId, limits};
use tokio::sync::Notify;

pub use self::handshakes::Handshake;

use self::counts::{Counts, Entry, Holder, Lender};
use self::handshakes::Handshakes;
use crate::settings::Connections;

/// Strangers are closed for others only when they are more than all connections divided by this.
/// The others would only replace each other.
const STRANGERS_SHARE: usize = 16;
/// Connections that a holder may have however many others have, and that may stir.
const LEAST_HELD: usize = 8;
/// The part of the connections' memory that handshakes may take.
const HANDSHAKES_SHARE: usize = 8;
/// Handshakes that are possible at once however little memory there is.
const LEAST_HANDSHAKES: usize = 8;

/// Counts connections of all listeners. Cloning shares the counts.
#[derive(Clone)]
pub struct Admission(Arc<Shared>);

struct Shared {
    limits: Connections,
    counts: Mutex<Counts>,
    handshakes: Handshakes,
}

/// There is no memory for a connection, and it is not for it to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMemory;

/// Assigns a connection to an account while another task owns it ([`Admitted::handle`]). It has no
/// effect once the connection has ended.
#[derive(Clone)]
pub struct AdmittedHandle {
    admission: Admission,
    number: u64,
}

/// One connection that is counted; dropping it ends that.
pub struct Admitted {
    admission: Admission,
    network: Option<Network>,
    number: u64,
    /// What it is charged unless it rests.
    most: usize,
    rests: bool,
    leave: Arc<Notify>,
}

impl Admission {
    /// No connections. All connections together may cost `bytes`.
    pub fn new(limits: Connections, bytes: usize) -> Self {
        Self::over(limits, bytes, None)
    }

    /// The same, to which `accounts` lend up to `most` bytes of their memory when users have taken all.
    pub fn with_loan(limits: Connections, bytes: usize, accounts: Accounts, most: usize) -> Self {
        Self::over(limits, bytes, Some(Lender::new(accounts, most)))
    }

    fn over(limits: Connections, bytes: usize, lender: Option<Lender>) -> Self {
        let handshakes = (bytes / HANDSHAKES_SHARE / limits::TLS_HANDSHAKE_BYTES).max(LEAST_HANDSHAKES);
        let counts = Mutex::new(Counts::new(bytes, lender));
        Admission(Arc::new(Shared { limits, counts, handshakes: Handshakes::new(handshakes) }))
    }

    /// Counts a connection from `peer` (`None`: a Unix socket, which counts in the total alone),
    /// unless that would be one too many. It does not rest.
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

    /// Connections counted now.
    pub fn total(&self) -> usize {
        self.lock().connections.len()
    }

    /// What they are charged now, in bytes.
    pub fn charged(&self) -> usize {
        self.lock().bytes
    }

    /// The number of resting IMAP sessions that fit, if none speaks TLS and accounts lend all they
    /// may.
    pub fn places(&self) -> usize {
        self.0.limits.total.min(self.lock().room_at_most() / limits::RESTING_BYTES)
    }

    /// The number that fits if all do.
    pub fn places_with_tls(&self) -> usize {
        let each = limits::RESTING_BYTES + limits::RESTING_TLS_BYTES;
        self.0.limits.total.min(self.lock().room_at_most() / each)
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Admitted {
    /// The client has logged in to that account: the connection is not closed for others any more.
    /// False if the account has too many already.
    pub fn logged_in(&self, account: AccountId) -> bool {
        self.handle().logged_in(account)
    }

    /// It brings mail for an account, and is not closed for others unless too many do.
    pub fn sends(&self) {
        self.handle().held_by(Holder::Senders);
    }

    /// For tasks that do not own it.
    pub fn handle(&self) -> AdmittedHandle {
        AdmittedHandle { admission: self.admission.clone(), number: self.number }
    }

    /// Charges it for TLS; false if there is no memory for that. It does not rest.
    pub fn speaks_tls(&mut self) -> bool {
        self.takes_up_to(limits::CONNECTION_BYTES + limits::TLS_BYTES)
    }

    /// Charges it `bytes` more, for the memory of its protocol; false if there is no memory for
    /// that. It does not rest.
    pub fn holds_more(&mut self, bytes: usize) -> bool {
        self.takes_up_to(self.most.saturating_add(bytes))
    }

    fn takes_up_to(&mut self, most: usize) -> bool {
        let mut counts = self.admission.lock();
        let before = counts.connections.get(&self.number).map_or(0, |entry| entry.bytes);
        let missing = counts.missing_to_come(most - before.min(most));
        if missing > 0 && !counts.borrow(missing) {
            return false;
        }
        counts.charge(self.number, most);
        (self.most, self.rests) = (most, false);
        true
    }

    /// It waits for its client, and keeps no more than `bytes` meanwhile beside what TLS does: it
    /// is charged that until it stirs, and never more than if it did not rest.
    pub fn rest(&mut self, bytes: usize) {
        let tls = if self.most > limits::CONNECTION_BYTES { limits::RESTING_TLS_BYTES } else { 0 };
        let mut counts = self.admission.lock();
        counts.charge(self.number, self.most.min(bytes.saturating_add(tls)));
        counts.give_back();
        counts.wake_next();
        self.rests = true;
    }

    /// Whether it is charged what it takes to rest.
    pub fn rests(&self) -> bool {
        self.rests
    }

    /// Charges it the worst again, before it reads something or has something to say. Waits for
    /// that while others have it, or while its holder has more than there is for others.
    /// Cancel-safe.
    ///
    /// # Errors
    /// If it is a stranger, and no other stranger may be closed for it.
    pub async fn stir(&mut self) -> Result<(), NoMemory> {
        let stirring = Stirring(self);
        poll_fn(|cx| stirring.poll(cx)).await?;
        stirring.0.rests = false;
        Ok(())
    }

    /// Whether others wait for memory to stir that it holds: of its own holder, or of one that has
    /// less than there is for it.
    pub fn is_wanted(&self) -> bool {
        !self.rests && self.admission.lock().is_wanted(self.number)
    }

    /// A place for its TLS handshake.
    pub fn handshake(&self) -> Handshake {
        self.admission.0.handshakes.enter()
    }

    /// Rings when it must be closed for another connection.
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
        let greedy = connections > total.saturating_sub(others) || counts.is_greedy(holder, bytes);
        if greedy && connections > LEAST_HELD {
            return false;
        }
        counts.let_go(self.number);
        counts.give(self.number, holder);
        counts.strangers.remove(&self.number);
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
        // Those that came before are in front.
        let is_next = counts.next_waiting().is_none_or(|next| next == *number);
        let may = is_next && holder.is_none_or(|holder| counts.may_stir(holder, more));
        let missing = counts.missing_to_stir(more);
        let is_there = may
            && (missing == 0
                || counts.send_strangers_away(missing, Some(*number))
                || holder.is_some() && counts.borrow(missing));
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
