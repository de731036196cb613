//! Upkeep carries, trims and removes only what no later writer needs, even as a former writer.

use super::*;

#[tokio::test(start_paused = true)]
async fn upkeep_keeps_queued_mails_and_trims_other_entries() {
    for append_mode in APPEND_MODES {
        let fixture = Fixture::on(memory(append_mode));
        let queue = fixture.open("a").await;
        let mut staying = Vec::new();
        for round in 0..6 {
            for n in 0..20 {
                let id = queue.accept(fixture.mail(&format!("u{round}-{n}@d.example"))).await.unwrap();
                if n == 0 {
                    staying.push((id, format!("u{round}-{n}@d.example")));
                } else {
                    queue.commit(vec![delivered(id)]).await.unwrap();
                }
            }
            queue.upkeep().await.unwrap();
        }
        // Most mail of the first segments is delivered: the rest is carried into another one.
        for (id, _) in staying.drain(..4) {
            queue.commit(vec![delivered(id)]).await.unwrap();
        }
        queue.upkeep().await.unwrap();
        queue.upkeep().await.unwrap();
        let count = async |folder: &str| {
            let folder = format!("queue/{}/{folder}", crate::node_id("a"));
            futures::StreamExt::count(fixture.store.list(&folder, None)).await
        };
        assert!(count("log").await < 60, "{} entries", count("log").await);
        assert!(count("segment").await <= 3);
        // Two checkpoints and a witness of each; with siblings, also the trim watermark.
        let with_siblings = usize::from(append_mode == AppendMode::Siblings);
        assert_eq!(count("manifest").await, 4 + with_siblings);
        closed(queue).await;
        let again = fixture.open("a").await;
        assert_eq!(again.state().len(), staying.len());
        for (id, address) in staying {
            assert_eq!(again.read(id).await.unwrap().recipients[0].address, address);
        }
    }
}

/// Accepts a mail for `address`, and another one behind it.
async fn accept_two(fixture: &Fixture, queue: &Queue, address: &str) -> MailId {
    let id = queue.accept(fixture.mail(address)).await.unwrap();
    queue.accept(fixture.mail("behind@d.example")).await.unwrap();
    id
}

/// The address of the first recipient, read by another process, without a cache.
async fn address_of(fixture: &Fixture, id: MailId) -> String {
    let queue = fixture.open("reader").await;
    let mail = queue.read(id).await.unwrap();
    mail.recipients[0].address.clone()
}

/// The node was suspended between its checkpoint and the removal of segments.
#[tokio::test(start_paused = true)]
async fn late_upkeep_of_a_former_owner_removes_no_segment() {
    for append_mode in APPEND_MODES {
        let faulty = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
        let fixture = Fixture::on(store(Arc::new(faulty.clone()), append_mode));
        let former = fixture.open("a").await;
        let id = accept_two(&fixture, &former, "u@d.example").await;
        let mut held = faulty.hold_listing("/segment", 0);
        let upkeep = {
            let former = former.clone();
            tokio::spawn(async move { former.upkeep().await })
        };
        held.reached().await;
        let owner = fixture.open("b").await;
        owner.upkeep().await.unwrap();
        let segments = fixture.store.list(&format!("queue/{}/segment", crate::node_id("a")), None);
        assert_eq!(futures::StreamExt::count(segments).await, 1, "the mail was not carried");
        drop(held);
        let done = upkeep.await.unwrap();
        assert_eq!(address_of(&fixture, id).await, "u@d.example");
        assert!(done.is_err(), "it does not run the queue any more");
        assert_eq!(former.stopped(), Some(Stopped::Adopted("b".to_owned())));
    }
}

/// An object that was superfluous while this process was the writer stays superfluous.
#[tokio::test(start_paused = true)]
async fn upkeep_between_two_reigns_removes_no_segment() {
    for append_mode in APPEND_MODES {
        let faulty = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
        let fixture = Fixture::on(store(Arc::new(faulty.clone()), append_mode));
        let node = fixture.open("a").await;
        let id = accept_two(&fixture, &node, "u@d.example").await;
        let mut held = faulty.hold_listing("/segment", 0);
        let upkeep = {
            let node = node.clone();
            tokio::spawn(async move { node.upkeep().await })
        };
        held.reached().await;
        let other = fixture.open("b").await;
        other.upkeep().await.unwrap();
        assert!(node.accept(fixture.mail("v@d.example")).await.is_err());
        settle().await;
        assert!(node.take_back("a").await.is_err_and(|e| e.kind() == Kind::Retry));
        drop(held);
        // It has read the entries of the other writer: it finds nothing superfluous, or it refuses.
        let _ = upkeep.await.unwrap();
        node.take_back("a").await.unwrap();
        let running = node.clone();
        tokio::spawn(async move { running.run().await });
        node.upkeep().await.unwrap();
        node.upkeep().await.unwrap();
        assert_eq!(address_of(&fixture, id).await, "u@d.example");
    }
}

