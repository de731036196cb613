//! Small objects beside a log about its positions: there is a checkpoint, a position is skipped,
//! entries of older keys count.
//!
//! Every node acts on these, also without a key of the account: it does not append, or trims. So a
//! MAC under a key of `server.key` covers each, with the account, the position and the kind; an
//! object without it was written by another program and counts nothing ([`judge`]). The number in
//! the name of a mark is a tag under the same key, so that a listing alone shows planted ones
//! ([`judge_name`], decision 71). Format: `docs/format/checkpoint.md`.

use sealpost_base::{AccountId, Position, Random};

use crate::entry::{LogKey, MAC_BYTES};
use crate::{Hash, Sealed};

/// "Sealpost mark", version 2; version 1 had no MAC.
const MAGIC: [u8; 4] = *b"SPM\x02";
const FIXED_BYTES: usize = 4 + 1 + 4 + 16 + 8;
const HEADER_BYTES: usize = FIXED_BYTES + MAC_BYTES;
const LABEL: &[u8] = b"sealpost mark v2";
const NAME_LABEL: &[u8] = b"sealpost mark name v1";
const BALLOT_LABEL: &[u8] = b"sealpost ballot v1";
const HASH_BYTES: usize = 32;

/// What a mark says of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// There is a checkpoint of everything up to it; its manifest follows.
    Checkpoint,
    /// Nothing that is written there counts.
    PassedOver,
    /// Of the whole log: which objects under older keys there were when those were retired.
    Attestation,
    /// There is a checkpoint there, as its name alone tells, which that of the manifest does not.
    Witness,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Kind::Checkpoint => 1,
            Kind::PassedOver => 2,
            Kind::Attestation => 3,
            Kind::Witness => 4,
        }
    }
}

/// What is at the path of a mark.
#[derive(Debug)]
pub enum Verdict<'a> {
    /// A process of this installation wrote it; what it says beyond its kind.
    Authentic(&'a [u8]),
    /// The same, if it existed when its key was retired: a holder of that key can make others.
    Retired(&'a [u8]),
    /// Nothing that this installation wrote there, or not as it was written. Why, for the operator.
    Noise(String),
}

/// A manifest that was [sealed](crate::checkpoint::seal), as the mark that there is a checkpoint.
pub fn checkpoint(key: &LogKey, account: AccountId, position: Position, manifest: &Sealed) -> Sealed {
    seal(key, account, position, Kind::Checkpoint, manifest.as_ref())
}

/// The mark that nothing counts that is written at `position`.
pub fn passed_over(key: &LogKey, account: AccountId, position: Position) -> Sealed {
    seal(key, account, position, Kind::PassedOver, &[])
}

/// The mark that these objects were there under older keys.
pub fn attestation(key: &LogKey, account: AccountId, objects: &[Hash]) -> Sealed {
    let hashes: Vec<u8> = objects.iter().flat_map(|hash| hash.0).collect();
    seal(key, account, Position::ZERO, Kind::Attestation, &hashes)
}

/// The object beside the manifest of a checkpoint that vouches for it by its name.
pub fn witness(key: &LogKey, account: AccountId, position: Position) -> Sealed {
    seal(key, account, position, Kind::Witness, &[])
}

/// What the number in the name of a mark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameVerdict {
    /// A process of this installation chose it: the object matches its name, whatever its content.
    Authentic,
    /// The same under a key that was retired.
    Retired,
    /// Another program chose it, or an earlier version, whose numbers were random: the content
    /// decides.
    Unknown,
}

/// The number in the name of a new mark. No other program can choose it, so no object is at that
/// path before. A log may have several attestations, so half of their number is random.
pub fn number(key: &LogKey, account: AccountId, position: Position, kind: Kind, random: &dyn Random) -> u64 {
    let nonce = match kind {
        Kind::Attestation => random.next_u64() as u32,
        Kind::Checkpoint | Kind::PassedOver | Kind::Witness => 0,
    };
    let parts = name_parts(account, position, kind, nonce);
    number_of(kind, nonce, &key.sign(&[NAME_LABEL, &parts]))
}

/// What `number`, in the name of a mark of that kind for `position` of `account`, says. Reads nothing.
pub fn judge_name(
    key: &LogKey,
    account: AccountId,
    position: Position,
    kind: Kind,
    number: u64,
) -> NameVerdict {
    let nonce = if kind == Kind::Attestation { (number >> 32) as u32 } else { 0 };
    let parts = name_parts(account, position, kind, nonce);
    let is_it = |mac: &[u8; MAC_BYTES]| number_of(kind, nonce, mac) == number;
    match key.verify_any(&[NAME_LABEL, &parts], is_it) {
        Some(false) => NameVerdict::Authentic,
        Some(true) => NameVerdict::Retired,
        None => NameVerdict::Unknown,
    }
}

