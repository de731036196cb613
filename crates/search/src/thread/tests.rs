use std::collections::HashMap;

use proptest::prelude::*;
use sealpost_base::limits;

use super::*;

/// A message as far as threading goes: identifier, references, subject, date.
#[derive(Debug, Clone)]
struct Mail {
    id: Option<&'static str>,
    references: Vec<&'static str>,
    subject: String,
    sent: i64,
}

fn mail(id: &'static str, references: &str, subject: &str, sent: i64) -> Mail {
    let references = references.split(' ').filter(|r| !r.is_empty()).map(|r| &*r.to_owned().leak()).collect();
    Mail { id: (!id.is_empty()).then_some(id), references, subject: subject.to_owned(), sent }
}

fn items(mails: &[Mail]) -> Vec<ThreadItem> {
    let item = |(at, mail): (usize, &Mail)| ThreadItem::new(at, mail.sent, &mail.subject);
    mails.iter().enumerate().map(item).collect()
}

/// As RFC 5256 §5 writes it, messages numbered from 1.
fn written(forest: &Forest) -> String {
    let mut written = String::new();
    for step in forest.steps() {
        if step != Step::Close && written.ends_with(|last: char| last.is_ascii_digit()) {
            written.push(' ');
        }
        match step {
            Step::Open => written.push('('),
            Step::Close => written.push(')'),
            Step::Message(at) => written.push_str(&(at + 1).to_string()),
        }
    }
    written
}

fn references_within(mails: &[Mail], bytes: usize) -> String {
    let mut links = Links::new(mails.len(), bytes);
    for mail in mails {
        let references: Vec<_> = mail.references.iter().map(|id| ShortHash::of(id.as_bytes())).collect();
        links.add(mail.id.map(|id| ShortHash::of(id.as_bytes())), &references);
    }
    written(&links.thread(&items(mails)))
}

fn references(mails: &[Mail]) -> String {
    references_within(mails, 1 << 20)
}

fn ordered(mails: &[Mail]) -> String {
    written(&ordered::thread(&mut items(mails)))
}

#[test]
fn replies_are_below_the_messages_they_answer() {
    let mails = [
        mail("a", "", "s", 1),
        mail("b", "a", "Re: s", 2),
        mail("c", "a b", "Re: s", 3),
        mail("d", "a", "Re: s", 4),
        mail("e", "", "other", 5),
    ];
    assert_eq!(references(&mails), "(1 (2 3)(4))(5)");
}

#[test]
fn order_of_arrival_does_not_matter() {
    let mails = [mail("c", "a b", "Re: s", 3), mail("b", "a", "Re: s", 2), mail("a", "", "s", 1)];
    assert_eq!(references(&mails), "(3 2 1)");
}

#[test]
fn missing_messages_hold_their_replies_together() {
    // One missing in the middle, one missing at the top with one child, one missing at the top with two.
    assert_eq!(references(&[mail("a", "", "s", 1), mail("c", "a b", "Re: s", 2)]), "(1 2)");
    assert_eq!(references(&[mail("c", "a b", "Re: s", 2)]), "(1)");
    assert_eq!(references(&[mail("b", "a", "x", 1), mail("c", "a", "y", 2)]), "((1)(2))");
    // Below a missing one at the top, other missing ones are skipped.
    assert_eq!(references(&[mail("b", "x y", "p", 1), mail("c", "x z", "q", 2)]), "((1)(2))");
    assert_eq!(
        references(&[mail("a", "x", "s", 1), mail("b", "x y", "t", 3), mail("c", "x y", "u", 2)]),
        "((1)(3)(2))"
    );
}

#[test]
fn a_loop_is_not_made() {
    assert_eq!(references(&[mail("a", "b", "s", 1), mail("b", "a", "t", 2)]), "(2 1)");
    assert_eq!(references(&[mail("a", "a", "s", 1)]), "(1)");
    assert_eq!(
        references(&[mail("a", "c b", "s", 1), mail("b", "a c", "t", 2), mail("c", "b a", "u", 3)]),
        references(&[mail("a", "c b", "s", 1), mail("b", "a c", "t", 2), mail("c", "b a", "u", 3)]),
    );
}

#[test]
fn the_last_reference_is_right_and_truncated_ones_are_not() {
    // First it seems that c is below x; then c itself says that it is below b.
    let mails =
        [mail("d", "x c", "s", 4), mail("c", "a b", "t", 3), mail("b", "a", "u", 2), mail("a", "", "v", 1)];
    assert_eq!(references(&mails), "(4 3 2 1)");
    // A link that a message made for others is kept.
    let mails = [mail("c", "a b", "s", 1), mail("d", "x b", "t", 2)];
    assert_eq!(references(&mails), "((1)(2))");
    // Without references there is no parent, whatever other messages refer to.
    let mails = [mail("c", "a b", "s", 1), mail("b", "", "t", 2), mail("a", "", "u", 3)];
    assert_eq!(references(&mails), "(2 1)(3)");
}

