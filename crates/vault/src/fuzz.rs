//! Entry point of the fuzz target for stored formats: any bytes from a store must open or be
//! refused, without harm and within the limits of memory.

use std::sync::OnceLock;

use bytes::{Bytes, BytesMut};
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{AccountId, Position, SeededRandom};

use crate::cipher::{ObjectCipher, PiecePosition, TAG_BYTES};
use crate::entry::LogKey;
use crate::message::Layout;
use crate::server_key::ServerKeys;
use crate::slot::{self, Slot, SlotKind};
use crate::upload::Upload;
use crate::{
    AccountKeys, RootKey, ShareKeys, checkpoint, chunk, entry, index, mark, message, pack, record, server_key,
};

const ACCOUNT: AccountId = AccountId([3; 16]);
const PACK: &str = "acct/03030303030303030303030303030303/pack/m/0";

struct Keys {
    account: AccountKeys,
    server: ServerKeys,
    object: ObjectCipher,
}

fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let random = SeededRandom::new(1);
        Keys {
            account: AccountKeys::derive(&RootKey::generate(&random), ACCOUNT),
            server: ServerKeys::generate(&random),
            object: ObjectCipher::new(&[], &[1; 32], [2; 32]),
        }
    })
}

/// Opens `data` as everything this crate can open, as it is and behind a seal that holds.
pub fn fuzz_object(data: &[u8]) {
    let keys = keys();
    let at = Position(7);
    let _ = entry::judge(&LogKey::of(&keys.server), ACCOUNT, at, data);
    let _ = mark::judge(&LogKey::of(&keys.server), ACCOUNT, at, mark::Kind::Checkpoint, data);
    let _ = entry::renumbering(data);
    if let Ok(name) = std::str::from_utf8(data) {
        let _ = crate::store::StoreMark::parse_authentic(name, &keys.server, "s3://bucket/prefix");
        // One that opens would have a MAC by chance.
        assert!(Upload::of_text(&keys.account, ACCOUNT, name).is_none());
    }
    let _ = entry::open(&keys.account, ACCOUNT, at, data);
    let _ = checkpoint::open(&keys.account, ACCOUNT, at, "state", data);
    segment(&keys.account, data);
    packs(&keys.account, data);
    let _ = record::open_record(&keys.server, "accounts/a", data);
    let _ = server_key::parse(data);
    let _ = chunk::open_section(&keys.object, 0, data, 1 << 20);
    sealed_chunk(&keys.object, data);
    layout(data);
    message::stub::fuzz(&keys.object, data);
    slots(data);
    share_keys(&keys.account, data);
    round_trip(keys, data);
}

fn segment(keys: &AccountKeys, data: &[u8]) {
    let Ok(reader) = index::SegmentReader::new(keys, ACCOUNT, "path", &Bytes::copy_from_slice(data)) else {
        return;
    };
    for number in 0..=reader.count() {
        let _ = reader.section(number, 1 << 20);
    }
}

/// A pack as it is, and one whose directory is sealed right and says what the fuzzer says: how many
/// rows, the rows, and the body.
fn packs(keys: &AccountKeys, data: &[u8]) {
    look_through(keys, &Bytes::copy_from_slice(data));
    let Some((&rows, rest)) = data.split_first() else { return };
    let (directory, body) = rest.split_at(rest.len().min(usize::from(rows) * pack::ROW_BYTES));
    let Ok(sealed) = index::seal(keys, ACCOUNT, PACK, &[directory], &SeededRandom::new(1)) else { return };
    look_through(keys, &pack::with_directory(&sealed, body));
}

fn look_through(keys: &AccountKeys, object: &Bytes) {
    let Ok(opened) = pack::Pack::open(keys, ACCOUNT, PACK, object) else { return };
    let mut bytes = 0;
    for member in opened.members().flatten() {
        bytes += member.piece.bytes().len();
        let found = opened.find(member.number, member.object).expect("it was read a moment ago");
        assert_eq!(found.expect("it is a member").bytes(), member.piece.bytes());
    }
    assert!(bytes <= object.len());
}

