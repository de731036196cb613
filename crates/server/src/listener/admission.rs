//! How many connections there are, in all and from each address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::settings::Connections;
use crate::throttle::Network;

/// Counts connections of all listeners. Cloning shares the counts.
#[derive(Clone)]
pub(crate) struct Admission(Arc<Shared>);

struct Shared {
    limits: Connections,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    total: usize,
    /// Has an entry for networks with connections only, so it is bounded by `total`.
    networks: HashMap<Network, usize>,
}

/// One connection that is counted; dropping it ends that.
pub(crate) struct Admitted {
    admission: Admission,
    network: Option<Network>,
}

impl Admission {
    pub(crate) fn new(limits: Connections) -> Self {
        Admission(Arc::new(Shared { limits, counts: Mutex::default() }))
    }

    /// Counts a connection from `peer` (`None`: a Unix socket, which counts in the total alone), unless that would
    /// be one too many.
    pub(crate) fn admit(&self, peer: Option<IpAddr>) -> Option<Admitted> {
        let network = peer.map(Network::of);
        let mut counts = self.lock();
        if counts.total >= self.0.limits.total {
            return None;
        }
        if let Some(network) = network {
            let here = counts.networks.get(&network).copied().unwrap_or_default();
            if here >= self.0.limits.per_address {
                return None;
            }
            counts.networks.insert(network, here + 1);
        }
        counts.total += 1;
        Some(Admitted { admission: self.clone(), network })
    }

    /// Connections counted now.
    pub(crate) fn total(&self) -> usize {
        self.lock().total
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.admission.lock();
        counts.total = counts.total.saturating_sub(1);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_up_and_down_and_leave_nothing_behind() {
        let admission = Admission::new(Connections { total: 4, per_address: 2 });
        let peer = |n: u8| Some(IpAddr::from([192, 0, 2, n]));
        let one: Vec<_> = (0..2).map(|_| admission.admit(peer(1)).unwrap()).collect();
        assert!(admission.admit(peer(1)).is_none(), "two from one address");
        let _two = admission.admit(peer(2)).unwrap();
        let _unix = admission.admit(None).unwrap();
        assert!(admission.admit(peer(3)).is_none(), "four in all");
        drop(one);
        assert!(admission.admit(peer(1)).is_some());
        assert_eq!(admission.lock().networks.len(), 1);
        assert_eq!(admission.total(), 2);
    }
}
