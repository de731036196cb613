//! The values themselves: sets, dates, patterns, flags.

use std::ops::RangeInclusive;

use proptest::prelude::*;
use sealpost_base::Timestamp;

use super::strategy;
use crate::parse::command;
use crate::types::*;

fn set(text: &str) -> SequenceSet {
    match command(format!("a UID EXPUNGE {text}\r\n").as_bytes(), false).unwrap().body {
        CommandBody::Expunge { uids: Some(uids) } => uids,
        _ => unreachable!("it was UID EXPUNGE"),
    }
}

#[test]
fn sets_resolve() {
    let cases: [(&str, u32, &[RangeInclusive<u32>]); 9] = [
        ("1:4294967295", 3, &[1..=3]),
        ("1:*", 0, &[]),
        ("559:*", 500, &[500..=500]),
        ("*", 7, &[7..=7]),
        ("4:2,3,9", 9, &[2..=4, 9..=9]),
        ("5,1:3,4,7", 10, &[1..=5, 7..=7]),
        ("8:9", 7, &[]),
        ("2:*,1", 5, &[1..=5]),
        ("4294967295,1", u32::MAX, &[1..=1, u32::MAX..=u32::MAX]),
    ];
    for (text, largest, expected) in cases {
        assert_eq!(set(text).resolve(largest), expected, "{text}");
    }
    assert_eq!(set("4,1:2,2").iter(10).collect::<Vec<_>>(), [1, 2, 4]);
    assert_eq!(set("1:4294967295").iter(u32::MAX).take(2).count(), 2);
    assert_eq!(set("3:7").max(5), 7);
    assert_eq!(set("*").max(5), 5);
    assert_eq!(std::mem::size_of::<SeqRange>(), 8);
}

#[test]
fn sets_are_made_compact() {
    let made = SequenceSet::from_numbers([304, 319, 320, 5, 0, 6]).unwrap();
    assert_eq!(made, set("304,319:320,5:6"));
    assert_eq!(SequenceSet::from_ranges([1..=3, 4..=9, 11..=11]).unwrap(), set("1:9,11"));
    assert_eq!(SequenceSet::from_numbers([0]), None);
    assert_eq!(SequenceSet::from_numbers([u32::MAX, 1]).unwrap(), set("4294967295,1"));
}

#[test]
fn dates() {
    assert_eq!(Date::new(1970, 1, 1).unwrap().days(), 0);
    assert_eq!(Date::new(2000, 3, 1).unwrap().days(), 11_017);
    assert_eq!(Date::new(0, 1, 1), Some(Date::from_days(i64::MIN)));
    assert_eq!(Date::new(9999, 12, 31), Some(Date::from_days(i64::MAX)));
    for (year, month, day) in
        [(2023, 2, 29), (1900, 2, 29), (2024, 4, 31), (2024, 0, 1), (2024, 13, 1), (2024, 1, 0)]
    {
        assert_eq!(Date::new(year, month, day), None);
    }
    assert!(Date::new(2000, 2, 29).is_some());
    let utc = DateTime::utc(Timestamp::from_seconds(837_596_665));
    assert_eq!(utc.local(), (Date::new(1996, 7, 17).unwrap(), 9, 44, 25));
    assert_eq!(DateTime::new(Date::from_days(0), 24, 0, 0, 0), None);
}

#[test]
fn patterns() {
    for (pattern, name, matches) in [
        ("*", "a/b/c", true),
        ("%", "a", true),
        ("%", "a/b", false),
        ("%/%", "a/b", true),
        ("a*c", "a/b/c", true),
        ("a%c", "a/b/c", false),
        ("", "", true),
        ("", "a", false),
        ("inbox", "INBOX", true),
        ("InB*", "INBOX", true),
        ("iNbOx/%", "INBOX/x", true),
        ("inbox/X", "INBOX/x", false),
        ("inboxes", "INBOXES", false),
        ("A", "a", false),
        ("*b", "ab", true),
        ("**%%", "a/b", true),
        ("Ä*", "Äpfel", true),
    ] {
        assert_eq!(ListPattern::new(pattern).unwrap().matches(name), matches, "{pattern} {name}");
    }
    let hostile = ListPattern::new(&"*a".repeat(500)).unwrap();
    assert!(!hostile.matches(&"a".repeat(499)));
}

#[test]
fn names() {
    assert_eq!(Mailbox::new("inbox").unwrap(), Mailbox::inbox());
    assert_eq!(Mailbox::new("iNbOx/a").unwrap().as_str(), "INBOX/a");
    assert_eq!(Mailbox::new("iNbOx/a").unwrap().given(), "iNbOx/a");
    assert_eq!(Mailbox::inbox().given(), "INBOX");
    assert_eq!(Mailbox::new("inboxes").unwrap().as_str(), "inboxes");
    assert_eq!(Flag::new("\\SEEN"), Ok(Flag::Seen));
    assert_eq!(Flag::new("$work"), Flag::new("$Work"));
    for bad in ["", "\\", "a b", "\\*", "(", "\u{e9}", "a]"] {
        assert!(Flag::new(bad).is_err(), "{bad}");
    }
    assert_eq!(Flag::new("\\Seen").unwrap().to_string(), "\\Seen");
    assert!(Tag::new("a+b").is_err() && Tag::new("").is_err() && Tag::new("*").is_err());
    assert_eq!(format!("{:?}", Secret::new(b"hunter2".to_vec())), "Secret");
}

/// Every status item and attribute has its name, and every simple code only once.
#[test]
fn tables() {
    for (item, name) in StatusItem::NAMES {
        assert_eq!((item.name(), StatusItem::from_name(&name.to_lowercase())), (name, Some(item)));
    }
    for (i, (code, name)) in Code::SIMPLE.iter().enumerate() {
        assert!(Code::SIMPLE[..i].iter().all(|(c, n)| c != code && n != name), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn days_and_back(days in -719_528i64..=2_932_896) {
        let (year, month, day) = Date::from_days(days).civil();
        prop_assert_eq!(Date::new(year, month, day), Some(Date::from_days(days)));
    }

    #[test]
    fn local_times_and_back(time in strategy::date_time()) {
        let (date, hour, minute, second) = time.local();
        prop_assert_eq!(DateTime::new(date, hour, minute, second, time.zone_minutes()), Some(time));
    }

    #[test]
    fn iter_agrees_with_contains(set in strategy::sequence_set(), largest in 1u32..60) {
        let resolved: Vec<u32> = set.iter(largest).collect();
        let expected: Vec<u32> = (1..=largest).filter(|n| set.contains(*n, largest)).collect();
        prop_assert_eq!(resolved, expected);
    }
}
