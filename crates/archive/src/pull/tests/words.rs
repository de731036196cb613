//! Keywords that a backup cannot store: reported once, and not fetched again and again.

use std::path::Path;
use std::sync::Arc;

use sealpost_account::Accounts;
use sealpost_base::{AccountId, Budget, FakeClock, Random, SeededRandom, Timestamp, limits};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{RootKey, Store};
use tokio::runtime::Handle;

use super::super::Report;
use super::pulled::{options, pulled_into};
use super::server::{Box_, Script};
use crate::backup::{Backup, Flags, FolderName, imap_backup, maildir, sealed};

const FORMATS: [&str; 3] = ["sealpost", "mbox", "maildir"];

async fn open(format: &str, root: &Path, store: &Store, key: &RootKey) -> Arc<dyn Backup> {
    match format {
        "mbox" => imap_backup::open(root).unwrap().into(),
        "maildir" => maildir::open(root).unwrap().into(),
        _ => {
            let random: Arc<dyn Random> = Arc::new(SeededRandom::new(6));
            let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
            let accounts =
                Accounts::new(store.clone(), LogKey::for_tests(), clock, random, Budget::new(64 << 20));
            let account = accounts.open(AccountId([3; 16]), key).await.unwrap();
            sealed::open(Handle::current(), account, root).unwrap().into()
        }
    }
}

/// The report of every pull, and the flags that the backup has in the end.
async fn pulls<const N: usize>(
    format: &str,
    script: &Script,
    uids: [u32; N],
    between: impl Fn(&Script),
) -> (Vec<Report>, [Flags; N]) {
    let directory = tempfile::tempdir().unwrap();
    let (store, key) = (Store::memory(), RootKey::generate(&SeededRandom::new(5)));
    let mut reports = Vec::new();
    for round in 0..4 {
        let backup = open(format, directory.path(), &store, &key).await;
        let report = pulled_into(script, backup, options()).await.unwrap();
        assert!(report.is_complete(), "{format}: {report:?}");
        reports.push(report);
        if round == 1 {
            between(script);
        }
    }
    let backup = open(format, directory.path(), &store, &key).await;
    let folder = backup.open_to_read(&FolderName::new("INBOX", Some('/'))).unwrap();
    (reports, uids.map(|uid| folder.known().flags(uid).unwrap().clone()))
}

fn numbers(reports: &[Report]) -> Vec<(u64, u64, u64)> {
    let sum = |report: &Report, of: fn(&super::super::FolderReport) -> u64| report.of.iter().map(of).sum();
    reports.iter().map(|r| (sum(r, |f| f.new), sum(r, |f| f.flags), sum(r, |f| f.unread_all))).collect()
}

/// So many keywords of this size.
fn words(count: usize, bytes: usize) -> String {
    (0..count).map(|n| format!(" {n:k>bytes$}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keywords_beyond_the_limit_are_reported_once() {
    let many = limits::FLAG_SET_KEYWORDS + 44;
    for format in FORMATS {
        let (count, bytes, fitting) = match format {
            "sealpost" => (many, 10, limits::FLAG_SET_KEYWORDS),
            _ => (900, 100, limits::ARCHIVE_RECORD_BYTES / 2 / 108),
        };
        let script = Script::start(Box_::with(3), "", &[]).await;
        script.inbox(|inbox| inbox.set_flags(1, &format!("\\Seen{}", words(count, bytes))));
        let between = |script: &Script| {
            script.inbox(|inbox| inbox.set_flags(3, &format!("\\Flagged{}", words(count, bytes))));
        };
        let (reports, [first, _, third]) = pulls(format, &script, [1, 2, 3], between).await;
        assert_eq!(numbers(&reports), [(3, 0, 1), (0, 0, 0), (0, 1, 1), (0, 0, 0)], "{format}");
        let told = &reports[0].of[0].unread[0];
        assert!(told.uid == 1 && told.reason.contains("the backup has reached its limit"), "{told:?}");
        assert_eq!((first.system, first.keywords.len()), (Flags::SEEN, fitting), "{format}");
        assert_eq!((third.system, third.keywords.len()), (Flags::FLAGGED, fitting), "{format}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_full_of_keywords_accepts_known_ones() {
    let each = 200;
    let script = Script::start(Box_::with(12), "", &[]).await;
    let word = |nth: usize| format!(" word-{nth}");
    script.inbox(|inbox| {
        for uid in 1..=11 {
            let words: String = (0..each).map(|n| word(uid as usize * each + n)).collect();
            inbox.set_flags(uid, &words);
        }
        inbox.set_flags(12, &format!("{}{}", word(each), word(1_000_000)));
    });
    let (reports, [first, eleventh, last]) = pulls("sealpost", &script, [1, 11, 12], |_| ()).await;
    assert_eq!(numbers(&reports)[0].0, 12);
    assert!(numbers(&reports)[2..].iter().all(|n| *n == (0, 0, 0)), "{:?}", numbers(&reports));
    assert_eq!((first.keywords.len(), eleventh.keywords.len()), (each, 0));
    assert_eq!(last.keywords, ["word-200".into()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_spellings_of_a_keyword_are_no_change() {
    for format in FORMATS {
        let script = Script::start(Box_::with(2), "", &[]).await;
        script.inbox(|inbox| inbox.set_flags(1, "Work"));
        script.inbox(|inbox| inbox.set_flags(2, "work \\Seen"));
        let (reports, flags) = pulls(format, &script, [1, 2], |_| ()).await;
        assert_eq!(numbers(&reports), [(2, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0)], "{format}");
        assert!(flags.iter().all(|flags| flags.keywords[0].eq_ignore_ascii_case("work")), "{format}");
    }
}
