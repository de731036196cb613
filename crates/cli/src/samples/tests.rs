use std::collections::HashSet;
use std::sync::Arc;

use sealpost_base::{Budget, FakeClock, SeededRandom};
use sealpost_directory::{AccountName, Directory, NewAccount, Secret};
use sealpost_mime::Scanner;
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;
use sealpost_vault::server_key::ServerKeys;

use super::*;

const ME: &str = "me@localhost";

#[test]
fn a_few_dozen_of_many_shapes_and_always_the_same() {
    let all: Vec<Sample> = groups(ME).flatten().collect();
    let again: Vec<Sample> = groups(ME).flatten().collect();
    assert!((36..=60).contains(&all.len()), "{}", all.len());
    assert!(all.iter().zip(&again).all(|(a, b)| a.raw == b.raw && a.received == b.received));
    assert!(all.iter().any(|sample| sample.raw.len() > 5_000_000));
    let dates: HashSet<_> = all.iter().map(|sample| sample.received).collect();
    assert_eq!(dates.len(), all.len(), "numbers are unique");
}

#[test]
fn sample_texts_are_found_by_the_scanner() {
    let mut found = String::new();
    for sample in groups(ME).flatten().filter(|sample| sample.raw.len() < 1_000_000) {
        let mut scanner = Scanner::new();
        scanner.push(&sample.raw);
        let (_, sink) = scanner.finish();
        let text = sink.into_text();
        found.push_str(&text.headers);
        found.push_str(&text.body);
    }
    for expected in [
        "議事録をお送りします",
        "万事如意",
        "Отчёт за февраль готов",
        "موعد الاجتماع القادم",
        "감사합니다",
        "🎉",
        "Überraschungen",
        "innermost",
    ] {
        assert!(found.contains(&sealpost_mime::fold(expected)), "{expected}");
    }
}

#[tokio::test]
async fn they_arrive_once() {
    let (clock, random) = (Arc::new(FakeClock::new(Timestamp(0))), Arc::new(SeededRandom::new(7)));
    let store = Store::memory();
    let key = ServerKeys::generate(&*random);
    let directory = Directory::new(store.clone(), key.clone(), clock.clone(), random.clone());
    let password = NewAccount::with_password(Secret::new(b"pw").unwrap());
    let (record, root) = directory.create(&AccountName::parse(ME).unwrap(), password).await.unwrap();
    let accounts = || {
        Accounts::new(store.clone(), LogKey::of(&key), clock.clone(), random.clone(), Budget::new(1 << 25))
    };

    let first = accounts();
    let (a, b) = tokio::join!(deliver(&first, &record, &root), deliver(&first, &record, &root));
    let delivered = a.unwrap() + b.unwrap();
    assert_eq!(deliver(&accounts(), &record, &root).await.unwrap(), 0);

    let account = accounts().open(record.id, &root).await.unwrap();
    let state = account.state();
    assert_eq!(state.message_count(), delivered);
    for mailbox in ["Drafts", "Sent", "Junk", "Trash", "Archive", threads::LISTS] {
        assert!(!state.mailbox_named(mailbox).unwrap().is_empty(), "{mailbox}");
        assert!(mailbox != threads::LISTS || state.is_subscribed(mailbox));
    }
    assert!(state.inbox().unseen() > 20 && state.inbox().unseen() < state.inbox().len());
    assert_eq!(state.mailbox_named(threads::LISTS).unwrap().len(), 4);
}
