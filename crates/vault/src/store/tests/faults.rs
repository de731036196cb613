//! Writes that fail, or succeed without a reply.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use object_store::memory::InMemory;
use sealpost_base::Kind;
use sealpost_testkit::faulty::{Faulty, Plan};

use crate::{Put, Sealed, Store};

const PLAN: Plan =
    Plan { fail: 100, lose_reply: 100, delay: 300, delay_max: Duration::from_micros(200), late: 0 };

async fn run(seed: u64) -> (Vec<bool>, u64) {
    let faulty = Faulty::new(Arc::new(InMemory::new()), PLAN, seed);
    let store = Store::over(Arc::new(faulty.clone()));
    let mut answers = Vec::new();
    for i in 0..300 {
        let put = store.put_new(&format!("a/{i}"), Sealed::new(vec![1])).await;
        assert!(matches!(put, Ok(Put::Created)) || put.as_ref().is_err_and(|e| e.kind() == Kind::Retry));
        answers.push(put.is_ok());
    }
    faulty.calm(true);
    let there = store.list("a", None).count().await;
    let acknowledged = answers.iter().filter(|&&ok| ok).count();
    assert!(acknowledged < there && there < 300, "some replies were lost, some writes failed");
    (answers, faulty.faults())
}

#[tokio::test]
async fn the_same_seed_gives_the_same_faults() {
    let (first, faults) = run(1).await;
    assert!(faults > 10);
    assert_eq!((first.clone(), faults), run(1).await);
    assert_ne!(first, run(2).await.0);
}

#[tokio::test]
async fn a_repeated_write_finds_its_earlier_object() {
    let plan = Plan { lose_reply: 500, ..Plan::default() };
    let faulty = Faulty::new(Arc::new(InMemory::new()), plan, 3);
    let store = Store::over(Arc::new(faulty.clone()));
    for i in 0..50 {
        let path = format!("a/{i}");
        while store.put_new(&path, Sealed::new(vec![i])).await.is_err() {}
        assert_eq!(store.read(&path).await.unwrap()[..], [i]);
    }
    assert!(faulty.faults() > 0);
}
