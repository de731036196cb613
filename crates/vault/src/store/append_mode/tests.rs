use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Kind, Result, SeededRandom};
use sealpost_testkit::fake_s3::{ConditionalPut, FakeS3, Fault};

use super::*;
use crate::remote::RetryPolicy;
use crate::remote::fake::s3;

const RETRY_POLICY: RetryPolicy =
    RetryPolicy { requests: 8, timeout: Duration::from_millis(500), pause: Duration::from_millis(1) };

/// As a server opens it.
async fn open(server: &FakeS3, seed: u64) -> Result<Store> {
    let (store, _) = found(server, seed).await.pin_append_mode(None).await?;
    Ok(store)
}

fn keys(seed: u64) -> ServerKeys {
    ServerKeys::generate(&SeededRandom::new(seed))
}

/// What makes the marks of the fake's bucket.
fn marker(keys: &ServerKeys) -> Marker<'static> {
    Marker { macs: keys.macs(Purpose::Store), bucket: "s3://mail-test/p" }
}

/// As a node with these keys opens it that has seen that mark; the mark that it follows then.
async fn node(server: &FakeS3, keys: &ServerKeys, seen: Option<StoreMark>) -> Result<(Store, StoreMark)> {
    let memory = MarkMemory { keys, seen };
    let (store, mark) = found(server, 5).await.pin_append_mode(Some(memory)).await?;
    let mark = match mark {
        Some(mark) => mark,
        None => store.authenticate_append_mode(keys).await?.unwrap(),
    };
    Ok((store, mark))
}

/// With nothing but what it does.
async fn found(server: &FakeS3, seed: u64) -> Store {
    Store::s3(&s3(server, "p"), RETRY_POLICY, Arc::new(SeededRandom::new(seed))).await.unwrap()
}

#[tokio::test]
async fn the_first_server_decides() {
    for (manners, append_mode) in [
        (ConditionalPut::Keeps, AppendMode::Conditional),
        (ConditionalPut::Ignores, AppendMode::Siblings),
        (ConditionalPut::Refuses, AppendMode::Siblings),
    ] {
        let server = FakeS3::start(manners, 1000).await;
        for seed in 1..4 {
            assert_eq!(open(&server, seed).await.unwrap().append_mode(), append_mode);
            assert_eq!(found(&server, 9).await.mode_markers(None).await.unwrap(), [append_mode]);
        }
    }
}

#[tokio::test]
async fn a_bucket_of_another_format_is_left_alone() {
    let server = FakeS3::start(ConditionalPut::Keeps, 1000).await;
    let store = open(&server, 1).await.unwrap();
    let mark = format!("{FORMATS}/{FORMAT}");
    store.size(&mark).await.unwrap();
    store.put_new(&format!("{FORMATS}/{}", FORMAT + 1), Sealed::marker()).await.unwrap();
    let refused = open(&server, 2).await.err().unwrap();
    assert!(refused.to_string().contains("or a later one"), "{refused}");
    for format in [FORMAT, FORMAT + 1] {
        store.delete(&format!("{FORMATS}/{format}")).await.unwrap();
    }
    let refused = open(&server, 3).await.err().unwrap();
    assert_eq!(refused.kind(), Kind::Invalid);
    assert!(refused.to_string().contains("sealpost export"), "before there were formats: {refused}");
}

#[tokio::test]
async fn a_node_without_the_pinned_mode_does_not_start() {
    let server = FakeS3::start(ConditionalPut::Keeps, 1000).await;
    open(&server, 1).await.unwrap();
    for manners in [ConditionalPut::Ignores, ConditionalPut::Refuses, ConditionalPut::Races] {
        server.behave(manners);
        let refused = open(&server, 2).await.err().unwrap();
        assert_eq!(refused.kind(), Kind::Invalid, "{manners:?}");
        assert!(refused.to_string().contains("--reset-append-mode"), "{refused}");
    }
    // The others continue.
    server.behave(ConditionalPut::Keeps);
    assert_eq!(open(&server, 3).await.unwrap().append_mode(), AppendMode::Conditional);
}

