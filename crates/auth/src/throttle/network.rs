//! The networks that share failure counts: an address's own, and larger ones around it.

use std::net::IpAddr;

use super::failures::Scale;

/// The number of network sizes.
pub(super) const LEVELS: usize = 3;
/// How much more often larger networks may fail, and how much sooner they may begin attempts.
const MIDDLE: Scale = Scale(4);
const WIDE: Scale = Scale(16);

/// An IPv4 address, or the first 64 bits of an IPv6 address: the least that a provider assigns to one
/// customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network(u128);

/// A network around an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Level {
    pub network: Network,
    pub scale: Scale,
    /// The index of its size.
    pub index: usize,
}

impl Network {
    /// The network of `address`.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            // Distinct from every IPv6 network, whose low half is zero.
            IpAddr::V4(v4) => Network(u128::from(v4.to_ipv6_mapped())),
            IpAddr::V6(v6) => Network(u128::from(v6) & !u128::from(u64::MAX)),
        }
    }

    pub(super) fn narrow(self) -> Level {
        Level { network: self, scale: Scale::ONE, index: 0 }
    }

    /// The larger networks around it: the /24 of an IPv4 address; the /56 and the /48 of an IPv6 network,
    /// which providers assign to customers.
    pub(super) fn wider(self) -> impl Iterator<Item = Level> {
        let without = |bits: u32| Network(self.0 & (u128::MAX << bits));
        let is_v4 = self.0 as u64 != 0;
        let middle = Level { network: without(128 - 56), scale: MIDDLE, index: 1 };
        let wide = Level { network: without(if is_v4 { 8 } else { 128 - 48 }), scale: WIDE, index: 2 };
        (!is_v4).then_some(middle).into_iter().chain([wide])
    }

    /// All networks that count an attempt from here.
    pub(super) fn levels(self) -> impl Iterator<Item = Level> {
        std::iter::once(self.narrow()).chain(self.wider())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Network {
        Network::of(text.parse().unwrap())
    }

    #[test]
    fn ipv6_addresses_count_per_64_bits_and_mapped_as_ipv4() {
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2:3:4"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_ne!(of("::1"), of("0.0.0.0"));
    }

    #[test]
    fn networks_around_an_address_are_shared_with_its_neighbours() {
        let wider = |text: &str| of(text).wider().collect::<Vec<_>>();
        assert_eq!(wider("192.0.2.1"), wider("192.0.2.200"));
        assert_ne!(wider("192.0.2.1"), wider("192.0.3.1"));
        assert_eq!(wider("0.0.0.0").len(), 1);
        assert_eq!(wider("2001:db8:0:1::1"), wider("2001:db8:0:ff::1"), "one /56");
        let [near, far] = [wider("2001:db8:0:1::1"), wider("2001:db8:0:101::1")];
        assert!(near[0] != far[0] && near[1] == far[1], "one /48");
        assert_ne!(wider("2001:db8:1::1"), wider("2001:db8:2::1"));
    }
}