/// A chunk whose seal is right and whose content is the fuzzer's, padded as it should be and not:
/// what a thief of the keys could write.
fn sealed_chunk(cipher: &ObjectCipher, data: &[u8]) {
    let Some((&encoding, body)) = data.split_first() else { return };
    if body.len() > CHUNK_BYTES {
        return;
    }
    let mut padded = body.to_vec();
    padded.resize(chunk::padded(body.len()), 0);
    let mut trailer = (body.len() as u32).to_be_bytes();
    trailer[0] = encoding;
    padded.extend_from_slice(&trailer);
    for content in [&padded, body] {
        let mut header = ((content.len() + TAG_BYTES) as u32).to_be_bytes();
        header[0] = 2;
        let mut sealed = header.to_vec();
        sealed.extend_from_slice(content);
        let place = PiecePosition { section: 0, number: 0, last: true };
        cipher.seal(place, header, &mut sealed, header.len());
        if let Ok(plain) = chunk::open(cipher, place, BytesMut::from(&sealed[..])) {
            assert!(plain.len() <= CHUNK_BYTES);
        }
    }
    let (mut scratch, mut out) = (Vec::new(), Vec::new());
    if index::take_piece(body, 1000, &mut scratch, &mut out).is_ok() {
        assert!(out.len() <= 1000);
    }
}

fn layout(data: &[u8]) {
    let Ok(layout) = minicbor::decode::<Layout>(data) else { return };
    let again: Layout =
        minicbor::decode(&minicbor::to_vec(layout).expect("sizes encode")).expect("and decode");
    assert_eq!(layout, again);
    let _ = layout.object_bytes();
}

fn slots(data: &[u8]) {
    let Ok(slot) = minicbor::decode::<Slot>(data) else { return };
    // Argon2 would be all that is fuzzed.
    if slot.kind() != SlotKind::Password {
        assert!(slot.open(ACCOUNT, data).is_none());
    }
    slot::for_login(&[slot], data);
}

fn share_keys(keys: &AccountKeys, data: &[u8]) {
    let Ok(found) = minicbor::decode::<ShareKeys>(data) else { return };
    let _ = found.epoch();
    assert!(!matches!(found.open(ACCOUNT, ACCOUNT, keys), Ok(Some(_))));
}

