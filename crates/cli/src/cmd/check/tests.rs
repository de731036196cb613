//! Every flipped bit is harmless or named: in the database, in the files beside it, in their names,
//! and in the objects of a bucket and their keys. A check of it ends.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path as Key;
use object_store::{ObjectStore, PutPayload};
use sealpost_account::{Accounts, NewMessage};
use sealpost_base::{Budget, Clock, Random, SeededRandom, SystemClock, Timestamp};
use sealpost_directory::{AccountRecord, Directory, NewAccount, Role, Secret};
use sealpost_server::Settings;
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{RootKey, Store};
use tokio::time::timeout;

use super::report::Report;
use super::*;
use crate::output::Output;

/// Bits that are flipped in each kind of place.
const DATABASE_BITS: u64 = 60;
const FILE_BITS: u64 = 8;
const NAME_BITS: u64 = 8;
const OBJECT_BITS: u64 = 16;
const KEY_BITS: u64 = 40;
/// Longer than any check of so little takes.
const DEADLINE: Duration = Duration::from_secs(60);
const NAME: &str = "jane@example.org";

/// A store with an account, and everything needed for another check.
struct Fixture {
    key: ServerKeys,
    random: Arc<SeededRandom>,
    clock: Arc<dyn Clock>,
    root: RootKey,
}

impl Fixture {
    fn directory(&self, store: &Store) -> Directory {
        Directory::new(store.clone(), self.key.clone(), self.clock.clone(), self.random.clone())
    }

    fn accounts(&self, store: &Store) -> Accounts {
        Accounts::new(
            store.clone(),
            LogKey::of(&self.key),
            self.clock.clone(),
            self.random.clone(),
            Budget::new(64 << 20),
        )
    }

    /// Makes the account in `store`: small messages and large ones, those that came together, and a
    /// checkpoint.
    async fn fill(store: &Store) -> Self {
        let random = Arc::new(SeededRandom::new(7));
        let key = ServerKeys::generate(&*random);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let unset = RootKey::generate(&*random);
        let mut world = Fixture { key, random, clock, root: unset };
        let directory = world.directory(store);
        let name = directory.account_name(NAME).unwrap();
        let new =
            NewAccount { password: Secret::new(b"one and two").unwrap(), quota: None, role: Role::User };
        let (record, root) = directory.create(&name, new).await.unwrap();
        world.root = root;
        let accounts = world.accounts(store);
        let account = accounts.open(record.id, &world.root).await.unwrap();
        let inbox = account.state().inbox().id();
        for n in 0..16usize {
            let mut noise = vec![0; if n % 8 == 7 { 90_000 } else { 600 * n }];
            world.random.fill(&mut noise);
            let text = noise.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let mut ingest = accounts.ingest(record.id).await.unwrap();
            ingest.write(format!("Subject: message {n}\r\n\r\n{text}\r\n").as_bytes()).await.unwrap();
            let stored = ingest.finish().await.unwrap();
            let new = NewMessage { stored, flags: Default::default(), received: Timestamp(0) };
            account.append(inbox, vec![new]).await.unwrap();
            if n == 9 {
                account.checkpoint().await.unwrap();
            }
        }
        world
    }

    /// All mail, as its owner sees it; `None` if not all of it can be read.
    async fn read(&self, store: &Store) -> Option<BTreeMap<u32, Vec<u8>>> {
        let directory = self.directory(store);
        let record = directory.get(&directory.account_name(NAME).ok()?).await.ok()?;
        let account = self.accounts(store).open(record.id, &self.root).await.ok()?;
        let rows: Vec<_> = {
            let state = account.state();
            let inbox = state.inbox();
            inbox.all_rows().map(|row| (row.uid.get(), state.message(row.message))).collect()
        };
        let mut mail = BTreeMap::new();
        for (uid, message) in rows {
            let message = message?;
            let reader = account.reader(&message);
            let bytes: Vec<bytes::Bytes> = reader.raw(0..message.size()).try_collect().await.ok()?;
            mail.insert(uid, bytes.concat());
        }
        Some(mail)
    }

    /// What a check with all keys names.
    async fn check(&self, dir: &Path, store: &Store) -> Vec<String> {
        let place = DataDir {
            dir: dir.to_owned(),
            store: store.clone(),
            key: self.key.clone(),
            watermarks: Default::default(),
            directory: self.directory(store),
            settings: Settings::default(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            budget: Budget::new(64 << 20),
        };
        let mut report = Report::new(Output::new(true, true), self.clock.clone());
        database::check(&place, true, &mut report).await.unwrap();
        let records: Vec<AccountRecord> = records::all(&place, &mut report).await.unwrap();
        for record in &records {
            account(&place, record, Some(self.root.clone()), &mut report).await.unwrap();
        }
        beside_accounts(&place, &records, &mut report).await.unwrap();
        report.problems().iter().map(|problem| format!("{:?} {}", problem.path, problem.problem)).collect()
    }

    /// Whether all mail is there, or what is not is named.
    async fn survives(&self, dir: &Path, store: &Store, mail: &BTreeMap<u32, Vec<u8>>, what: &str) -> bool {
        let named = timeout(DEADLINE, self.check(dir, store)).await;
        let named = named.unwrap_or_else(|_| panic!("{what}: the check does not end"));
        let read = timeout(DEADLINE, self.read(store)).await;
        let read = read.unwrap_or_else(|_| panic!("{what}: reading does not end"));
        let is_harmless = read.as_ref() == Some(mail);
        assert!(is_harmless || !named.is_empty(), "{what}: mail is not what it was, and nothing is named");
        is_harmless
    }
}

/// Copies a store's directory.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_name().to_string_lossy().starts_with("objects.sqlite-") {
            continue;
        }
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), &to).unwrap()),
        }
    }
}

