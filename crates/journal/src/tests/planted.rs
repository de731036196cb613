//! Objects that an attacker plants in the folder of manifests, with write access to the store and no key, or
//! a retired one.

use sealpost_vault::mark;
use sealpost_vault::server_key::ServerKeys;

use super::*;

const BOTH: [AppendMode; 2] = [AppendMode::Conditional, AppendMode::Siblings];

impl Fixture {
    fn manifest(&self, name: &str) -> String {
        format!("acct/{ACCOUNT}/manifest/{name}")
    }

    async fn write(&self, path: &str, bytes: &[u8]) {
        let path = object_store::path::Path::parse(path).unwrap();
        self.objects.put(&path, object_store::PutPayload::from(bytes.to_vec())).await.unwrap();
    }

    /// The same store for a process with these keys.
    fn keyed(&self, keys: &ServerKeys, seed: u64) -> Fixture {
        let random = Arc::new(SeededRandom::new(seed));
        Fixture {
            objects: self.objects.clone(),
            journal: Journal::new(self.store.clone(), ACCOUNT, &LogKey::of(keys), random),
            store: self.store.clone(),
            keys: AccountKeys::derive(&RootKey::generate(&SeededRandom::new(1)), ACCOUNT),
        }
    }
}

/// All kinds of noise: arbitrary bytes, objects of older versions, and a valid manifest at another path.
async fn noises(w: &Fixture) -> Vec<Vec<u8>> {
    let mut noises = vec![Vec::new(), b"noise".to_vec(), b"SPM\x01".to_vec(), vec![7; 300]];
    if let Some(position) = w.journal.checkpoints().await.unwrap().first() {
        noises.push(w.store.read(&w.journal.manifest_path(*position)).await.unwrap().to_vec());
    }
    noises
}

