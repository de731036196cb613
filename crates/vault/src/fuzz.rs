//! Entry point of the fuzz target for stored formats: whatever a store returns must open or be refused, without
//! harm and without more memory than the limits say.

use std::sync::OnceLock;

use bytes::BytesMut;
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{AccountId, Position, SeededRandom};

use crate::cipher::{ObjectCipher, Place, TAG_BYTES};
use crate::message::Layout;
use crate::record::ServerKey;
use crate::slot::{self, Slot, SlotKind};
use crate::{AccountKeys, RootKey, checkpoint, chunk, entry, record};

const ACCOUNT: AccountId = AccountId([3; 16]);

struct Keys {
    account: AccountKeys,
    server: ServerKey,
    object: ObjectCipher,
}

fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let random = SeededRandom::new(1);
        Keys {
            account: AccountKeys::derive(&RootKey::generate(&random), ACCOUNT),
            server: ServerKey::generate(&random),
            object: ObjectCipher::new(&[], &[1; 32], [2; 32]),
        }
    })
}

/// Opens `data` as everything this crate can open, as it is and behind a seal that holds.
pub fn fuzz_object(data: &[u8]) {
    let keys = keys();
    let at = Position(7);
    let _ = entry::prev(data);
    let _ = entry::open(&keys.account, ACCOUNT, at, data);
    let _ = checkpoint::open(&keys.account, ACCOUNT, at, "state", data);
    let _ = record::open_record(&keys.server, "accounts/a", data);
    let _ = chunk::open_section(&keys.object, 0, data, 1 << 20);
    sealed_chunk(&keys.object, data);
    layout(data);
    slots(data);
    round_trip(keys, data);
}

/// A chunk whose seal is right and whose content is the fuzzer's: what a thief of the keys could write.
fn sealed_chunk(cipher: &ObjectCipher, data: &[u8]) {
    let Some((&flag, body)) = data.split_first() else { return };
    if body.len() > CHUNK_BYTES {
        return;
    }
    let mut header = ((body.len() + TAG_BYTES) as u32).to_be_bytes();
    header[0] = flag;
    let mut sealed = header.to_vec();
    sealed.extend_from_slice(body);
    let place = Place { section: 0, number: 0, last: true };
    cipher.seal(place, header, &mut sealed, header.len());
    if let Ok(plain) = chunk::open(cipher, place, BytesMut::from(&sealed[..])) {
        assert!(plain.len() <= CHUNK_BYTES);
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

fn round_trip(keys: &Keys, data: &[u8]) {
    let mut sealed = Vec::new();
    chunk::seal_section(&keys.object, 1, data, &mut sealed);
    let plain = chunk::open_section(&keys.object, 1, &sealed, data.len()).expect("what was sealed opens");
    assert_eq!(&plain[..], data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hash, Sealed};
    use proptest::prelude::*;

    /// Objects of every kind, as the fuzzer would like to begin.
    fn corpus() -> Vec<Vec<u8>> {
        let (keys, random) = (keys(), SeededRandom::new(2));
        let at = Position(7);
        let text = b"some event ".repeat(60);
        let objects: [Sealed; 4] = [
            entry::seal_owner(&keys.account, ACCOUNT, at, &Hash::ZERO, &text, &random),
            entry::seal_delivery(&keys.account.public(), ACCOUNT, at, &Hash::ZERO, &text, &random).unwrap(),
            checkpoint::seal(&keys.account, ACCOUNT, at, "state", &text, &random),
            record::seal_record(&keys.server, "accounts/a", &text),
        ];
        let mut corpus: Vec<Vec<u8>> = objects.iter().map(|o| o.as_ref().to_vec()).collect();
        let layout =
            Layout { raw_bytes: 1, sealed_raw: 21, sealed_text: 20, sealed_structure: 20, sealed_index: 0 };
        corpus.push(minicbor::to_vec(layout).unwrap());
        let (slot, _) = Slot::token(&RootKey::generate(&random), ACCOUNT, &random);
        corpus.push(minicbor::to_vec(slot).unwrap());
        // A frame that claims far more than a chunk, behind a seal that holds.
        corpus.push([&[1], &zstd::bulk::compress(&vec![0; 100 << 20], 1).unwrap()[..]].concat());
        corpus.push([&[1], &zstd::bulk::compress(&text, 1).unwrap()[..]].concat());
        corpus
    }

    #[test]
    fn the_corpus_replays() {
        for object in corpus() {
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
            let mut object = corpus[which.index(corpus.len())].clone();
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
