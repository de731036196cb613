//! What stays of a message with an evicted body, and that nothing is lost on the way there.

use futures::FutureExt;
use futures::future::BoxFuture;
use sealpost_base::{AccountId, Budget, ObjectId, SeededRandom};
use sealpost_testkit::faulty::{Faulty, Plan};

use super::super::MessageKey;
use super::*;
use crate::message::{self, EvictedBody, MessageWriter, WRITER_BYTES, stub_path};
use crate::spool::SpoolWriter;

const ACCOUNT: AccountId = AccountId([1; 16]);
const OBJECT: ObjectId = ObjectId([2; 16]);
const HEADER: &[u8] = b"Subject: x\r\nFrom: a@b\r\n\r\n";

fn key() -> MessageKey {
    MessageKey::from_bytes([3; 32])
}

fn message(size: usize) -> Vec<u8> {
    let mut noise = vec![0; size];
    sealpost_base::Random::fill(&SeededRandom::new(size as u64), &mut noise);
    [HEADER, &noise].concat()
}

async fn written(store: &Store, raw: &[u8]) -> Result<MessageReader> {
    let budget = Budget::new(8 * WRITER_BYTES);
    let mut writer = MessageWriter::new(store, ACCOUNT, OBJECT, &key(), &budget).await?;
    writer.write(raw).await?;
    let layout = writer.finish(b"the text", b"the structure").await?;
    Ok(MessageReader::new(store, ACCOUNT, OBJECT, &key(), layout))
}

/// Another reader of it, which remembers nothing.
fn anew(store: &Store, reader: &MessageReader) -> MessageReader {
    MessageReader::new(store, ACCOUNT, OBJECT, &key(), reader.layout())
}

async fn give_up(reader: &MessageReader, store: &Store) -> Result<()> {
    MessageStub::replace(vec![MessageStub::of(reader, HEADER.len() as u64).await?], store).await
}

async fn bytes(reader: &MessageReader, range: Range<u64>) -> Result<Vec<u8>> {
    Ok(reader.raw(range).try_collect::<Vec<Bytes>>().await?.concat())
}

/// Has the message, and counts the requests for it.
struct Server(Vec<u8>, std::sync::atomic::AtomicU32);

