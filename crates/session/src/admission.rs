//! Who is let in: how many connections there are, in all and from each address, and what they cost.
//!
//! A connection is charged what it costs at worst before it draws on the memory budget ([`limits::CONNECTION_BYTES`], and
//! [`limits::TLS_BYTES`] more while it speaks TLS), so that all of them together fit into the part of the memory that is
//! theirs. One too many is told to come back before anything is allocated for it.
//!
//! Places are not for those who say nothing. A connection is a *stranger* until it has logged in or named a recipient;
//! when all places are taken, the stranger that has been there longest makes room for the next one. So thousands of
//! half-open handshakes cost an honest client nothing as long as it is quicker than they are many. TLS handshakes under
//! way, which cost more than connections that wait, have fewer places of their own ([`Handshakes`]), by the same rule.
//!
//! Nor are they all for one account, or for those who send mail: a holder of places gets another one only while those that
//! nobody holds are as many as its own ([`Holder`]). Alone it has half of them, two such have a third each, and strangers
//! always have as much as the greediest.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use sealpost_base::{AccountId, limits};
use tokio::sync::Notify;

use crate::settings::Connections;
use sealpost_auth::throttle::Network;

/// Strangers make room only when they are more than all connections divided by this. The others would only push
/// each other out.
const STRANGERS_SHARE: usize = 16;
/// Connections that a holder may have however many others have.
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
    /// What all of them may cost.
    bytes: usize,
    counts: Mutex<Counts>,
    handshakes: Handshakes,
}

#[derive(Default)]
struct Counts {
    total: usize,
    bytes: usize,
    /// Has an entry for networks with connections only, so it is bounded by `total`.
    networks: HashMap<Network, usize>,
    /// How each stranger is told to go, those that came first in front.
    strangers: BTreeMap<u64, Arc<Notify>>,
    /// Who holds each of the others, and what it was charged then.
    known: HashMap<u64, (Holder, Held)>,
    holders: HashMap<Holder, Held>,
    /// What all holders have.
    held: Held,
    next: u64,
}

/// Who connections are for that are no strangers'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Holder {
    /// Whoever logged in.
    Account(AccountId),
    /// All that have named a recipient.
    Senders,
}

/// Connections, and what they are charged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Held {
    connections: usize,
    bytes: usize,
}

impl Held {
    fn and(self, other: Held) -> Held {
        Held { connections: self.connections + other.connections, bytes: self.bytes + other.bytes }
    }

    fn without(self, other: Held) -> Held {
        Held { connections: self.connections - other.connections, bytes: self.bytes - other.bytes }
    }
}

impl Counts {
    /// Nobody holds that connection any more.
    fn let_go(&mut self, number: u64) {
        let Some((holder, charged)) = self.known.remove(&number) else { return };
        self.held = self.held.without(charged);
        let left = self.holders.remove(&holder).map(|held| held.without(charged));
        if let Some(left) = left.filter(|left| left.connections > 0) {
            self.holders.insert(holder, left);
        }
    }
}

/// One connection that is counted; dropping it ends that.
pub struct Admitted {
    admission: Admission,
    network: Option<Network>,
    number: u64,
    /// What it is charged.
    bytes: usize,
    leave: Arc<Notify>,
}

impl Admission {
    /// Nobody is there. All connections together may cost `bytes`.
    pub fn new(limits: Connections, bytes: usize) -> Self {
        let handshakes = (bytes / HANDSHAKES_SHARE / limits::TLS_HANDSHAKE_BYTES).max(LEAST_HANDSHAKES);
        let handshakes = Handshakes::new(handshakes);
        Admission(Arc::new(Shared { limits, bytes, counts: Mutex::default(), handshakes }))
    }

    /// Counts a connection from `peer` (`None`: a Unix socket, which counts in the total alone), unless that would
    /// be one too many.
    pub fn admit(&self, peer: Option<IpAddr>) -> Option<Admitted> {
        let network = peer.map(Network::of);
        let mut counts = self.lock();
        let here = network.and_then(|network| counts.networks.get(&network).copied()).unwrap_or_default();
        if network.is_some() && here >= self.0.limits.per_address {
            return None;
        }
        let full = |counts: &Counts| {
            counts.total >= self.0.limits.total || counts.bytes + limits::CONNECTION_BYTES > self.0.bytes
        };
        if full(&counts) {
            if counts.strangers.len() <= self.places() / STRANGERS_SHARE {
                return None;
            }
            // It is still counted, and goes within a moment: the one that comes takes its place in advance.
            counts.strangers.pop_first()?.1.notify_one();
        }
        if let Some(network) = network {
            counts.networks.insert(network, here + 1);
        }
        counts.total += 1;
        counts.bytes += limits::CONNECTION_BYTES;
        counts.next += 1;
        let (number, leave) = (counts.next, Arc::new(Notify::new()));
        counts.strangers.insert(number, leave.clone());
        let bytes = limits::CONNECTION_BYTES;
        Some(Admitted { admission: self.clone(), network, number, bytes, leave })
    }

