//! The charges of connections, their holders, and the connections that wait for memory to stir.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use sealpost_account::{Accounts, Loan};
use sealpost_auth::throttle::Network;
use sealpost_base::{AccountId, limits};
use tokio::sync::Notify;

use super::{LEAST_HELD, STRANGERS_SHARE};

/// The part of the connections' memory that no connection is let in to: for those that stir.
const STIRRING_SHARE: usize = 32;
/// In which steps memory is borrowed, and how much more is borrowed than is needed, in bytes.
const LOAN_STEP: usize = 1 << 20;
/// Holders with waiting connections that are examined to see whether others wait for a connection.
const LOOKED_AT: usize = 16;

/// The charge of all connections, and of each holder.
pub(super) struct Counts {
    /// What they may be charged beside what is lent to them.
    own: usize,
    lender: Option<Lender>,
    /// What they are charged.
    pub(super) bytes: usize,
    /// Has an entry for networks with connections only, so it is bounded by the number of connections.
    pub(super) networks: HashMap<Network, usize>,
    pub(super) connections: HashMap<u64, Entry>,
    /// The handles that close strangers, the oldest in front.
    pub(super) strangers: BTreeMap<u64, Arc<Notify>>,
    pub(super) holders: HashMap<Holder, Held>,
    /// What all holders have.
    pub(super) held: Held,
    /// Connections that wait for memory to stir, by their holders, in the order in which each came.
    pub(super) waiting: HashMap<Holder, VecDeque<(u64, Waker)>>,
    /// The holders of these, the next one in front.
    pub(super) turns: VecDeque<Holder>,
    pub(super) next: u64,
}

/// What is known of a connection.
pub(super) struct Entry {
    /// What it is charged.
    pub(super) bytes: usize,
    /// The holder, unless it is a stranger.
    pub(super) holder: Option<Holder>,
    /// It is in the queue of its holder.
    pub(super) waits: bool,
}

/// The holders of connections that are no strangers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Holder {
    /// The user that logged in.
    Account(AccountId),
    /// All that have named a recipient.
    Senders,
}

/// Connections, and what they are charged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) connections: usize,
    pub(super) bytes: usize,
}

/// Where memory is borrowed, and how much at most.
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
    /// Of no connections, which may be charged `own` bytes beside what is lent to them.
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

    /// The connection is charged so much from now on.
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

    /// The holder has no connections any more.
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

    /// The connection is that holder's from now on.
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

    /// What connections may be charged now, what is lent to them included.
    fn all(&self) -> usize {
        self.own.saturating_add(self.lender.as_ref().map_or(0, |lender| lender.loan.bytes()))
    }

    /// What of that others come for is left for those that stir.
    fn room_of(&self, all: usize) -> usize {
        let least = (LEAST_HELD * limits::CONNECTION_BYTES).min(all / 4);
        all - (all / STIRRING_SHARE).max(least)
    }

    /// What connections may be charged for another one to come, if all is lent that may be.
    pub(super) fn room_at_most(&self) -> usize {
        self.room_of(self.own.saturating_add(self.lender.as_ref().map_or(0, |lender| lender.most)))
    }

    /// What is missing for a connection to come that is charged so much.
    pub(super) fn missing_to_come(&self, bytes: usize) -> usize {
        (self.bytes + bytes).saturating_sub(self.room_of(self.all())).min(bytes)
    }

    /// What is missing for a connection to stir that is charged so much more then.
    pub(super) fn missing_to_stir(&self, more: usize) -> usize {
        (self.bytes + more).saturating_sub(self.all()).min(more)
    }

    /// Borrows so many bytes more, if accounts have them to spare.
    pub(super) fn borrow(&mut self, bytes: usize) -> bool {
        let Some(Lender { accounts, most, loan }) = &self.lender else { return false };
        // What those that stir have is a part of what is borrowed too.
        let wanted = loan.bytes() + bytes.saturating_mul(2).max(LOAN_STEP);
        wanted.min(*most) >= loan.bytes() + bytes && accounts.lend(loan, wanted.min(*most))
    }

    /// Gives back what is borrowed and not needed any more.
    pub(super) fn give_back(&mut self) {
        let Some(Lender { accounts, loan, .. }) = &self.lender else { return };
        let lent = loan.bytes();
        if lent > 0 && self.bytes <= self.room_of(self.own) / 8 * 7 {
            accounts.lend(loan, 0);
        } else if lent > 0 {
            let spare = self.room_of(self.all()).saturating_sub(self.bytes);
            let less = spare.saturating_sub(LOAN_STEP) / LOAN_STEP * LOAN_STEP;
            if less > 0 {
                accounts.lend(loan, lent.saturating_sub(less));
            }
        }
    }

    /// Closes strangers until `bytes` are free, the oldest first. Returns whether that is enough.
    /// They are charged until they have ended, within a moment: the new connection takes their
    /// memory in advance.
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

    /// Whether a connection of that holder may be charged so much more to stir, if it is free.
    pub(super) fn may_stir(&self, holder: Holder, more: usize) -> bool {
        let few = self.holders.get(&holder).is_none_or(|held| held.connections <= LEAST_HELD);
        few || !self.is_greedy(holder, more)
    }

    /// The next of the waiting connections: of one holder after the other; those that may not stir
    /// now are skipped.
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

    /// Wakes the next that can stir.
    pub(super) fn wake_next(&mut self) {
        if self.next_waiting().is_some()
            && let Some(holder) = self.turns.front()
            && let Some((_, waker)) = self.waiting.get(holder).and_then(VecDeque::front)
        {
            waker.wake_by_ref();
        }
    }

    /// Whether others wait for what that connection is charged: of its holder, or of one that may stir.
    pub(super) fn is_wanted(&self, number: u64) -> bool {
        let Some(entry) = self.connections.get(&number) else { return false };
        self.turns.iter().take(LOOKED_AT).any(|waiting| {
            entry.holder == Some(*waiting) || self.may_stir(*waiting, limits::CONNECTION_BYTES)
        })
    }
}
