use proptest::prelude::*;
use sealpost_base::SeededRandom;

use super::*;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const DAY: u64 = 86_400;

fn srs() -> Srs {
    Srs::new(MailKeys::generate(&SeededRandom::new(1)))
}

fn address(text: &str) -> Mailbox {
    let (local, host) = text.rsplit_once('@').unwrap();
    mailbox(local, host).unwrap()
}

fn here() -> Host {
    Host::domain("here.example").unwrap()
}

fn days_later(days: u64) -> Timestamp {
    NOW.after(Duration::from_secs(days * DAY))
}

#[test]
fn a_sender_comes_back() {
    let srs = srs();
    for sender in ["Jane.Doe@elsewhere.example", "a=b+c@x.example", "two words@[192.0.2.1]", "SRS0@x.example"]
    {
        let sender = address(sender);
        let rewritten = srs.rewrite(&sender, &here(), NOW).unwrap();
        let local = rewritten.local.as_str();
        assert!(local.starts_with("SRS0=") && rewritten.host == here(), "{rewritten}");
        assert_eq!(srs.original(local, NOW), Some(Ok(sender.clone())));
        // A server on the way may change the case.
        for changed in [local.to_uppercase(), local.to_lowercase()] {
            let original = srs.original(&changed, NOW).unwrap().unwrap();
            assert_eq!(original.to_string().to_lowercase(), sender.to_string().to_lowercase());
        }
    }
    assert_eq!(srs.original("jane", NOW), None);
    assert_eq!(srs.original("srs0", NOW), None);
}

#[test]
fn addresses_do_not_grow_with_each_server() {
    let (first, second, third) = (srs(), Srs::new(MailKeys::generate(&SeededRandom::new(2))), srs());
    let hop = |name| Host::domain(name).unwrap();
    let sender = address("jane@elsewhere.example");
    let one = first.rewrite(&sender, &hop("one.example"), NOW).unwrap();
    let two = second.rewrite(&one, &hop("two.example"), NOW).unwrap();
    let three = third.rewrite(&two, &hop("three.example"), NOW).unwrap();
    assert!(two.local.as_str().starts_with("SRS1="), "{two}");
    assert_eq!(two.local.as_str().len(), three.local.as_str().len());
    // Each knows the first.
    assert_eq!(third.original(three.local.as_str(), NOW), Some(Ok(one.clone())));
    assert_eq!(second.original(two.local.as_str(), NOW), Some(Ok(one.clone())));
    assert_eq!(first.original(one.local.as_str(), NOW), Some(Ok(sender)));
    // Other servers write other separators and other hashes.
    for foreign in
        ["SRS0+abcd=xy=a.example=jane@one.example", "srs1=hash=one.example==ab=cd=a.example=j@x.example"]
    {
        let rewritten = srs().rewrite(&address(foreign), &here(), NOW).unwrap();
        let original = srs().original(rewritten.local.as_str(), NOW).unwrap().unwrap();
        assert!(
            original.to_string().starts_with("SRS0") && original.host == hop("one.example"),
            "{original}"
        );
    }
}

#[test]
fn reports_come_back_for_three_weeks() {
    let srs = srs();
    for sender in ["jane@elsewhere.example", "SRS0=abcd=xy=a.example=jane@one.example"] {
        let rewritten = srs.rewrite(&address(sender), &here(), NOW).unwrap();
        let read = |now| srs.original(rewritten.local.as_str(), now).unwrap();
        for days in [0, 1, u64::from(DAYS)] {
            assert_eq!(read(days_later(days)), Ok(address(sender)), "{days}");
        }
        for days in [u64::from(DAYS) + 1, 500, 1000] {
            assert_eq!(read(days_later(days)), Err(Invalid::Expired), "{days}");
        }
    }
}

#[test]
fn rotated_keys_still_open() {
    let keys = MailKeys::generate(&SeededRandom::new(1));
    let next = keys.with_next(&SeededRandom::new(2)).unwrap();
    let sender = address("jane@elsewhere.example");
    let before = Srs::new(keys.clone()).rewrite(&sender, &here(), NOW).unwrap();
    let after = Srs::new(next.rotated()).rewrite(&sender, &here(), NOW).unwrap();
    assert_ne!(before, after);
    for (read, written) in [(&next, &before), (&next.rotated(), &before), (&next, &after)] {
        assert_eq!(Srs::new(read.clone()).original(written.local.as_str(), NOW), Some(Ok(sender.clone())));
    }
    assert_eq!(Srs::new(keys).original(after.local.as_str(), NOW), Some(Err(Invalid::Forged)));
}

#[test]
fn a_sender_that_would_be_too_long_is_not_rewritten() {
    let sender = |bytes| address(&format!("{}@elsewhere.example", "x".repeat(bytes)));
    let fits = srs().rewrite(&sender(200), &here(), NOW).unwrap();
    let left = limits::SRS_ADDRESS_BYTES - fits.to_string().len();
    assert!(srs().rewrite(&sender(200 + left), &here(), NOW).is_some());
    assert_eq!(srs().rewrite(&sender(200 + left + 1), &here(), NOW), None);
}

proptest! {
    #[test]
    fn every_sender_comes_back_and_no_change_does(
        local in "[ -~]{1,40}",
        host in "[a-z]{1,10}(\\.[a-z]{1,10}){0,2}",
        at in any::<prop::sample::Index>(),
        other in "[a-z2-7=]",
    ) {
        let srs = srs();
        let sender = mailbox(&local, &host).unwrap();
        let rewritten = srs.rewrite(&sender, &here(), NOW).unwrap();
        let text = rewritten.local.as_str();
        prop_assert_eq!(srs.original(text, NOW), Some(Ok(sender)));
        let at = 5 + at.index(text.len() - 5);
        let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
        if !changed.eq_ignore_ascii_case(text) {
            prop_assert_eq!(srs.original(&changed, NOW), Some(Err(Invalid::Forged)));
        }
    }

    #[test]
    fn forged_addresses_lead_nowhere(local in "(SRS0|srs1|SRS1)[=+-][ -~]{0,60}") {
        prop_assert_eq!(srs().original(&local, NOW), Some(Err(Invalid::Forged)));
    }
}