fn flip(file: &Path, bit: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    let (at, mut byte) = (bit / 8, [0]);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << (bit % 8))], at).unwrap();
}

/// A name with one bit flipped that is one still.
fn flipped_name(name: &str, random: &SeededRandom) -> Option<String> {
    let mut bytes = name.as_bytes().to_vec();
    let bit = random.below(bytes.len() as u64 * 8);
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    String::from_utf8(bytes).ok()
}

fn files_in(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(dir.join("objects")).unwrap() {
        found.extend(std::fs::read_dir(folder.unwrap().path()).unwrap().map(|file| file.unwrap().path()));
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_flipped_bit_of_a_store_is_harmless_or_reported() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    std::fs::create_dir(&whole).unwrap();
    let store = Store::local(&whole).await.unwrap();
    let world = Fixture::fill(&store).await;
    let mail = world.read(&store).await.unwrap();
    assert_eq!((mail.len(), world.check(&whole, &store).await), (16, Vec::new()));
    // All objects are in the database, and the copy has no log beside it.
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    let connection = rusqlite::Connection::open(whole.join("objects.sqlite")).unwrap();
    connection.query_row(checkpoint, [], |row| row.get::<_, i64>(0)).unwrap();
    let bytes = std::fs::read(whole.join("objects.sqlite")).unwrap();
    let size = bytes.len() as u64;
    let random = SeededRandom::new(11);
    let mut harmless = 0;
    for n in 0..DATABASE_BITS + FILE_BITS + NAME_BITS {
        let here = dir.path().join(n.to_string());
        copy(&whole, &here);
        let files = files_in(&here);
        let file = &files[random.below(files.len() as u64) as usize];
        let what = match n {
            n if n < DATABASE_BITS => {
                let bit = random.below(size * 8);
                flip(&here.join("objects.sqlite"), bit);
                format!("bit {bit} of the database")
            }
            n if n < DATABASE_BITS + FILE_BITS => {
                let bit = random.below(std::fs::metadata(file).unwrap().len() * 8);
                flip(file, bit);
                format!("bit {bit} of {}", file.display())
            }
            _ => {
                let name = file.file_name().unwrap().to_str().unwrap();
                let Some(other) = flipped_name(name, &random).filter(|name| !name.contains(['/', '\0']))
                else {
                    continue;
                };
                std::fs::rename(file, file.with_file_name(&other)).unwrap();
                format!("{name} is {other:?}")
            }
        };
        match Store::local(&here).await {
            Ok(store) => harmless += u64::from(world.survives(&here, &store, &mail, &what).await),
            Err(e) => assert!(e.to_string().contains("objects.sqlite"), "{what}: {e}"),
        }
        std::fs::remove_dir_all(&here).unwrap();
    }
    // Most of what there is is mail, and damage of it is not harmless.
    assert!(harmless > 0 && harmless < DATABASE_BITS, "{harmless}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_flipped_bit_of_a_bucket_is_harmless_or_named() {
    let objects = Arc::new(InMemory::new());
    let store = Store::over(objects.clone());
    let world = Fixture::fill(&store).await;
    let mail = world.read(&store).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    assert_eq!((mail.len(), world.check(dir.path(), &store).await), (16, Vec::new()));
    let listed: Vec<_> = objects.list(None).try_collect().await.unwrap();
    let random = SeededRandom::new(12);
    for n in 0..OBJECT_BITS + KEY_BITS {
        let path = &listed[random.below(listed.len() as u64) as usize].location;
        let object = objects.get(path).await.unwrap().bytes().await.unwrap();
        let mut bytes = object.to_vec();
        let mut to = path.clone();
        if n < OBJECT_BITS {
            let bit = random.below(bytes.len() as u64 * 8);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        } else {
            let Some(name) = flipped_name(path.as_ref(), &random) else { continue };
            let other = Key::parse(name).ok();
            // One that another object has is no flipped bit, but a lost object.
            let Some(other) = other.filter(|other| !listed.iter().any(|object| object.location == *other))
            else {
                continue;
            };
            to = other;
        }
        objects.delete(path).await.unwrap();
        objects.put(&to, PutPayload::from(bytes)).await.unwrap();
        world.survives(dir.path(), &store, &mail, &format!("{path} is at {to}")).await;
        objects.delete(&to).await.unwrap();
        objects.put(path, PutPayload::from(object)).await.unwrap();
    }
    assert_eq!(world.read(&store).await.unwrap(), mail);
}