fn round_trip(keys: &Keys, data: &[u8]) {
    let mut sealed = Vec::new();
    chunk::seal_section(&keys.object, 1, data, &mut sealed);
    let plain = chunk::open_section(&keys.object, 1, &sealed, data.len()).expect("what was sealed opens");
    assert_eq!(&plain[..], data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{CountedEntries, Generation, Header, Renumbering};
    use crate::{Hash, Sealed};
    use proptest::prelude::*;

    const TEXT: &[u8] = b"some event, and another one, and one more event of the same kind, ";

    fn corpus_dir() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/stored_formats")
    }

    fn corpus() -> Vec<(String, Vec<u8>)> {
        let files = std::fs::read_dir(corpus_dir()).unwrap().map(|entry| entry.unwrap().path());
        let mut corpus: Vec<_> = files
            .map(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, std::fs::read(&path).unwrap())
            })
            .collect();
        corpus.sort();
        corpus
    }

    /// Writes the corpus: objects of every kind, as the fuzzer would like to begin. Only for a new
    /// format version, under new names: the files that are there show that what is on disk stays
    /// readable.
    #[test]
    #[ignore = "writes files into the source tree"]
    fn write_the_corpus() {
        let (keys, random) = (keys(), SeededRandom::new(2));
        let (at, text) = (Position(7), TEXT.repeat(10));
        let write = |name: &str, bytes: &[u8]| std::fs::write(corpus_dir().join(name), bytes).unwrap();
        let generation = Generation(1);
        let header = Header { account: ACCOUNT, position: at, prev: Hash::ZERO, generation };
        let key = LogKey::of(&keys.server);
        let owner: Sealed = entry::seal_owner(&keys.account, &key, &header, &text, &random);
        write("entry-v2-owner", owner.as_ref());
        let public = keys.account.public();
        let delivery = entry::seal_delivery(&public, &key, &header, &text, &random).unwrap();
        write("entry-v2-delivery", delivery.as_ref());
        let renumbering = Renumbering::of(Position(3), CountedEntries::NONE.with(Position(3), &Hash::ZERO));
        write("renumbering-v2", entry::seal_renumbering(&key, &header, &renumbering).as_ref());
        let checkpoint = checkpoint::seal(&keys.account, ACCOUNT, at, "state", &text, &random);
        write("checkpoint", checkpoint.as_ref());
        write("mark-v2-checkpoint", mark::checkpoint(&key, ACCOUNT, at, &checkpoint).as_ref());
        let segment = index::seal(&keys.account, ACCOUNT, "path", &[&text, b"", &text], &random).unwrap();
        write("segment", segment.as_ref());
        write("record", record::seal_record(&keys.server, "accounts/a", &text).as_ref());
        let layout =
            Layout { raw_bytes: 1, sealed_raw: 56, sealed_text: 56, sealed_structure: 56, sealed_index: 0 };
        write("layout", &minicbor::to_vec(layout).unwrap());
        let (slot, _) = Slot::token(&RootKey::generate(&random), ACCOUNT, "me@x", &random);
        write("slot", &minicbor::to_vec(slot).unwrap());
        // Contents of a chunk behind a seal that holds: sound, and claiming far more than a chunk may hold.
        write("chunk-zstd", &[&[1], &zstd::bulk::compress(&text, 1).unwrap()[..]].concat());
        write("chunk-bomb", &[&[1], &zstd::bulk::compress(&vec![0; 100 << 20], 1).unwrap()[..]].concat());
        let member = |number: u32, start: usize| pack::Member {
            number,
            object: sealpost_base::ObjectId([number as u8; 16]),
            piece: pack::Piece::new(start as u64, Bytes::copy_from_slice(&text[start..])),
        };
        let members = [member(1, 0), member(7, 600)];
        write("pack", pack::seal(&keys.account, ACCOUNT, PACK, &members, &random).unwrap().as_ref());
    }

    #[test]
    fn objects_of_the_corpus_still_open() {
        let (keys, at, text) = (keys(), Position(7), TEXT.repeat(10));
        let mut opened = 0;
        for (name, bytes) in corpus() {
            let plain = match name.split('-').next() {
                Some("renumbering") => {
                    assert_eq!(entry::renumbering(&bytes).unwrap().from, Position(3));
                    continue;
                }
                Some("entry") => entry::open(&keys.account, ACCOUNT, at, &bytes).unwrap().1.to_vec(),
                Some("checkpoint") => {
                    checkpoint::open(&keys.account, ACCOUNT, at, "state", &bytes).unwrap().to_vec()
                }
                Some("mark") => {
                    let key = LogKey::of(&keys.server);
                    let judged = mark::judge(&key, ACCOUNT, at, mark::Kind::Checkpoint, &bytes);
                    let mark::Verdict::Authentic(manifest) = judged else { panic!("{judged:?}") };
                    checkpoint::open(&keys.account, ACCOUNT, at, "state", manifest).unwrap().to_vec()
                }
                Some("segment") => {
                    let segment = Bytes::copy_from_slice(&bytes);
                    let reader = index::SegmentReader::new(&keys.account, ACCOUNT, "path", &segment).unwrap();
                    assert!(reader.section(1, 0).unwrap().is_empty());
                    reader.section(2, 1 << 20).unwrap()
                }
                Some("pack") => {
                    let object = Bytes::copy_from_slice(&bytes);
                    let opened = pack::Pack::open(&keys.account, ACCOUNT, PACK, &object).unwrap();
                    opened.members().next().unwrap().unwrap().piece.bytes().to_vec()
                }
                Some("record") => record::open_record(&keys.server, "accounts/a", &bytes).unwrap(),
                _ => continue,
            };
            assert_eq!(plain, text, "{name}");
            opened += 1;
        }
        assert!(opened >= 5);
    }

    #[test]
    fn the_corpus_replays() {
        for (_, object) in corpus() {
            fuzz_object(&object);
            for cut in [0, 1, 4, 37, object.len() / 2, object.len() - 1] {
                fuzz_object(&object[..cut.min(object.len())]);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn damaged_objects_do_no_harm(which: prop::sample::Index, at: prop::sample::Index, bytes: Vec<u8>) {
            let corpus = corpus();
            let mut object = corpus[which.index(corpus.len())].1.clone();
            let at = at.index(object.len());
            object.splice(at..(at + bytes.len()).min(object.len()), bytes);
            fuzz_object(&object);
        }

        #[test]
        fn anything_does_no_harm(data: Vec<u8>) {
            fuzz_object(&data);
        }
    }
}
