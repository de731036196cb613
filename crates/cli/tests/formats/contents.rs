//! What is in a store, as text: all that a later version has to find in it.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use sealpost_account::object_id::{email_id, mailbox_id};
use sealpost_account::{Account, Accounts, Row};
use sealpost_base::{Budget, FakeClock, Random, SeededRandom, Timestamp};
use sealpost_directory::{AccountName, Directory, Secret};
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;
use sealpost_vault::server_key::ServerKeys;

/// A store that is open.
pub struct OpenStore {
    pub directory: Directory,
    pub accounts: Accounts,
    pub clock: Arc<FakeClock>,
    pub random: Arc<SeededRandom>,
}

pub async fn open(data: &Path, at: Timestamp) -> OpenStore {
    let random = Arc::new(SeededRandom::new(7));
    let keys = ServerKeys::load_or_create(&data.join("server.key"), &*random).unwrap();
    let clock = Arc::new(FakeClock::new(at));
    let store = Store::local(data).await.unwrap();
    let shared: Arc<dyn Random> = random.clone();
    let directory = Directory::new(store.clone(), keys.clone(), clock.clone(), shared.clone());
    let accounts = Accounts::new(store, LogKey::of(&keys), clock.clone(), shared, Budget::new(64 << 20));
    OpenStore { directory, accounts, clock, random }
}

/// When stores are made, and soon after that: nothing that was expunged is purged yet.
pub const MADE: Timestamp = Timestamp(1_780_000_000_000);
const LOOKED_AT: Timestamp = Timestamp(1_780_001_000_000);

/// What is in the store in `data`; `secret` opens the account of jane.
pub async fn of(data: &Path, secret: &str) -> String {
    let OpenStore { directory, accounts, .. } = open(data, LOOKED_AT).await;
    let name = AccountName::parse("jane@example.org").unwrap();
    let (record, root) = directory.unlock(&name, Secret::new(secret.as_bytes()).unwrap()).await.unwrap();
    let mut out = String::new();
    writeln!(out, "account {name} {} quota {:?}", record.id, record.quota).unwrap();
    record.app_passwords().for_each(|token| writeln!(out, "token {} {}", token.id, token.label).unwrap());
    for address in ["jane@example.org", "info@example.org", "joe@example.org"] {
        let leads = directory.resolve(address).await.unwrap();
        writeln!(out, "{address} leads to {} accounts", leads.recipients.len()).unwrap();
    }
    let account = accounts.open(record.id, &root).await.unwrap();
    assert!(!account.is_damaged());
    log(&mut out, &account).await;
    let links: Vec<_> = account.state().links().map(|(_, link)| link.clone()).collect();
    for link in links {
        writeln!(out, "share {}", link.share).unwrap();
        log(&mut out, &accounts.open(link.share, &link.root).await.unwrap()).await;
    }
    out
}

async fn log(out: &mut String, account: &Account) {
    let (mailboxes, tombstones) = {
        let state = account.with_maps().await.unwrap();
        let mailbox = |mailbox: &sealpost_account::Mailbox| {
            let counts = state.maps().and_then(|maps| maps.counts(mailbox.id())).unwrap_or_default();
            let line = format!(
                "mailbox {} {} {:?} next {} modseq {} subscribed {} link {} parent {:?} {counts:?}",
                mailbox.name(),
                mailbox_id(account.id(), mailbox),
                mailbox.special_uses().iter().collect::<Vec<_>>(),
                mailbox.uid_next(),
                mailbox.highest_modseq(),
                state.is_subscribed(mailbox.name()),
                mailbox.link().is_some(),
                state.parent(mailbox.name()),
            );
            let rows: Vec<Row> = mailbox.all_rows().collect();
            (line, rows)
        };
        let objects: Vec<_> = state.objects("meta/").map(|(name, _)| name.to_owned()).collect();
        let tombstones = format!(
            "expunged {} objects {objects:?} changes {:?}",
            state.tombstone_count(),
            state.email_changes(sealpost_base::Position::ZERO, 1000).map(|changes| changes.created.len()),
        );
        (state.mailboxes().map(mailbox).collect::<Vec<_>>(), tombstones)
    };
    for (line, rows) in mailboxes {
        writeln!(out, "{line}").unwrap();
        for row in rows {
            message(out, account, &row).await;
        }
    }
    writeln!(out, "{tombstones}").unwrap();
}

async fn message(out: &mut String, account: &Account, row: &Row) {
    let (message, flags) = {
        let state = account.state();
        (state.message(row.message).unwrap(), state.flags_by_name(row.flags))
    };
    let raw: Vec<_> = account.reader(&message).raw(0..message.size()).try_collect().await.unwrap();
    let raw = raw.concat();
    let structure = account.structure(&message).await.unwrap();
    let text = account.text(&message).await.unwrap();
    let sum = raw.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    writeln!(
        out,
        "  {} {} {} {:?} {:?} received {} saved {} modseq {} bytes {} sum {sum:x} text {} subject {}",
        row.uid,
        email_id(&message),
        message.thread,
        flags.system,
        flags.keywords,
        message.received.0,
        row.saved.0,
        row.modseq,
        raw.len(),
        text.body.len(),
        structure.envelope.subject.as_deref().unwrap_or_default(),
    )
    .unwrap();
}
