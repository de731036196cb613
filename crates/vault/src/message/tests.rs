//! Round trips, damage of every kind, and what an aborted writer leaves behind.

mod corrupt_reads;

use std::ops::Range;

use bytes::Bytes;
use futures::StreamExt;
use proptest::prelude::*;
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{AccountId, Budget, Kind, ObjectId, Random, Result, SeededRandom};

use super::*;
use crate::chunk;
use crate::server_key::ServerKeys;
use crate::{Sealed, Store};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// A message that does not compress (`noise`) or does.
fn sample(size: usize, noise: bool) -> Vec<u8> {
    let mut bytes = vec![0; size];
    if noise {
        SeededRandom::new(size as u64).fill(&mut bytes);
    } else {
        bytes.iter_mut().enumerate().for_each(|(i, b)| *b = b"All work and no play. "[i * i % 22]);
    }
    bytes
}

struct Written {
    store: Store,
    account: AccountId,
    object: ObjectId,
    key: MessageKey,
    layout: Layout,
}

impl Written {
    async fn new(raw: &[u8], piece: usize, text: &[u8], structure: &[u8]) -> Self {
        let random = SeededRandom::new(raw.len() as u64);
        let (account, object) = (AccountId::random(&random), ObjectId::random(&random));
        let (store, key) = (Store::memory(), MessageKey::generate(&random));
        let budget = Budget::new(8 * WRITER_BYTES);
        let mut writer = MessageWriter::new(&store, account, object, &key, &budget).await.unwrap();
        for piece in raw.chunks(piece) {
            writer.write(piece).await.unwrap();
        }
        assert_eq!(writer.size(), raw.len() as u64);
        let layout = writer.finish(text, structure).await.unwrap();
        assert_eq!(budget.in_use(), 0);
        Written { store, account, object, key, layout }
    }

    fn reader(&self) -> MessageReader {
        MessageReader::new(&self.store, self.account, self.object, &self.key, self.layout)
    }

    fn path(&self) -> String {
        path(self.account, self.object)
    }
}

/// Of a small object and of one in parts: the structure from the writer is used without a read of
/// the store, and a wrong one is ignored.
#[test]
fn only_the_structure_from_the_writer_is_used() {
    for size in [500, 3 * CHUNK_BYTES] {
        block_on(async {
            let random = SeededRandom::new(1);
            let (account, object) = (AccountId::random(&random), ObjectId::random(&random));
            let (store, key) = (Store::memory(), MessageKey::generate(&random));
            let budget = Budget::new(8 * WRITER_BYTES);
            let mut writer = MessageWriter::new(&store, account, object, &key, &budget).await.unwrap();
            writer.write(&sample(size, true)).await.unwrap();
            let (layout, told) = writer.finish_with_structure(b"text", b"structure").await.unwrap();
            let reader = |store| MessageReader::new(store, account, object, &key, layout);
            // Nothing is there.
            let nowhere = Store::memory();
            assert_eq!(
                reader(&nowhere).with_structure(told.clone()).structure().await.unwrap(),
                b"structure"
            );
            assert!(reader(&nowhere).with_structure(told.clone()).text().await.is_err());
            let mut wrong = told.to_vec();
            wrong[10] ^= 1;
            for wrong in [wrong.into(), told.slice(1..), Bytes::new()] {
                let reader = |store| reader(store).with_structure(wrong.clone());
                assert!(reader(&nowhere).structure().await.is_err());
                assert_eq!(reader(&store).structure().await.unwrap(), b"structure");
                assert_eq!(*reader(&store).structure_piece().await.unwrap().bytes(), told);
            }
        });
    }
}

async fn collect(reader: &MessageReader, range: Range<u64>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut pieces = reader.raw(range);
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        assert!(!piece.is_empty() && piece.len() <= CHUNK_BYTES);
        out.extend_from_slice(&piece);
    }
    Ok(out)
}

