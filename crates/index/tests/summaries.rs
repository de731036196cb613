//! Summaries of a mailbox's messages equal those of the stored structures and texts, after any
//! history, and with or without segments.

#[path = "summaries/world.rs"]
mod world;

use futures::StreamExt;
use sealpost_account::{Event, FlagAction, Flags, SystemFlags};
use sealpost_base::{Budget, Kind, MailboxId, Random, SeededRandom, UidSet, limits};
use sealpost_index::{Parts, ReadOrder};
use sealpost_vault::message;
use std::time::Duration;

use world::{Fixture, ID, Process, all, describe, mails, uid};

const BOXES: [&str; 3] = ["INBOX", "Archive", "Trash"];

async fn expunge(process: &Process, name: &str, uids: UidSet) {
    let mailbox = process.mailbox(name);
    process
        .account
        .commit(|_| Ok((vec![Event::Expunged { mailbox, uids: uids.clone() }], ())))
        .await
        .unwrap();
}

async fn assert_told(process: &Process) {
    process.account.refresh().await.unwrap();
    for name in BOXES {
        let (told, expected) = (process.told(name).await, process.expected(name).await);
        assert_eq!(told.len(), expected.len(), "{name}");
        for (told, expected) in told.iter().zip(&expected) {
            assert_eq!(told, expected, "{name}");
        }
        assert!(process.texts(name).await.into_iter().all(|texts| texts <= expected.len()));
        assert!(process.pieces(name).await.into_iter().all(|pieces| pieces <= expected.len()));
    }
}

#[tokio::test]
async fn only_requested_summaries_come_and_in_order() {
    let w = Fixture::new(1);
    let p = w.process().await;
    let numbered = |n| format!("Subject: number {n}\r\n\r\n");
    p.append("INBOX", &(1..=20).map(numbered).collect::<Vec<_>>()).await;
    expunge(&p, "INBOX", UidSet::range(uid(3), uid(5))).await;
    let mut uids = UidSet::range(uid(2), uid(6));
    uids.insert(uid(20));
    uids.insert(uid(4_000_000_000));
    let found = p.summaries("INBOX", uids, Parts::ALL).await;
    let found: Vec<_> =
        found.iter().map(|(uid, s)| (uid.get(), s.as_ref().unwrap().subject().unwrap().to_owned())).collect();
    assert_eq!(found, [2, 6, 20].map(|n| (n, format!("number {n}"))));
    assert!(
        p.index().summaries(MailboxId(999), all(), ReadOrder::Stored, Parts::ALL, 8).next().await.is_none()
    );
}

#[tokio::test]
async fn a_damaged_message_is_an_error_in_its_place() {
    let w = Fixture::new(2);
    let p = w.process().await;
    p.append("INBOX", &mails(&w.random, 3)).await;
    let second = p.account.state().messages().nth(1).unwrap().1.object;
    w.store.delete(&message::path(ID, second)).await.unwrap();
    let found = p.summaries("INBOX", all(), Parts::DATE).await;
    assert_eq!(found.len(), 3);
    assert_eq!(found[1].1.as_ref().err().unwrap().kind(), Kind::NotFound);
    assert!(found[0].1.is_ok() && found[2].1.is_ok());
}

#[tokio::test]
async fn only_many_messages_get_segments_and_on_request() {
    let w = Fixture::new(3);
    let p = w.process().await;
    p.append("INBOX", &mails(&w.random, 200)).await;
    assert_told(&p).await;
    assert!(w.segments().await.is_empty());
    p.append("INBOX", &mails(&w.random, 1000)).await;
    p.settle().await;
    assert!(w.segments().await.is_empty(), "nobody has asked since");
    assert_eq!(p.told("INBOX").await, p.expected("INBOX").await);
    let segments = w.segments().await;
    assert_eq!(segments.len(), 1, "{segments:?}");
    assert!(segments[0].ends_with("00000000-000003ff-00000400"), "{segments:?}");
    // From here on they are made as mail arrives.
    p.append("INBOX", &mails(&w.random, 100)).await;
    p.settle().await;
    assert_eq!(w.segments().await.len(), 2);
    assert_told(&p).await;
    // What they hold is sealed.
    for path in w.segments().await {
        let object = w.store.read(&path).await.unwrap();
        assert!(!object.windows(7).any(|bytes| bytes == b"example"));
    }
}

