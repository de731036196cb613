//! Differences are detected: the harness must not pass with an error.

use super::*;

fn worker_with_one() -> (Worker, MessageLocation) {
    let mut worker = Worker::new(3, 0, 1);
    let place = MessageLocation { account: 0, mailbox: "INBOX", id: "w3-1".into() };
    worker.placements.insert(place.clone(), Placed { uid: Some(4), flags: BTreeSet::new() });
    (worker, place)
}

#[test]
fn lost_messages_changed_uids_and_lost_flags_are_detected() {
    let (mut worker, place) = worker_with_one();
    assert!(worker.settle(&Placements::new()).unwrap_err().to_string().contains("lost"));
    let other = Placements::from([(place.clone(), Placed { uid: Some(5), flags: BTreeSet::new() })]);
    assert!(worker.settle(&other).unwrap_err().to_string().contains("UID changed"));
    let flagged = Placed { uid: Some(4), flags: BTreeSet::from(["\\Seen".to_owned()]) };
    assert!(worker.settle(&Placements::from([(place, flagged)])).unwrap_err().to_string().contains("flags"));
}

#[test]
fn in_flight_means_before_or_after() {
    let expunge = Op::Expunge { account: 0, mailbox: "INBOX", ids: vec!["w3-1".into()] };
    let (mut worker, _) = worker_with_one();
    worker.in_flight.push(expunge.clone());
    assert_eq!(worker.settle(&Placements::new()).unwrap(), (1, 1));
    let (mut worker, _) = worker_with_one();
    worker.in_flight.push(expunge);
    let same = worker.placements.clone();
    assert_eq!(worker.settle(&same).unwrap(), (1, 0));
}

#[test]
fn a_move_that_happened_halfway_is_seen() {
    let (mut worker, place) = worker_with_one();
    let second = MessageLocation { id: "w3-2".into(), ..place.clone() };
    worker.placements.insert(second.clone(), Placed { uid: Some(5), flags: BTreeSet::new() });
    let ids = vec!["w3-1".into(), "w3-2".into()];
    worker.in_flight.push(Op::Transfer { account: 0, from: "INBOX", to: "Alpha", ids, remove: true });
    let mut seen = worker.placements.clone();
    let half = seen.remove(&place).unwrap();
    seen.insert(MessageLocation { mailbox: "Alpha", ..place }, Placed { uid: Some(1), ..half });
    assert!(worker.settle(&seen).is_err());
}
