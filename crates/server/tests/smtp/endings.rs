//! Sessions that end without QUIT, and leave nothing that was not acknowledged.

use std::time::Duration;

use futures::StreamExt;
use sealpost_base::limits;
use sealpost_session::Settings;
use sealpost_smtp::client::Protocol;
use tokio::io::AsyncWriteExt;

use crate::mailer::Mailer;
use crate::smtp_world::TestServer;

const ME: &str = "me@localhost";

async fn world_with(settings: Settings) -> (TestServer, Mailer) {
    let mut world = TestServer::new(settings).await;
    let stream = world.connect_as(Protocol::Smtp);
    let mailer = Mailer::greet(stream, Protocol::Smtp).await;
    (world, mailer)
}

async fn assert_nothing_left(world: &mut TestServer) {
    world.all_ended().await;
    // Tasks of their own discard the unfinished writes of an ended session.
    let given_up = async {
        while world.ctx.budget.in_use() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), given_up).await.expect("the budget is given back");
    assert!(world.inbox(ME).await.unwrap().is_empty());
    assert_eq!(world.ctx.store.list("spool", None).count().await, 0);
    let objects: Vec<_> =
        world.ctx.store.list("acct", None).map(|object| object.unwrap().path).collect().await;
    assert!(!objects.iter().any(|path| path.contains("/msg/")), "{objects:?}");
}

#[tokio::test]
async fn a_server_that_stops_says_so_to_idle_clients() {
    let (mut world, mailer) = world_with(Settings::default()).await;
    world.ctx.shutdown.begin();
    assert_eq!(mailer.last_words().await, "421 4.3.2 localhost is stopping, closing connection\r\n");
    world.all_ended().await;
}

#[tokio::test]
async fn a_stopping_server_abandons_a_partial_message() {
    for size in [100, 100_000] {
        let (mut world, mut mailer) = world_with(Settings::default()).await;
        assert_eq!(mailer.envelope(&[ME]).await, [250]);
        mailer.send_part(&vec![b'x'; size]).await;
        world.ctx.shutdown.begin();
        assert!(mailer.last_words().await.starts_with("421 4.3.2 "));
        assert_nothing_left(&mut world).await;
    }
}

#[tokio::test]
async fn silence_ends_a_session() {
    let mut settings = Settings::default();
    settings.timeouts.smtp = Duration::from_millis(30);
    let (mut world, mut mailer) = world_with(settings).await;
    assert_eq!(mailer.envelope(&[ME]).await, [250]);
    assert!(mailer.last_words().await.starts_with("421 4.4.2 "));
    assert_nothing_left(&mut world).await;
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_nothing() {
    for recipients in [&[ME][..], &["all@localhost"]] {
        for size in [100, 100_000, 1_000_000] {
            let (mut world, mut mailer) = world_with(Settings::default()).await;
            assert_eq!(mailer.envelope(recipients).await, [250]);
            mailer.send_part(&vec![b'x'; size]).await;
            drop(mailer);
            assert_nothing_left(&mut world).await;
        }
    }
}

/// A client whose session holds memory that others wait for has to use it.
#[tokio::test(start_paused = true)]
async fn a_client_that_holds_memory_and_dawdles_is_cut_off() {
    let (mut world, mut mailer) = world_with(Settings::default()).await;
    assert_eq!(mailer.envelope(&[ME]).await, [250]);
    mailer.send_part(&[b'x'; 30_000]).await;
    while world.ctx.budget.in_use() == 0 {
        tokio::task::yield_now().await;
    }
    let budget = world.ctx.budget.clone();
    let mut all: Vec<_> = std::iter::from_fn(|| budget.try_acquire(64 * 1024)).collect();
    let waiting = tokio::spawn(async move { budget.acquire(1024 * 1024).await });
    let clock = world.clock.clone();
    let time_passes = tokio::spawn(async move {
        loop {
            clock.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    assert!(mailer.last_words().await.starts_with("421 4.4.2 The message arrives too slowly"));
    time_passes.abort();
    all.clear();
    drop(waiting.await.unwrap());
    assert_nothing_left(&mut world).await;
}

#[tokio::test]
async fn an_endless_line_is_read_up_to_a_limit() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut stream = world.connect_as(Protocol::Smtp);
    let line = vec![b'x'; limits::SMTP_COMMAND_BYTES + limits::SMTP_DISCARD_BYTES];
    stream.write_all(&line).await.unwrap();
    let mut words = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut words).await.unwrap();
    let replies: Vec<_> = words.lines().map(|line| &line[..3]).collect();
    assert_eq!(replies, ["220", "500", "421"]);
    drop(stream);
    world.all_ended().await;
}