#[tokio::test]
async fn copies_of_few_messages_get_segments_as_many_messages_do() {
    let w = Fixture::new(33);
    let p = w.process().await;
    p.append("INBOX", &mails(&w.random, 100)).await;
    let (from, to) = (p.mailbox("INBOX"), p.mailbox("Archive"));
    for _ in 0..3 {
        let uids = UidSet::range(uid(1), uid(100));
        p.account.commit(|_| Ok((vec![Event::Copied { from, uids: uids.clone(), to }], ()))).await.unwrap();
    }
    p.texts("INBOX").await;
    p.settle().await;
    assert!(w.segments().await.is_empty(), "a hundred are few");
    p.texts("Archive").await;
    assert_told(&p).await;
    let segments = w.segments().await;
    assert!(segments.iter().any(|path| path.contains("/text/00000000-00000063-")), "{segments:?}");
    assert!(segments.iter().any(|path| path.contains("/summary/00000000-00000063-")), "{segments:?}");
}

/// Many at once, in memory that is enough for one of them to make a segment: those that have some
/// must not wait for more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_make_segments_do_not_wait_for_each_other() {
    let w = Fixture::new(7);
    w.process().await.append("INBOX", &mails(&w.random, 600)).await;
    let budget = Budget::with_largest(14 << 20, 12 << 20);
    let processes = [w.process_with(budget.clone()).await, w.process_with(budget.clone()).await];
    let expected = processes[0].expected("INBOX").await;
    let tellers = (0..16).map(|n| {
        let process = processes[n % 2].clone();
        tokio::spawn(async move { (process.told("INBOX").await, process.texts("INBOX").await) })
    });
    for teller in tellers.collect::<Vec<_>>() {
        let (told, texts) = teller.await.unwrap();
        assert!(told == expected && texts.iter().all(|texts| *texts <= 600));
    }
    for process in &processes {
        process.settle().await;
    }
    assert_eq!(budget.in_use(), 0);
    assert!(w.segments().await.iter().any(|path| path.contains("/summary/")));
}

#[tokio::test]
async fn a_waiter_reads_segments_that_others_made() {
    let w = Fixture::new(8);
    let p = w.process().await;
    p.append("INBOX", &mails(&w.random, 600)).await;
    let readers = (0..8).map(|_| {
        let p = p.clone();
        tokio::spawn(async move { p.texts("INBOX").await[0] })
    });
    let read = futures::future::try_join_all(readers.collect::<Vec<_>>()).await.unwrap();
    let held = w.process().await.texts("INBOX").await[0];
    assert!(held > 0 && read.iter().all(|read| *read >= held), "{held} {read:?}");
}

#[tokio::test]
async fn short_texts_are_kept_and_long_ones_are_not() {
    let w = Fixture::new(6);
    let p = w.process().await;
    let mut mails = mails(&w.random, 400);
    let long = "long ".repeat(limits::SEGMENT_TEXT_BYTES / 5);
    mails.insert(100, format!("Subject: lengthy\r\n\r\n{long}\r\n"));
    let longer = "longer ".repeat(limits::SHORT_TEXT_BYTES / 7);
    mails[200].push_str(&longer);
    p.append("INBOX", &mails).await;
    // Making the segment also reads the long ones.
    assert_eq!(p.texts("INBOX").await, [401, 401]);
    for process in [p, w.process().await] {
        let [short, longer] = process.texts("INBOX").await;
        assert!(short + longer == 400 && longer >= 1, "{short} {longer}");
    }
    let segments = w.segments().await;
    let folders: Vec<_> = segments.iter().filter_map(|path| path.rsplit('/').nth(1)).collect();
    assert_eq!(folders, ["longer", "text"]);
    let p = w.process().await;
    for segment in segments {
        w.verify(&p, &segment).await.unwrap();
    }
}