    /// Connections counted now.
    pub fn total(&self) -> usize {
        self.lock().total
    }

    /// How many connections have room if none speaks TLS.
    pub fn places(&self) -> usize {
        self.0.limits.total.min(self.0.bytes / limits::CONNECTION_BYTES)
    }

    /// How many have room if all do.
    pub fn places_with_tls(&self) -> usize {
        self.0.limits.total.min(self.0.bytes / (limits::CONNECTION_BYTES + limits::TLS_BYTES))
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Admitted {
    /// Somebody has logged in to that account: it does not have to make room for others any more. False if the account
    /// has too many already.
    pub fn logged_in(&self, account: AccountId) -> bool {
        self.held_by(Holder::Account(account))
    }

    /// It brings mail for somebody, and does not have to make room for others unless too many do.
    pub fn sends(&self) {
        self.held_by(Holder::Senders);
    }

    fn held_by(&self, holder: Holder) -> bool {
        let shared = &self.admission.0;
        let mut counts = self.admission.lock();
        if counts.known.get(&self.number).is_some_and(|(before, _)| *before == holder) {
            return true;
        }
        let charged = Held { connections: 1, bytes: self.bytes };
        let holds = counts.holders.get(&holder).copied().unwrap_or_default().and(charged);
        let held = counts.held.and(charged);
        let greedy = holds.connections > shared.limits.total.saturating_sub(held.connections)
            || holds.bytes > shared.bytes.saturating_sub(held.bytes);
        if greedy && holds.connections > LEAST_HELD {
            return false;
        }
        counts.let_go(self.number);
        counts.held = counts.held.and(charged);
        counts.holders.insert(holder, holds);
        counts.known.insert(self.number, (holder, charged));
        counts.strangers.remove(&self.number);
        true
    }

    /// Charges it for TLS; false if there is no room for that.
    pub fn speaks_tls(&mut self) -> bool {
        let mut counts = self.admission.lock();
        if counts.bytes + limits::TLS_BYTES > self.admission.0.bytes {
            return false;
        }
        counts.bytes += limits::TLS_BYTES;
        self.bytes += limits::TLS_BYTES;
        true
    }

    /// A place for its TLS handshake.
    pub fn handshake(&self) -> Handshake {
        self.admission.0.handshakes.enter()
    }

    /// Rings when it has to make room for another.
    pub fn leave(&self) -> Arc<Notify> {
        self.leave.clone()
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.admission.lock();
        counts.total = counts.total.saturating_sub(1);
        counts.bytes = counts.bytes.saturating_sub(self.bytes);
        counts.strangers.remove(&self.number);
        counts.let_go(self.number);
        if let Some(network) = self.network
            && let Some(here) = counts.networks.get_mut(&network)
        {
            *here -= 1;
            if *here == 0 {
                counts.networks.remove(&network);
            }
        }
    }
}

/// Places for TLS handshakes in which something was received. Whoever wants one gets it; if there are too many, the one that was
/// begun first is given up.
struct Handshakes(Arc<Mutex<Queue>>);

struct Queue {
    most: usize,
    next: u64,
    under_way: BTreeMap<u64, Arc<Notify>>,
}

/// A handshake under way; dropping it ends that.
pub struct Handshake {
    queue: Arc<Mutex<Queue>>,
    number: u64,
    leave: Arc<Notify>,
}

impl Handshakes {
    fn new(most: usize) -> Self {
        Handshakes(Arc::new(Mutex::new(Queue { most, next: 0, under_way: BTreeMap::new() })))
    }

    fn enter(&self) -> Handshake {
        let leave = Arc::new(Notify::new());
        let mut queue = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if queue.under_way.len() >= queue.most
            && let Some((_, first)) = queue.under_way.pop_first()
        {
            first.notify_one();
        }
        queue.next += 1;
        let number = queue.next;
        queue.under_way.insert(number, leave.clone());
        Handshake { queue: self.0.clone(), number, leave }
    }
}

impl Handshake {
    /// Waits until it has to be given up.
    pub async fn given_up(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.queue.lock().unwrap_or_else(|e| e.into_inner()).under_way.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn peer(n: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, n]))
    }

    fn log_in(admitted: &Admitted) {
        // To an account of its own.
        assert!(admitted.logged_in(AccountId(u128::from(admitted.number).to_be_bytes())));
    }

    fn has_to_leave(admitted: &Admitted) -> bool {
        admitted.leave.notified().now_or_never().is_some()
    }

