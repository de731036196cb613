//! The charges of connections and of their holders, and the connections that wait for memory to stir.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use sealpost_account::{Accounts, Loan};
use sealpost_auth::throttle::Network;
use sealpost_base::{AccountId, limits};
use tokio::sync::Notify;

use super::{LEAST_HELD, STRANGERS_SHARE};

/// The fraction of the connections' memory that new connections leave for those that stir.
const STIRRING_SHARE: usize = 32;
/// The step in which memory is borrowed, and the excess that is borrowed, in bytes.
const LOAN_STEP: usize = 1 << 20;
/// Holders with waiting connections that are examined to see whether others wait for a connection.
const LOOKED_AT: usize = 16;

/// The charges of all connections and of each holder.
pub(super) struct Counts {
    /// The memory of connections without loans, in bytes.
    own: usize,
    lender: Option<Lender>,
    /// The charge of all connections, in bytes.
    pub(super) bytes: usize,
    /// Has entries only for networks with connections, so the number of connections bounds it.
    pub(super) networks: HashMap<Network, usize>,
    pub(super) connections: HashMap<u64, Entry>,
    /// Handles that close strangers, the oldest first.
    pub(super) strangers: BTreeMap<u64, Arc<Notify>>,
    pub(super) holders: HashMap<Holder, Held>,
    /// Connections and charge of all holders.
    pub(super) held: Held,
    /// Connections that wait for memory to stir, by holder, in order of arrival.
    pub(super) waiting: HashMap<Holder, VecDeque<(u64, Waker)>>,
    /// The holders of these, the next one first.
    pub(super) turns: VecDeque<Holder>,
    pub(super) next: u64,
}

/// The record of a connection.
pub(super) struct Entry {
    /// Its charge, in bytes.
    pub(super) bytes: usize,
    /// Its holder; `None` for a stranger.
    pub(super) holder: Option<Holder>,
    /// Whether it is in the queue of its holder.
    pub(super) waits: bool,
}

/// The holders of connections that are no strangers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Holder {
    /// A logged-in user.
    Account(AccountId),
    /// All connections that have named a recipient.
    Senders,
}

/// A number of connections, and their charge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) connections: usize,
    pub(super) bytes: usize,
}

/// The source of loans, and the maximum loan.
pub(super) struct Lender {
    accounts: Accounts,
    most: usize,
    loan: Loan,
}

impl Lender {
    pub(super) fn new(accounts: Accounts, most: usize) -> Self {
        let loan = accounts.loan();
        Lender { accounts, most, loan }
    }
}

impl Counts {
    /// Without connections; `own` is their memory without loans, in bytes.
    pub(super) fn new(own: usize, lender: Option<Lender>) -> Self {
        Counts {
            own,
            lender,
            bytes: 0,
            networks: HashMap::new(),
            connections: HashMap::new(),
            strangers: BTreeMap::new(),
            holders: HashMap::new(),
            held: Held::default(),
            waiting: HashMap::new(),
            turns: VecDeque::new(),
            next: 0,
        }
    }

    /// Sets the charge of a connection.
    pub(super) fn charge(&mut self, number: u64, bytes: usize) {
        let Some(entry) = self.connections.get_mut(&number) else { return };
        let before = std::mem::replace(&mut entry.bytes, bytes);
        let holder = entry.holder;
        self.bytes = self.bytes - before + bytes;
        if let Some(holder) = holder
            && let Some(holds) = self.holders.get_mut(&holder)
        {
            holds.bytes = holds.bytes - before + bytes;
            self.held.bytes = self.held.bytes - before + bytes;
        }
    }

    /// Removes a connection from its holder.
    pub(super) fn let_go(&mut self, number: u64) {
        self.leave_queue(number);
        let Some(entry) = self.connections.get_mut(&number) else { return };
        let (Some(holder), bytes) = (entry.holder.take(), entry.bytes) else { return };
        self.held.connections -= 1;
        self.held.bytes -= bytes;
        if let Some(holds) = self.holders.get_mut(&holder) {
            holds.connections -= 1;
            holds.bytes -= bytes;
            if holds.connections == 0 {
                self.holders.remove(&holder);
            }
        }
    }