#[tokio::test(start_paused = true)]
async fn noise_manifests_stop_no_delivery_and_no_reader() {
    for append_mode in BOTH {
        for with_checkpoint in [false, true] {
            let w = world_of(append_mode);
            let two = w.fill(Tail::EMPTY, &["one", "two"]).await;
            if with_checkpoint {
                w.checkpoint(two, &[("head", "h")]).await;
            }
            let noises = noises(&w).await;
            for (noise, position) in noises.iter().cycle().zip([3, 4, 5, 9, 1 << 40, u64::MAX]) {
                w.write(&w.manifest(&format!("{position:016x}")), noise).await;
            }
            let begun = w.again();
            begun.deliver("three").await;
            w.again().deliver("four").await;
            let three = begun.journal.tail(two).await.unwrap();
            assert!(begun.journal.reaches_back(&three).await.unwrap());
            let read = w.again().read(Tail::EMPTY).await;
            assert_eq!(read, ["one", "two", "three", "four"], "{append_mode:?} {with_checkpoint}");
            let checkpoints = w.again().journal.checkpoints().await.unwrap();
            assert_eq!(checkpoints.len(), usize::from(with_checkpoint));
            let unfit = w.again().journal.survey_marks().await.unwrap();
            assert_eq!(unfit.len(), 6, "{unfit:?}");
            assert_eq!(w.again().journal.repair(false).await.unwrap(), None);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn forged_marks_of_positions_change_nothing() {
    for append_mode in BOTH {
        let w = world_of(append_mode);
        w.fill(Tail::EMPTY, &["one", "two"]).await;
        let elsewhere = mark::passed_over(&LogKey::for_tests(), AccountId([8; 16]), Position(3));
        for (number, noise) in [&b"SPM\x01"[..], b"", elsewhere.as_ref()].iter().enumerate() {
            w.write(&w.manifest("s0000000000000003"), noise).await;
            w.write(&w.manifest(&format!("s0000000000000003-{number:016x}")), noise).await;
        }
        w.again().deliver("three").await;
        assert_eq!(w.again().read(Tail::EMPTY).await, ["one", "two", "three"], "{append_mode:?}");
        let unfit = w.again().journal.survey_marks().await.unwrap();
        assert_eq!(unfit.len(), 3, "{unfit:?}");
    }
}

/// The attacker plants noise at the next position too, and cannot prevent its mark.
#[tokio::test(start_paused = true)]
async fn a_position_is_passed_over_in_spite_of_forged_marks() {
    let w = world();
    let two = w.fill(Tail::EMPTY, &["one", "two"]).await;
    w.plant(3, b"noise").await;
    w.write(&w.manifest("s0000000000000003-0000000000000001"), b"noise").await;
    let sleeper = w.again();
    w.again().deliver("three").await;
    w.store.delete(&w.path(3)).await.unwrap();
    assert_eq!(sleeper.append(&two, "stale").await, Append::Lost);
    assert_eq!(w.again().read(Tail::EMPTY).await, ["one", "two", "renumbered 1", "three"]);
}

#[tokio::test(start_paused = true)]
async fn trim_counts_no_noise_manifest() {
    for append_mode in BOTH {
        for planted in [1, 2] {
            let w = world_of(append_mode);
            let two = w.fill(Tail::EMPTY, &["one", "two"]).await;
            w.checkpoint(two, &[("head", "h")]).await;
            w.fill(two, &["three", "four"]).await;
            for position in 3..3 + planted {
                w.write(&w.manifest(&format!("{position:016x}")), b"noise").await;
            }
            w.again().journal.trim().await.unwrap();
            assert_eq!(w.paths("log/").await.len(), 4, "{append_mode:?}");
            w.again().journal.checkpoint(&w.keys, Position(2)).await.unwrap();
        }
    }
}

/// The process knew the manifest when it was valid; a trim removes data permanently.
#[tokio::test(start_paused = true)]
async fn trim_rereads_manifests() {
    let w = world();
    let mut tail = Tail::EMPTY;
    for text in ["one", "two"] {
        tail = w.fill(tail, &[text, "more"]).await;
        w.checkpoint(tail, &[("head", text)]).await;
    }
    assert_eq!(w.journal.checkpoints().await.unwrap().len(), 2);
    w.write(&w.manifest("0000000000000004"), b"noise").await;
    w.journal.trim().await.unwrap();
    assert_eq!(w.paths("log/").await.len(), 4);
}

/// Two manifests showed that the log is trimmed. A writer that was paused meanwhile gets no acknowledgement
/// for its entry.
#[tokio::test(start_paused = true)]
async fn a_stale_entry_is_not_acknowledged_when_manifests_were_destroyed() {
    let w = world();
    let clock = Arc::new(FakeClock::new(Timestamp(0)));
    let sleeper =
        Journal::new(w.store.clone(), ACCOUNT, &LogKey::for_tests(), Arc::new(SeededRandom::new(2)))
            .timed(clock);
    let appended = sleeper.append(&Tail::EMPTY, Seal::Owner(&w.keys), b"one").await.unwrap();
    let Append::Done(old) = appended else { panic!("{appended:?}") };
    let two = w.fill(old, &["two", "two and a half"]).await;
    w.checkpoint(two, &[("head", "h")]).await;
    let three = w.fill(two, &["three"]).await;
    w.checkpoint(three, &[("head", "h3")]).await;
    w.journal.trim().await.unwrap();
    for position in [two.position, three.position] {
        w.write(&w.journal.manifest_path(position), b"destroyed").await;
    }
    let refused = sleeper.append(&old, Seal::Owner(&w.keys), b"stale").await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Retry, "{refused}");
    assert!(!w.again().journal.reaches_back(&old).await.unwrap());
    w.again().deliver("four").await;
}

/// Noise costs one read; then a delivery takes as many requests as before.
#[tokio::test(start_paused = true)]
async fn manifests_are_read_once_and_not_for_each_delivery() {
    for noise in [false, true] {
        let w = world();
        let two = w.fill(Tail::EMPTY, &["one", "two"]).await;
        w.checkpoint(two, &[("head", "h")]).await;
        if noise {
            w.write(&w.manifest("0000000000000009"), b"noise").await;
        }
        let calls = Faulty::new(w.objects.clone(), Plan::default(), 1);
        let store = Store::over(Arc::new(calls.clone()));
        let clock = Arc::new(FakeClock::new(Timestamp(0)));
        let journal =
            Journal::new(store, ACCOUNT, &LogKey::for_tests(), Arc::new(SeededRandom::new(5))).timed(clock);
        let public = w.keys.public();
        let (mut tail, mut requests) = (two, Vec::new());
        for _ in 0..4 {
            let before = calls.calls();
            let appended = journal.append(&tail, Seal::Delivery(&public), b"mail").await.unwrap();
            let Append::Done(end) = appended else { panic!("{appended:?}") };
            (tail, requests) = (end, [requests, vec![calls.calls() - before]].concat());
        }
        assert_eq!(requests[1..], [2, 2, 2], "{noise}: {requests:?}");
    }
}

struct Rotation {
    old: ServerKeys,
    rotated: ServerKeys,
    settled: ServerKeys,
}

fn rotation(old: ServerKeys, seed: u64) -> Rotation {
    let rotated = old.with_next(&SeededRandom::new(seed)).unwrap().rotated();
    Rotation { old, settled: rotated.settled(), rotated }
}

/// A log that began under an old key, and continues under a new one.
async fn rotated(append_mode: AppendMode) -> (Fixture, Rotation) {
    let base = world_of(append_mode);
    let keys = rotation(ServerKeys::generate(&SeededRandom::new(9)), 10);
    let w = base.keyed(&keys.old, 11);
    let two = w.fill(Tail::EMPTY, &["one", "two"]).await;
    w.checkpoint(two, &[("head", "h")]).await;
    w.fill(two, &["three"]).await;
    let between = base.keyed(&keys.rotated, 12);
    between.deliver("four").await;
    assert_eq!(between.journal.attest().await.unwrap(), 4, "three entries and a manifest");
    (base, keys)
}

#[tokio::test(start_paused = true)]
async fn objects_from_before_a_key_retirement_stay_valid() {
    for append_mode in BOTH {
        let (base, keys) = rotated(append_mode).await;
        base.keyed(&keys.settled, 13).deliver("five").await;
        let expected = ["one", "two", "three", "four", "five"];
        assert_eq!(base.keyed(&keys.settled, 14).read(Tail::EMPTY).await, expected, "{append_mode:?}");
        let journal = base.keyed(&keys.settled, 15).journal;
        assert_eq!(journal.checkpoints().await.unwrap(), [Position(2)]);
        journal.checkpoint(&base.keys, Position(2)).await.unwrap();
        // The same when the next key is retired.
        let next = rotation(keys.settled, 16);
        base.keyed(&next.rotated, 17).journal.attest().await.unwrap();
        assert_eq!(base.keyed(&next.settled, 18).read(Tail::EMPTY).await, expected, "{append_mode:?}");
        let attestations = base.paths("manifest/").await.into_iter().filter(|name| name.starts_with('k'));
        assert_eq!(attestations.count(), 1, "the old one was replaced");
        assert_eq!(base.keyed(&next.settled, 19).journal.checkpoints().await.unwrap(), [Position(2)]);
    }
}

/// The thief has the old key, and knows the log as far as it is readable without the account's key.
#[tokio::test(start_paused = true)]
async fn a_retired_key_authenticates_nothing_new() {
    for append_mode in BOTH {
        let (base, keys) = rotated(append_mode).await;
        let thief = base.keyed(&keys.old, 20);
        let public = base.keys.public();
        // An entry at the end: under the thief's key that is the third.
        let end = base.keyed(&keys.settled, 21).journal.tail(Tail::EMPTY).await.unwrap();
        let forged = thief.journal.append(&end, Seal::Delivery(&public), b"forged").await.unwrap();
        assert!(matches!(forged, Append::Done(_)), "{forged:?}");
        // With ballots the end is unknown before a repair.
        if append_mode == AppendMode::Conditional {
            let read = base.keyed(&keys.settled, 22).read(Tail::EMPTY).await;
            let read: Vec<_> = read.iter().filter(|said| *said != "damaged").collect();
            assert_eq!(read, ["one", "two", "three", "four"], "{append_mode:?}");
        }
        let refused = base.keyed(&keys.settled, 23).journal.append(&end, Seal::Owner(&base.keys), b"x").await;
        assert!(refused.is_err(), "nothing is appended behind it: {refused:?}");
        base.keyed(&keys.settled, 25).journal.repair(false).await.unwrap().unwrap();
        let read = base.keyed(&keys.settled, 26).read(Tail::EMPTY).await;
        assert!(!read.contains(&"forged".to_owned()), "{append_mode:?}: {read:?}");

        // A manifest, a mark, and an attestation for them.
        let key = LogKey::of(&keys.old);
        let manifest = base.store.read(&base.manifest("0000000000000002")).await.unwrap();
        let forged = mark::attestation(&key, ACCOUNT, &[sealpost_vault::Hash::of(&manifest)]);
        base.write(&base.manifest("k0000000000000007"), forged.as_ref()).await;
        let forged = mark::passed_over(&key, ACCOUNT, Position(5));
        base.write(&base.manifest("s0000000000000005-0000000000000007"), forged.as_ref()).await;
        let elsewhere = Tail { position: Position(7), ..end };
        thief.checkpoint(elsewhere, &[("head", "forged")]).await;
        let journal = base.keyed(&keys.settled, 24).journal;
        assert_eq!(journal.checkpoints().await.unwrap(), [Position(2)], "{append_mode:?}");
        let unfit = journal.survey_marks().await.unwrap();
        assert_eq!(unfit.len(), 2, "attestations before the last rotation are no damage: {unfit:?}");
    }
}

/// A replacement for an entry that existed when the key was retired.
#[tokio::test(start_paused = true)]
async fn a_retired_key_replaces_no_old_entry() {
    let (base, keys) = rotated(AppendMode::Conditional).await;
    let other = world();
    let thief = other.keyed(&keys.old, 20);
    let public = base.keys.public();
    let mut tail = Tail::EMPTY;
    for text in ["one", "forged"] {
        let done = thief.journal.append(&tail, Seal::Delivery(&public), text.as_bytes()).await.unwrap();
        let Append::Done(next) = done else { panic!("{done:?}") };
        tail = next;
    }
    base.plant(2, &other.object(2).await).await;
    let read = base.keyed(&keys.settled, 21).read(Tail::EMPTY).await;
    assert_eq!(read, ["one", "damaged", "!three", "!four"]);
    // A repair does not accept it either.
    base.keyed(&keys.settled, 22).journal.repair(false).await.unwrap().unwrap();
    let read = base.keyed(&keys.settled, 23).read(Tail::EMPTY).await;
    assert!(!read.iter().any(|said| said.contains("forged")), "{read:?}");
}

async fn plant_many(w: &Fixture, names: impl Iterator<Item = String>) {
    for name in names {
        w.write(&w.manifest(&name), b"noise").await;
    }
}

/// More than are read: the witness of the checkpoint identifies the real one.
#[tokio::test(start_paused = true)]
async fn any_number_of_noise_manifests_stops_nothing() {
    for appends in BOTH {
        let w = world_of(appends);
        let two = w.fill(Tail::EMPTY, &["one", "two"]).await;
        w.checkpoint(two, &[("head", "h")]).await;
        let count = limits::LOG_NOISE as u64 + 40;
        plant_many(&w, (3..3 + count).map(|position| format!("{position:016x}"))).await;
        plant_many(&w, (0..count).map(|number| format!("s0000000000000003-{number:016x}"))).await;
        plant_many(&w, (0..count).map(|number| format!("m0000000000000001-{number:016x}"))).await;
        w.again().deliver("three").await;
        assert_eq!(w.again().read(Tail::EMPTY).await, ["one", "two", "three"], "{appends:?}");
        assert_eq!(w.again().journal.checkpoints().await.unwrap(), [Position(2)]);
        let far = Tail { position: Position(9000), ..two };
        assert!(!w.again().journal.is_trimmed(far.position).await.unwrap());
        // The survey names all of them, and the operator can have them removed.
        let planted = 3 * count as usize;
        assert_eq!(w.again().journal.survey_marks().await.unwrap().len(), planted);
        assert_eq!(w.again().journal.remove_noise().await.unwrap().len(), planted);
        assert!(w.again().journal.survey_marks().await.unwrap().is_empty());
        assert_eq!(w.again().journal.checkpoints().await.unwrap(), [Position(2)]);
    }
}

/// With noise beyond the read limit a delivery takes two more requests, because some of it may have been
/// manifests once.
#[tokio::test(start_paused = true)]
async fn unread_noise_costs_a_delivery_two_requests() {
    let w = world();
    let two = w.fill(Tail::EMPTY, &["one", "two"]).await;
    w.checkpoint(two, &[("head", "h")]).await;
    let calls = Faulty::new(w.objects.clone(), Plan::default(), 1);
    let store = Store::over(Arc::new(calls.clone()));
    let clock = Arc::new(FakeClock::new(Timestamp(0)));
    let random = Arc::new(SeededRandom::new(5));
    let journal = Journal::new(store, ACCOUNT, &LogKey::for_tests(), random).timed(clock);
    let count = limits::LOG_NOISE as u64 + 40;
    plant_many(&w, (9000..9000 + count).map(|position| format!("{position:016x}"))).await;
    let (mut tail, mut requests) = (two, Vec::new());
    for _ in 0..3 {
        let before = calls.calls();
        let appended = journal.append(&tail, Seal::Owner(&w.keys), b"mail").await.unwrap();
        let Append::Done(end) = appended else { panic!("{appended:?}") };
        (tail, requests) = (end, [requests, vec![calls.calls() - before]].concat());
    }
    assert_eq!(requests[1..], [4, 4], "{requests:?}");
}

/// They have no tags: they are read, and get witnesses at the next checkpoint.
#[tokio::test(start_paused = true)]
async fn objects_of_earlier_versions_count_and_get_witnesses() {
    for appends in BOTH {
        let w = world_of(appends);
        let witnesses = || async {
            let names = w.paths("manifest/").await.into_iter();
            names.filter(|name| name.starts_with('m')).collect::<Vec<_>>()
        };
        let two = w.fill(Tail::EMPTY, &["one", "two"]).await;
        w.checkpoint(two, &[("head", "h")]).await;
        for name in witnesses().await {
            w.store.delete(&w.manifest(&name)).await.unwrap();
        }
        let sealed = mark::passed_over(&LogKey::for_tests(), ACCOUNT, Position(4));
        w.write(&w.manifest("s0000000000000004-0123456789abcdef"), sealed.as_ref()).await;
        assert_eq!(w.again().journal.checkpoints().await.unwrap(), [Position(2)], "{appends:?}");
        let marked = w.again().journal.marked(Some(Position(2))).await.unwrap();
        assert_eq!(marked.passed_over, [Position(4)]);
        let three = w.fill(two, &["three"]).await;
        w.checkpoint(three, &[("head", "h3")]).await;
        assert_eq!(witnesses().await.len(), 2, "{appends:?}");
        plant_many(&w, (9000..9100 + limits::LOG_NOISE as u64).map(|at| format!("{at:016x}"))).await;
        assert_eq!(w.again().journal.checkpoints().await.unwrap(), [Position(3), Position(2)]);
    }
}

/// A trim removes witnesses together with their checkpoints.
#[tokio::test(start_paused = true)]
async fn trim_removes_witnesses() {
    let w = world();
    let mut tail = Tail::EMPTY;
    for text in ["one", "two", "three"] {
        tail = w.fill(tail, &[text, "more"]).await;
        w.checkpoint(tail, &[("head", text)]).await;
    }
    w.journal.trim().await.unwrap();
    let names = w.paths("manifest/").await;
    assert_eq!(names.len(), 4, "two manifests and two witnesses: {names:?}");
    // A witness without its manifest does not count.
    w.store.delete(&w.manifest("0000000000000006")).await.unwrap();
    assert_eq!(w.again().journal.checkpoints().await.unwrap(), [Position(4)]);
}

#[tokio::test(start_paused = true)]
async fn planted_attestations_stop_neither_accounts_nor_rotations() {
    for appends in BOTH {
        let (base, keys) = rotated(appends).await;
        plant_many(&base, (0..3 * limits::LOG_GAP).map(|number| format!("k{number:016x}"))).await;
        let expected = ["one", "two", "three", "four"];
        assert_eq!(base.keyed(&keys.settled, 13).read(Tail::EMPTY).await, expected, "{appends:?}");
        let unfit = base.keyed(&keys.settled, 14).journal.survey_marks().await.unwrap();
        assert_eq!(unfit.len(), 3 * limits::LOG_GAP as usize, "{unfit:?}");
        let next = rotation(keys.settled, 16);
        base.keyed(&next.rotated, 17).journal.attest().await.unwrap();
        assert_eq!(base.keyed(&next.settled, 18).read(Tail::EMPTY).await, expected);
        assert_eq!(base.keyed(&next.settled, 19).journal.checkpoints().await.unwrap(), [Position(2)]);
    }
}

#[tokio::test(start_paused = true)]
async fn noise_behind_the_end_is_removed_by_a_repair() {
    for appends in BOTH {
        let w = world_of(appends);
        let one = w.fill(Tail::EMPTY, &["one"]).await;
        for position in 2..limits::LOG_GAP + 9 {
            w.plant(position, b"noise").await;
        }
        let public = w.keys.public();
        let append = || async { w.again().journal.append(&one, Seal::Delivery(&public), b"mail").await };
        if appends == AppendMode::Conditional {
            assert_eq!(append().await.unwrap_err().kind(), Kind::Corrupt);
        }
        let removed = w.again().journal.remove_noise().await.unwrap();
        // The first one stays, and so do skipped ones: the entry after them starts a new generation of UIDs.
        let kept = if appends == AppendMode::Conditional { limits::LOG_GAP - 1 } else { 1 };
        assert_eq!(removed.len() as u64, limits::LOG_GAP + 7 - kept, "{appends:?}");
        w.again().deliver("two").await;
        let read = w.again().read(Tail::EMPTY).await;
        match appends {
            AppendMode::Conditional => assert_eq!(read, ["one", "renumbered 1", "two"]),
            AppendMode::Siblings => assert_eq!(read, ["one", "two"]),
        }
    }
}

/// The greatest possible ballot, after which no writer could begin another, and entries in it.
#[tokio::test(start_paused = true)]
async fn forged_ballots_stop_no_writer() {
    let w = world_of(AppendMode::Siblings);
    w.fill(Tail::EMPTY, &["one", "two"]).await;
    let greatest = format!("{:08x}{:016x}", u32::MAX, u64::MAX);
    let untagged = format!("{:08x}{:016x}", (1u32 << 31) - 1, u64::MAX);
    let first = w.paths("log/").await.remove(0);
    let copied = w.store.read(&format!("acct/{ACCOUNT}/log/{first}")).await.unwrap();
    for ballot in [&greatest, &untagged] {
        w.write(&w.manifest(&format!("w{ballot}")), b"SPM\x01").await;
    }
    let path = format!("acct/{ACCOUNT}/log/0000000000000001-{greatest}-{:024x}", 0);
    w.write(&path, &copied).await;
    for text in ["three", "four"] {
        w.again().deliver(text).await;
    }
    let other = w.again();
    other.deliver("five").await;
    w.again().deliver("six").await;
    other.deliver("seven").await;
    assert_eq!(w.again().read(Tail::EMPTY).await, ["one", "two", "three", "four", "five", "six", "seven"]);
}

/// No object of this installation is so large: it is skipped like other noise, reported, and removed.
#[tokio::test(start_paused = true)]
async fn objects_too_large_for_a_log_are_noise() {
    for append_mode in BOTH {
        let w = world_of(append_mode);
        let two = w.fill(Tail::EMPTY, &["one", "two"]).await;
        w.checkpoint(two, &[("head", "h")]).await;
        let manifest = vec![0; limits::MANIFEST_BYTES + 1];
        for position in [3, u64::MAX] {
            w.write(&w.manifest(&format!("{position:016x}")), &manifest).await;
        }
        let mark = vec![0; limits::MARK_BYTES + 1];
        w.write(&w.manifest("s0000000000000003-0000000000000001"), &mark).await;
        if append_mode == AppendMode::Conditional {
            let entry = vec![0; limits::ENTRY_BYTES + limits::SEALING_BYTES + 1];
            w.plant(3, &entry).await;
        }
        w.again().deliver("three").await;
        let read = w.again().read(Tail::EMPTY).await;
        assert_eq!(read.first().zip(read.last()), Some((&"one".to_owned(), &"three".to_owned())));
        assert_eq!(w.again().journal.survey_marks().await.unwrap().len(), 3);
        let survey = w.again().journal.survey(Position::ZERO).await.unwrap();
        assert!(survey.unfit.iter().all(|unfit| !unfit.may_be_entry && !unfit.is_damaged));
        assert_eq!(survey.unfit.len(), usize::from(append_mode == AppendMode::Conditional));
        assert_eq!(w.again().journal.remove_noise().await.unwrap().len(), 3, "{append_mode:?}");
        assert_eq!(w.again().read(Tail::EMPTY).await, read);
    }
}