impl EvictedBodies for Server {
    fn body(&self, wanted: Wanted) -> BoxFuture<'static, Result<Arc<dyn EvictedBody>>> {
        self.1.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let raw = self.0.clone();
        async move {
            assert_eq!((wanted.account, wanted.object), (ACCOUNT, OBJECT));
            assert_eq!(wanted.sha256, crate::cipher::sha256(&[&raw]));
            let (budget, random) = (Budget::new(8 * WRITER_BYTES), SeededRandom::new(9));
            let mut writer = SpoolWriter::new(&Store::memory(), &budget, &random).await?;
            writer.write(&raw).await?;
            Ok(Arc::new(writer.finish().await?) as Arc<dyn EvictedBody>)
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_stub_keeps_headers_and_fetches_its_body() {
    for size in [0, 100, 3 * CHUNK_BYTES] {
        let (store, raw) = (Store::memory(), message(size));
        let reader = written(&store, &raw).await.unwrap();
        assert_eq!(reader.evicted().await.unwrap(), None);
        give_up(&reader, &store).await.unwrap();
        let reader = anew(&store, &reader);
        assert_eq!(store.read(&message::path(ACCOUNT, OBJECT)).await.unwrap_err().kind(), Kind::NotFound);
        assert_eq!(reader.evicted().await.unwrap(), Some(crate::cipher::sha256(&[&raw])));
        assert_eq!(reader.structure().await.unwrap(), b"the structure");
        assert_eq!(reader.text().await.unwrap(), b"the text");
        let both = reader.structure_and_text().await.unwrap();
        assert_eq!((&both.0[..], &both.1[..]), (&b"the structure"[..], &b"the text"[..]));
        let mut texts = Vec::new();
        MessageReader::texts(std::slice::from_ref(&reader), |_, text| texts.push(text.unwrap())).await;
        assert_eq!(texts, [b"the text"]);
        let piece = reader.structure_piece().await.unwrap();
        assert_eq!(anew(&store, &reader).with_piece(piece).structure().await.unwrap(), b"the structure");
        reader.verify().await.unwrap();
        let header = 0..HEADER.len() as u64;
        assert_eq!(bytes(&reader, header.clone()).await.unwrap(), HEADER);
        assert_eq!(bytes(&reader, 9..11).await.unwrap(), &HEADER[9..11]);
        if size > 0 {
            let error = bytes(&reader, 0..header.end + 1).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Offloaded);
        }
        let server = Arc::new(Server(raw.clone(), 0.into()));
        let reader = anew(&store, &reader).with_bodies(server.clone());
        assert_eq!(bytes(&reader, header).await.unwrap(), HEADER);
        assert_eq!(server.1.load(std::sync::atomic::Ordering::SeqCst), 0, "the header is here");
        assert_eq!(bytes(&reader, 0..u64::MAX).await.unwrap(), raw);
        assert_eq!(bytes(&reader, 20..raw.len() as u64 - 3).await.unwrap(), &raw[20..raw.len() - 3]);
    }
}

#[tokio::test]
async fn a_message_without_object_and_stub_is_not_found() {
    let store = Store::memory();
    let reader = written(&store, &message(100)).await.unwrap();
    store.delete(&message::path(ACCOUNT, OBJECT)).await.unwrap();
    let server = Arc::new(Server(Vec::new(), 0.into()));
    let reader = anew(&store, &reader).with_bodies(server);
    assert_eq!(bytes(&reader, 0..9).await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(reader.structure().await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(reader.structure_and_text().await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(reader.evicted().await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(reader.verify().await.unwrap_err().kind(), Kind::NotFound);
    let mut texts = Vec::new();
    MessageReader::texts(&[reader], |_, text| texts.push(text.unwrap_err().kind())).await;
    assert_eq!(texts, [Kind::NotFound]);
}

#[tokio::test]
async fn a_read_during_eviction_continues_from_the_source() {
    let (store, raw) = (Store::memory(), message(40 * CHUNK_BYTES));
    let reader = written(&store, &raw).await.unwrap();
    let reader = anew(&store, &reader).with_bodies(Arc::new(Server(raw.clone(), 0.into())));
    let mut pieces = reader.raw(5..u64::MAX);
    let mut read = pieces.next().await.unwrap().unwrap().to_vec();
    give_up(&reader, &store).await.unwrap();
    read.extend(pieces.try_collect::<Vec<Bytes>>().await.unwrap().concat());
    assert!(read == raw[5..]);
}

#[tokio::test]
async fn damaged_bodies_are_not_evicted() {
    let store = Store::memory();
    let reader = written(&store, &message(3 * CHUNK_BYTES)).await.unwrap();
    let path = message::path(ACCOUNT, OBJECT);
    let object = store.read(&path).await.unwrap().to_vec();
    let layout = reader.layout();
    for at in
        [CHUNK_BYTES + 100, layout.range(TEXT).start as usize + 9, layout.range(STRUCTURE).start as usize + 9]
    {
        let mut damaged = object.clone();
        damaged[at] ^= 1;
        let store = Store::memory();
        store.put_new(&path, Sealed::new(damaged)).await.unwrap();
        let reader = anew(&store, &reader);
        assert_eq!(give_up(&reader, &store).await.unwrap_err().kind(), Kind::Corrupt, "{at}");
        assert!(store.read(&path).await.is_ok());
    }
}

#[tokio::test]
async fn every_flipped_bit_of_a_thin_object_is_noticed() {
    let store = Store::memory();
    let reader = written(&store, &message(100)).await.unwrap();
    give_up(&reader, &store).await.unwrap();
    let path = stub_path(ACCOUNT, OBJECT);
    let object = store.read(&path).await.unwrap().to_vec();
    let refuses = async |bytes: Vec<u8>, what: String| {
        let store = Store::memory();
        store.put_new(&path, Sealed::new(bytes)).await.unwrap();
        assert_eq!(anew(&store, &reader).verify().await.unwrap_err().kind(), Kind::Corrupt, "{what}");
    };
    for bit in 0..object.len() * 8 {
        let mut damaged = object.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        refuses(damaged, format!("bit {bit}")).await;
    }
    for length in 0..object.len() {
        refuses(object[..length].to_vec(), format!("cut to {length}")).await;
    }
    refuses([&object[..], b"x"].concat(), "something appended".into()).await;
}

/// Also: a repeated eviction, after a crash between the two steps, makes the same bytes.
#[tokio::test]
async fn a_message_stays_whole_or_a_stub_through_failures() {
    let plan = Plan { fail: 150, lose_reply: 150, ..Plan::default() };
    let (mut failed, mut both) = (0, 0);
    for seed in 0..80 {
        let faulty = Faulty::new(Arc::new(object_store::memory::InMemory::new()), plan, seed);
        let store = Store::over(Arc::new(faulty.clone()));
        faulty.calm(true);
        let raw = message(2 * CHUNK_BYTES);
        let reader = written(&store, &raw).await.unwrap();
        let mut stubs = Vec::new();
        for attempt in 0.. {
            faulty.calm(false);
            // The last attempt is undisturbed, as one after a restart may be.
            faulty.calm(attempt == 5);
            let gone = give_up(&anew(&store, &reader), &store).await;
            faulty.calm(true);
            let whole = store.size(&message::path(ACCOUNT, OBJECT)).await.is_ok();
            if let Ok(object) = store.read(&stub_path(ACCOUNT, OBJECT)).await {
                stubs.push(object);
                both += u32::from(whole);
            }
            let reader = anew(&store, &reader).with_bodies(Arc::new(Server(raw.clone(), 0.into())));
            reader.verify().await.unwrap();
            assert!(bytes(&reader, 0..u64::MAX).await.unwrap() == raw);
            assert_eq!(reader.structure().await.unwrap(), b"the structure");
            assert_eq!(reader.evicted().await.unwrap().is_none(), whole);
            failed += u32::from(gone.is_err());
            // An error does not say that nothing was done.
            if !whole {
                break;
            }
            assert!(gone.is_err());
        }
        assert!(!stubs.is_empty() && stubs.iter().all(|object| object == &stubs[0]));
    }
    assert!(failed > 10 && both > 5, "{failed} failed, {both} times both were there");
}
