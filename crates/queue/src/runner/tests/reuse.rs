//! Connections that wait for another mail.

use super::*;

/// Connections that were opened, and those that are open.
fn connections(fixture: &Fixture) -> (u64, usize) {
    (fixture.runner.metrics().connections.read(), fixture.runner.status().connections)
}

/// A mail that is sent by itself.
async fn send(fixture: &Fixture, to: &str) {
    fixture.accept(1, &[to]).await;
    fixture.drain(Duration::from_secs(60)).await;
    assert!(fixture.queue.state().is_empty(), "{to} has not got its mail");
}

#[tokio::test(start_paused = true)]
async fn mails_that_come_one_by_one_share_a_connection() {
    let fixture = Fixture::new().await;
    for _ in 0..5 {
        send(&fixture, "u@there.example").await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(connections(&fixture), (1, 1));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(connections(&fixture), (1, 0), "an idle connection stays open");
    for _ in 0..250 {
        send(&fixture, "u@there.example").await;
    }
    assert_eq!(connections(&fixture).0, 4, "a connection takes a hundred mails");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_that_the_server_closes_delays_nothing() {
    for seen in [true, false] {
        let fixture = Fixture::new().await;
        fixture.servers.set("there.example", Behaviour::Close { seen });
        for n in 1..=3 {
            send(&fixture, "u@there.example").await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(fixture.runner.metrics().connections.read(), n);
        }
        assert_eq!(fixture.runner.metrics().deferred.read(), 0);
        assert_eq!(fixture.servers.deliveries().len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn idle_connections_make_way_for_other_sites() {
    let clock = Arc::new(TokioClock::new());
    let servers = Servers::new(clock.clone());
    let fixture = Fixture::with(&Store::memory(), &servers, &clock, 1, 1).await;
    send(&fixture, "u@there.example").await;
    let begun = tokio::time::Instant::now();
    send(&fixture, "u@elsewhere.example").await;
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stop_closes_idle_connections_at_once() {
    let fixture = Fixture::new().await;
    send(&fixture, "u@there.example").await;
    assert_eq!(connections(&fixture), (1, 1));
    let begun = tokio::time::Instant::now();
    fixture.runner.stop();
    while connections(&fixture).1 > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
}
