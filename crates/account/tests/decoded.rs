//! Parts of messages without their encoding, also of messages that are encoded themselves.

use std::sync::Arc;

use futures::TryStreamExt;
use object_store::memory::InMemory;
use sealpost_account::decoded::Span;
use sealpost_account::{Account, Accounts, Flags, Message, NewMessage};
use sealpost_base::{AccountId, Budget, FakeClock, Random, SeededRandom, Timestamp};
use sealpost_mime::encode::base64_text;
use sealpost_vault::entry::LogKey;
use sealpost_vault::{RootKey, Store};

async fn stored(mail: &[u8]) -> (Arc<Account>, Message) {
    let random = Arc::new(SeededRandom::new(5));
    let root = RootKey::generate(&*random);
    let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
    let store = Store::over(Arc::new(InMemory::new()));
    let accounts =
        Accounts::new(store, LogKey::for_tests(), clock, random as Arc<dyn Random>, Budget::new(64 << 20));
    let account = accounts.open(AccountId([3; 16]), &root).await.unwrap();
    let mut ingest = account.ingest().await.unwrap();
    ingest.write(mail).await.unwrap();
    let stored = ingest.finish().await.unwrap();
    let inbox = account.state().inbox().id();
    let new = NewMessage { stored, flags: Flags::default().into(), received: Timestamp(0) };
    let uid = account.append(inbox, vec![new]).await.unwrap().1[0];
    let message = {
        let state = account.state();
        state.message(state.inbox().row(uid).unwrap().message).unwrap()
    };
    (account, message)
}

#[tokio::test]
async fn windows_of_nested_encoded_messages_match_the_plain_text() {
    const HEAD: &str = "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n";
    // Large enough for several places at which decoding can begin.
    let text: String = (0..200_000u32).map(|n| format!("{n:07}\r\n")).collect();
    let innermost = format!("Subject: innermost\r\n\r\n{text}");
    let inner = format!("{HEAD}{}", base64_text(innermost.as_bytes()));
    let (account, message) = stored(format!("{HEAD}{}", base64_text(inner.as_bytes())).as_bytes()).await;

    let structure = account.structure(&message).await.unwrap();
    let (part, layers) = structure.part_within(&[1, 1, 1]).unwrap();
    assert_eq!((layers.len(), part.size()), (2, text.len() as u64));
    let decoded = account.decoded(&message, &layers).await.unwrap();
    assert_eq!(decoded.size(), innermost.len() as u64);
    for start in [0, 1, 700_001, 1_599_990, text.len()] {
        let end = text.len().min(start + 40);
        let range = part.body.start + start as u64..part.body.start + end as u64;
        let stream = account.bytes(&message, Span { layers: layers.clone(), range }).await.unwrap();
        let bytes: Vec<_> = stream.try_collect().await.unwrap();
        assert_eq!(bytes.concat(), text.as_bytes()[start..end], "{start}");
    }
    assert!(account.decoded(&message, &[]).await.is_err());
}