#[test]
fn identifiers_are_given_once() {
    let mails = [mail("a", "", "s", 1), mail("a", "", "t", 2), mail("b", "a", "u", 3), mail("", "a", "v", 4)];
    assert_eq!(references(&mails), "(1 (3)(4))(2)");
}

#[test]
fn threads_of_one_subject_are_gathered() {
    // A reply below the message it answers, without references.
    assert_eq!(references(&[mail("a", "", "s", 1), mail("b", "", "Re: s", 2)]), "(1 2)");
    assert_eq!(references(&[mail("b", "", "Re: s", 1), mail("a", "", "S", 2)]), "(2 1)");
    // Two that are no replies, or two that are, side by side.
    assert_eq!(references(&[mail("a", "", "s", 1), mail("b", "", "s", 2)]), "((1)(2))");
    assert_eq!(references(&[mail("a", "", "Re: s", 1), mail("b", "", "Fwd: s", 2)]), "((1)(2))");
    let three = [mail("a", "", "Re: s", 1), mail("b", "", "Re: s", 2), mail("c", "", "re: S", 3)];
    assert_eq!(references(&three), "((1)(2)(3))");
    // Into a thread without a root message.
    let mails = [mail("b", "a", "Re: s", 1), mail("c", "a", "Re: s", 2), mail("d", "", "s", 3)];
    assert_eq!(references(&mails), "((1)(2)(3))");
    // Two such threads become one.
    let mails =
        [mail("b", "a", "Re: s", 1), mail("c", "a", "t", 3), mail("e", "d", "s", 2), mail("f", "d", "u", 4)];
    assert_eq!(references(&mails), "((1)(3)(2)(4))");
    // Empty subjects say nothing.
    assert_eq!(references(&[mail("a", "", "", 1), mail("b", "", "Re:", 2)]), "(1)(2)");
    // Subjects of replies inside of threads do not matter.
    let mails = [mail("a", "", "s", 1), mail("b", "a", "t", 2), mail("c", "", "t", 3)];
    assert_eq!(references(&mails), "(1 2)(3)");
}

#[test]
fn everything_is_by_date_and_then_by_place() {
    let mails = [
        mail("a", "", "s", 9),
        mail("b", "a", "x", 8),
        mail("c", "a", "y", 7),
        mail("d", "", "t", 7),
        mail("e", "z", "u", 2),
        mail("f", "z", "v", 1),
        mail("g", "", "w", 7),
    ];
    assert_eq!(references(&mails), "((6)(5))(4)(7)(1 (3)(2))");
}

#[test]
fn ordered_by_subject() {
    let mails = [
        mail("", "", "b", 5),
        mail("", "", "Re: a", 4),
        mail("", "", "A", 3),
        mail("", "", "[l] B", 2),
        mail("", "", "c", 1),
        mail("", "", "a (fwd)", 6),
    ];
    assert_eq!(ordered(&mails), "(5)(4 1)(3 (2)(6))");
    assert_eq!(ordered(&[]), "");
    assert_eq!(references(&[]), "");
}

#[test]
fn a_thread_may_be_as_deep_as_the_mailbox() {
    let n = 50_000u32;
    let ids: Vec<&'static str> = (0..n).map(|i| &*i.to_string().leak()).collect();
    let mut mails: Vec<Mail> = (0..n as usize)
        .map(|i| Mail {
            id: Some(ids[i]),
            references: i.checked_sub(1).map(|before| ids[before]).into_iter().collect(),
            subject: String::new(),
            sent: i as i64,
        })
        .collect();
    let chain = |numbers: Vec<u32>| {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        format!("({})", numbers.join(" "))
    };
    assert_eq!(references_within(&mails, 1 << 24), chain((1..=n).collect()));
    mails.reverse();
    assert_eq!(references_within(&mails, 1 << 24), chain((1..=n).rev().collect()));
}

#[test]
fn threads_beyond_a_bound_are_split() {
    // No memory for dummies: messages that are only referred to join no threads.
    let mails = [mail("b", "a", "x", 1), mail("c", "a", "y", 2), mail("d", "b", "z", 3)];
    assert_eq!(references_within(&mails, 0), "(1 3)(2)");
    // More references than the limit: the last ones count.
    let many: Vec<String> = (0..=limits::THREAD_REFERENCES).map(|i| format!("r{i}")).collect();
    let mails = [mail("r0", "", "x", 1), mail("a", &many.join(" "), "y", 2)];
    assert_eq!(references(&mails), "(1)(2)");
    let mails = [mail("r1", "", "x", 1), mail("a", &many.join(" "), "y", 2)];
    assert_eq!(references(&mails), "(1 2)");
}

#[test]
fn more_messages_than_there_is_memory_for() {
    assert_eq!(room(MESSAGE_BYTES * 1000, 1000), Some(0));
    assert_eq!(room(MESSAGE_BYTES * 1000, 1001), None);
    assert_eq!(room(usize::MAX - 1, usize::MAX), None);
}

