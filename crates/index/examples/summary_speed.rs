//! How fast message summaries are: `cargo run --release --example summary_speed -- DIR [MESSAGES]`.
//!
//! Delivers small messages to one account in a new local store in DIR, then streams the summaries
//! of all of them: the first time, when segments are made, and with segments, each part by itself.
//! Prints milliseconds.

use std::sync::Arc;

use futures::StreamExt;
use sealpost_account::{Account, Accounts, Flags, NewMessage};
use sealpost_base::{
    AccountId, Budget, Clock, Random, Result, SystemClock, SystemRandom, Timestamp, Uid, UidSet,
};
use sealpost_index::{Index, Parts, ReadOrder};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{RootKey, Store};

const ID: AccountId = AccountId([1; 16]);

#[allow(clippy::print_stdout, reason = "this program exists to print figures")]
fn report(what: &str, figure: f64, unit: &str) {
    println!("{what:<44} {figure:>10.2} {unit}");
}

fn mail(n: usize) -> Vec<u8> {
    let (person, other) = (n * 7919 % 400, n * 104_729 % 400);
    format!(
        "Received: from relay.example.org (relay.example.org [192.0.2.{}]) by mx.example.net with ESMTPS id {n:012X}\r\n\
         \tfor <reader@example.net>; Tue, 14 Oct 2025 10:21:05 +0200\r\n\
         From: Person Number {person} <person{person}@example.org>\r\nTo: Other Number {other} <other{other}@example.net>, \
         Team <team@example.net>\r\nSubject: Re: about the matter of {} and {}\r\nDate: Tue, 14 Oct 2025 10:21:05 +0200\r\n\
         Message-ID: <{n:x}.{:x}@example.org>\r\nReferences: <{:x}@example.org> <{:x}@example.org>\r\nMIME-Version: 1.0\r\n\
         Content-Type: text/plain; charset=utf-8\r\n\r\nHello,\r\n\r\nthis is message {n}.\r\n",
        n % 250, n % 977, n % 1013, n * 31, n / 7, n / 3
    )
    .into_bytes()
}

async fn stream(account: &Arc<Account>, parts: Parts) -> Result<usize> {
    let inbox = account.state().inbox().id();
    let all = UidSet::range(Uid::MIN, Uid::new(u32::MAX).unwrap_or(Uid::MIN));
    let mut stream =
        Index::of(account).summaries(inbox, all, ReadOrder::Uids, parts, 256).flat_map(futures::stream::iter);
    let mut bytes = 0;
    while let Some((_, summary)) = stream.next().await {
        let summary = summary?;
        bytes += 1;
        if parts.contains(Parts::FIELDS) {
            bytes += summary.subject().map_or(0, str::len) + summary.from().count();
        }
        if parts.contains(Parts::HEADERS) {
            bytes += summary.headers().len();
        }
        if parts.contains(Parts::IDS) {
            bytes += summary.references().count();
        }
    }
    Ok(bytes)
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: summary_speed DIR [MESSAGES]";
    let dir = std::env::args().nth(1).ok_or(usage)?;
    let messages: usize = std::env::args().nth(2).map_or(Ok(100_000), |n| n.parse())?;
    let clock = Arc::new(SystemClock::new());
    let random: Arc<dyn Random> = Arc::new(SystemRandom);
    let root = RootKey::generate(&*random);
    let store = Store::local(std::path::Path::new(&dir)).await?;
    let accounts = || {
        Accounts::new(
            store.clone(),
            LogKey::for_tests(),
            clock.clone(),
            random.clone(),
            Budget::new(256 << 20),
        )
    };
    let milliseconds = |start| (clock.monotonic() - start).as_secs_f64() * 1000.0;

    let filling = accounts();
    let account = filling.open(ID, &root).await?;
    let inbox = account.state().inbox().id();
    let start = clock.monotonic();
    for first in (0..messages).step_by(500) {
        let stored = futures::stream::iter(first..messages.min(first + 500)).map(|n| {
            let accounts = filling.clone();
            tokio::spawn(async move {
                let mut ingest = accounts.ingest(ID).await?;
                ingest.write(&mail(n)).await?;
                ingest.finish().await
            })
        });
        let mut stored = stored.buffered(64);
        let mut new = Vec::new();
        while let Some(stored) = stored.next().await {
            new.push(NewMessage { stored: stored??, flags: Flags::default().into(), received: Timestamp(0) });
        }
        account.append(inbox, new).await?;
    }
    report("stored", messages as f64 * 1000.0 / milliseconds(start), "/s");
    for what in ["first time", "again"] {
        let start = clock.monotonic();
        stream(&account, Parts::ALL).await?;
        report(&format!("{what}: all parts"), milliseconds(start), "ms");
    }
    for (what, parts) in [
        ("dates", Parts::DATE),
        ("fields", Parts::FIELDS),
        ("identifiers", Parts::IDS),
        ("headers", Parts::HEADERS),
        ("all parts", Parts::ALL),
    ] {
        let start = clock.monotonic();
        for _ in 0..5 {
            stream(&account, parts).await?;
        }
        report(what, milliseconds(start) / 5.0, "ms");
    }
    Ok(())
}
