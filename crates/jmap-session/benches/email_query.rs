//! How long Email/query takes, alone and with an Email/get of what a list of mail shows, in
//! accounts of several sizes: in this process, without HTTP, over a store in memory.
//!
//!     cargo bench -p sealpost-jmap-session --bench email_query -- 1000 10000 100000

#[path = "../tests/support/server.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod server;

use std::io::Write;
use std::time::Duration;

use sealpost_account::{Flags, NewMessage, SystemFlags};
use sealpost_base::{Clock, SystemClock, Timestamp};
use sealpost_jmap_session::Caller;
use serde_json::{Value, json};
use server::{NOW, TestServer, api};

/// Messages of one entry of the log while an account is filled.
const BATCH: usize = 1000;
/// Requests of each kind.
const REQUESTS: usize = 200;

/// Fills the inbox: threads of three messages, every tenth unread, a few long ones.
async fn fill(server: &TestServer, messages: usize) {
    let account = server.account().await;
    let inbox = account.state().inbox().id();
    let mut batch = Vec::new();
    for number in 0..messages {
        let words = ["lunch", "budget", "holiday", "minutes", "offer"][number % 5];
        let text = format!(
            "From: Person {} <p{}@example.org>\r\nTo: me@localhost\r\nSubject: {words} {}\r\n\
             Message-ID: <{number}@example.org>\r\nReferences: <{}@thread>\r\n\
             Date: Fri, 20 Nov 2026 10:00:00 +0000\r\n\r\nAbout the {words} of {number}.\r\n{}",
            number % 500,
            number % 500,
            number / 3,
            number / 3,
            "More of the same text, as mail has it.\r\n".repeat(number % 20)
        );
        let mut ingest = server.ctx.accounts.ingest(account.id()).await.unwrap();
        ingest.write(text.as_bytes()).await.unwrap();
        let stored = ingest.finish().await.unwrap();
        let seen = if number % 10 == 0 { SystemFlags::NONE } else { SystemFlags::SEEN };
        let received = Timestamp(NOW.0 - 60_000 * (messages - number) as i64);
        batch.push(NewMessage { stored, flags: Flags::system(seen).into(), received });
        if batch.len() == BATCH || number + 1 == messages {
            account.append(inbox, std::mem::take(&mut batch)).await.unwrap();
        }
    }
}

fn request(account: &str, query: Value, with_list: bool) -> Value {
    let mut arguments = query;
    arguments["accountId"] = json!(account);
    let mut calls = vec![json!(["Email/query", arguments, "0"])];
    if with_list {
        let ids = json!({ "resultOf": "0", "name": "Email/query", "path": "/ids" });
        let properties = [
            "id",
            "threadId",
            "mailboxIds",
            "keywords",
            "size",
            "receivedAt",
            "subject",
            "from",
            "to",
            "hasAttachment",
            "preview",
        ];
        let get = json!({ "accountId": account, "#ids": ids, "properties": properties });
        calls.push(json!(["Email/get", get, "1"]));
    }
    json!({ "using": ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"], "methodCalls": calls })
}

/// Sends the requests that `make` makes; says how long they took.
async fn measure(
    out: &mut impl Write,
    (caller, clock): (&Caller, &SystemClock),
    name: &str,
    count: usize,
    mut before: impl AsyncFnMut(usize) -> Value,
) {
    let mut took: Vec<Duration> = Vec::new();
    for number in 0..count {
        let request = before(number).await;
        let begin = clock.monotonic();
        let response = api(caller, &request).await.unwrap();
        took.push(clock.monotonic() - begin);
        let first = &response["methodResponses"][0];
        assert_eq!(first[0], "Email/query", "{first}");
    }
    took.sort_unstable();
    let ms = |at: usize| took[at.min(took.len() - 1)].as_secs_f64() * 1000.0;
    let (half, most) = (ms(count / 2), ms(count * 99 / 100));
    writeln!(out, "| {name} | {half:.2} | {most:.2} |").unwrap();
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![1000] } else { sizes };
    let clock = SystemClock::default();
    let mut out = std::io::stdout().lock();
    for size in sizes {
        let server = TestServer::new().await;
        fill(&server, size).await;
        let caller = server.caller().await;
        let account = format!("A{}", server.record.id);
        let inbox = {
            let account = server.account().await;
            let state = account.state();
            sealpost_account::object_id::mailbox_id(account.id(), state.inbox())
        };
        let newest = |more: Value| {
            let mut query = json!({
                "filter": { "inMailbox": inbox }, "sort": [{ "property": "receivedAt", "isAscending": false }],
                "limit": 50,
            });
            query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            query
        };
        writeln!(out, "{size} messages | p50 ms | p99 ms |").unwrap();
        let by = (&caller, &clock);
        let first = request(&account, newest(json!({})), true);
        measure(&mut out, by, "first request of all", 1, async |_| first.clone()).await;
        measure(&mut out, by, "query and get of the newest 50", REQUESTS, async |_| first.clone()).await;
        let threads = newest(json!({ "collapseThreads": true, "calculateTotal": true }));
        let threads = request(&account, threads, true);
        measure(&mut out, by, "the same by threads, with total", REQUESTS, async |_| threads.clone()).await;
        let alone = request(&account, newest(json!({})), false);
        measure(&mut out, by, "query alone", REQUESTS, async |_| alone.clone()).await;
        measure(&mut out, by, "query by threads and get, after a delivery", REQUESTS, async |number| {
            let message = format!("Subject: new {number}\r\nMessage-ID: <new{number}@x>\r\n\r\nx\r\n");
            server.deliver("INBOX", message.as_bytes()).await;
            threads.clone()
        })
        .await;
        measure(&mut out, by, "another filter each time (size)", 20, async |number| {
            let filter = json!({ "filter": { "inMailbox": inbox, "minSize": number } });
            request(&account, newest(filter), false)
        })
        .await;
        measure(&mut out, by, "another filter each time (unread)", 20, async |number| {
            let filter =
                json!({ "filter": { "inMailbox": inbox, "notKeyword": "$seen", "minSize": number } });
            request(&account, newest(filter), false)
        })
        .await;
        measure(&mut out, by, "another filter each time (subject)", 20, async |number| {
            let filter = json!({ "filter": { "inMailbox": inbox, "subject": format!("lunch {number}") } });
            request(&account, newest(filter), false)
        })
        .await;
        measure(&mut out, by, "another filter each time, by subject", 10, async |number| {
            let sort = json!({ "filter": { "minSize": number }, "sort": [{ "property": "subject" }] });
            request(&account, newest(sort), false)
        })
        .await;
    }
}
