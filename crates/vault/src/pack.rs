//! Packs: sealed pieces of many message objects, byte for byte, in one object, so that a reader of
//! many messages of a remote store makes one request. They are derived from the objects and never
//! needed.
//!
//! A pack has a sealed directory and a body. The directory names each piece's message, where in the
//! message's object it begins, how long it is and its digest; the body is the pieces, one after the
//! other, sealed as they are. Format: `docs/format/pack.md`.

use bytes::Bytes;
use sealpost_base::{AccountId, Error, Kind, ObjectId, Random, Result, limits};

use crate::cipher::sha256;
use crate::index::{self, SegmentReader};
use crate::{AccountKeys, Sealed};

/// "Sealpost pack", version 1.
const MAGIC: [u8; 4] = *b"SPP\x01";
const SIZE_BYTES: usize = 4;
const HEAD_BYTES: usize = MAGIC.len() + SIZE_BYTES;
const DIGEST_BYTES: usize = 16;
/// Number, object, start, length, digest.
pub(crate) const ROW_BYTES: usize = 4 + 16 + 8 + 4 + DIGEST_BYTES;

/// Consecutive sealed bytes of a message object. There is no public constructor, so that a pack
/// cannot hold anything else.
#[derive(Clone)]
pub struct Piece {
    start: u64,
    bytes: Bytes,
}

impl Piece {
    pub(crate) fn new(start: u64, bytes: Bytes) -> Self {
        Piece { start, bytes }
    }

    /// Where in the object it begins.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The bytes of the object from there on.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// A piece of the message of that number, whose object that is.
#[derive(Clone)]
pub struct Member {
    /// The message's number.
    pub number: u32,
    /// The object that the piece is of.
    pub object: ObjectId,
    /// The piece.
    pub piece: Piece,
}

/// Where the packs of an account are.
pub fn prefix(account: AccountId) -> String {
    format!("acct/{account}/pack")
}

/// Makes the pack at `path`, which lies below [`prefix`], of `members`, whose numbers ascend.
///
/// # Errors
/// `Limit` if they are too many, or too large together.
pub fn seal(
    keys: &AccountKeys,
    account: AccountId,
    path: &str,
    members: &[Member],
    random: &dyn Random,
) -> Result<Sealed> {
    let size: usize = members.iter().map(|member| member.piece.bytes.len()).sum();
    if members.len() > limits::PACK_MESSAGES || size > limits::PACK_BYTES {
        return Err(Error::new(Kind::Limit, "a pack that is too large"));
    }
    let mut directory = Vec::with_capacity(members.len() * ROW_BYTES);
    for Member { number, object, piece } in members {
        directory.extend(number.to_le_bytes());
        directory.extend(object.0);
        directory.extend(piece.start.to_le_bytes());
        directory.extend((piece.bytes.len() as u32).to_le_bytes());
        directory.extend(digest(&piece.bytes));
    }
    let directory = index::seal(keys, account, path, &[&directory], random)?;
    let mut object = Vec::with_capacity(HEAD_BYTES + directory.len() + size);
    object.extend(MAGIC);
    object.extend((directory.len() as u32).to_be_bytes());
    object.extend_from_slice(directory.as_ref());
    members.iter().for_each(|member| object.extend_from_slice(&member.piece.bytes));
    Ok(Sealed::new(object))
}

/// A pack whose directory is valid, with any content; for fuzzing.
pub(crate) fn with_directory(sealed: &Sealed, body: &[u8]) -> Bytes {
    let size = (sealed.len() as u32).to_be_bytes();
    [&MAGIC, &size[..], sealed.as_ref(), body].concat().into()
}

/// The parts of a pack, directory and body: readable without a key.
///
/// # Errors
/// `Corrupt` if it is none.
pub fn parts(object: &Bytes) -> Result<(Bytes, Bytes)> {
    let corrupt = || Error::corrupt("not a pack, or of a version this program does not know");
    let (head, rest) = object.split_at_checked(HEAD_BYTES).ok_or_else(corrupt)?;
    let (magic, size) = head.split_at(MAGIC.len());
    let size = size.iter().fold(0usize, |size, byte| size << 8 | usize::from(*byte));
    if magic != MAGIC || size > rest.len() {
        return Err(corrupt());
    }
    Ok((object.slice(HEAD_BYTES..HEAD_BYTES + size), object.slice(HEAD_BYTES + size..)))
}

/// A pack that was read back.
pub struct Pack {
    rows: Vec<Row>,
    body: Bytes,
}

struct Row {
    number: u32,
    object: ObjectId,
    start: u64,
    digest: [u8; DIGEST_BYTES],
    /// Where the piece ends in the body; it begins where the one before ends.
    end: usize,
}

impl Pack {
    /// Opens the directory of `object`, which was found at `path`. The pieces share the memory of `object`.
    ///
    /// # Errors
    /// `Corrupt` for a directory that is not what was sealed for this account and path, or does not
    /// fit the body.
    pub fn open(keys: &AccountKeys, account: AccountId, path: &str, object: &Bytes) -> Result<Self> {
        Self::read(keys, account, path, object).map_err(|e| e.context(path))
    }

