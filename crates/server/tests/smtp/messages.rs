//! Messages of all sizes, byte for byte through the store and back, within a small memory.

use futures::{StreamExt, future};
use sealpost_base::{MemoryDivision, Random, SeededRandom};
use sealpost_session::Settings;
use sealpost_smtp::client::Protocol;

use crate::mailer::Mailer;
use crate::smtp_world::TestServer;

const ME: &str = "me@localhost";
const ALL: [&str; 3] = ["me@localhost", "you@localhost", "them@localhost"];

fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    SeededRandom::new(seed).fill(&mut bytes);
    bytes
}

/// The message behind its two trace fields.
fn without_trace(stored: &[u8]) -> &[u8] {
    let text = String::from_utf8_lossy(stored);
    assert!(text.starts_with("Return-Path: <sender@client.example>\r\nReceived: from client.example "));
    let end = stored.windows(8).position(|w| w == b" +0000\r\n");
    &stored[end.expect("a trace field ends with its date") + 8..]
}

#[tokio::test]
async fn any_bytes_of_any_size_come_back() {
    let mut world = TestServer::new(Settings::default()).await;
    let stream = world.connect_as(Protocol::Smtp);
    let mut mailer = Mailer::greet(stream, Protocol::Smtp).await;
    let sizes = [0, 1, 2, 1000, 15_000, 16_384, 16_385, 65_536, 70_001, 262_144, 300_000, 1_500_000];
    for (i, size) in sizes.into_iter().enumerate() {
        let message = noise(size as u64, size);
        assert_eq!(mailer.envelope(&[ME]).await, [250]);
        let codes = mailer.send_chunks(&message, 40_000, 1).await;
        assert!(codes.iter().all(|&code| code == 250), "{codes:?}");
        let inbox = world.inbox(ME).await.unwrap();
        assert_eq!(inbox.len(), i + 1);
        assert!(without_trace(&inbox[i]) == message, "{size} bytes by BDAT");
    }
    assert_eq!(mailer.ask("QUIT").await, 221);
    world.all_ended().await;
    assert_eq!(world.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn recipients_have_a_part_of_the_memory_and_no_more() {
    let memory = MemoryDivision { work: 2 * 1024 * 1024, ..MemoryDivision::default() };
    let mut world = TestServer::new(Settings { memory, ..Settings::default() }).await;
    let part = world.ctx.budget.common() / 8;
    let mut mailers = Vec::new();
    let mut refused = 0;
    for _ in 0..3 {
        let stream = world.connect_as(Protocol::Lmtp);
        let mut mailer = Mailer::greet(stream, Protocol::Lmtp).await;
        let codes = mailer.envelope(&[ME; 900]).await;
        assert_eq!(codes[..10], [250; 10]);
        refused += codes.iter().filter(|code| **code == 452).count();
        mailers.push(mailer);
    }
    let drawn = world.ctx.budget.in_use();
    assert!(
        refused > 0 && drawn <= part && drawn + 20_000 > part,
        "{refused} are refused, {drawn} are drawn"
    );
    drop(mailers);
    world.all_ended().await;
    assert_eq!(world.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn data_is_stored_as_it_was_sent() {
    let mut world = TestServer::new(Settings::default()).await;
    let stream = world.connect_as(Protocol::Smtp);
    let mut mailer = Mailer::greet(stream, Protocol::Smtp).await;
    let line = [&[b'.'; 3000][..], b"\0\xff\x80\ttext\r\n"].concat();
    let message = line.repeat(100);
    assert_eq!(mailer.envelope(&[ME]).await, [250]);
    assert_eq!(mailer.send(&message, 1).await, [250]);
    assert!(without_trace(&world.inbox(ME).await.unwrap()[0]) == message);
}

#[tokio::test]
async fn a_large_message_to_several_recipients_is_spooled_once() {
    let mut world = TestServer::new(Settings::default()).await;
    for protocol in [Protocol::Smtp, Protocol::Lmtp] {
        let stream = world.connect_as(protocol);
        let mut mailer = Mailer::greet(stream, protocol).await;
        for (seed, size) in [(1, 20_000), (2, 255_000), (3, 263_000), (4, 1_200_000)] {
            let message = noise(seed, size);
            assert_eq!(mailer.envelope(&ALL).await, [250; 3]);
            let replies = if protocol == Protocol::Lmtp { 3 } else { 1 };
            let codes = mailer.send_chunks(&message, 1 << 20, replies).await;
            assert!(codes.iter().all(|&code| code == 250), "{codes:?}");
            for name in ALL {
                let inbox = world.inbox(name).await.unwrap();
                assert!(without_trace(inbox.last().unwrap()) == message, "{size} bytes for {name}");
            }
        }
        assert_eq!(mailer.ask("QUIT").await, 221);
    }
    world.all_ended().await;
    // Removal is a task of its own.
    while world.ctx.store.list("spool", None).count().await > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.ctx.budget.in_use(), 0);
}

/// Sixteen sessions want more than there is, each holding a part while it waits: all get through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn little_memory_is_shared_without_standstill() {
    let settings = Settings {
        memory: MemoryDivision { work: 4 * 1024 * 1024, ..Default::default() },
        ..Settings::default()
    };
    let mut world = TestServer::new(settings).await;
    let message = noise(7, 400_000);
    let streams: Vec<_> = (0..16).map(|_| world.connect_as(Protocol::Lmtp)).collect();
    let sessions = streams.into_iter().enumerate().map(|(i, stream)| {
        let message = &message;
        async move {
            let mut mailer = Mailer::greet(stream, Protocol::Lmtp).await;
            let recipients = if i % 2 == 0 { &ALL[..] } else { &ALL[..1] };
            assert_eq!(mailer.envelope(recipients).await, vec![250; recipients.len()]);
            let size = if i % 4 < 2 { message.len() } else { 100_000 };
            let codes = mailer.send(&message[..size], recipients.len()).await;
            assert_eq!(codes, vec![250; recipients.len()]);
        }
    });
    future::join_all(sessions).await;
    assert_eq!(world.inbox(ME).await.unwrap().len(), 16);
    assert_eq!(world.inbox(ALL[2]).await.unwrap().len(), 8);
    world.all_ended().await;
    assert_eq!(world.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn recipients_reserve_memory_and_never_wait_for_it() {
    let mut world = TestServer::new(Settings::default()).await;
    let budget = world.ctx.budget.clone();
    let stream = world.connect_as(Protocol::Lmtp);
    let mut mailer = Mailer::greet(stream, Protocol::Lmtp).await;
    let tag = "x".repeat(40);
    let many: Vec<_> = (0..900).map(|n| format!("me+{n}{tag}@localhost")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let before = budget.in_use();
    assert!(mailer.envelope(&many).await.iter().all(|code| *code == 250));
    assert!(budget.in_use() > before + 64 * 1024, "{}", budget.in_use());
    assert_eq!(mailer.ask("RSET").await, 250);
    assert_eq!(budget.in_use(), before);
    // While other requests hold all of it, ordinary mail is accepted, and the rest gets a temporary
    // error.
    let pieces = [budget.fair_part(), 1024, 1].into_iter();
    let taken: Vec<_> = pieces
        .flat_map(|piece| std::iter::from_fn(|| budget.try_acquire(piece)).collect::<Vec<_>>())
        .collect();
    let codes = mailer.envelope(&many).await;
    let accepted = codes.iter().filter(|code| **code == 250).count();
    assert!((8..100).contains(&accepted), "{accepted}");
    assert!(codes[accepted..].iter().all(|code| *code == 452));
    drop(taken);
    assert_eq!(mailer.send(b"Subject: x\r\n\r\ny\r\n", accepted).await, vec![250; accepted]);
}
