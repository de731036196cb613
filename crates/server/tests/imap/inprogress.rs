//! INPROGRESS (RFC 9585), with commands that wait for memory, and the keep-alive of IDLE (RFC 2177).

use std::pin::Pin;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, MaybeDone, maybe_done};
use sealpost_base::{Budget, Permit};
use sealpost_session::Settings;

use crate::imap_world::{Client, TestServer};

/// Holds all of the budget, or the first place in the queue for it while earlier commands give theirs
/// back: no command gets any before the result is dropped.
async fn take_all(budget: &Budget) -> Pin<Box<MaybeDone<BoxFuture<'static, Permit>>>> {
    let budget = budget.clone();
    let mut all = Box::pin(maybe_done(async move { budget.acquire_large(budget.total()).await }.boxed()));
    let _ = futures::poll!(&mut all);
    all
}

/// The next line that is no report of progress. A paused clock advances whenever nothing else is to
/// do, so there may be more reports than were read before it continued.
async fn line_after_progress(client: &mut Client) -> String {
    loop {
        let line = client.line().await;
        if !line.starts_with("* OK [INPROGRESS ") {
            return line;
        }
    }
}

#[tokio::test]
async fn a_long_search_reports_progress_every_ten_seconds() {
    let mut world = TestServer::new(Settings::default()).await;
    for n in 0..40 {
        world.deliver(None, format!("Subject: n{n}\r\n\r\nneedle\r\n").as_bytes()).await;
    }
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    assert_eq!(client.ok("SEARCH BODY nothing").await.len(), 2, "a short one is not");
    let held = take_all(&world.ctx.budget).await;
    tokio::time::pause();
    client.send(b"a1 SEARCH BODY nothing\r\n").await;
    let start = tokio::time::Instant::now();
    for n in 1..=3 {
        assert_eq!(client.line().await, "* OK [INPROGRESS (\"a1\" 0 40)] still working on it");
        assert!(start.elapsed() >= Duration::from_secs(10 * n));
        assert!(start.elapsed() < Duration::from_secs(10 * n + 5));
    }
    drop(held);
    tokio::time::resume();
    assert_eq!(line_after_progress(&mut client).await, "* SEARCH");
    assert_eq!(client.line().await, "a1 OK SEARCH completed");
}

#[tokio::test]
async fn a_waiting_fetch_reports_progress_also_compressed() {
    let mut world = TestServer::new(Settings::default()).await;
    world.deliver(None, b"Subject: a\r\n\r\nx\r\n").await;
    let mut client = world.login().await;
    client.compress().await;
    client.ok("SELECT INBOX").await;
    let held = take_all(&world.ctx.budget).await;
    tokio::time::pause();
    client.send(b"a2 FETCH 1 BODY.PEEK[]\r\n").await;
    assert_eq!(client.line().await, "* OK [INPROGRESS (\"a2\" 0 1)] still working on it");
    drop(held);
    tokio::time::resume();
    assert_eq!(line_after_progress(&mut client).await, "* 1 FETCH (BODY[] {17}");
    while client.line().await != "a2 OK FETCH completed" {}
}

/// RFC 9585 §4: no progress is reported between commands, also while updates are.
#[tokio::test]
async fn a_completed_command_reports_no_progress() {
    let mut world = TestServer::new(Settings::default()).await;
    world.deliver(None, b"Subject: a\r\n\r\nx\r\n").await;
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    client.ok("NOTIFY SET (SELECTED (MessageNew (BODY.PEEK[]) MessageExpunge))").await;
    let mut other = world.login().await;
    other.ok("SELECT INBOX").await;
    let held = take_all(&world.ctx.budget).await;
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(11)).await;
    other.ok("COPY 1 INBOX").await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    drop(held);
    tokio::time::resume();
    assert_eq!(client.line().await, "* 2 EXISTS");
    assert!(client.line().await.ends_with(" RECENT"));
    assert_eq!(client.line().await, "* 2 FETCH (BODY[] {17}");
}

#[tokio::test]
async fn an_idle_client_hears_that_the_server_is_there() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    client.send(b"1 IDLE\r\n").await;
    assert_eq!(client.line().await, "+ idling");
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(7 * 60 + 1)).await;
    client.send(b"DONE\r\n").await;
    for _ in 0..3 {
        assert_eq!(client.line().await, "* OK Still here");
    }
    assert_eq!(client.line().await, "1 OK IDLE completed");
    tokio::time::resume();

    let mut settings = Settings::default();
    settings.timeouts.imap_keep_alive = Duration::ZERO;
    let mut world = TestServer::new(settings).await;
    let mut client = world.login().await;
    client.send(b"1 IDLE\r\n").await;
    assert_eq!(client.line().await, "+ idling");
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(29 * 60)).await;
    client.send(b"DONE\r\n").await;
    assert_eq!(client.line().await, "1 OK IDLE completed", "zero turns it off");
}
