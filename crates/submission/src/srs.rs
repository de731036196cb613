//! SRS, the Sender Rewriting Scheme: reverse-paths of forwarded mail.
//!
//! A server that forwards mail is not one that the sender's domain allows in its SPF record (RFC
//! 7208 Appendix D.2). So the reverse-path becomes an address of this server, from which the
//! original can be read:
//!
//! - `SRS0=HASH=TT=domain=local@here` of `local@domain`;
//! - `SRS1=TTHASH=other=…@here` of `SRS0…@other`, which another server has rewritten: the `…` is
//!   that server's to check. An `SRS1` of another server keeps its `other`, so addresses do not grow
//!   with each server.
//!
//! `TT` is the day, and `HASH` the beginning of an HMAC under the mail key. A report is forwarded
//! to the original sender only if this server wrote its address, at most [`DAYS`] days ago: an
//! attacker cannot make an address for which this server would forward mail. Nothing is stored.
//! Letter case does not count, as servers on the way may change it.

use std::time::Duration;

use sealpost_base::{Timestamp, limits};
use sealpost_smtp::types::{Host, LocalPart, Mailbox};
use sealpost_vault::mail_key::MailKeys;

/// Days for which reports go back.
pub const DAYS: u32 = 21;
/// Characters of the hash: 40 bits. A guess costs a command, and errors end the session.
const HASH_CHARS: usize = 8;
/// Days are counted modulo this: two characters.
const DAY_CYCLE: u32 = 32 * 32;
/// RFC 4648 §6, in small letters.
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// The purpose that the keys are derived for.
const PURPOSE: &str = "srs";

/// Why an address leads to no original sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// This server did not write it.
    Forged,
    /// This server wrote it too long ago.
    Expired,
}

/// Writes and reads rewritten addresses. Cheap to clone.
#[derive(Clone)]
pub struct Srs(MailKeys);

impl Srs {
    /// A rewriter with those keys.
    pub fn new(keys: MailKeys) -> Self {
        Srs(keys)
    }

    /// The reverse-path at `here` of mail from `sender`; `None` if it would be too long
    /// ([`limits::SRS_ADDRESS_BYTES`]).
    pub fn rewrite(&self, sender: &Mailbox, here: &Host, now: Timestamp) -> Option<Mailbox> {
        let day = base32_day(now);
        let (local, host) = (sender.local.as_str(), sender.host.to_string());
        let rewritten = match first_hop(local, &host) {
            None => {
                let hash = self.hash(&["0", &day, &host, local]);
                format!("SRS0={hash}={day}={host}={local}")
            }
            Some((hop, opaque)) => {
                let hash = self.hash(&["1", &day, hop, opaque]);
                format!("SRS1={day}{hash}={hop}={opaque}")
            }
        };
        let rewritten = Mailbox { local: LocalPart::new(rewritten)?, host: here.clone() };
        (rewritten.to_string().len() <= limits::SRS_ADDRESS_BYTES).then_some(rewritten)
    }

    /// The sender that `local` was rewritten from, which is the local part of an address here;
    /// `None` if it does not look like one.
    ///
    /// # Errors
    /// Why it leads to no original sender.
    pub fn original(&self, local: &str, now: Timestamp) -> Option<Result<Mailbox, Invalid>> {
        let (version, rest) = tagged(local)?;
        let found = if version == 1 { self.of_srs1(rest, now) } else { self.of_srs0(rest, now) };
        Some(found.unwrap_or(Err(Invalid::Forged)))
    }

    fn of_srs0(&self, rest: &str, now: Timestamp) -> Option<Result<Mailbox, Invalid>> {
        let mut parts = rest[1..].splitn(4, '=');
        let (hash, day, host, local) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        if !self.is_ours(hash, &["0", day, host, local]) {
            return None;
        }
        Some(in_time(day, now)?.and_then(|()| mailbox(local, host).ok_or(Invalid::Forged)))
    }