    /// Assigns the connection to a holder.
    pub(super) fn give(&mut self, number: u64, holder: Holder) {
        let Some(entry) = self.connections.get_mut(&number) else { return };
        entry.holder = Some(holder);
        for held in [self.holders.entry(holder).or_default(), &mut self.held] {
            held.connections += 1;
            held.bytes += entry.bytes;
        }
    }

    /// Whether the holder would then have more than is free.
    pub(super) fn is_greedy(&self, holder: Holder, more: usize) -> bool {
        let holds = self.holders.get(&holder).map_or(0, |held| held.bytes) + more;
        holds > self.all().saturating_sub(self.held.bytes + more)
    }

    /// As [`Counts::is_greedy`], after accounts have lent what the holder lacks, if they can spare it. Without
    /// that, few holders never borrow: each stops before all memory is taken.
    pub(super) fn stays_greedy(&mut self, holder: Holder, more: usize) -> bool {
        if !self.is_greedy(holder, more) {
            return false;
        }
        let holds = self.holders.get(&holder).map_or(0, |held| held.bytes) + more;
        let free = self.all().saturating_sub(self.held.bytes + more);
        self.borrow(holds - free.min(holds));
        self.is_greedy(holder, more)
    }

    /// The present memory of connections, loans included.
    fn all(&self) -> usize {
        self.own.saturating_add(self.lender.as_ref().map_or(0, |lender| lender.loan.bytes()))
    }

    /// The part of `all` that new connections may use; the rest is for those that stir.
    fn room_of(&self, all: usize) -> usize {
        let least = (LEAST_HELD * limits::CONNECTION_BYTES).min(all / 4);
        all - (all / STIRRING_SHARE).max(least)
    }

    /// The memory that new connections may use with the maximum loan.
    pub(super) fn room_at_most(&self) -> usize {
        self.room_of(self.own.saturating_add(self.lender.as_ref().map_or(0, |lender| lender.most)))
    }

    /// The missing memory for a new connection with that charge.
    pub(super) fn missing_to_come(&self, bytes: usize) -> usize {
        (self.bytes + bytes).saturating_sub(self.room_of(self.all())).min(bytes)
    }

    /// The missing memory for a connection that stirs with that increase of its charge.
    pub(super) fn missing_to_stir(&self, more: usize) -> usize {
        (self.bytes + more).saturating_sub(self.all()).min(more)
    }

    /// Borrows `bytes` more, if accounts can spare them. No more is lent than users hold, so strangers alone
    /// never cause a loan.
    pub(super) fn borrow(&mut self, bytes: usize) -> bool {
        let Some(Lender { accounts, most, loan }) = &self.lender else { return false };
        let most = self.held.bytes.min(*most);
        // Memory of connections that stir is part of the loan too.
        let wanted = loan.bytes() + bytes.saturating_mul(2).max(LOAN_STEP);
        wanted.min(most) >= loan.bytes() + bytes && accounts.lend(loan, wanted.min(most))
    }

    /// Borrows what users take beyond the room for new connections, if accounts can spare it: strangers that
    /// are about to log in then stay, and some connections can stir.
    pub(super) fn borrow_for_users(&mut self) {
        let missing = self.bytes.saturating_sub(self.room_of(self.all()));
        if missing > 0 {
            self.borrow(missing);
        }
    }

    /// Returns borrowed memory for `bytes` that accounts need: what is not in use at once, and more when
    /// strangers have ended, which are closed for it, the oldest first.
    pub(super) fn repay(&mut self, bytes: usize) {
        let Some(Lender { accounts, loan, .. }) = &self.lender else { return };
        let (lent, spare) = (loan.bytes(), self.all().saturating_sub(self.bytes));
        let at_once = spare.min(lent).min(bytes);
        if at_once > 0 {
            accounts.lend(loan, lent - at_once);
        }
        let missing = bytes.min(lent) - at_once;
        if missing > 0 {
            self.send_strangers_away(missing, None);
        }
    }

