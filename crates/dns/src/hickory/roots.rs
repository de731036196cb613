//! The root servers of the internet (<https://www.iana.org/domains/root/servers>).

use std::net::IpAddr;

/// IPv4 and IPv6 address of each, a to m.
const ROOTS: [([u8; 4], [u16; 8]); 13] = [
    ([198, 41, 0, 4], [0x2001, 0x503, 0xba3e, 0, 0, 0, 2, 0x30]),
    ([170, 247, 170, 2], [0x2801, 0x1b8, 0x10, 0, 0, 0, 0, 0xb]),
    ([192, 33, 4, 12], [0x2001, 0x500, 2, 0, 0, 0, 0, 0xc]),
    ([199, 7, 91, 13], [0x2001, 0x500, 0x2d, 0, 0, 0, 0, 0xd]),
    ([192, 203, 230, 10], [0x2001, 0x500, 0xa8, 0, 0, 0, 0, 0xe]),
    ([192, 5, 5, 241], [0x2001, 0x500, 0x2f, 0, 0, 0, 0, 0xf]),
    ([192, 112, 36, 4], [0x2001, 0x500, 0x12, 0, 0, 0, 0, 0xd0d]),
    ([198, 97, 190, 53], [0x2001, 0x500, 1, 0, 0, 0, 0, 0x53]),
    ([192, 36, 148, 17], [0x2001, 0x7fe, 0, 0, 0, 0, 0, 0x53]),
    ([192, 58, 128, 30], [0x2001, 0x503, 0xc27, 0, 0, 0, 2, 0x30]),
    ([193, 0, 14, 129], [0x2001, 0x7fd, 0, 0, 0, 0, 0, 1]),
    ([199, 7, 83, 42], [0x2001, 0x500, 0x9f, 0, 0, 0, 0, 0x42]),
    ([202, 12, 27, 33], [0x2001, 0xdc3, 0, 0, 0, 0, 0, 0x35]),
];

/// Their addresses.
pub(super) fn addresses(ipv6: bool) -> Vec<IpAddr> {
    let v4 = ROOTS.iter().map(|(v4, _)| IpAddr::from(*v4));
    let v6 = ROOTS.iter().map(|(_, v6)| IpAddr::from(*v6)).filter(|_| ipv6);
    v4.chain(v6).collect()
}