    fn read(keys: &AccountKeys, account: AccountId, path: &str, object: &Bytes) -> Result<Self> {
        let (directory, body) = parts(object)?;
        let directory = SegmentReader::new(keys, account, path, &directory)?;
        let directory = directory.section(0, limits::PACK_MESSAGES * ROW_BYTES)?;
        let wrong = || Error::corrupt("a pack whose directory does not fit it");
        let (mut rows, mut end) = (Vec::<Row>::with_capacity(directory.len() / ROW_BYTES), 0usize);
        let (chunks, rest) = directory.as_chunks::<ROW_BYTES>();
        for row in chunks {
            let number = little(&row[..4]) as u32;
            let mut object = [0; 16];
            object.copy_from_slice(&row[4..20]);
            let mut digest = [0; DIGEST_BYTES];
            digest.copy_from_slice(&row[32..]);
            end = end.checked_add(little(&row[28..32]) as usize).ok_or_else(wrong)?;
            if rows.last().is_some_and(|last| last.number >= number) {
                return Err(wrong());
            }
            rows.push(Row { number, object: ObjectId(object), start: little(&row[20..28]), digest, end });
        }
        if !rest.is_empty() || end != body.len() {
            return Err(wrong());
        }
        Ok(Pack { rows, body })
    }

    /// The piece of that message, if its object is still that one.
    ///
    /// # Errors
    /// `Corrupt` if it is not what was packed.
    pub fn find(&self, number: u32, object: ObjectId) -> Result<Option<Piece>> {
        match self.rows.binary_search_by_key(&number, |row| row.number) {
            Ok(at) if self.rows[at].object == object => self.piece(at).map(Some),
            _ => Ok(None),
        }
    }

    /// All of it.
    ///
    /// # Errors
    /// `Corrupt` in the place of a piece that is not what was packed.
    pub fn members(&self) -> impl Iterator<Item = Result<Member>> + '_ {
        self.rows
            .iter()
            .enumerate()
            .map(|(at, row)| Ok(Member { number: row.number, object: row.object, piece: self.piece(at)? }))
    }

    fn piece(&self, at: usize) -> Result<Piece> {
        let row = &self.rows[at];
        let begin = at.checked_sub(1).map_or(0, |before| self.rows[before].end);
        let bytes = self.body.slice(begin..row.end);
        if digest(&bytes) != row.digest {
            return Err(Error::corrupt("a pack has a damaged piece"));
        }
        Ok(Piece { start: row.start, bytes })
    }
}

fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(&sha256(&[b"sealpost pack v1", bytes])[..DIGEST_BYTES]);
    digest
}

fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RootKey;
    use sealpost_base::SeededRandom;

    const ACCOUNT: AccountId = AccountId([3; 16]);
    const PATH: &str = "acct/a/pack/message/b";

    fn keys() -> AccountKeys {
        AccountKeys::derive(&RootKey::generate(&SeededRandom::new(1)), ACCOUNT)
    }

    fn member(number: u32, size: usize) -> Member {
        let piece = Piece::new(u64::from(number) * 7, Bytes::from(vec![number as u8; size]));
        Member { number, object: ObjectId([number as u8; 16]), piece }
    }

    fn sealed(members: &[Member]) -> Result<Bytes> {
        seal(&keys(), ACCOUNT, PATH, members, &SeededRandom::new(2)).map(Sealed::into_bytes)
    }

    /// Everything that it says, or that something is wrong.
    fn said(path: &str, object: &Bytes) -> Result<Vec<(u32, ObjectId, u64, Bytes)>> {
        let pack = Pack::open(&keys(), ACCOUNT, path, object)?;
        let said = pack
            .members()
            .map(|member| member.map(|m| (m.number, m.object, m.piece.start(), m.piece.bytes().clone())));
        said.collect()
    }

    #[test]
    fn packed_messages_are_found() {
        let members = [member(1, 100), member(5, 0), member(9, 3000)];
        let object = sealed(&members).unwrap();
        let pack = Pack::open(&keys(), ACCOUNT, PATH, &object).unwrap();
        for member in &members {
            let found = pack.find(member.number, member.object).unwrap().unwrap();
            assert_eq!((found.start(), found.bytes()), (member.piece.start(), member.piece.bytes()));
            assert!(pack.find(member.number, ObjectId([77; 16])).unwrap().is_none());
        }
        assert!(pack.find(2, ObjectId([1; 16])).unwrap().is_none());
        assert_eq!(said("acct/a/pack/message/c", &object).unwrap_err().kind(), Kind::Corrupt);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let object = sealed(&[member(1, 50), member(2, 60)]).unwrap();
        for at in 0..object.len() {
            let mut damaged = object.to_vec();
            damaged[at] ^= 1 << (at % 8);
            assert!(said(PATH, &damaged.into()).is_err(), "byte {at}");
            assert!(said(PATH, &object.slice(..at)).is_err(), "{at} bytes");
        }
    }

    /// A damaged piece is reported, and the others are read.
    #[test]
    fn damage_to_one_piece_leaves_the_others() {
        let mut damaged = sealed(&[member(1, 50), member(2, 60)]).unwrap().to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        let pack = Pack::open(&keys(), ACCOUNT, PATH, &damaged.into()).unwrap();
        assert!(pack.find(1, ObjectId([1; 16])).unwrap().is_some());
        assert_eq!(pack.find(2, ObjectId([2; 16])).err().unwrap().kind(), Kind::Corrupt);
    }

    #[test]
    fn limits_hold() {
        assert_eq!(sealed(&[member(1, limits::PACK_BYTES + 1)]).unwrap_err().kind(), Kind::Limit);
        let many: Vec<Member> = (0..=limits::PACK_MESSAGES as u32).map(|n| member(n, 1)).collect();
        assert_eq!(sealed(&many).unwrap_err().kind(), Kind::Limit);
        assert!(sealed(&many[1..]).is_ok() && sealed(&[member(1, limits::PACK_BYTES)]).is_ok());
    }

    #[test]
    fn numbers_ascend() {
        let object = sealed(&[member(2, 5), member(1, 5)]).unwrap();
        assert_eq!(said(PATH, &object).unwrap_err().kind(), Kind::Corrupt);
    }
}