/// Looking for what segments cannot have takes no more memory than looking for what they have.
#[tokio::test]
async fn texts_too_long_for_segments_are_prepared_once() {
    let w = Fixture::new(32);
    let budget = Budget::with_largest(20 << 20, 12 << 20);
    let p = w.process_with(budget.clone()).await;
    let noise = |n: u64| -> String {
        let random = SeededRandom::new(n);
        (0..limits::SEGMENT_TEXT_BYTES / 8).map(|_| format!("{:016x} ", random.next_u64())).collect()
    };
    let mails: Vec<_> = (0..300).map(|n| format!("Subject: {n}\r\n\r\n{}\r\n", noise(n))).collect();
    p.append("INBOX", &mails).await;
    p.texts("INBOX").await;
    p.settle().await;
    let _others = budget.try_acquire_large(14 << 20).unwrap();
    let texts = tokio::time::timeout(Duration::from_secs(30), p.texts("INBOX"));
    assert_eq!(texts.await.expect("it does not wait for memory to make segments with"), [0, 0]);
}

/// Every object but the segments could be gone: that is what they are for.
#[tokio::test]
async fn values_in_segments_are_not_read_from_messages() {
    let w = Fixture::new(4);
    let p = w.process().await;
    p.append("INBOX", &(0..300).map(|n| format!("Subject: {n}\r\n\r\n")).collect::<Vec<_>>()).await;
    let told = p.told("INBOX").await;
    let objects: Vec<_> = p.account.state().messages().map(|(_, message)| message.object).collect();
    for object in objects {
        w.store.delete(&message::path(ID, object)).await.unwrap();
    }
    assert_eq!(w.process().await.told("INBOX").await, told);
    // Parts that are not requested are absent, and the others are the same.
    for (parts, n) in [(Parts::DATE, 0), (Parts::FIELDS, 1), (Parts::FIELDS | Parts::HEADERS, 2)] {
        for ((_, summary), (_, all)) in p.summaries("INBOX", all(), parts).await.iter().zip(&told) {
            let summary = summary.as_ref().unwrap();
            assert!(n < 1 || all.contains(summary.subject().unwrap()));
            assert!(n < 2 || all.contains(&format!("{:?}", summary.headers())));
        }
    }
}

#[tokio::test]
async fn moved_messages_are_found_in_order_of_their_uids() {
    let w = Fixture::new(5);
    let p = w.process().await;
    p.append("INBOX", &mails(&w.random, 2600)).await;
    assert_told(&p).await;
    let (from, to) = (p.mailbox("INBOX"), p.mailbox("Archive"));
    for _ in 0..60 {
        let first = 1 + w.random.below(2600) as u32;
        let uids = UidSet::range(uid(first), uid(first + w.random.below(90) as u32));
        p.account.commit(|_| Ok((vec![Event::Copied { from, uids: uids.clone(), to }], ()))).await.unwrap();
    }
    assert_told(&p).await;
}

/// In the order of UIDs, too: what fits into a window is known after the first.
#[tokio::test]
async fn messages_out_of_storage_order_take_few_reads() {
    let w = Fixture::new(31);
    let p = w.process().await;
    let ids = "<0123456789.0123456789@example.org> ".repeat(25);
    let mails: Vec<_> = (0..2400).map(|n| format!("Subject: {n}\r\nReferences: {ids}\r\n\r\n")).collect();
    p.append("INBOX", &mails).await;
    let (from, to) = (p.mailbox("INBOX"), p.mailbox("Archive"));
    for n in 1..=60 {
        let uids: UidSet = (0..40).map(|i| uid(n + 60 * i)).collect();
        p.account.commit(|_| Ok((vec![Event::Copied { from, uids: uids.clone(), to }], ()))).await.unwrap();
    }
    p.summaries("INBOX", all(), Parts::ALL).await;
    p.settle().await;
    assert!(w.segments().await.len() > 3);
    let before = w.faults.calls();
    assert_eq!(p.summaries("Archive", all(), Parts::ALL).await.len(), 2400);
    assert!(w.faults.calls() - before <= 40, "{} requests", w.faults.calls() - before);
}