#[test]
fn the_memory_of_a_message_is_counted() {
    let held = |links: &Links| {
        let numbers = links.parent.capacity() + links.children.capacity() + links.message.capacity();
        links.ids.allocation_size()
            + links.id.capacity() * size_of::<Option<ShortHash>>()
            + numbers * size_of::<u32>()
    };
    // Just above where the table doubles, which is where it takes most of each message.
    for (messages, bytes) in [(115_000usize, 0), (100_000, 0), (60_000, 2 << 20), (10, 64 << 10)] {
        let mut links = Links::new(messages, bytes);
        for i in 0..messages {
            links.add(
                Some(ShortHash::of(&i.to_be_bytes())),
                &[ShortHash::of(&[i as u8, 1, 2, (i >> 8) as u8])],
            );
        }
        while links.dummies_left > 0 {
            links.reference(ShortHash::of(&links.dummies_left.to_le_bytes()));
        }
        let held = held(&links) + messages * size_of::<ThreadItem>();
        assert!(held <= messages * MESSAGE_BYTES + bytes, "{messages} messages: {held}");
    }
}

#[test]
fn looking_for_loops_has_an_end() {
    // A long chain, and then messages that ask again and again whether its first one is below its last one.
    let ids: Vec<&'static str> = (0..3000).map(|i| &*format!("m{i}").leak()).collect();
    let mut mails: Vec<Mail> = (0..3000usize)
        .map(|i| Mail {
            id: Some(ids[i]),
            references: i.checked_sub(1).map(|before| ids[before]).into_iter().collect(),
            subject: String::new(),
            sent: i as i64,
        })
        .collect();
    let again: Vec<&str> = (0..500).flat_map(|_| [ids[2999], ids[0]]).collect();
    for i in 0..3000 {
        mails.push(Mail { id: None, references: again.clone(), subject: String::new(), sent: 3000 + i });
    }
    let written = references_within(&mails, 1 << 24);
    assert_eq!(numbers(&written).len(), mails.len());
}

/// All numbers in a response, sorted.
fn numbers(written: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        written.split(['(', ')', ' ']).filter(|n| !n.is_empty()).map(|n| n.parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

/// Whether it is what the grammar of RFC 5256 §5 allows.
fn is_thread_data(written: &str) -> bool {
    let mut lists = vec![0usize];
    let mut before = ' ';
    for c in written.chars() {
        match c {
            '(' => {
                *lists.last_mut().unwrap() += 1;
                lists.push(0);
            }
            // `thread-nested = 2*thread-list`, and no empty lists.
            ')' => {
                let nested = lists.pop().unwrap_or(1);
                if before == '(' || before == ' ' || nested == 1 || lists.is_empty() {
                    return false;
                }
            }
            ' ' if !before.is_ascii_digit() => return false,
            _ => {}
        }
        before = c;
    }
    lists.len() == 1
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// However messages refer to each other, each is in the answer exactly once, and the answer can be read.
    #[test]
    fn threads_are_a_permutation(
        mails in proptest::collection::vec(
            (
                proptest::option::of(0usize..10),
                proptest::collection::vec(0usize..12, 0..5),
                proptest::sample::select(&["", "a", "Re: a", "b", "Fwd: b (fwd)", "[x] a"][..]),
                0i64..5,
            ),
            0..16,
        ),
        room in proptest::sample::select(&[0usize, 40, 100, 1 << 20][..]),
    ) {
        const IDS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
        let mails: Vec<Mail> = mails
            .into_iter()
            .map(|(id, references, subject, sent)| Mail {
                id: id.map(|id| IDS[id]),
                references: references.into_iter().map(|id| IDS[id]).collect(),
                subject: subject.to_owned(),
                sent,
            })
            .collect();
        let all: Vec<u32> = (1..=mails.len() as u32).collect();
        for written in [references_within(&mails, room), ordered(&mails)] {
            prop_assert_eq!(numbers(&written), all.clone(), "{}", written);
            prop_assert!(is_thread_data(&written), "{}", written);
        }
        // One subject at the top is one thread.
        let heads = references(&mails);
        let mut seen: HashMap<u64, usize> = HashMap::new();
        for head in heads_of(&heads) {
            if let Some(hash) = ThreadItem::new(0, 0, &mails[head - 1].subject).subject {
                *seen.entry(hash.get()).or_default() += 1;
            }
        }
        prop_assert!(seen.values().all(|n| *n == 1), "{}", heads);
    }
}

/// The first message of every thread.
fn heads_of(written: &str) -> Vec<usize> {
    let (mut depth, mut heads, mut number) = (0, Vec::new(), String::new());
    let mut wanted = false;
    for c in written.chars() {
        if c.is_ascii_digit() {
            number.push(c);
            continue;
        }
        if !number.is_empty() && std::mem::take(&mut wanted) {
            heads.push(number.parse().unwrap());
        }
        number.clear();
        match c {
            '(' => {
                wanted |= depth == 0;
                depth += 1;
            }
            ')' => depth -= 1,
            _ => {}
        }
    }
    heads
}