fn name_parts(account: AccountId, position: Position, kind: Kind, nonce: u32) -> Vec<u8> {
    [&[kind.code()], &account.0[..], &position.0.to_be_bytes(), &nonce.to_be_bytes()].concat()
}

fn number_of(kind: Kind, nonce: u32, mac: &[u8; MAC_BYTES]) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&mac[..8]);
    let tag = u64::from_be_bytes(first);
    if kind == Kind::Attestation { u64::from(nonce) << 32 | tag >> 32 } else { tag }
}

/// The end of the name of a writer's ballot of that round after that nonce, in the log of
/// `account`: no other program can compute it.
pub fn ballot_tag(key: &LogKey, account: AccountId, round: u32, nonce: u32) -> u32 {
    ballot_tag_of(&key.sign(&[BALLOT_LABEL, &ballot_parts(account, round, nonce)]))
}

/// Whether it ends with `tag`, under any of the keys: the content of a ballot is never written
/// again.
pub fn is_ballot_tag(key: &LogKey, account: AccountId, round: u32, nonce: u32, tag: u32) -> bool {
    let parts = ballot_parts(account, round, nonce);
    key.verify_any(&[BALLOT_LABEL, &parts], |mac| ballot_tag_of(mac) == tag).is_some()
}

fn ballot_parts(account: AccountId, round: u32, nonce: u32) -> Vec<u8> {
    [&account.0[..], &round.to_be_bytes(), &nonce.to_be_bytes()].concat()
}

fn ballot_tag_of(mac: &[u8; MAC_BYTES]) -> u32 {
    u32::from_be_bytes([mac[0], mac[1], mac[2], mac[3]])
}

/// Which objects an attestation names, from what it says.
pub fn attested(said: &[u8]) -> impl Iterator<Item = Hash> {
    said.chunks_exact(HASH_BYTES).filter_map(|hash| Some(Hash(hash.try_into().ok()?)))
}

/// Whether `object` is the mark of that kind for `position` of `account`.
pub fn judge<'a>(
    key: &LogKey,
    account: AccountId,
    position: Position,
    kind: Kind,
    object: &'a [u8],
) -> Verdict<'a> {
    let noise = |why: &str| Verdict::Noise(why.to_owned());
    let split = object.split_at_checked(HEADER_BYTES);
    let Some(((fixed, mac), body)) =
        split.and_then(|(header, body)| Some((header.split_last_chunk()?, body)))
    else {
        return noise("it ends within its header");
    };
    if fixed[..4] != MAGIC {
        return noise("it has no MAC, or is of a version that this program does not know");
    }
    let expected = [&[kind.code()], &fixed[5..9], &account.0[..], &position.0.to_be_bytes()].concat();
    if fixed[4..] != expected[..] {
        return noise("it is of another account, position or kind");
    }
    match key.verify(&fixed[5..9], &[LABEL, fixed, body], mac) {
        None => noise("it was written under another server.key than this installation's"),
        Some((false, _)) => noise("its MAC is wrong"),
        Some((true, true)) => Verdict::Retired(body),
        Some((true, false)) => Verdict::Authentic(body),
    }
}

/// Whether `object` begins as the mark of that kind for `position` of `account` does, under whichever key.
pub fn begins_as(account: AccountId, position: Position, kind: Kind, object: &[u8]) -> bool {
    let place = [&account.0[..], &position.0.to_be_bytes()].concat();
    object.starts_with(&MAGIC)
        && object.get(4) == Some(&kind.code())
        && object.get(9..FIXED_BYTES) == Some(&place)
}

/// Whether `object`, which was [judged](judge), is under the key that everything new is under.
pub fn is_current(key: &LogKey, object: &[u8]) -> bool {
    object.get(5..9).is_some_and(|id| key.is_current(id))
}

