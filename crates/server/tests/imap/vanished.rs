//! A client that was away for longer than a mailbox remembers what went (RFC 7162 §3.2.6).

use std::collections::BTreeSet;

use sealpost_base::limits;
use sealpost_session::Settings;

use crate::imap_world::{Client, TestServer};

/// Longer lines than this a client need not take (RFC 7162 §4).
const LINE_BYTES: usize = 8192;

fn number(lines: &[String], before: &str) -> u64 {
    let line = lines.iter().rev().find_map(|line| line.split_once(before)).unwrap();
    line.1.split(']').next().unwrap().parse().unwrap()
}

/// The UIDs of these responses, whose lines are short.
fn uids(lines: &[String], response: &str) -> BTreeSet<u32> {
    let mut uids = BTreeSet::new();
    for set in lines.iter().filter_map(|line| line.strip_prefix(response)) {
        assert!(set.len() + response.len() < LINE_BYTES);
        for range in set.split(',') {
            let (a, b) = range.split_once(':').unwrap_or((range, range));
            uids.extend(a.parse::<u32>().unwrap()..=b.parse().unwrap());
        }
    }
    uids
}

async fn qresync(world: &mut TestServer) -> Client {
    let mut client = world.login().await;
    client.ok("ENABLE QRESYNC").await;
    client
}

#[tokio::test]
async fn vanished_beyond_the_record_reports_all_missing_uids() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = qresync(&mut world).await;
    client.ok("APPEND INBOX {14+}\r\nSubject: x\r\n\r\n").await;
    let mut selected = client.ok("SELECT INBOX").await;
    let mut count = 1;
    while count < 2 * limits::VANISHED_RANGES + 10 {
        client.ok("UID COPY 1:* INBOX").await;
        count *= 2;
    }
    selected.extend(client.ok("STATUS INBOX (UIDVALIDITY)").await);
    let validity = number(&selected, "[UIDVALIDITY ");
    // More ranges than are remembered go at once: none is.
    let odd: BTreeSet<u32> = (1..=limits::VANISHED_RANGES as u32 + 1).map(|n| 2 * n - 1).collect();
    let set = odd.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let stored = client.ok(&format!("UID STORE {set} +FLAGS.SILENT (\\Deleted)")).await;
    assert_eq!(stored.iter().filter(|line| line.contains("MODSEQ")).count(), odd.len());
    let expunged = client.ok("EXPUNGE").await;
    assert_eq!(uids(&expunged, "* VANISHED "), odd);
    let after = number(&expunged, "[HIGHESTMODSEQ ");

    let mut away = qresync(&mut world).await;
    let known = format!("SELECT INBOX (QRESYNC ({validity} 1 1:4294967295))");
    assert_eq!(uids(&away.ok(&known).await, "* VANISHED (EARLIER) "), odd);
    // Of those it asks about.
    let known = format!("SELECT INBOX (QRESYNC ({validity} 1 5:9,100000:200000))");
    assert_eq!(uids(&away.ok(&known).await, "* VANISHED (EARLIER) "), BTreeSet::from([5, 7, 9]));
    // Number 1 is UID 2 now, number 20001 is UID 40002: what is below went before the client knew that.
    let known = format!("SELECT INBOX (QRESYNC ({validity} 1 (1:20000,20001 2,40002)))");
    let told = uids(&away.ok(&known).await, "* VANISHED (EARLIER) ");
    assert_eq!(told, odd.iter().copied().filter(|uid| *uid > 2).collect());
    let fetched = away.ok("UID FETCH 1:9 (UID) (CHANGEDSINCE 1 VANISHED)").await;
    assert_eq!(uids(&fetched, "* VANISHED (EARLIER) "), BTreeSet::from([1, 3, 5, 7, 9]));
    // A client that was there until then gets later expunges, and no others.
    client.ok("UID STORE 2 +FLAGS.SILENT (\\Deleted)").await;
    client.ok("EXPUNGE").await;
    let known = format!("SELECT INBOX (QRESYNC ({validity} {after}))");
    assert_eq!(uids(&away.ok(&known).await, "* VANISHED (EARLIER) "), BTreeSet::from([2]));
}