#[tokio::test]
async fn a_more_capable_node_uses_the_pinned_mode() {
    let server = FakeS3::start(ConditionalPut::Ignores, 1000).await;
    open(&server, 1).await.unwrap();
    server.behave(ConditionalPut::Keeps);
    assert_eq!(open(&server, 2).await.unwrap().append_mode(), AppendMode::Siblings);
    // Until an operator settles it.
    found(&server, 3).await.reset_append_mode(None).await.unwrap();
    assert_eq!(open(&server, 4).await.unwrap().append_mode(), AppendMode::Conditional);
    server.behave(ConditionalPut::Ignores);
    assert!(open(&server, 5).await.is_err());
    found(&server, 6).await.reset_append_mode(None).await.unwrap();
    assert_eq!(open(&server, 7).await.unwrap().append_mode(), AppendMode::Siblings);
}

/// Each has listed the marks before the other left one, if all goes as planned.
#[tokio::test]
async fn two_first_writers_agree_on_the_append_mode() {
    let server = FakeS3::start(ConditionalPut::Keeps, 1000).await;
    let one = found(&server, 1).await;
    server.behave(ConditionalPut::Ignores);
    let two = found(&server, 2).await;
    let late = Duration::from_millis(50);
    server.plan(move |request| match request.method == "PUT" && request.key.contains(MODE_MARKERS) {
        true => Fault::Late(late),
        false => Fault::None,
    });
    let went_on = tokio::join!(one.pin_append_mode(None), two.pin_append_mode(None));
    if let (Ok(one), Ok(two)) = &went_on {
        assert_eq!(one.0.append_mode(), two.0.append_mode());
    }
}