#[test]
fn every_section_comes_back() {
    let chunk = CHUNK_BYTES;
    for noise in [false, true] {
        for size in [0, 1, 500, chunk - 1, chunk, chunk + 1, 3 * chunk, 5 * chunk + 17, 20 * chunk] {
            block_on(async {
                let raw = sample(size, noise);
                let text = sample(size.min(100_000), false);
                let written = Written::new(&raw, 4321, &text, b"structure").await;
                let reader = written.reader();
                assert_eq!(reader.structure().await.unwrap(), b"structure");
                assert_eq!(reader.text().await.unwrap(), text);
                assert_eq!(collect(&reader, 0..u64::MAX).await.unwrap(), raw);
                reader.verify().await.unwrap();
                assert_eq!(written.layout.raw_bytes, size as u64);
                assert_eq!(written.layout.is_compact(), written.layout.object_bytes() <= 65536, "{size}");
                let size = written.store.size(&written.path()).await.unwrap();
                assert_eq!(size, written.layout.object_bytes());
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_range_equals_the_bytes_of_the_message(
        size in 0usize..300_000, noise: bool, start in 0u64..310_000, length in 0u64..310_000, piece in 1usize..100_000,
    ) {
        block_on(async {
            let raw = sample(size, noise);
            let written = Written::new(&raw, piece, b"", b"").await;
            let got = collect(&written.reader(), start..start + length).await.unwrap();
            let (start, end) = ((start as usize).min(size), ((start + length) as usize).min(size));
            assert_eq!(got, raw[start..end.max(start)]);
        });
    }
}

#[test]
fn small_messages_read_together_return_separate_results() {
    block_on(async {
        let (store, account) = (Store::memory(), AccountId([7; 16]));
        let (budget, random) = (Budget::new(WRITER_BYTES), SeededRandom::new(5));
        let (mut readers, mut raws) = (Vec::new(), Vec::new());
        for size in [0, 1, 70_000, 8 * CHUNK_BYTES, 8 * CHUNK_BYTES + 1, 5000, 3 * CHUNK_BYTES] {
            let (object, key) = (ObjectId::random(&random), MessageKey::generate(&random));
            let raw = sample(size, size % 2 == 0);
            let mut writer = MessageWriter::new(&store, account, object, &key, &budget).await.unwrap();
            writer.write(&raw).await.unwrap();
            let layout = writer.finish(b"", b"").await.unwrap();
            readers.push((object, MessageReader::new(&store, account, object, &key, layout)));
            raws.push(raw);
        }
        let damaged = path(account, readers[5].0);
        store.delete(&damaged).await.unwrap();
        store.put_new(&damaged, Sealed::new(vec![0; 4000])).await.unwrap();
        let readers: Vec<_> = readers.into_iter().map(|(_, reader)| reader).collect();
        let small: Vec<_> = readers.iter().map(MessageReader::is_small).collect();
        assert_eq!(small, [true, true, true, true, false, true, true]);
        let found = MessageReader::whole(readers).await;
        assert_eq!(found.len(), raws.len());
        for (at, (found, raw)) in found.into_iter().zip(raws).enumerate() {
            match found {
                Ok(pieces) => assert_eq!(pieces.concat(), raw),
                Err(error) => assert!(error.kind() == Kind::Corrupt && [4, 5].contains(&at), "{at}: {error}"),
            }
        }
    });
}

/// Puts `bytes` in the place of the object and checks that reading it all is refused as damage.
async fn refuses(written: &Written, bytes: Vec<u8>, what: &str) {
    let store = Store::memory();
    store.put_new(&written.path(), Sealed::new(bytes)).await.unwrap();
    let reader = MessageReader::new(&store, written.account, written.object, &written.key, written.layout);
    assert_eq!(reader.verify().await.unwrap_err().kind(), Kind::Corrupt, "{what}");
}

#[test]
fn every_flipped_bit_of_a_small_object_is_noticed() {
    block_on(async {
        let written = Written::new(b"Subject: x\r\n\r\nbody\r\n", 100, b"text", b"structure").await;
        let object = written.store.read(&written.path()).await.unwrap().to_vec();
        for bit in 0..object.len() * 8 {
            let mut damaged = object.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            refuses(&written, damaged, &format!("bit {bit}")).await;
        }
        for length in 0..object.len() {
            refuses(&written, object[..length].to_vec(), &format!("cut to {length}")).await;
        }
        refuses(&written, [&object[..], b"x"].concat(), "something appended").await;
    });
}

#[test]
fn damage_in_a_large_object_affects_its_chunk_only() {
    block_on(async {
        let raw = sample(4 * CHUNK_BYTES + 100, true);
        let written = Written::new(&raw, 10_000, b"text", b"structure").await;
        let object = written.store.read(&written.path()).await.unwrap().to_vec();
        for at in (0..object.len()).step_by(9973).chain(object.len() - 200..object.len()) {
            let mut damaged = object.clone();
            damaged[at] ^= 0x10;
            refuses(&written, damaged, &format!("byte {at}")).await;
        }
        // The second chunk is damaged: all other bytes are still served.
        let mut damaged = object.clone();
        damaged[CHUNK_BYTES + 1000] ^= 1;
        let store = Store::memory();
        store.put_new(&written.path(), Sealed::new(damaged)).await.unwrap();
        let reader =
            MessageReader::new(&store, written.account, written.object, &written.key, written.layout);
        let (first, third) = (CHUNK_BYTES as u64, 2 * CHUNK_BYTES as u64);
        assert_eq!(collect(&reader, 0..first).await.unwrap(), raw[..CHUNK_BYTES]);
        assert_eq!(collect(&reader, third..u64::MAX).await.unwrap(), raw[2 * CHUNK_BYTES..]);
        assert_eq!(collect(&reader, 0..u64::MAX).await.unwrap_err().kind(), Kind::Corrupt);
        assert_eq!(reader.structure().await.unwrap(), b"structure");
    });
}

#[test]
fn chunks_cannot_change_places() {
    block_on(async {
        let written = Written::new(&sample(3 * CHUNK_BYTES, true), 10_000, b"text", b"strc").await;
        let object = written.store.read(&written.path()).await.unwrap().to_vec();
        let size = chunk::MAX_SEALED_BYTES;
        let swapped = [&object[size..2 * size], &object[..size], &object[2 * size..]].concat();
        refuses(&written, swapped, "chunks swapped").await;
        let text = written.layout.range(TEXT);
        let structure = written.layout.range(STRUCTURE);
        assert_eq!(text.end - text.start, structure.end - structure.start);
        let mut swapped = object.clone();
        let half = (text.end - text.start) as usize;
        swapped[text.start as usize..structure.end as usize].rotate_left(half);
        refuses(&written, swapped, "sections swapped").await;
    });
}

#[test]
fn an_object_opens_only_as_itself() {
    block_on(async {
        let written = Written::new(b"raw", 100, b"text", b"structure").await;
        let object = written.store.read(&written.path()).await.unwrap();
        let (other_account, other_object) = (AccountId([1; 16]), ObjectId([2; 16]));
        let (key, layout) = (&written.key, written.layout);
        for (account, id) in [(other_account, written.object), (written.account, other_object)] {
            written.store.put_new(&path(account, id), Sealed::new(object.clone())).await.unwrap();
            let reader = MessageReader::new(&written.store, account, id, key, layout);
            assert_eq!(reader.text().await.unwrap_err().kind(), Kind::Corrupt);
        }
        let other_key = MessageKey::from_bytes([9; 32]);
        let reader = MessageReader::new(&written.store, written.account, written.object, &other_key, layout);
        assert_eq!(reader.structure().await.unwrap_err().kind(), Kind::Corrupt);
    });
}

#[test]
fn any_layout_is_refused_or_fails_without_harm() {
    let extremes = [0, 1, 20, 65536, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
    block_on(async {
        let written = Written::new(&sample(2 * CHUNK_BYTES, true), 10_000, b"text", b"structure").await;
        for raw_bytes in extremes {
            for sealed_raw in extremes {
                for rest in extremes.map(|n| n as u32) {
                    let layout = Layout {
                        raw_bytes,
                        sealed_raw,
                        sealed_text: rest,
                        sealed_structure: rest,
                        sealed_index: rest,
                    };
                    let (account, object) = (written.account, written.object);
                    let reader = MessageReader::new(&written.store, account, object, &written.key, layout);
                    assert!(reader.structure().await.is_err());
                    assert!(reader.text().await.is_err());
                    assert!(raw_bytes == 0 || collect(&reader, 0..u64::MAX).await.is_err());
                    assert!(reader.verify().await.is_err());
                }
            }
        }
    });
}

#[test]
fn a_dropped_writer_leaves_nothing() {
    block_on(async {
        let store = Store::memory();
        let budget = Budget::new(8 * WRITER_BYTES);
        let random = SeededRandom::new(3);
        for size in [100, 10 * CHUNK_BYTES] {
            let (account, object) = (AccountId::random(&random), ObjectId::random(&random));
            let key = MessageKey::generate(&random);
            let mut writer = MessageWriter::new(&store, account, object, &key, &budget).await.unwrap();
            writer.write(&sample(size, true)).await.unwrap();
            drop(writer);
        }
        tokio::task::yield_now().await;
        assert_eq!(store.list("acct", None).count().await, 0);
    });
}

#[test]
fn text_beyond_the_limit_is_refused() {
    block_on(async {
        let store = Store::memory();
        let budget = Budget::new(8 * WRITER_BYTES);
        let key = MessageKey::from_bytes([1; 32]);
        let writer = MessageWriter::new(&store, AccountId([0; 16]), ObjectId([0; 16]), &key, &budget).await;
        let refused = writer.unwrap().finish(&vec![0; SECTION_BYTES + 1], b"").await;
        assert_eq!(refused.unwrap_err().kind(), Kind::Limit);
    });
}

#[test]
fn a_chunk_that_claims_too_much_is_refused() {
    let cipher = cipher(AccountId([0; 16]), ObjectId([0; 16]), &MessageKey::from_bytes([1; 32]));
    let place = crate::cipher::PiecePosition { section: TEXT, number: 0, last: true };
    for size in [CHUNK_BYTES, CHUNK_BYTES + 1, 100 * CHUNK_BYTES] {
        let bomb = zstd::bulk::compress(&vec![0; size], 1).unwrap();
        let mut sealed = vec![0; 4];
        sealed.extend_from_slice(&bomb);
        sealed.resize(4 + chunk::padded(bomb.len()), 0);
        let mut trailer = (bomb.len() as u32).to_be_bytes();
        trailer[0] = crate::compress::Encoding::Zstd as u8;
        sealed.extend_from_slice(&trailer);
        let mut header = ((sealed.len() - 4 + 16) as u32).to_be_bytes();
        header[0] = 2;
        sealed[..4].copy_from_slice(&header);
        cipher.seal(place, header, &mut sealed, 4);
        let opened = chunk::open_section(&cipher, TEXT, &sealed, SECTION_BYTES);
        assert_eq!(opened.is_ok(), size <= CHUNK_BYTES, "{size}");
    }
}

#[test]
fn acknowledged_messages_survive_store_failures() {
    use sealpost_testkit::faulty::{Faulty, Plan};
    let plan = Plan { fail: 60, lose_reply: 60, ..Plan::default() };
    let (mut acknowledged, mut refused) = (0, 0);
    for seed in 0..60 {
        block_on(async {
            let faulty = Faulty::new(std::sync::Arc::new(object_store::memory::InMemory::new()), plan, seed);
            let store = Store::over(std::sync::Arc::new(faulty.clone()));
            let budget = Budget::new(8 * (WRITER_BYTES + 6 * 1024 * 1024));
            let random = SeededRandom::new(seed);
            let (account, object) = (AccountId::random(&random), ObjectId::random(&random));
            let key = MessageKey::generate(&random);
            let raw = sample([500, 3 * CHUNK_BYTES, 170 * CHUNK_BYTES][seed as usize % 3], true);
            let written = async {
                let mut writer = MessageWriter::new(&store, account, object, &key, &budget).await?;
                for piece in raw.chunks(100_000) {
                    writer.write(piece).await?;
                }
                writer.finish(b"text", b"structure").await
            };
            match written.await {
                Ok(layout) => {
                    faulty.calm(true);
                    let reader = MessageReader::new(&store, account, object, &key, layout);
                    reader.verify().await.unwrap();
                    assert_eq!(collect(&reader, 0..u64::MAX).await.unwrap(), raw);
                    acknowledged += 1;
                }
                Err(e) => {
                    assert_eq!(e.kind(), Kind::Retry);
                    refused += 1;
                }
            }
            assert_eq!(budget.in_use(), 0);
        });
    }
    assert!(acknowledged > 10 && refused > 5, "{acknowledged} acknowledged, {refused} refused");
}

#[test]
fn a_message_sealed_whole_equals_a_written_one() {
    let sizes =
        [0, 1, 52, 200, 30_000, 65_536, 65_537, 131_072, 131_073, 200_000, SealedMessage::MESSAGE_BYTES];
    for (size, noise) in sizes.into_iter().flat_map(|size| [(size, true), (size, false)]) {
        let (raw, text, structure) = (sample(size, noise), sample(size / 3, false), sample(100, noise));
        block_on(async {
            let written = Written::new(&raw, 1000, &text, &structure).await;
            assert!(written.layout.is_compact() || size > 60_000);
            let whole =
                SealedMessage::seal(written.account, written.object, &written.key, &raw, &text, &structure)
                    .unwrap();
            assert_eq!(whole.layout(), written.layout);
            // The very same object: what is there already is one's own.
            SealedMessage::store(vec![whole], &written.store).await.unwrap();
            let store = Store::memory();
            let again =
                SealedMessage::seal(written.account, written.object, &written.key, &raw, &text, &structure);
            SealedMessage::store(again.into_iter().collect(), &store).await.unwrap();
            let path = written.path();
            assert_eq!(store.read(&path).await.unwrap(), written.store.read(&path).await.unwrap());
        });
    }
}

#[test]
fn a_message_too_large_for_batches_is_not_sealed_whole() {
    let random = SeededRandom::new(1);
    let (account, object) = (AccountId::random(&random), ObjectId::random(&random));
    let key = MessageKey::generate(&random);
    let seal = |raw: &[u8], text: &[u8], structure: &[u8]| {
        SealedMessage::seal(account, object, &key, raw, text, structure).is_some()
    };
    assert!(seal(&sample(60_000, true), b"", b""));
    assert!(seal(&sample(SealedMessage::MESSAGE_BYTES, true), b"", b""));
    assert!(!seal(&sample(SealedMessage::MESSAGE_BYTES + 1, false), b"", b""));
    let section = sample(SECTION_BYTES + 1, false);
    assert!(!seal(b"", &section, b"") && !seal(b"", b"", &section));
}

#[test]
fn another_object_of_that_name_is_a_conflict() {
    block_on(async {
        let written = Written::new(b"one", 9, b"", b"").await;
        let other =
            SealedMessage::seal(written.account, written.object, &written.key, b"two", b"", b"").unwrap();
        let error = SealedMessage::store(vec![other], &written.store).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
    });
}

/// Nodes know the size of a message without its account's key; an observer of the store alone does
/// not.
#[tokio::test]
async fn the_size_in_a_footer_is_for_the_server_alone() {
    let (random, budget) = (SeededRandom::new(21), Budget::new(8 << 20));
    let server = ServerKeys::generate(&random);
    let [ours, others, none] = [Some(&server), Some(&ServerKeys::generate(&random)), None].map(|key| {
        let store = Store::memory();
        key.into_iter().for_each(|key| store.seal_sizes(key));
        store
    });
    let (account, key) = (AccountId([3; 16]), MessageKey::generate(&random));
    for (n, size) in [1000, 1001, 200_000].into_iter().enumerate() {
        let object = ObjectId([n as u8; 16]);
        let raw = vec![b'x'; size];
        for store in [&ours, &none] {
            let mut writer = MessageWriter::new(store, account, object, &key, &budget).await.unwrap();
            writer.write(&raw).await.unwrap();
            writer.finish(b"text", b"structure").await.unwrap();
        }
        let path = path(account, object);
        let listed = async |store: &Store| {
            let size = store.size(&path).await.unwrap();
            crate::ListedObject { path: path.clone(), size, modified: sealpost_base::Timestamp(0) }
        };
        let found = listed(&ours).await;
        assert_eq!(size_in(&ours, &found).await.unwrap(), size as u64);
        let object = ours.read(&path).await.unwrap();
        others.put_new(&path, Sealed::new(object.clone())).await.unwrap();
        for blind in [&others, &none] {
            assert_eq!(size_in(blind, &listed(blind).await).await.unwrap_err().kind(), Kind::Corrupt);
        }
        assert!(!object.windows(8).any(|window| window == (size as u64).to_be_bytes()));
    }
    let sizes = [0, 1].map(|n| path(account, ObjectId([n; 16])));
    assert_eq!(
        ours.size(&sizes[0]).await.unwrap(),
        ours.size(&sizes[1]).await.unwrap(),
        "a byte more is not seen"
    );
}