    #[test]
    fn counts_go_up_and_down_and_leave_nothing_behind() {
        let admission = Admission::new(Connections { total: 4, per_address: 2 }, usize::MAX);
        let one: Vec<_> = (0..2).map(|_| admission.admit(peer(1)).unwrap()).collect();
        assert!(admission.admit(peer(1)).is_none(), "two from one address");
        let two = admission.admit(peer(2)).unwrap();
        let unix = admission.admit(None).unwrap();
        for known in one.iter().chain([&two, &unix]) {
            log_in(known);
        }
        assert!(admission.admit(peer(3)).is_none(), "four in all");
        drop(one);
        assert!(admission.admit(peer(1)).is_some());
        assert_eq!(admission.lock().networks.len(), 1);
        assert_eq!((admission.total(), admission.lock().strangers.len()), (2, 0));
        drop((two, unix));
        let counts = admission.lock();
        assert_eq!((counts.bytes, counts.held), (0, Held::default()));
        assert!(counts.known.is_empty() && counts.holders.is_empty());
    }

    #[test]
    fn no_account_takes_the_places_of_others() {
        const ALL: usize = 60;
        let admission =
            Admission::new(Connections { total: 1000, per_address: 1000 }, ALL * limits::CONNECTION_BYTES);
        let (greedy, other) = (AccountId([1; 16]), AccountId([2; 16]));
        let mut inside = Vec::new();
        let enter = |account, inside: &mut Vec<Admitted>| {
            let admitted = admission.admit(peer(1)).unwrap();
            let may = admitted.logged_in(account);
            inside.push(admitted);
            may
        };
        assert_eq!((0..50).filter(|_| enter(greedy, &mut inside)).count(), ALL / 2);
        assert_eq!((0..50).filter(|_| enter(other, &mut inside)).count(), ALL / 4);
        assert!(enter(AccountId([3; 16]), &mut inside), "there is room for who has none");
        drop(inside);
        assert!(enter(greedy, &mut Vec::new()));
    }

    #[test]
    fn who_logs_in_anew_is_counted_once() {
        let admission = Admission::new(Connections { total: 30, per_address: 30 }, usize::MAX);
        let (one, other) = (AccountId([1; 16]), AccountId([2; 16]));
        let admitted = admission.admit(peer(1)).unwrap();
        for account in [one, one, other, one] {
            assert!(admitted.logged_in(account));
        }
        assert_eq!(admission.lock().held.connections, 1);
        assert_eq!(admission.lock().holders.len(), 1);
    }

    #[test]
    fn senders_beyond_their_part_make_room() {
        const ALL: usize = 60;
        let admission = Admission::new(Connections { total: ALL, per_address: 1000 }, usize::MAX);
        let senders: Vec<_> = (0..ALL).map(|_| admission.admit(peer(1)).unwrap()).collect();
        senders.iter().for_each(Admitted::sends);
        let honest = admission.admit(peer(2)).unwrap();
        assert!(has_to_leave(&senders[ALL / 2]), "the first that is one too many");
        log_in(&honest);
    }

    #[test]
    fn whoever_is_not_known_longest_makes_room() {
        let admission = Admission::new(Connections { total: 3, per_address: 9 }, usize::MAX);
        let known = admission.admit(peer(1)).unwrap();
        log_in(&known);
        let (first, second) = (admission.admit(peer(1)).unwrap(), admission.admit(peer(2)).unwrap());
        let third = admission.admit(peer(3)).unwrap();
        assert!(has_to_leave(&first) && !has_to_leave(&known) && !has_to_leave(&second));
        drop(first);
        assert_eq!(admission.total(), 3);
        for late in [&second, &third] {
            log_in(late);
        }
        assert!(admission.admit(peer(4)).is_none(), "nobody who is known has to go");
    }

    #[test]
    fn newcomers_do_not_push_each_other_out() {
        let admission = Admission::new(Connections { total: 32, per_address: 99 }, usize::MAX);
        let all: Vec<_> = (0..32).map(|_| admission.admit(peer(1)).unwrap()).collect();
        for known in &all[..30] {
            log_in(known);
        }
        assert!(admission.admit(peer(2)).is_none());
        assert!(!all.iter().any(has_to_leave));
    }

    #[test]
    fn what_they_cost_is_bounded_too() {
        let bytes = 4 * limits::CONNECTION_BYTES + limits::TLS_BYTES;
        let admission = Admission::new(Connections { total: 1000, per_address: 1000 }, bytes);
        let mut first = admission.admit(peer(1)).unwrap();
        assert!(first.speaks_tls());
        let mut others: Vec<_> = (0..3).map(|_| admission.admit(peer(2)).unwrap()).collect();
        for known in others.iter().chain([&first]) {
            log_in(known);
        }
        assert!(admission.admit(peer(3)).is_none());
        assert!(!others[0].speaks_tls(), "there is no room for it");
        drop(first);
        assert!(others[0].speaks_tls() && admission.admit(peer(3)).is_some());
    }

    #[test]
    fn the_oldest_handshake_is_given_up() {
        let handshakes = Handshakes::new(2);
        let (first, second) = (handshakes.enter(), handshakes.enter());
        assert!(first.given_up().now_or_never().is_none());
        let third = handshakes.enter();
        assert!(first.given_up().now_or_never().is_some());
        assert!(second.given_up().now_or_never().is_none());
        drop((first, third));
        let _fourth = handshakes.enter();
        assert!(second.given_up().now_or_never().is_none(), "there was room");
    }
}
