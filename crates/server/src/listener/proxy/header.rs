//! What a header of the PROXY protocol says, and how much of it is still to come.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sealpost_base::limits::PROXY_HEADER_BYTES;

/// What every header of version 2 begins with.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// What one of version 1 begins with.
const WORD: &[u8] = b"PROXY ";
/// The longest line of version 1, its end included (§2.1).
pub(crate) const LINE_BYTES: usize = 107;
/// The part of version 2 that says how long the rest is.
pub(crate) const FIXED_BYTES: usize = 16;
/// No header is shorter than that.
const LEAST_BYTES: usize = 12;

/// Whose connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// The balancer's own, which looks whether the server is there; or it does not know.
    Balancers,
    /// A client's, and where it reached the balancer.
    Clients {
        /// The client's address.
        from: SocketAddr,
        /// The one that it connected to.
        to: SocketAddr,
    },
}

/// How far a header is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    /// At least so many bytes of it are to come.
    Wants(usize),
    /// It is complete.
    Says(Said),
}

/// What the beginning of a connection, no longer than its header, says; `None`: it is no header.
pub(crate) fn parse(bytes: &[u8]) -> Option<Header> {
    let begins_as = |with: &[u8]| bytes.iter().zip(with).all(|(a, b)| a == b);
    if !begins_as(SIGNATURE) && !begins_as(WORD) {
        return None;
    }
    if bytes.len() < LEAST_BYTES {
        return Some(Header::Wants(LEAST_BYTES - bytes.len()));
    }
    if bytes.starts_with(SIGNATURE) {
        return version_2(bytes);
    }
    match bytes.len() {
        _ if bytes.ends_with(b"\n") => version_1(bytes).map(Header::Says),
        LINE_BYTES.. => None,
        _ => Some(Header::Wants(1)),
    }
}

/// `PROXY TCP4 192.0.2.1 198.51.100.1 51234 143`, or `PROXY UNKNOWN` and anything (§2.1).
fn version_1(line: &[u8]) -> Option<Said> {
    let line = std::str::from_utf8(line.strip_suffix(b"\r\n")?).ok()?;
    let mut words = line.split(' ').skip(1);
    let is_ipv4 = match words.next()? {
        "TCP4" => true,
        "TCP6" => false,
        "UNKNOWN" => return Some(Said::Balancers),
        _ => return None,
    };
    let mut address = || words.next()?.parse::<IpAddr>().ok().filter(|address| address.is_ipv4() == is_ipv4);
    let (from, to) = (address()?, address()?);
    let mut port = || words.next()?.parse::<u16>().ok();
    let (from_port, to_port) = (port()?, port()?);
    words.next().is_none().then(|| clients((from, from_port), (to, to_port)))
}

/// Twelve bytes of signature, version and command, family and protocol, the length of the rest;
/// then addresses, and ignored bytes (§2.2).
fn version_2(bytes: &[u8]) -> Option<Header> {
    let Some((fixed, rest)) = bytes.split_at_checked(FIXED_BYTES) else {
        return Some(Header::Wants(FIXED_BYTES - bytes.len()));
    };
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if length > PROXY_HEADER_BYTES {
        return None;
    }
    if rest.len() < length {
        return Some(Header::Wants(length - rest.len()));
    }
    let said = match (fixed[12], fixed[13]) {
        // LOCAL, with any family.
        (0x20, _) => Said::Balancers,
        // TCP over IPv4, over IPv6.
        (0x21, 0x11) => {
            let (from, to): (&[u8; 4], &[u8; 4]) = (rest.first_chunk()?, rest.get(4..)?.first_chunk()?);
            let ports = (port(rest, 8)?, port(rest, 10)?);
            clients((Ipv4Addr::from(*from).into(), ports.0), (Ipv4Addr::from(*to).into(), ports.1))
        }
        (0x21, 0x21) => {
            let (from, to): (&[u8; 16], &[u8; 16]) = (rest.first_chunk()?, rest.get(16..)?.first_chunk()?);
            let ports = (port(rest, 32)?, port(rest, 34)?);
            clients((Ipv6Addr::from(*from).into(), ports.0), (Ipv6Addr::from(*to).into(), ports.1))
        }
        // Of a kind that TCP is not, such as a Unix socket's: it is not to be refused, nor known.
        (0x21, _) => Said::Balancers,
        _ => return None,
    };
    Some(Header::Says(said))
}

fn port(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|port| u16::from_be_bytes(*port))
}

