//! One piece of a checkpoint, sealed and bound to its account, position and name.
//!
//! Format: `docs/format/checkpoint.md`.

use std::fmt::Write as _;

use sealpost_base::{AccountId, Error, Position, Random, Result};
use zeroize::Zeroizing;

use crate::cipher::{ObjectCipher, derive, sha256};
use crate::{AccountKeys, Epoch, Sealed, chunk};

/// "Sealpost snapshot", version 1: sealed under the first root key.
const MAGIC: [u8; 4] = *b"SPS\x01";
/// Version 2 says under the key of which epoch it is sealed.
const MAGIC_EPOCH: [u8; 4] = *b"SPS\x02";
const SALT_BYTES: usize = 32;
const SECTION: u8 = 0;
/// Of a derived key, in the name of an object.
const NAME_BYTES: usize = 16;
/// Plaintext bytes of one piece; larger checkpoints are several pieces.
pub const MAX_BYTES: usize = 256 * 1024 * 1024;

/// Seals the piece `name` of the checkpoint at `position`.
pub fn seal(
    keys: &AccountKeys,
    account: AccountId,
    position: Position,
    name: &str,
    plaintext: &[u8],
    random: &dyn Random,
) -> Sealed {
    seal_by(chunk::seal_section, keys, (account, position, name), plaintext, random)
}

/// As [`seal`], not compressed: for what holds texts of several senders.
pub fn seal_raw(
    keys: &AccountKeys,
    account: AccountId,
    position: Position,
    name: &str,
    plaintext: &[u8],
    random: &dyn Random,
) -> Sealed {
    seal_by(chunk::seal_section_raw, keys, (account, position, name), plaintext, random)
}

fn seal_by(
    seal_section: impl FnOnce(&ObjectCipher, u8, &[u8], &mut Vec<u8>) -> usize,
    keys: &AccountKeys,
    (account, position, name): (AccountId, Position, &str),
    plaintext: &[u8],
    random: &dyn Random,
) -> Sealed {
    let mut salt = [0; SALT_BYTES];
    random.fill(&mut salt);
    let mut object = Vec::with_capacity(64 + plaintext.len() / 2 + chunk::OVERHEAD_BYTES);
    keys.epoch().begin(MAGIC, MAGIC_EPOCH, &mut object);
    object.extend_from_slice(&salt);
    let cipher = ObjectCipher::new(&salt, keys.checkpoint.bytes(), context(account, position, name));
    seal_section(&cipher, SECTION, plaintext, &mut object);
    Sealed::new(object)
}

/// Opens the piece `name` of the checkpoint at `position`.
///
/// # Errors
/// `Corrupt` for anything that is not exactly what was sealed for this account, position and name.
pub fn open(
    keys: &AccountKeys,
    account: AccountId,
    position: Position,
    name: &str,
    object: &[u8],
) -> Result<Zeroizing<Vec<u8>>> {
    open_by(|epoch| keys.in_epoch(epoch), (account, position, name), object)
}

/// As [`open`], of a piece that carries a MAC of this installation: a later epoch in it says that
/// these keys are outdated.
///
/// # Errors
/// `Denied` for a later epoch; as [`open`].
pub fn open_authentic(
    keys: &AccountKeys,
    account: AccountId,
    position: Position,
    name: &str,
    object: &[u8],
) -> Result<Zeroizing<Vec<u8>>> {
    open_by(|epoch| keys.in_authentic_epoch(epoch), (account, position, name), object)
}

fn open_by<'a>(
    keys: impl FnOnce(Epoch) -> Result<&'a AccountKeys>,
    (account, position, name): (AccountId, Position, &str),
    object: &[u8],
) -> Result<Zeroizing<Vec<u8>>> {
    let Some((epoch, rest)) = Epoch::begun(MAGIC, MAGIC_EPOCH, object) else {
        return Err(Error::corrupt("not a checkpoint, or of a version this program does not know"));
    };
    let Some((salt, body)) = rest.split_at_checked(SALT_BYTES) else {
        return Err(Error::corrupt("a checkpoint ends within its header"));
    };
    let keys = keys(epoch)?;
    let cipher = ObjectCipher::new(salt, keys.checkpoint.bytes(), context(account, position, name));
    chunk::open_section(&cipher, SECTION, body, MAX_BYTES)
        .map_err(|e| e.context(format!("checkpoint {position}/{name}")))
}

/// What the object of the piece `name` is called in the store: names tell how many mailboxes there
/// are, and how many messages in each. The same each time.
pub fn object_name(keys: &AccountKeys, account: AccountId, position: Position, name: &str) -> String {
    let of: [&[u8]; 3] = [&account.0, &position.0.to_be_bytes(), name.as_bytes()];
    let derived = derive(b"sealpost checkpoint name v1", keys.checkpoint.bytes(), &of);
    derived.bytes()[..NAME_BYTES].iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn context(account: AccountId, position: Position, name: &str) -> [u8; 32] {
    sha256(&[b"sealpost checkpoint v1", &account.0, &position.0.to_be_bytes(), name.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RootKey;
    use sealpost_base::{Kind, SeededRandom};

    #[test]
    fn names_of_objects_reveal_nothing_without_the_key() {
        let random = SeededRandom::new(2);
        let (account, at) = (AccountId([3; 16]), Position(256));
        let root = RootKey::generate(&random);
        let keys = AccountKeys::derive(&root, account);
        let name = object_name(&keys, account, at, "head");
        assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(object_name(&AccountKeys::derive(&root, account), account, at, "head"), name);
        let others = [
            object_name(&keys, account, at, "rows-00000001-00000000"),
            object_name(&keys, account, at.next(), "head"),
            object_name(&AccountKeys::derive(&RootKey::generate(&random), account), account, at, "head"),
            object_name(&AccountKeys::derive(&root.next(&random).unwrap(), account), account, at, "head"),
        ];
        assert!(!others.contains(&name));
    }

    #[test]
    fn opens_for_its_account_position_and_name_only() {
        let random = SeededRandom::new(1);
        let (account, at) = (AccountId([3; 16]), Position(256));
        let keys = AccountKeys::derive(&RootKey::generate(&random), account);
        let text = vec![5; 200_000];
        let object = seal(&keys, account, at, "state", &text, &random);
        let object = object.as_ref();
        assert!(object.len() < 2000, "a state of zeros compresses");
        assert_eq!(*open(&keys, account, at, "state", object).unwrap(), text);
        for refused in [
            open(&keys, AccountId([4; 16]), at, "state", object),
            open(&keys, account, at.next(), "state", object),
            open(&keys, account, at, "stat", object),
            open(&keys, account, at, "state", &object[..object.len() - 1]),
            open(&keys, account, at, "state", &[object, b"x"].concat()),
        ] {
            assert_eq!(refused.unwrap_err().kind(), Kind::Corrupt);
        }
        for bit in 0..object.len() * 8 {
            let mut damaged = object.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&keys, account, at, "state", &damaged).is_err(), "bit {bit}");
        }
    }
}