fn seal(key: &LogKey, account: AccountId, position: Position, kind: Kind, body: &[u8]) -> Sealed {
    let mut object = Vec::with_capacity(HEADER_BYTES + body.len());
    object.extend_from_slice(&MAGIC);
    object.push(kind.code());
    object.extend_from_slice(&key.current_id());
    object.extend_from_slice(&account.0);
    object.extend_from_slice(&position.0.to_be_bytes());
    let mac = key.sign(&[LABEL, &object, body]);
    object.extend_from_slice(&mac);
    object.extend_from_slice(body);
    Sealed::new(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_key::ServerKeys;
    use sealpost_base::SeededRandom;

    const ACCOUNT: AccountId = AccountId([3; 16]);
    const AT: Position = Position(9);

    fn keys() -> ServerKeys {
        ServerKeys::generate(&SeededRandom::new(1))
    }

    #[test]
    fn a_mark_is_bound_to_account_position_kind_and_content() {
        let key = LogKey::of(&keys());
        let body = Sealed::new(&b"a sealed manifest"[..]);
        let mark = checkpoint(&key, ACCOUNT, AT, &body);
        let object = mark.as_ref();
        let judged = judge(&key, ACCOUNT, AT, Kind::Checkpoint, object);
        assert!(matches!(judged, Verdict::Authentic(said) if said == body.as_ref()));
        let other = LogKey::of(&ServerKeys::generate(&SeededRandom::new(2)));
        for refused in [
            judge(&key, AccountId([4; 16]), AT, Kind::Checkpoint, object),
            judge(&key, ACCOUNT, AT.next(), Kind::Checkpoint, object),
            judge(&key, ACCOUNT, AT, Kind::PassedOver, object),
            judge(&other, ACCOUNT, AT, Kind::Checkpoint, object),
            judge(&key, ACCOUNT, AT, Kind::Checkpoint, body.as_ref()),
            judge(&key, ACCOUNT, AT, Kind::Checkpoint, &[object, b"x"].concat()),
        ] {
            assert!(matches!(refused, Verdict::Noise(_)), "{refused:?}");
        }
        for bit in 0..object.len() * 8 {
            let mut damaged = object.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let judged = judge(&key, ACCOUNT, AT, Kind::Checkpoint, &damaged);
            assert!(matches!(judged, Verdict::Noise(_)), "bit {bit}");
        }
        for length in 0..object.len() {
            let judged = judge(&key, ACCOUNT, AT, Kind::Checkpoint, &object[..length]);
            assert!(matches!(judged, Verdict::Noise(_)));
        }
    }

    #[test]
    fn a_mark_under_a_retired_key_is_recognized() {
        let old = keys();
        let rotated = old.with_next(&SeededRandom::new(2)).unwrap().rotated();
        let mark = passed_over(&LogKey::of(&old), ACCOUNT, AT);
        let judged = |keys: &ServerKeys| {
            let key = LogKey::of(keys);
            let verdict = judge(&key, ACCOUNT, AT, Kind::PassedOver, mark.as_ref());
            (matches!(verdict, Verdict::Authentic(_)), matches!(verdict, Verdict::Retired(_)))
        };
        assert_eq!(judged(&old), (true, false));
        assert_eq!(judged(&rotated), (true, false));
        assert_eq!(judged(&rotated.settled()), (false, true));
        assert!(is_current(&LogKey::of(&old), mark.as_ref()));
        assert!(!is_current(&LogKey::of(&rotated), mark.as_ref()));
    }

    #[test]
    fn a_marks_number_binds_key_account_position_and_kind() {
        let random = SeededRandom::new(4);
        let old = keys();
        let rotated = old.with_next(&random).unwrap().rotated();
        let (key, retired) = (LogKey::of(&old), LogKey::of(&rotated.settled()));
        let other = LogKey::of(&ServerKeys::generate(&random));
        for kind in [Kind::PassedOver, Kind::Attestation, Kind::Witness] {
            let number = number(&key, ACCOUNT, AT, kind, &random);
            assert_eq!(judge_name(&key, ACCOUNT, AT, kind, number), NameVerdict::Authentic);
            assert_eq!(judge_name(&LogKey::of(&rotated), ACCOUNT, AT, kind, number), NameVerdict::Authentic);
            assert_eq!(judge_name(&retired, ACCOUNT, AT, kind, number), NameVerdict::Retired);
            for unknown in [
                judge_name(&other, ACCOUNT, AT, kind, number),
                judge_name(&key, AccountId([4; 16]), AT, kind, number),
                judge_name(&key, ACCOUNT, AT.next(), kind, number),
                judge_name(&key, ACCOUNT, AT, Kind::Checkpoint, number),
                judge_name(&key, ACCOUNT, AT, kind, number ^ 1),
                judge_name(&key, ACCOUNT, AT, kind, random.next_u64()),
            ] {
                assert_eq!(unknown, NameVerdict::Unknown);
            }
        }
        let two = [1, 2].map(|_| number(&key, ACCOUNT, Position::ZERO, Kind::Attestation, &random));
        assert_ne!(two[0], two[1], "a log may have several");
    }

    #[test]
    fn an_attestation_names_its_hashes() {
        let key = LogKey::of(&keys());
        let hashes = [Hash::of(b"a"), Hash::of(b"b")];
        let mark = attestation(&key, ACCOUNT, &hashes);
        let judged = judge(&key, ACCOUNT, Position::ZERO, Kind::Attestation, mark.as_ref());
        let Verdict::Authentic(said) = judged else { panic!("{judged:?}") };
        assert_eq!(attested(said).collect::<Vec<_>>(), hashes);
    }
}
