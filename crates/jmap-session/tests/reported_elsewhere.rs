//! What users of other JMAP servers reported as broken, and no other test has: each must work here.

#[path = "support/followers.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod followers;
#[path = "support/imap.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod imap;
#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;

use std::time::Duration;

use bytes::Bytes;
use followers::{call, read_all};
use futures::{StreamExt, stream};
use sealpost_jmap_session::Caller;
use serde_json::{Map, Value, json};
use server::TestServer;

fn account(caller: &Caller) -> String {
    format!("A{}", caller.account())
}

async fn found(caller: &Caller, filter: Value) -> usize {
    let arguments = json!({ "filter": filter, "calculateTotal": true });
    let found = call(caller, &account(caller), "Email/query", arguments).await;
    let ids = found["ids"].as_array().unwrap_or_else(|| panic!("{found}"));
    assert_eq!(found["total"], json!(ids.len()), "RFC 8620 §5.5: no ids are left out unasked");
    ids.len()
}

#[tokio::test]
async fn common_words_and_parts_of_words_are_found() {
    let server = TestServer::new().await;
    let message =
        b"Subject: Reports from there\r\nFrom: The Who <who@example.org>\r\n\r\nNot there, and to be.\r\n";
    server.deliver("INBOX", message).await;
    server.deliver("INBOX", b"Subject: other\r\n\r\nnothing\r\n").await;
    let caller = server.caller().await;
    for filter in [
        json!({ "text": "there" }),
        json!({ "body": "there" }),
        json!({ "body": "to be" }),
        json!({ "subject": "from" }),
        json!({ "subject": "eports" }),
        json!({ "subject": "reports from" }),
        json!({ "from": "the who" }),
    ] {
        assert_eq!(found(&caller, filter.clone()).await, 1, "{filter}");
    }
    assert_eq!(found(&caller, json!({ "subject": "reports nowhere" })).await, 0);
}

#[tokio::test]
async fn more_than_fifty_results_come_without_a_limit() {
    let server = TestServer::new().await;
    for n in 0..60 {
        server.deliver("INBOX", format!("Subject: {n}\r\n\r\nx\r\n").as_bytes()).await;
    }
    let caller = server.caller().await;
    assert_eq!(found(&caller, json!({})).await, 60);
    assert_eq!(found(&caller, json!({ "body": "x" })).await, 60);
}

#[tokio::test]
async fn a_burst_of_large_messages_is_visible_at_once() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let mut imap = imap::Client::select(&server, "INBOX").await;
    let text = "many words in a line that is long enough\r\n".repeat(8000);
    let messages: Vec<String> = (0..12).map(|n| format!("Subject: {n}\r\n\r\n{text}")).collect();
    futures::future::join_all(messages.iter().map(|text| server.deliver("INBOX", text.as_bytes()))).await;
    assert_eq!(found(&caller, json!({})).await, 12);
    assert_eq!(found(&caller, json!({ "body": "long enough" })).await, 12);
    assert_eq!(imap.emails().await.len(), 12);
    assert_eq!(read_all(&caller, &account(&caller), "Thread").await.1.len(), 12);
}

#[tokio::test]
async fn a_new_mailbox_is_subscribed_for_imap() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let create =
        json!({ "create": { "a": { "name": "Made" }, "b": { "name": "Not", "isSubscribed": false } } });
    let set = call(&caller, &account(&caller), "Mailbox/set", create).await;
    assert!(set["created"]["a"].is_object() && set["created"]["b"].is_object(), "{set}");
    let mut imap = imap::Client::login(&server).await;
    let listed = imap.command("LIST (SUBSCRIBED) \"\" *").await.concat();
    assert!(listed.contains("Made") && !listed.contains("Not"), "{listed}");
}

#[tokio::test]
async fn a_keyword_may_be_a_number_in_a_patch() {
    let server = TestServer::new().await;
    server.deliver("INBOX", b"Subject: x\r\n\r\nx\r\n").await;
    let caller = server.caller().await;
    let account = account(&caller);
    let (id, _) = read_all(&caller, &account, "Email").await.1.pop_first().unwrap();
    for (value, after) in [(json!(true), json!({ "0": true })), (json!(null), json!({}))] {
        let patch: Map<String, Value> = [(id.clone(), json!({ "keywords/0": value }))].into_iter().collect();
        let set = call(&caller, &account, "Email/set", json!({ "update": patch })).await;
        assert_eq!(set["updated"], json!({ &id: null }), "{set}");
        assert_eq!(read_all(&caller, &account, "Email").await.1[&id]["keywords"], after);
    }
}

#[tokio::test(start_paused = true)]
async fn an_import_is_pushed_as_new_mail() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let account = account(&caller);
    let mut changes = caller.follow(None).await.unwrap();
    let body = stream::iter([Ok(Bytes::from_static(b"Subject: up\r\n\r\nx\r\n"))]).boxed();
    let uploaded = caller.upload(&account, "message/rfc822", body).await.unwrap();
    let inbox = call(&caller, &account, "Mailbox/query", json!({ "filter": { "role": "inbox" } })).await;
    let inbox = inbox["ids"][0].as_str().unwrap().to_owned();
    let email = json!({ "blobId": uploaded.blob_id, "mailboxIds": { &inbox: true } });
    let imported = call(&caller, &account, "Email/import", json!({ "emails": { "e": email } })).await;
    assert!(imported["created"]["e"].is_object(), "{imported}");
    let pushed = tokio::time::timeout(Duration::from_secs(60), changes.next()).await.unwrap().unwrap();
    let pushed = serde_json::to_value(pushed).unwrap();
    let types: Vec<&String> = pushed["changed"][&account].as_object().unwrap().keys().collect();
    assert_eq!(types, ["Email", "EmailDelivery", "Mailbox", "Thread"]);
    assert_eq!(pushed["changed"][&account]["Email"], imported["newState"]);
}