/// The former writer wrote its checkpoint after the owner had loaded the log: mail before it is not carried.
#[tokio::test(start_paused = true)]
async fn a_former_owners_checkpoint_lets_no_mail_be_trimmed() {
    for (append_mode, former_goes_on) in
        APPEND_MODES.into_iter().flat_map(|mode| [(mode, false), (mode, true)])
    {
        let faulty = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
        let fixture = Fixture::on(store(Arc::new(faulty.clone()), append_mode));
        let former = fixture.open("a").await;
        former.upkeep().await.unwrap();
        let id = accept_two(&fixture, &former, "u@d.example").await;
        let owner = fixture.open("b").await;
        if former_goes_on {
            // The former writer trims after the owner's checkpoint.
            let mut held = faulty.hold_listing("/history", 0);
            let upkeep = {
                let former = former.clone();
                tokio::spawn(async move { former.upkeep().await })
            };
            held.reached().await;
            owner.upkeep().await.unwrap();
            drop(held);
            let _ = upkeep.await.unwrap();
        } else {
            let _ = former.upkeep().await;
            owner.upkeep().await.unwrap();
        }
        assert_eq!(address_of(&fixture, id).await, "u@d.example", "{former_goes_on}");
        owner.close();
        // The next upkeep carries the mail, and trims then.
        let again = fixture.open("c").await;
        again.upkeep().await.unwrap();
        again.upkeep().await.unwrap();
        assert_eq!(address_of(&fixture, id).await, "u@d.example");
        assert!(matches!(again.state().rows().get(id).unwrap().place, Place::Segment(..)));
    }
}

/// The log was loaded from the checkpoint before it, so that mail between the two is not carried.
#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_cannot_be_read_trims_no_mail() {
    for append_mode in APPEND_MODES {
        let fixture = Fixture::on(memory(append_mode));
        let queue = fixture.open("a").await;
        queue.upkeep().await.unwrap();
        let id = accept_two(&fixture, &queue, "u@d.example").await;
        queue.upkeep().await.unwrap();
        let newest = queue.inner().work.lock().await.checkpoint;
        closed(queue).await;
        let chunks =
            fixture.store.list(&format!("queue/{}/snap/{:016x}", crate::node_id("a"), newest.0), None);
        let chunks: Vec<_> = futures::TryStreamExt::try_collect::<Vec<_>>(chunks).await.unwrap();
        assert!(!chunks.is_empty());
        for chunk in chunks {
            fixture.store.delete(&chunk.path).await.unwrap();
        }
        let queue = fixture.open("a").await;
        queue.upkeep().await.unwrap();
        closed(queue).await;
        assert_eq!(address_of(&fixture, id).await, "u@d.example");
    }
}

/// The store answers wrongly just when the mail is to be carried.
#[tokio::test(start_paused = true)]
async fn a_mail_that_cannot_be_read_keeps_its_entry() {
    let objects = Arc::new(InMemory::new());
    let fixture = Fixture::on(Store::with(objects.clone(), Backend::default()));
    let queue = fixture.open("a").await;
    queue.upkeep().await.unwrap();
    let id = accept_two(&fixture, &queue, "u@d.example").await;
    let Place::Entry(at, _) = queue.state().rows().get(id).unwrap().place else { panic!("not an entry") };
    queue.upkeep().await.unwrap();
    closed(queue).await;
    // A new process has no cache of the mail.
    let queue = fixture.open("a").await;
    let path = format!("queue/{}/log/{:016x}", crate::node_id("a"), at.0).into();
    let right = objects.get(&path).await.unwrap().bytes().await.unwrap();
    objects.put(&path, vec![b'?'; right.len()].into()).await.unwrap();
    assert_eq!(queue.read(id).await.err().unwrap().kind(), sealpost_base::Kind::Corrupt);
    queue.upkeep().await.unwrap();
    objects.get(&path).await.expect("the entry is there");
    objects.put(&path, right.into()).await.unwrap();
    queue.upkeep().await.unwrap();
    closed(queue).await;
    assert_eq!(address_of(&fixture, id).await, "u@d.example");
}

#[tokio::test(start_paused = true)]
async fn an_old_body_without_a_mail_is_removed() {
    for append_mode in APPEND_MODES {
        let fixture = Fixture::on(memory(append_mode));
        let queue = fixture.open("a").await;
        let body = async || {
            let mut writer = queue.begin_body(100);
            for _ in 0..100 {
                writer.write(&[b'x'; 1000]).await.unwrap();
            }
            writer.finish().await.unwrap()
        };
        let (kept, _orphan) = (body().await, body().await);
        let mut small = queue.begin_body(100);
        small.write(b"small").await.unwrap();
        assert!(matches!(small.finish().await.unwrap(), Body::Inline(bytes) if bytes == b"small"));
        let mut large = fixture.mail("u@d.example");
        large.facts.size = 100_000;
        large.body = kept;
        queue.accept(large).await.unwrap();
        // A longer header was announced, so the body is an object although it is small.
        let mut writer = queue.begin_body(8192);
        writer.write(&[b'x'; 58_000]).await.unwrap();
        let mut small = fixture.mail("v@d.example");
        (small.facts.size, small.body) = (58_000, writer.finish().await.unwrap());
        assert!(matches!(small.body, Body::Object(_)));
        queue.accept(small).await.unwrap();
        let bodies = async || {
            futures::StreamExt::count(
                fixture.store.list(&format!("queue/{}/body", crate::node_id("a")), None),
            )
            .await
        };
        queue.upkeep().await.unwrap();
        assert_eq!(bodies().await, 3, "they are new");
        closed(queue).await;
        fixture.clock.advance(std::time::Duration::from_secs(40 * 365 * 86_400));
        let again = fixture.open("a").await;
        again.upkeep().await.unwrap();
        assert_eq!(bodies().await, 3, "by the store's clock they are new");
        again.remove_bodies(Duration::ZERO).await.unwrap();
        assert_eq!(bodies().await, 2);
    }
}