/// Random deliveries, copies, moves, expunges and purges, with two processes that both make and
/// tidy segments, some of which are damaged or removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn summaries_equal_the_structures_through_random_changes() {
    for seed in 10..12 {
        let w = Fixture::new(seed);
        let processes = [w.process().await, w.process().await];
        for _ in 0..12 {
            let p = &processes[w.random.below(2) as usize];
            p.account.refresh().await.unwrap();
            let name = BOXES[w.random.below(3) as usize];
            let first = 1 + w.random.below(700) as u32;
            let uids = UidSet::range(uid(first), uid(first + w.random.below(300) as u32));
            match w.random.below(10) {
                0..4 => p.append(name, &mails(&w.random, w.random.below(500) as usize)).await,
                4 | 5 => {
                    let (from, to) = (p.mailbox(name), p.mailbox(BOXES[w.random.below(3) as usize]));
                    let event = match w.random.below(2) {
                        0 => Event::Copied { from, uids, to },
                        _ => Event::Moved { from, uids, to },
                    };
                    p.account.commit(|_| Ok((vec![event.clone()], ()))).await.unwrap();
                }
                6 => expunge(p, name, uids).await,
                7 => {
                    w.clock.advance(Duration::from_secs(8 * 24 * 3600));
                    p.account.collect_garbage().await.unwrap();
                }
                8 => {
                    if let Some(path) = w.segments().await.first() {
                        match w.random.below(3) {
                            0 => w.store.delete(path).await.unwrap(),
                            _ => w.damage(path).await,
                        }
                    }
                }
                _ => {
                    let [one, other] = [processes[0].index(), processes[1].index()];
                    let (a, b) = tokio::join!(one.compact_summaries(), other.compact_summaries());
                    a.and(b).unwrap();
                }
            }
            assert_told(p).await;
        }
        tokio::join!(assert_told(&processes[0]), assert_told(&processes[1]));
        // In the end the segments are few, and nothing that was purged is in them.
        w.clock.advance(Duration::from_secs(8 * 24 * 3600));
        let p = &processes[0];
        p.account.refresh().await.unwrap();
        p.account.collect_garbage().await.unwrap();
        for _ in 0..3 {
            p.settle().await;
        }
        assert_told(p).await;
        let segments = w.segments().await;
        let (mut held, messages) = (0, p.account.state().message_count());
        for path in segments.iter().filter(|path| path.contains("/summary/")) {
            held += usize::from_str_radix(&path[path.len() - 8..], 16).unwrap();
        }
        // Of each of five kinds.
        let most = 5 * (1 + 2 * messages / limits::SUMMARY_SEGMENT_MESSAGES);
        assert!(segments.len() <= most, "seed {seed}: {messages} messages in {segments:?}");
        assert!(held <= messages, "seed {seed}: {held} summaries of {messages} messages in {segments:?}");
    }
}

/// A store that fails and loses replies: some summaries are unavailable then, but none is wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_store_never_makes_a_summary_wrong() {
    for seed in 20..22 {
        let w = Fixture::new(seed);
        let p = w.process().await;
        p.append("INBOX", &mails(&w.random, 1500)).await;
        let expected = p.expected("INBOX").await;
        let mut told = 0;
        for round in 0..4 {
            let p = w.process().await;
            w.faults.calm(false);
            for ((uid, summary), (at, expected)) in
                p.summaries("INBOX", all(), Parts::ALL).await.iter().zip(&expected)
            {
                assert_eq!(uid, at);
                match summary {
                    Ok(summary) => {
                        told += 1;
                        assert_eq!(&describe(summary), expected, "seed {seed} round {round}");
                    }
                    Err(e) => assert_eq!(e.kind(), Kind::Retry),
                }
            }
            let _ = p.index().compact_summaries().await;
            w.faults.calm(true);
        }
        assert!(told > 4 * 1000, "seed {seed}: {told}");
        let p = w.process().await;
        assert_eq!(p.told("INBOX").await, expected);
    }
}

