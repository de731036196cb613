//! The directory over a memory store, with two instances where two processes would be.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::{ObjectStore, PutPayload};
use sealpost_base::{AccountId, Clock, FakeClock, Kind, Result, SeededRandom, Timestamp, limits};
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::record::seal_record;
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::slot::SlotKind;
use sealpost_vault::{Sealed, Store};

use super::*;

mod accounts;
mod addresses;
mod changes;
mod forged;
mod grants;
mod logins;
mod noise;
mod noise_alone;
mod records;
mod withheld;

struct Fixture {
    store: Store,
    key: ServerKeys,
    clock: Arc<FakeClock>,
    random: Arc<SeededRandom>,
}

impl Fixture {
    fn new() -> Self {
        let random = Arc::new(SeededRandom::new(7));
        let clock = Arc::new(FakeClock::new(Timestamp(1_000_000)));
        Fixture { store: Store::memory(), key: ServerKeys::generate(&*random), clock, random }
    }

    fn directory(&self) -> Directory {
        Directory::new(self.store.clone(), self.key.clone(), self.clock.clone(), self.random.clone())
            .on_host("host.mail.example", Some("mail.example"), None)
            .unwrap()
    }

    async fn paths(&self, prefix: &str) -> Vec<String> {
        self.store.list(prefix, None).map_ok(|listed| listed.path).try_collect().await.unwrap()
    }
}

fn name(text: &str) -> AccountName {
    AccountName::parse(text).unwrap()
}

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes()).unwrap()
}

fn new(password: &str) -> NewAccount {
    NewAccount::with_password(secret(password))
}

fn addresses(list: &[&str]) -> Vec<Address> {
    list.iter().map(|a| Address::parse(a).unwrap()).collect()
}

async fn alias(directory: &Directory, from: &str, to: &[&str]) {
    // As it may have come about, one target after the other, on several nodes.
    directory.change_alias(&AliasName::parse(from).unwrap(), |_| Ok((&addresses(to)).into())).await.unwrap();
}

async fn names(directory: &Directory, address: &str) -> Vec<String> {
    let resolved = directory.resolve(address).await.unwrap();
    resolved.recipients.iter().map(|r| r.name.to_string()).collect()
}

async fn kind<T>(result: impl Future<Output = Result<T>>) -> Kind {
    result.await.err().expect("this fails").kind()
}

/// The salt and what is sealed, of each slot of the account.
async fn marks(directory: &Directory, me: &AccountName) -> Vec<[Vec<u8>; 2]> {
    let record = directory.get(me).await.unwrap();
    let slots = record.slots.iter().map(|slot| minicbor::to_vec(slot).unwrap());
    slots.map(|slot| [slot[13..45].to_vec(), slot[slot.len() - 40..slot.len() - 16].to_vec()]).collect()
}

/// Files of the local store that hold `bytes`, under any name and at any offset.
fn files_with(dir: &std::path::Path, bytes: &[u8]) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, bytes));
        } else if std::fs::read(&path).unwrap().windows(bytes.len()).any(|window| window == bytes) {
            found.push(path);
        }
    }
    found
}
