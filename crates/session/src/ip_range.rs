//! [`IpRange`]: addresses that an operator configures, as one address or in CIDR notation (RFC 4632 §3.1, RFC
//! 4291 §2.3).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// All addresses with the same leading bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpRange {
    first: IpAddr,
    /// The number of these bits.
    prefix: u32,
}

impl IpRange {
    /// Whether the range contains `address`. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (first, address) = (self.first, address.to_canonical());
        first.is_ipv4() == address.is_ipv4() && masked(first, self.prefix) == masked(address, self.prefix)
    }
}

impl FromStr for IpRange {
    type Err = String;

    /// Parses `10.0.0.1`, `10.0.0.0/8` or `2001:db8::/32`. Bits after the prefix must be zero: others may be
    /// a typing error.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no address, and no range of them as in \"10.0.0.0/8\"");
        let (address, prefix) =
            text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let first: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = width(first);
        let prefix = prefix.map_or(Ok(bits), |prefix| prefix.parse().map_err(|_| wrong()))?;
        if prefix > bits {
            return Err(wrong());
        }
        if masked(first, prefix) != masked(first, bits) {
            return Err(format!("{text:?} has bits behind the first {prefix}"));
        }
        Ok(IpRange { first, prefix })
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix == width(self.first) {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}/{}", self.first, self.prefix),
        }
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The first `prefix` bits, followed by zeros.
fn masked(address: IpAddr, prefix: u32) -> u128 {
    let bits = match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    bits & u128::MAX.checked_shl(128 - prefix).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_contains_its_addresses() {
        for (range, within, without) in [
            ("10.0.0.1", "10.0.0.1", "10.0.0.2"),
            ("10.0.0.1", "::ffff:10.0.0.1", "::10.0.0.1"),
            ("10.0.0.0/8", "10.255.3.4", "11.0.0.0"),
            ("10.1.2.128/25", "10.1.2.255", "10.1.2.127"),
            ("0.0.0.0/0", "255.1.2.3", "2001:db8::1"),
            ("::1", "::1", "127.0.0.1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
        ] {
            let parsed: IpRange = range.parse().unwrap();
            assert_eq!(parsed.to_string(), range);
            assert!(parsed.contains(within.parse().unwrap()), "{range} {within}");
            assert!(!parsed.contains(without.parse().unwrap()), "{range} {without}");
        }
    }

    #[test]
    fn refuses_malformed_ranges() {
        for text in [
            "",
            "10.0.0",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "::1/129",
            "2001:db8::1/32",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "host",
        ] {
            assert!(text.parse::<IpRange>().is_err(), "{text}");
        }
    }
}