#[tokio::test]
async fn a_check_finds_damage_of_a_segment() {
    let w = Fixture::new(40);
    let p = w.process().await;
    p.append("INBOX", &mails(&w.random, 700)).await;
    assert_eq!(p.told("INBOX").await, p.expected("INBOX").await);
    let path = w.segments().await.remove(0);
    w.verify(&p, &path).await.unwrap();
    // A segment under another name is another one's.
    let other = path.replace("00000000-", "00000001-");
    w.copy(&path, &other).await;
    assert_eq!(w.verify(&p, &other).await.unwrap_err().kind(), Kind::Corrupt);
    w.damage(&path).await;
    assert_eq!(w.verify(&p, &path).await.unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(w.verify(&p, "acct/x/idx/summary/y").await.unwrap_err().kind(), Kind::Corrupt);
}

/// A stream needs little memory, and gives it back.
#[tokio::test]
async fn a_stream_draws_on_the_budget_while_it_runs() {
    let w = Fixture::new(30);
    let p = w.process().await;
    p.append("INBOX", &mails(&w.random, 600)).await;
    let budget = p.accounts.memory();
    let mut stream = p.index().summaries(p.mailbox("INBOX"), all(), ReadOrder::Uids, Parts::ALL, 8);
    assert_eq!(budget.in_use(), 0);
    assert!(stream.next().await.is_some());
    assert!(budget.in_use() > 0 && budget.in_use() <= budget.fair_part());
    drop(stream);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(budget.in_use(), 0);
}

/// The attack: an observer of the store who can send mail guesses the content of another sender's
/// mail, a thousand times, and checks whether any object became shorter.
#[tokio::test]
async fn a_right_guess_shows_in_no_size() {
    let sizes = async |code: &str, guess: &str| {
        let w = Fixture::new(77);
        let p = w.process().await;
        let letter = |code: &str, n: usize| {
            format!(
                "From: sender@example.org\r\nSubject: the code for your account is {code}\r\nMessage-ID: <{n:04}@example.org>\r\n\r\n\
                 The code for your account is {code}, do not tell it to anybody.\r\n"
            )
        };
        let mails: Vec<_> = (0..1100).map(|n| letter(if n == 500 { code } else { guess }, n)).collect();
        p.append("INBOX", &mails).await;
        p.told("INBOX").await;
        p.texts("INBOX").await;
        p.settle().await;
        assert!(w.segments().await.len() >= 2, "there are summaries and texts");
        let listed = w.store.list("acct", None);
        listed
            .map(|object| object.map(|object| (object.path, object.size)).unwrap())
            .collect::<Vec<_>>()
            .await
    };
    // The same letters in another order, which no other words have, so that a guess by itself takes as much.
    let (right, wrong) = ("QZXJVK", "ZKQVXJ");
    let guessed = sizes(right, right).await;
    assert_eq!(guessed, sizes(right, wrong).await);
    assert_eq!(guessed, sizes(wrong, right).await);
}

/// Headers and structures are in segments once a client has requested enough of them, with any
/// content; those that are too long are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_and_structures_are_kept_in_segments() {
    let w = Fixture::new(31);
    let p = w.process().await;
    let mut mails = short_mails(&w, 300);
    mails[7] = format!("Subject: x\r\nX-Long: {}\r\n\r\n", "y ".repeat(limits::HEADER_PIECE_BYTES));
    mails[9] = "no header\r\n".to_owned();
    mails[11] = String::new();
    mails[13] = "Subject: \u{0}\u{80}é\n\n".to_owned();
    p.append("INBOX", &mails).await;
    // The first request is answered from the messages.
    assert_eq!(p.pieces("INBOX").await, [0, 0]);
    settled(&w, &p, ["header", "structure"], 1).await;
    assert_eq!(p.pieces("INBOX").await, [299, 300]);
    for path in w.segments().await {
        w.verify(&p, &path).await.unwrap();
    }
    // Another process finds them, and a few more messages are read by themselves.
    p.append("INBOX", &mails[..20]).await;
    let other = w.process().await;
    assert_eq!(other.pieces("INBOX").await, [299, 300]);
    // Damaged segments are removed, and rebuilt.
    for path in w.segments().await {
        w.damage(&path).await;
    }
    let third = w.process().await;
    assert_eq!(third.pieces("INBOX").await, [0, 0]);
    third.index().compact_summaries().await.unwrap();
    assert_eq!(third.pieces("INBOX").await[1], 0, "nobody asked since");
    settled(&w, &third, ["header", "structure"], 1).await;
    assert_eq!(third.pieces("INBOX").await, [318, 320]);
}