#[tokio::test]
async fn no_writer_starts_while_first_writers_disagree() {
    let server = FakeS3::start(ConditionalPut::Keeps, 1000).await;
    found(&server, 1).await.put_new(&format!("{FORMATS}/{FORMAT}"), Sealed::marker()).await.unwrap();
    for mark in AppendMode::ALL {
        found(&server, 1).await.put_new(&mark.mark(), Sealed::marker()).await.unwrap();
    }
    for (manners, append_mode) in
        [(ConditionalPut::Keeps, AppendMode::Conditional), (ConditionalPut::Ignores, AppendMode::Siblings)]
    {
        server.behave(manners);
        assert_eq!(open(&server, 3).await.err().unwrap().kind(), Kind::Invalid);
        found(&server, 4).await.reset_append_mode(None).await.unwrap();
        assert_eq!(open(&server, 5).await.unwrap().append_mode(), append_mode);
        for mark in AppendMode::ALL {
            found(&server, 6).await.put_new(&mark.mark(), Sealed::marker()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_store_on_this_machine_has_no_marks() {
    let (store, mark) = Store::memory().pin_append_mode(None).await.unwrap();
    assert_eq!(mark, None);
    store.reset_append_mode(None).await.unwrap();
    assert!(store.mode_markers(None).await.unwrap().is_empty());
}

#[test]
fn marks_round_trip_and_other_names_are_none() {
    let macs = marker(&keys(1));
    let all = AppendMode::ALL.map(|append_mode| [(append_mode, true), (append_mode, false)]);
    for (append_mode, is_bound) in all.into_iter().flatten() {
        let mark = StoreMark { append_mode, format: FORMAT, change: 77, is_bound };
        assert_eq!(StoreMark::from_number(mark.to_number()), Some(mark));
        let path = mark.path(&macs);
        let name = &path[MODE_MARKERS.len() + 1..];
        assert_eq!(StoreMark::authentic(name, &macs), Some(mark));
        assert_eq!(StoreMark::authentic(name, &marker(&keys(2))), None);
        let elsewhere = StoreMark::parse_authentic(name, &keys(1), "s3://another/p");
        assert_eq!(elsewhere, (!is_bound).then_some(mark));
        for strange in
            ["", "-", "conditional", &name[1..], &name[..name.len() - 1], &name.replace("-5-", "-6-")]
        {
            assert_eq!(StoreMark::authentic(strange, &macs), None, "{strange}");
        }
    }
    for strange in ["conditional-05-00000001", "conditional-5-1", "siblings-5-0000000G", "x-5-00000001"] {
        assert_eq!(StoreMark::parse(strange), None, "{strange}");
    }
}

/// An attacker with write access to the bucket, and without a key, stops no node and splits none.
#[tokio::test]
async fn planted_marks_are_ignored_where_there_is_an_authentic_one() {
    let keys = keys(1);
    for (manners, append_mode) in
        [(ConditionalPut::Keeps, AppendMode::Conditional), (ConditionalPut::Ignores, AppendMode::Siblings)]
    {
        let server = FakeS3::start(manners, 1000).await;
        let (store, mark) = node(&server, &keys, None).await.unwrap();
        assert_eq!((store.append_mode(), mark.append_mode), (append_mode, append_mode));
        let forged = StoreMark { append_mode: AppendMode::Siblings, format: 9, change: 9, is_bound: true };
        for path in [
            AppendMode::Conditional.mark(),
            AppendMode::Siblings.mark(),
            format!("{FORMATS}/{}", FORMAT + 1),
            format!("{MODE_MARKERS}/noise"),
            forged.path(&marker(&ServerKeys::generate(&SeededRandom::new(2)))),
        ] {
            store.put_new(&path, Sealed::marker()).await.unwrap();
        }
        // Also on a node that was never here.
        for seen in [None, Some(mark)] {
            let (again, now) = node(&server, &keys, seen).await.unwrap();
            assert_eq!((again.append_mode(), now), (append_mode, mark));
        }
        assert_eq!(store.mode_markers(Some(&keys)).await.unwrap(), [append_mode]);
        let unfit = store.survey_append_modes(&keys).await.unwrap();
        assert_eq!(unfit.len(), 4, "{unfit:?}");
        // Without the plain marks of the first start: they are for earlier versions.
        for path in [append_mode.mark(), format!("{FORMATS}/{FORMAT}")] {
            store.delete(&path).await.unwrap();
        }
        assert_eq!(node(&server, &keys, None).await.unwrap().1, mark);
    }
}

#[tokio::test]
async fn a_removed_or_rolled_back_mark_is_written_again() {
    let (server, keys) = (FakeS3::start(ConditionalPut::Keeps, 1000).await, keys(1));
    let macs = marker(&keys);
    let (store, first) = node(&server, &keys, None).await.unwrap();
    // An attacker removes it, and plants a mark of an earlier version.
    store.delete(&first.path(&macs)).await.unwrap();
    store.delete(&AppendMode::Conditional.mark()).await.unwrap();
    store.put_new(&AppendMode::Siblings.mark(), Sealed::marker()).await.unwrap();
    let (again, mark) = node(&server, &keys, Some(first)).await.unwrap();
    assert_eq!((again.append_mode(), mark), (AppendMode::Conditional, first));
    assert_eq!(node(&server, &keys, None).await.unwrap().1, first, "the others have it again");
    // The mode is changed, and an attacker restores the old mark.
    server.behave(ConditionalPut::Ignores);
    let memory = MarkMemory { keys: &keys, seen: Some(first) };
    let changed = found(&server, 4).await.reset_append_mode(Some(memory)).await.unwrap().unwrap();
    assert_eq!((changed.append_mode, changed.change), (AppendMode::Siblings, first.change + 1));
    assert_eq!(found(&server, 4).await.mode_markers(Some(&keys)).await.unwrap(), [AppendMode::Siblings]);
    store.put_new(&first.path(&macs), Sealed::marker()).await.unwrap();
    assert_eq!(node(&server, &keys, None).await.unwrap().1, changed);
    store.delete(&changed.path(&macs)).await.unwrap();
    assert_eq!(node(&server, &keys, Some(changed)).await.unwrap().1, changed);
    // It cannot be changed without the key.
    let refused = found(&server, 4).await.reset_append_mode(None).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Invalid, "{refused}");
}

/// What an earlier version left decides until there is an authentic mark, which its first start adds.
#[tokio::test]
async fn a_bucket_of_an_earlier_version_gets_an_authentic_mark() {
    let (server, keys) = (FakeS3::start(ConditionalPut::Ignores, 1000).await, keys(1));
    open(&server, 1).await.unwrap();
    server.behave(ConditionalPut::Keeps);
    let (store, mark) = node(&server, &keys, None).await.unwrap();
    assert_eq!((store.append_mode(), mark.append_mode), (AppendMode::Siblings, AppendMode::Siblings));
    // An earlier version continues as before.
    assert_eq!(open(&server, 3).await.unwrap().append_mode(), AppendMode::Siblings);
    store.delete(&AppendMode::Siblings.mark()).await.unwrap();
    store.put_new(&AppendMode::Conditional.mark(), Sealed::marker()).await.unwrap();
    assert_eq!(node(&server, &keys, None).await.unwrap().0.append_mode(), AppendMode::Siblings);
}

#[tokio::test]
async fn a_mark_survives_the_replacement_of_keys() {
    let (server, old) = (FakeS3::start(ConditionalPut::Keeps, 1000).await, keys(1));
    let (store, mark) = node(&server, &old, None).await.unwrap();
    let rotated = old.with_next(&SeededRandom::new(2)).unwrap().rotated();
    assert_eq!(store.authenticate_append_mode(&rotated).await.unwrap(), Some(mark));
    for keys in [&rotated, &rotated.settled()] {
        assert_eq!(node(&server, keys, None).await.unwrap().1, mark);
    }
    assert!(store.survey_append_modes(&rotated.settled()).await.unwrap().is_empty());
}

/// The attack: the authentic mark of another bucket of the same installation, with a later change.
#[tokio::test]
async fn a_mark_of_another_bucket_says_nothing() {
    let (server, keys) = (FakeS3::start(ConditionalPut::Keeps, 1000).await, keys(1));
    let (store, mark) = node(&server, &keys, None).await.unwrap();
    assert!(mark.is_bound);
    let other = Marker { bucket: "s3://another/p", ..marker(&keys) };
    let foreign = StoreMark { append_mode: AppendMode::Siblings, format: FORMAT, change: 9, is_bound: true };
    store.put_new(&foreign.path(&other), Sealed::marker()).await.unwrap();
    for seen in [None, Some(mark)] {
        assert_eq!(node(&server, &keys, seen).await.unwrap().1, mark);
    }
    assert_eq!(store.survey_append_modes(&keys).await.unwrap().len(), 1);
    // Also where the bucket's own is removed, if this node has seen it.
    store.delete(&mark.path(&marker(&keys))).await.unwrap();
    assert_eq!(node(&server, &keys, Some(mark)).await.unwrap().1, mark);
    // One that does not say of which bucket it is may be of a node of an earlier version.
    let unbound = StoreMark { is_bound: false, ..foreign };
    store.put_new(&unbound.path(&other), Sealed::marker()).await.unwrap();
    for seen in [None, Some(mark)] {
        let refused = node(&server, &keys, seen).await.err().unwrap();
        assert!(refused.to_string().contains("contradicts the mark of this bucket"), "{refused}");
    }
    store.delete(&unbound.path(&other)).await.unwrap();
    // Of the same mode it changes nothing.
    let same = StoreMark { append_mode: AppendMode::Conditional, ..unbound };
    store.put_new(&same.path(&other), Sealed::marker()).await.unwrap();
    assert_eq!(node(&server, &keys, None).await.unwrap().1, mark);
}

/// A mark that an earlier version made is replaced by one that is bound, at the first start.
#[tokio::test]
async fn an_unbound_mark_decides_until_there_is_a_bound_one() {
    for seen in [false, true] {
        let (server, keys) = (FakeS3::start(ConditionalPut::Ignores, 1000).await, keys(1));
        let store = open(&server, 1).await.unwrap();
        let before =
            StoreMark { append_mode: AppendMode::Siblings, format: FORMAT, change: 3, is_bound: false };
        store.put_new(&before.path(&marker(&keys)), Sealed::marker()).await.unwrap();
        server.behave(ConditionalPut::Keeps);
        let seen = seen.then_some(StoreMark { change: 2, ..before });
        let (store, mark) = node(&server, &keys, seen).await.unwrap();
        assert_eq!((store.append_mode(), mark), (AppendMode::Siblings, before));
        let bound = store.authenticate_append_mode(&keys).await.unwrap().unwrap();
        assert_eq!(bound, StoreMark { is_bound: true, ..before });
        assert_eq!(node(&server, &keys, seen).await.unwrap().1, bound);
        assert!(store.survey_append_modes(&keys).await.unwrap().is_empty());
    }
}