/// IPv4 that IPv6 carries is IPv4, as on other connections.
fn clients(from: (IpAddr, u16), to: (IpAddr, u16)) -> Said {
    let address = |(address, port): (IpAddr, u16)| SocketAddr::new(address.to_canonical(), port);
    Said::Clients { from: address(from), to: address(to) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a connection says that begins with `bytes`, and what is left of them.
    fn said(bytes: &[u8]) -> (Option<Said>, &[u8]) {
        let mut read = 0;
        loop {
            match parse(&bytes[..read]) {
                Some(Header::Says(said)) => return (Some(said), &bytes[read..]),
                Some(Header::Wants(more)) if read + more <= bytes.len() => read += more,
                _ => return (None, bytes),
            }
        }
    }

    fn from_to(from: &str, to: &str) -> Option<Said> {
        Some(Said::Clients { from: from.parse().unwrap(), to: to.parse().unwrap() })
    }

    fn second(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    #[test]
    fn known_answers_of_version_1() {
        for (line, expected) in [
            (
                "PROXY TCP4 192.0.2.1 198.51.100.7 51234 143\r\n",
                from_to("192.0.2.1:51234", "198.51.100.7:143"),
            ),
            (
                "PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n",
                from_to("[2001:db8::1]:1", "[2001:db8::2]:65535"),
            ),
            ("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", from_to("192.0.2.1:1", "[::1]:2")),
            ("PROXY UNKNOWN\r\n", Some(Said::Balancers)),
            ("PROXY UNKNOWN ffff::1 what ever\r\n", Some(Said::Balancers)),
            ("PROXY TCP4 192.0.2.1 198.51.100.7 51234 143\n", None),
            ("PROXY TCP4 2001:db8::1 198.51.100.7 51234 143\r\n", None),
            ("PROXY TCP4 192.0.2.1 198.51.100.7 65536 143\r\n", None),
            ("PROXY TCP4 192.0.2.1 198.51.100.7 1 143 x\r\n", None),
            ("PROXY TCP4 192.0.2.1 198.51.100.7 1\r\n", None),
            ("PROXY UDP4 192.0.2.1 198.51.100.7 1 2\r\n", None),
            ("a LOGIN me secret\r\n", None),
            ("EHLO example.org\r\n", None),
        ] {
            let bytes = [line.as_bytes(), b"a NOOP\r\n"].concat();
            let (found, rest) = said(&bytes);
            assert_eq!(found, expected, "{line}");
            assert!(found.is_none() || rest == b"a NOOP\r\n", "{line}: what follows is the client's");
        }
    }

    #[test]
    fn known_answers_of_version_2() {
        let v4 = [192, 0, 2, 1, 198, 51, 100, 7, 0xc8, 0x22, 0, 143];
        let mut v6 = [0; 36];
        (v6[15], v6[31], v6[33], v6[35]) = (1, 2, 3, 4);
        for (header, expected) in [
            (second(0x21, 0x11, &v4), from_to("192.0.2.1:51234", "198.51.100.7:143")),
            // Bytes behind the addresses are skipped.
            (
                second(0x21, 0x11, &[&v4[..], &[4, 0, 1, 7]].concat()),
                from_to("192.0.2.1:51234", "198.51.100.7:143"),
            ),
            (second(0x21, 0x21, &v6), from_to("[::1]:3", "[::2]:4")),
            (second(0x20, 0x00, &[]), Some(Said::Balancers)),
            (second(0x20, 0x11, &v4), Some(Said::Balancers)),
            (second(0x21, 0x31, &[0; 216]), Some(Said::Balancers)),
            (second(0x21, 0x00, &[]), Some(Said::Balancers)),
            (second(0x21, 0x11, &v4[..11]), None),
            (second(0x21, 0x21, &v4), None),
            (second(0x22, 0x11, &v4), None),
            (second(0x11, 0x11, &v4), None),
        ] {
            let bytes = [&header[..], b"\x16\x03\x01"].concat();
            let (found, rest) = said(&bytes);
            assert_eq!(found, expected, "{header:?}");
            assert!(found.is_none() || rest == b"\x16\x03\x01");
        }
    }

    #[test]
    fn headers_are_bounded() {
        let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(LINE_BYTES - 16));
        assert_eq!(said(longest.as_bytes()).0, Some(Said::Balancers));
        assert_eq!(said(format!("PROXY UNKNOWN {}\r\n", "x".repeat(LINE_BYTES - 15)).as_bytes()).0, None);
        assert!(said(&second(0x20, 0, &vec![0; PROXY_HEADER_BYTES])).0.is_some());
        assert!(said(&second(0x20, 0, &vec![0; PROXY_HEADER_BYTES + 1])).0.is_none());
        assert_eq!(said(b"PROXY TCP4 192.0.2.1").0, None, "it ends too soon");
    }
}