/// What was purged is in no segment after the next compaction, and a change of flags makes no segment again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_segments_follow_deletions_and_no_flags() {
    let w = Fixture::new(32);
    let p = w.process().await;
    p.append("INBOX", &short_mails(&w, 600)).await;
    p.pieces("INBOX").await;
    settled(&w, &p, ["header", "structure"], 1).await;
    let before = w.segments().await;
    let mailbox = p.mailbox("INBOX");
    for n in 1..50 {
        let flags = Event::FlagsStored {
            mailbox,
            uids: UidSet::range(uid(n), uid(n + 100)),
            action: FlagAction::Add,
            flags: Flags::system(SystemFlags::SEEN),
            unchanged_since: None,
        };
        p.account.commit(|_| Ok((vec![flags.clone()], ()))).await.unwrap();
    }
    p.index().compact_summaries().await.unwrap();
    assert_eq!(w.segments().await, before);
    expunge(&p, "INBOX", UidSet::range(uid(1), uid(300))).await;
    w.clock.advance(Duration::from_secs(8 * 24 * 3600));
    p.account.collect_garbage().await.unwrap();
    p.index().compact_summaries().await.unwrap();
    let after = w.segments().await;
    assert!(after.iter().all(|path| !before.contains(path)), "{after:?}");
    assert_eq!(p.pieces("INBOX").await, [300, 300]);
}

/// Of mail with headers and sizes as people have them, headers in segments take at most 4 % and all
/// derived data 14 %.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn derived_data_is_a_small_part_of_the_mail() {
    /// The mean of 2,427 mails of a person; half of them have less than an eighth of that.
    const MEAN_MAIL_BYTES: u64 = 130_983;
    const MAILS: usize = 300;
    let w = Fixture::new(33);
    let p = w.process().await;
    // Longer headers than most, and as much text as is kept of any mail.
    let mail = |n: usize| {
        let word = |at: usize| format!("{:x} ", (n * 7919 + at).wrapping_mul(2_654_435_761) % 0xffff);
        let received: String = (0..4).map(|at| format!("Received: from {0} by {0};\r\n", word(at))).collect();
        let signature: String = (0..200).map(word).collect();
        let text: String = (0..3000).map(word).collect();
        format!(
            "{received}DKIM-Signature: {signature}\r\nFrom: {0} <{0}@x>\r\nTo: y@z\r\nSubject: {0}\r\n\
             Message-ID: <{n}@x>\r\nReferences: <{n}a@x> <{n}b@x>\r\n\r\n{text}\r\n",
            word(9)
        )
    };
    p.append("INBOX", &(0..MAILS).map(mail).collect::<Vec<_>>()).await;
    p.pieces("INBOX").await;
    p.told("INBOX").await;
    p.texts("INBOX").await;
    settled(&w, &p, ["header", "structure"], 1).await;
    p.index().compact_summaries().await.unwrap();
    let (mut headers, mut all) = (0, 0);
    for path in w.segments().await {
        let bytes = w.store.size(&path).await.unwrap();
        headers += if path.contains("/header/") { bytes } else { 0 };
        all += bytes;
    }
    let mail = MEAN_MAIL_BYTES * MAILS as u64;
    assert!(headers > 0 && headers * 100 <= mail * 4, "{headers} of {mail}");
    assert!(all * 100 <= mail * 14, "{all} of {mail}");
}

/// Messages whose structures fit into segments.
fn short_mails(w: &Fixture, count: usize) -> Vec<String> {
    mails(&w.random, 2 * count).into_iter().filter(|mail| mail.len() < 4000).take(count).collect()
}

/// Waits until there are that many segments in each of these folders at least.
async fn settled(w: &Fixture, p: &Process, folders: [&str; 2], least: usize) {
    let count = |paths: &[String], folder: &str| {
        paths.iter().filter(|path| path.contains(&format!("/{folder}/"))).count()
    };
    let made = async {
        loop {
            let paths = w.segments().await;
            if folders.iter().all(|folder| count(&paths, folder) >= least) {
                return;
            }
            p.account.refresh().await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), made).await.expect("segments are made");
}
