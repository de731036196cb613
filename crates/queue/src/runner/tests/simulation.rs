//! Seeded histories: a store that loses replies, servers that fail, processes that are killed, and
//! another node that takes over.
//!
//! In every history: each acknowledged mail arrives; one that arrives twice was being sent when a
//! process was killed or its queue adopted, or a reply was lost.

use std::collections::{BTreeMap, BTreeSet};

use object_store::memory::InMemory;
use sealpost_base::Random;
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::Backend;

use super::*;

/// How often a world ends a process.
const LIVES: usize = 5;

async fn world(seed: u64) {
    let random = SeededRandom::new(seed);
    let clock = Arc::new(TokioClock::new());
    let mut servers = Servers::new(clock.clone());
    servers.take(Duration::from_millis(20));
    servers.set("flaky.example", Behaviour::Accept);
    let objects = Arc::new(InMemory::new());
    let (mut acknowledged, mut excused, mut lost_replies) = (BTreeSet::new(), 0u64, 0usize);
    let mut sent = 0u32;
    for life in 0..LIVES {
        let plan = Plan { fail: 30, lose_reply: 30, ..Plan::default() };
        let faulty = Faulty::new(objects.clone(), plan, seed * 100 + life as u64);
        faulty.calm(true);
        let store = Store::with(Arc::new(faulty.clone()), Backend::default());
        let fixture = Fixture::with(&store, &servers, &clock, 30, seed * 7 + life as u64).await;
        let repeated = fixture.queue.state().totals().repeated;
        excused = excused.max(repeated);
        faulty.calm(life == LIVES - 1);
        for _ in 0..20 {
            let flaky = match random.below(5) {
                0 => refused(450, (4, 7, 1), Reason::RecipientRefused),
                1 => Behaviour::NoConnection,
                2 => {
                    lost_replies += 1;
                    Behaviour::LoseReply
                }
                _ => Behaviour::Accept,
            };
            servers.set("flaky.example", flaky);
            let batch = (0..random.below(4) + 1).map(|_| {
                sent += 1;
                let to = match random.below(3) {
                    0 => vec![format!("m{sent}@flaky.example"), format!("m{sent}@good.example")],
                    1 => vec![format!("m{sent}@flaky.example")],
                    _ => vec![format!("m{sent}@good.example")],
                };
                let addresses: Vec<&str> = to.iter().map(String::as_str).collect();
                let mail = fixture.mail(1 + random.below(3) as u8, &addresses);
                let queue = fixture.queue.clone();
                async move { queue.accept(mail).await.map(|_| to) }
            });
            let batch: Vec<_> = batch.collect();
            for to in futures::future::join_all(batch).await.into_iter().flatten() {
                acknowledged.extend(to);
            }
            tokio::time::sleep(Duration::from_millis(random.next_u64() % 200)).await;
            if random.below(30) == 0 {
                fixture.queue.upkeep().await.ok();
            }
        }
        if life == LIVES - 1 {
            servers.set("flaky.example", Behaviour::Accept);
            fixture.drain(DAY).await;
            assert!(fixture.queue.state().is_empty(), "seed {seed}: {} left", fixture.queue.state().len());
            excused = excused.max(fixture.queue.state().totals().repeated);
        } else if random.below(2) == 0 {
            // Killed: what it does from now on has no effect.
            faulty.die_after(0);
            servers = servers.die();
        } else {
            // Taken over from while it runs: it loses its next append, and then stops.
            faulty.calm(true);
        }
    }
    let mut arrived: BTreeMap<String, u64> = BTreeMap::new();
    for delivery in servers.deliveries() {
        for recipient in delivery.recipients {
            *arrived.entry(recipient).or_default() += 1;
        }
    }
    for address in &acknowledged {
        assert!(arrived.contains_key(address), "seed {seed}: {address} was acknowledged and did not arrive");
    }
    let twice: u64 = arrived.values().map(|times| times - 1).sum();
    // A mail counts once as being sent, and has two recipients at most; each phase of lost replies
    // loses some.
    let most = 2 * excused + 120 * lost_replies as u64;
    assert!(
        twice <= most,
        "seed {seed}: {twice} arrived twice, {excused} were being sent, {lost_replies} phases"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_acknowledged_is_lost_through_kills_and_takeovers() {
    for seed in 0..8 {
        world(seed).await;
    }
}

/// With replies that are never lost, only what was being sent at a kill arrives twice.
#[tokio::test(start_paused = true)]
async fn a_kill_repeats_only_deliveries_in_progress() {
    for seed in 0..10 {
        let random = SeededRandom::new(seed);
        let clock = Arc::new(TokioClock::new());
        let mut servers = Servers::new(clock.clone());
        servers.take(Duration::from_millis(30));
        let objects = Arc::new(InMemory::new());
        let (mut count, mut repeated) = (0, 0);
        for life in 0..4 {
            let faulty = Faulty::new(objects.clone(), Plan::default(), seed);
            let store = Store::with(Arc::new(faulty.clone()), Backend::default());
            let fixture = Fixture::with(&store, &servers, &clock, 30, seed + life).await;
            repeated = fixture.queue.state().totals().repeated;
            for _ in 0..100 {
                count += 1;
                fixture.accept(1, &[&format!("u{count}@there.example")]).await;
            }
            if life == 3 {
                fixture.drain(DAY).await;
                assert!(fixture.queue.state().is_empty());
                break;
            }
            tokio::time::sleep(Duration::from_millis(random.next_u64() % 300)).await;
            faulty.die_after(0);
            servers = servers.die();
        }
        let deliveries = servers.deliveries();
        let distinct: BTreeSet<_> = deliveries.iter().map(|delivery| &delivery.recipients[0]).collect();
        assert_eq!(distinct.len(), count, "seed {seed}");
        let twice = deliveries.len() - count;
        assert!(twice as u64 <= repeated, "seed {seed}: {twice} twice, {repeated} on their way");
        // Ten connections at most, each with a mail, and what was acknowledged by the server and
        // not yet recorded.
        assert!(repeated <= 3 * 60, "seed {seed}: {repeated}");
    }
}