    fn of_srs1(&self, rest: &str, now: Timestamp) -> Option<Result<Mailbox, Invalid>> {
        let (stamp, host, opaque) = split_srs1(rest)?;
        let (day, hash) = stamp.split_at_checked(2)?;
        if !self.is_ours(hash, &["1", day, host, opaque]) {
            return None;
        }
        let original = || mailbox(&format!("SRS0{opaque}"), host).ok_or(Invalid::Forged);
        Some(in_time(day, now)?.and_then(|()| original()))
    }

    /// The hash to write.
    fn hash(&self, parts: &[&str]) -> String {
        self.0.macs(PURPOSE, &hashed(parts)).next().map(|mac| base32_hash(&mac)).unwrap_or_default()
    }

    /// Whether this server wrote a hash, under any of its keys.
    fn is_ours(&self, hash: &str, parts: &[&str]) -> bool {
        let hash = hash.to_ascii_lowercase();
        hash.len() == HASH_CHARS
            && self
                .0
                .macs(PURPOSE, &hashed(parts))
                .any(|mac| equal(base32_hash(&mac).as_bytes(), hash.as_bytes()))
    }
}

/// What a hash covers: the parts in small letters, which may hold anything but a line end.
fn hashed(parts: &[&str]) -> Vec<u8> {
    parts.join("\n").to_lowercase().into_bytes()
}

/// Compares in constant time.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// `SRS0` or `SRS1` and what follows, from the separator on.
fn tagged(local: &str) -> Option<(u8, &str)> {
    let (tag, rest) = local.split_at_checked(4)?;
    let version = match tag.to_ascii_uppercase().as_str() {
        "SRS0" => 0,
        "SRS1" => 1,
        _ => return None,
    };
    rest.starts_with(['=', '+', '-']).then_some((version, rest))
}

/// The server that has rewritten a sender first, and what it wrote behind `SRS0`; `None` if no server has.
fn first_hop<'a>(local: &'a str, host: &'a str) -> Option<(&'a str, &'a str)> {
    match tagged(local)? {
        (1, rest) => {
            let (_, hop, opaque) = split_srs1(rest)?;
            mailbox(opaque, hop).map(|_| (hop, opaque))
        }
        (_, rest) => Some((host, rest)),
    }
}

/// The hash of an `SRS1` address, the server whose `SRS0` it has, and that without its tag.
fn split_srs1(rest: &str) -> Option<(&str, &str, &str)> {
    let mut parts = rest[1..].splitn(3, '=');
    let (hash, host, opaque) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = !host.is_empty() && opaque.starts_with(['=', '+', '-']);
    is_whole.then_some((hash, host, opaque))
}

fn mailbox(local: &str, host: &str) -> Option<Mailbox> {
    let host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(literal) => Host::literal(literal)?,
        None => Host::domain(host)?,
    };
    Some(Mailbox { local: LocalPart::new(local)?, host })
}

fn day_of(at: Timestamp) -> u32 {
    let days = at.seconds().div_euclid(86_400);
    u32::try_from(days.rem_euclid(DAY_CYCLE.into())).unwrap_or(0)
}

fn base32_day(at: Timestamp) -> String {
    let day = day_of(at) as usize;
    [day / 32, day % 32].iter().map(|digit| char::from(BASE32[*digit])).collect()
}

/// Whether the day is one of the last [`DAYS`], or tomorrow by another node's clock; `None` if it
/// is no day.
fn in_time(day: &str, now: Timestamp) -> Option<Result<(), Invalid>> {
    let value = |c: u8| BASE32.iter().position(|digit| *digit == c.to_ascii_lowercase());
    let [high, low] = day.as_bytes() else { return None };
    let day = u32::try_from(value(*high)? * 32 + value(*low)?).ok()?;
    let tomorrow = day_of(now.after(Duration::from_secs(86_400)));
    let age = (tomorrow + DAY_CYCLE - day) % DAY_CYCLE;
    Some(if age <= DAYS + 1 { Ok(()) } else { Err(Invalid::Expired) })
}

fn base32_hash(mac: &[u8; 32]) -> String {
    let bits = mac[..5].iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    (0..HASH_CHARS).rev().map(|at| char::from(BASE32[(bits >> (5 * at) & 31) as usize])).collect()
}

#[cfg(test)]
mod tests;
