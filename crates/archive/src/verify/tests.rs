//! Comparing with scripted servers.

use std::sync::Arc;

use sealpost_base::{SeededRandom, Uid, UidSet};

use super::plan::choose;
use super::{FolderReport, Options, Sample, verify};
use crate::pull::tests::memory::Memory;
use crate::pull::tests::pulled::copy_of;
use crate::pull::tests::server::{Box_, Fault, Script};

/// A server and a copy of it.
async fn copied(messages: u32) -> (Script, Arc<Memory>) {
    let script = Script::start(Box_::with(messages), "", &[]).await;
    let backup = copy_of(&script).await;
    (script, Arc::new(backup))
}

async fn verified(script: &Script, backup: &Arc<Memory>) -> FolderReport {
    let options = Options::all();
    let report = verify(&script.server(), backup.clone(), &options, &SeededRandom::new(1)).await.unwrap();
    report.folders.into_iter().next().unwrap()
}

#[tokio::test]
async fn lost_connections_are_made_again_and_all_is_compared_once() {
    let (script, backup) = copied(50).await;
    script.change(|world| {
        let bye = |after| Fault::Bye(after, "shutting down");
        world.faults = vec![Fault::CutOnceAt(20), bye(5), bye(1), Fault::Busy(2)];
    });
    let report = verified(&script, &backup).await;
    assert!(report.is_good(), "{report:?}");
    assert_eq!((report.compared, report.messages), (50, 50));
    assert_eq!(script.world.lock().unwrap().faults, []);
}

#[tokio::test]
async fn different_and_missing_messages_are_reported() {
    let (script, backup) = copied(50).await;
    script.inbox(|inbox| inbox.messages.get_mut(&7).unwrap().1[0] ^= 1);
    let report = verified(&script, &backup).await;
    assert_eq!((report.different.to_string(), report.compared), ("7".into(), 50));
    script.change(|world| world.faults = vec![Fault::CutAt(20)]);
    let report = verified(&script, &backup).await;
    assert_eq!((report.compared, report.is_good()), (49, false), "{report:?}");
    assert!(report.error.is_some_and(|e| e.ends_with("UID 20")));
}

#[tokio::test]
async fn a_server_with_a_message_limit_is_compared_completely() {
    let (script, backup) = copied(600).await;
    script.change(|world| world.faults = vec![Fault::MessageLimit(501)]);
    let report = verified(&script, &backup).await;
    assert!(report.is_good() && report.compared == 600, "{report:?}");
    // A server that does not list everything reveals nothing about the rest.
    script.change(|world| world.faults = vec![Fault::HalfListed]);
    let report = verified(&script, &backup).await;
    assert_eq!((report.gone, report.is_good()), (0, false), "{report:?}");
}

#[tokio::test]
async fn folders_that_a_pull_leaves_out_are_not_missing() {
    let script = Script::start(Box_::with(3), "X-GM-EXT-1", &[]).await;
    script.change(|world| {
        world.boxes.insert("AllMail".into(), Box_::with(5));
    });
    let backup = Arc::new(copy_of(&script).await);
    let options = Options::all();
    let report = verify(&script.server(), backup, &options, &SeededRandom::new(1)).await.unwrap();
    let folders: Vec<_> =
        report.folders.iter().map(|folder| (&*folder.name, folder.compared, folder.is_good())).collect();
    assert_eq!(folders, [("AllMail", 5, true)]);
}

#[test]
fn samples_have_the_requested_size_and_are_uniform() {
    let uids: UidSet = (1..=30).map(|n| Uid::new(n * 3).unwrap()).collect();
    let mut times = [0; 30];
    for seed in 0..1000 {
        let random = SeededRandom::new(seed);
        let chosen = choose(&uids, Sample::Some(20), &random);
        assert_eq!((chosen.len(), chosen.difference(&uids).len()), (20, 0), "seed {seed}");
        assert_eq!(chosen, choose(&uids, Sample::Some(20), &SeededRandom::new(seed)), "a seed decides");
        chosen.iter().for_each(|uid| times[uid.get() as usize / 3 - 1] += 1);
    }
    // 667 are expected of each; five standard deviations are 75.
    assert!(times.iter().all(|times| (592..=742).contains(times)), "{times:?}");
    for (asked, chosen) in [(0, 0), (1, 1), (29, 29), (30, 30), (31, 30)] {
        assert_eq!(choose(&uids, Sample::Some(asked), &SeededRandom::new(7)).len(), chosen);
    }
}