    /// Returns borrowed memory that is no longer needed.
    pub(super) fn give_back(&mut self) {
        let Some(Lender { accounts, loan, .. }) = &self.lender else { return };
        let lent = loan.bytes();
        if lent > 0 && self.bytes <= self.room_of(self.own) / 8 * 7 {
            accounts.lend(loan, 0);
        } else if lent > 0 {
            let spare = self.room_of(self.all()).saturating_sub(self.bytes);
            // As much as a holder has stays free, so that it is not greedy.
            let kept = LOAN_STEP + self.held.bytes / self.holders.len().max(1);
            let less = spare.saturating_sub(kept) / LOAN_STEP * LOAN_STEP;
            if less > 0 {
                accounts.lend(loan, lent.saturating_sub(less));
            }
        }
    }

    /// Closes strangers until `bytes` are free, the oldest first. Returns whether that is enough. Their
    /// charge stays until they have ended, within a moment: the new connection takes their memory in advance.
    pub(super) fn send_strangers_away(&mut self, bytes: usize, spared: Option<u64>) -> bool {
        let mut going = 0;
        while going < bytes {
            if self.strangers.len() <= self.connections.len() / STRANGERS_SHARE {
                return false;
            }
            let first = self.strangers.keys().copied().find(|number| Some(*number) != spared);
            let Some(first) = first else { return false };
            if let Some(leave) = self.strangers.remove(&first) {
                leave.notify_one();
            }
            going += self.connections.get(&first).map_or(0, |entry| entry.bytes);
        }
        true
    }

    pub(super) fn join_queue(&mut self, number: u64, holder: Holder, waker: &Waker) {
        let queue = self.waiting.entry(holder).or_default();
        match queue.iter_mut().find(|(waiting, _)| *waiting == number) {
            Some((_, known)) => known.clone_from(waker),
            None => queue.push_back((number, waker.clone())),
        }
        if let Some(entry) = self.connections.get_mut(&number)
            && !std::mem::replace(&mut entry.waits, true)
            && !self.turns.contains(&holder)
        {
            self.turns.push_back(holder);
        }
    }

    pub(super) fn leave_queue(&mut self, number: u64) {
        let Some(entry) = self.connections.get_mut(&number) else { return };
        let (true, Some(holder)) = (std::mem::take(&mut entry.waits), entry.holder) else { return };
        let Some(queue) = self.waiting.get_mut(&holder) else { return };
        queue.retain(|(waiting, _)| *waiting != number);
        if queue.is_empty() {
            self.waiting.remove(&holder);
            self.turns.retain(|turn| *turn != holder);
        } else if self.turns.front() == Some(&holder) {
            self.turns.rotate_left(1);
        }
    }

    /// Whether a connection of that holder may stir with that increase, if the memory is free.
    pub(super) fn may_stir(&self, holder: Holder, more: usize) -> bool {
        let few = self.holders.get(&holder).is_none_or(|held| held.connections <= LEAST_HELD);
        few || !self.is_greedy(holder, more)
    }

    /// As [`Counts::may_stir`], after accounts have lent what the holder lacks.
    pub(super) fn may_stir_with_loan(&mut self, holder: Holder, more: usize) -> bool {
        self.may_stir(holder, more) || !self.stays_greedy(holder, more)
    }

    /// The next waiting connection, with the holders in rotation; those that may not stir now are skipped.
    pub(super) fn next_waiting(&mut self) -> Option<u64> {
        for _ in 0..self.turns.len() {
            let holder = *self.turns.front()?;
            let number = self.waiting.get(&holder)?.front()?.0;
            if self.may_stir(holder, limits::CONNECTION_BYTES) {
                return Some(number);
            }
            self.turns.rotate_left(1);
        }
        None
    }

    /// Wakes the next connection that can stir.
    pub(super) fn wake_next(&mut self) {
        if self.next_waiting().is_some()
            && let Some(holder) = self.turns.front()
            && let Some((_, waker)) = self.waiting.get(holder).and_then(VecDeque::front)
        {
            waker.wake_by_ref();
        }
    }

    /// Whether others wait for that connection's memory: of its holder, or of one that may stir.
    pub(super) fn is_wanted(&self, number: u64) -> bool {
        let Some(entry) = self.connections.get(&number) else { return false };
        self.turns.iter().take(LOOKED_AT).any(|waiting| {
            entry.holder == Some(*waiting) || self.may_stir(*waiting, limits::CONNECTION_BYTES)
        })
    }
}
