//! One reply about a message is wrong: the message is read all the same, also later from the same
//! cache, and packed unchanged.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use sealpost_base::{AccountId, Budget, ObjectId, Random, Result, SeededRandom, SystemClock};
use sealpost_testkit::fake_s3::{ConditionalPut, FakeS3, Fault, Request, Tags};

use super::super::*;
use crate::remote::fake::s3;
use crate::{RetryPolicy, Store};

const RETRY_POLICY: RetryPolicy =
    RetryPolicy { requests: 8, timeout: Duration::from_millis(5000), pause: Duration::from_millis(1) };
const TEXT: &[u8] = b"some words";
const STRUCTURE: &[u8] = b"what it is made of";

struct Fixture {
    server: FakeS3,
    dir: tempfile::TempDir,
    account: AccountId,
    object: ObjectId,
    key: MessageKey,
    layout: Layout,
    raw: Vec<u8>,
}

impl Fixture {
    /// A message of `size` bytes in a bucket whose ETags say nothing, and an empty cache.
    async fn new(size: usize) -> Self {
        let server = FakeS3::start(ConditionalPut::Keeps, 100).await;
        server.tag(Tags::Random);
        let random = SeededRandom::new(size as u64);
        let (account, object) = (AccountId::random(&random), ObjectId::random(&random));
        let key = MessageKey::generate(&random);
        let mut raw = vec![0; size];
        random.fill(&mut raw);
        let budget = Budget::new(8 * WRITER_BYTES);
        let store = open(&server).await;
        let mut writer = MessageWriter::new(&store, account, object, &key, &budget).await.unwrap();
        writer.write(&raw).await.unwrap();
        let layout = writer.finish(TEXT, STRUCTURE).await.unwrap();
        Fixture { server, dir: tempfile::tempdir().unwrap(), account, object, key, layout, raw }
    }

    async fn reader(&self) -> MessageReader {
        let store = open(&self.server).await;
        let store = store.cached(self.dir.path(), 64 << 20, Arc::new(SystemClock::new())).await.unwrap();
        MessageReader::new(&store, self.account, self.object, &self.key, self.layout)
    }

    /// Reads it in that way, and returns whether the bytes are those written.
    async fn is_right(&self, reader: &MessageReader, way: &str) -> bool {
        let raw = match way {
            "raw" => reader.raw(0..u64::MAX).map_ok(|piece| piece.to_vec()).try_concat().await,
            "end" => {
                let end: Result<Vec<u8>> = reader
                    .raw(self.raw.len() as u64 - 1..u64::MAX)
                    .map_ok(|piece| piece.to_vec())
                    .try_concat()
                    .await;
                return end.is_ok_and(|end| self.raw.ends_with(&end) && end.len() == 1);
            }
            "whole" => {
                let whole = MessageReader::whole(vec![reader.clone()]).await.remove(0);
                whole.map(|pieces| pieces.concat())
            }
            "structure" => return reader.structure().await.is_ok_and(|found| found == STRUCTURE),
            "text" => return reader.text().await.is_ok_and(|found| found == TEXT),
            "texts" => {
                let mut right = false;
                let each = |_, text: Result<Vec<u8>>| right = text.is_ok_and(|text| text == TEXT);
                MessageReader::texts(std::slice::from_ref(reader), each).await;
                return right;
            }
            "both" => {
                let both = reader.structure_and_text().await;
                return both.is_ok_and(|both| both == (STRUCTURE.to_vec(), TEXT.to_vec()));
            }
            "pack" => {
                let there = self.server.object(&path(self.account, self.object)).unwrap();
                return reader.object_piece().await.is_ok_and(|piece| *piece.bytes() == there);
            }
            "pack of structures" => {
                let there = self.server.object(&path(self.account, self.object)).unwrap();
                let range = self.layout.range(super::super::STRUCTURE);
                let there = there.slice(range.start as usize..range.end as usize);
                return reader.structure_piece().await.is_ok_and(|piece| *piece.bytes() == there);
            }
            other => panic!("{other}"),
        };
        raw.is_ok_and(|raw| raw == self.raw)
    }
}

async fn open(server: &FakeS3) -> Store {
    Store::s3(&s3(server, ""), RETRY_POLICY, Arc::new(SeededRandom::new(7))).await.unwrap()
}

fn is_get(request: &Request) -> bool {
    request.method == "GET" && request.key.contains("/msg/")
}

#[tokio::test]
async fn a_corrupt_read_is_repeated_before_caching() {
    let ways = ["raw", "end", "whole", "structure", "text", "texts", "both", "pack", "pack of structures"];
    for size in [1000, 200_000] {
        for fault in [Fault::Flipped, Fault::Halved] {
            for way in ways {
                let w = Fixture::new(size).await;
                let reader = w.reader().await;
                w.server.once(fault, is_get);
                assert!(w.is_right(&reader, way).await, "{size} {fault:?} {way}");
                for way in ways {
                    assert!(w.is_right(&reader, way).await, "{size} {fault:?} {way}: then");
                    assert!(
                        w.is_right(&w.reader().await, way).await,
                        "{size} {fault:?} {way}: another process"
                    );
                }
            }
        }
    }
}
