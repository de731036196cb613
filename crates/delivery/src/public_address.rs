//! Which addresses a name of the internet may lead to.
//!
//! The owner of a name can let it lead anywhere: to this node, to the network behind it, to the
//! metadata service of a cloud. So a node resolves the name, checks the addresses, and connects to
//! these and no others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether `address` can be a server on the internet: it is globally reachable by the registries of
/// RFC 6890, as of 2026.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    let special = match (a, b, c) {
        // This network; reserved and broadcast.
        (0 | 240..=255, ..) => true,
        // Shared by carriers (RFC 6598).
        (100, 64..=127, _) => true,
        // IETF protocols, documentation, 6to4 relays (RFC 6890 §2.2.2, RFC 5737, RFC 7526).
        (192, 0, 0 | 2) | (198, 51, 100) | (203, 0, 113) | (192, 88, 99) => true,
        // Benchmarks (RFC 2544).
        (198, 18 | 19, _) => true,
        _ => false,
    };
    !(special || v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_multicast())
}

fn is_public_v6(v6: Ipv6Addr) -> bool {
    let parts = v6.segments();
    // Addresses that carry one of IPv4 lead to where that one leads: mapped, NAT64 (RFC 6052 §2.1)
    // and 6to4 (RFC 3056 §2).
    let carried = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        [0, 0, 0, 0, 0, 0xffff, high, low] => carried(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => carried(high, low),
        [0x2002, high, low, ..] => carried(high, low),
        // IETF protocols, Teredo among them; documentation (RFC 3849, RFC 9637).
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // All that is global unicast (RFC 4291 §2.4). So loopback, unique local, link-local and
        // multicast addresses are out.
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_point_behind_this_node() {
        for address in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fec0::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in
            ["8.8.8.8", "100.128.0.1", "172.32.0.1", "198.20.0.1", "2001:4860:4860::8888", "64:ff9b::808:808"]
        {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }
}
