//! The hash functions of backups: BLAKE3 of messages' exact bytes, SHA-256 of those from older
//! versions, and SHA-256 (FIPS 180-4) of journals ([decision
//! 38](../../../../docs/decisions/0038-blake3.md)).

use minicbor::data::Type;
use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};
use ring::digest::{Context, SHA256};

/// Bytes of a journal's checksums.
pub const CHECK_BYTES: usize = 16;
/// Bytes of a hash.
const HASH_BYTES: usize = 32;
/// The number of BLAKE3 in a journal.
const BLAKE3: u8 = 1;

/// The beginning of a SHA-256: enough to notice damage.
pub type Check = [u8; CHECK_BYTES];

/// Identifies a message's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digest {
    /// Messages stored by older versions have this.
    Sha256([u8; HASH_BYTES]),
    /// All others.
    Blake3([u8; HASH_BYTES]),
}

/// A digest being computed.
pub enum Digesting {
    /// To compare with a stored one of the same kind.
    Sha256(Box<Context>),
    /// Of a new message.
    Blake3(Box<blake3::Hasher>),
}

impl Default for Digesting {
    fn default() -> Self {
        Digesting::Blake3(Box::default())
    }
}

impl Digesting {
    /// One that can be compared with `digest`.
    pub fn like(digest: &Digest) -> Self {
        match digest {
            Digest::Sha256(_) => Digesting::Sha256(Box::new(Context::new(&SHA256))),
            Digest::Blake3(_) => Digesting::default(),
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        match self {
            Digesting::Sha256(context) => context.update(bytes),
            Digesting::Blake3(hasher) => drop(hasher.update(bytes)),
        }
    }

    /// The digest of all of them.
    pub fn finish(&self) -> Digest {
        match self {
            Digesting::Sha256(context) => Digest::Sha256(finish(Context::clone(context))),
            Digesting::Blake3(hasher) => Digest::Blake3(hasher.finalize().into()),
        }
    }
}

/// SHA-256 as it is; others as an array of their number and their bytes.
impl<C> Encode<C> for Digest {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        match self {
            Digest::Sha256(hash) => e.bytes(hash)?.ok(),
            Digest::Blake3(hash) => e.array(2)?.u8(BLAKE3)?.bytes(hash)?.ok(),
        }
    }
}

impl<'b, C> Decode<'b, C> for Digest {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        if d.datatype()? == Type::Bytes {
            return Ok(Digest::Sha256(hash(d)?));
        }
        match (d.array()?, d.u8()?) {
            (Some(2), BLAKE3) => Ok(Digest::Blake3(hash(d)?)),
            _ => Err(DecodeError::message("a digest of a kind that is not known").at(d.position())),
        }
    }
}

fn hash(d: &mut Decoder) -> Result<[u8; HASH_BYTES], DecodeError> {
    let bytes = d.bytes()?;
    bytes.try_into().map_err(|_| DecodeError::message("a digest of another length").at(d.position()))
}

/// A journal's checksum being computed.
pub struct Checking(Context);

impl Checking {
    /// One that begins with these bytes.
    pub fn new(first: &[u8]) -> Self {
        let mut checking = Checking(Context::new(&SHA256));
        checking.push(first);
        checking
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all of them.
    pub fn finish(&self) -> Check {
        let mut out = [0; CHECK_BYTES];
        out.copy_from_slice(&finish(self.0.clone())[..CHECK_BYTES]);
        out
    }
}

/// A SHA-256.
pub fn finish(context: Context) -> [u8; HASH_BYTES] {
    let mut out = [0; HASH_BYTES];
    out.copy_from_slice(context.finish().as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of `bytes`, of the kind of `like`, in two pieces.
    fn digest(like: Digest, bytes: &[u8]) -> Digest {
        let (a, b) = bytes.split_at(bytes.len() / 2);
        let mut digesting = Digesting::like(&like);
        digesting.push(a);
        digesting.push(b);
        digesting.finish()
    }

    #[test]
    fn known_answers() {
        // FIPS 180-4, example B.1.
        let Digest::Sha256(hash) = digest(Digest::Sha256([0; 32]), b"abc") else { panic!() };
        assert_eq!(hash[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(hash[28..], [0xf2, 0x00, 0x15, 0xad]);
        // The official test vectors of BLAKE3, input_len 3: the bytes 0, 1, 2.
        let Digest::Blake3(hash) = digest(Digest::Blake3([0; 32]), &[0, 1, 2]) else { panic!() };
        assert_eq!(hash[..4], [0xe1, 0xbe, 0x4d, 0x7a]);
    }

    #[test]
    fn both_digest_kinds_round_trip_and_others_fail() {
        for digest in [Digest::Sha256([7; 32]), Digest::Blake3([8; 32])] {
            let bytes = minicbor::to_vec(digest).unwrap();
            assert_eq!(minicbor::decode::<Digest>(&bytes).unwrap(), digest);
            for cut in 0..bytes.len() {
                assert!(minicbor::decode::<Digest>(&bytes[..cut]).is_err(), "{cut}");
            }
        }
        // Earlier versions wrote a byte string.
        assert_eq!(minicbor::to_vec(Digest::Sha256([7; 32])).unwrap()[..3], [0x58, 32, 7]);
        let mut wrong = minicbor::to_vec(Digest::Blake3([8; 32])).unwrap();
        wrong[1] = 2;
        assert!(minicbor::decode::<Digest>(&wrong).is_err());
        assert!(minicbor::decode::<Digest>(&[0x43, 1, 2, 3]).is_err());
    }
}
