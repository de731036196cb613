//! Limits of queries, and the state they leave.

#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;

use sealpost_account::event::Message;
use sealpost_account::{Event, Flags, ThreadId};
use sealpost_base::limits::{
    JMAP_FILTER_CONDITIONS, JMAP_FILTER_DEPTH, JMAP_FILTER_WORDS, JMAP_GET_OBJECTS, JMAP_QUERY_IDS,
    JMAP_SNIPPET_TEXT_BYTES, QUERY_CONTENTS, QUERY_KEYWORDS,
};
use sealpost_base::{ObjectId, Timestamp};
use sealpost_vault::message::{Layout, MessageKey};
use serde_json::{Value, json};
use server::{NOW, TestServer, api};

/// The response to one call.
async fn call(server: &TestServer, method: &str, mut arguments: Value) -> Value {
    arguments["accountId"] = json!(format!("A{}", server.record.id));
    let using = ["core", "mail", "quota"].map(|name| format!("urn:ietf:params:jmap:{name}"));
    let request = json!({ "using": using, "methodCalls": [[method, arguments, "0"]] });
    let response = api(&server.caller().await, &request).await.unwrap();
    response["methodResponses"][0][1].clone()
}

/// Appends messages to the log that the store does not have.
async fn append(server: &TestServer, count: usize) {
    let account = server.account().await;
    let mailbox = account.state().inbox().id();
    let layout = Layout { raw_bytes: 1, sealed_raw: 1, sealed_text: 0, sealed_structure: 0, sealed_index: 0 };
    let random = server.ctx.random.clone();
    let message = |number: usize| Message {
        object: ObjectId::random(&*random),
        key: MessageKey::generate(&*random),
        layout,
        received: Timestamp(NOW.0 + number as i64),
        origin: None,
        thread: ThreadId::parse(&format!("T{:016x}", number / 2)).unwrap(),
        links: Vec::new(),
    };
    let event = |number| Event::Appended { mailbox, message: message(number), flags: Flags::default() };
    account.commit(|_| Ok(((0..count).map(event).collect(), ()))).await.unwrap();
}

#[tokio::test]
async fn one_response_has_so_many_ids() {
    let server = TestServer::new().await;
    append(&server, JMAP_QUERY_IDS).await;
    let all = json!({ "calculateTotal": true });
    let response = call(&server, "Email/query", all.clone()).await;
    assert_eq!(response["ids"].as_array().unwrap().len(), JMAP_QUERY_IDS);
    assert_eq!((&response["total"], response.get("limit")), (&json!(JMAP_QUERY_IDS), None));
    append(&server, 1).await;
    let response = call(&server, "Email/query", all).await;
    assert_eq!(response["ids"].as_array().unwrap().len(), JMAP_QUERY_IDS);
    assert_eq!(
        (&response["total"], &response["limit"]),
        (&json!(JMAP_QUERY_IDS + 1), &json!(JMAP_QUERY_IDS))
    );
    // The client continues after the last one.
    let rest = call(&server, "Email/query", json!({ "position": JMAP_QUERY_IDS })).await;
    assert_eq!(rest["ids"].as_array().unwrap().len(), 1);
    // A limit that the client requests is not reported as the server's.
    let few = call(&server, "Email/query", json!({ "limit": 3, "collapseThreads": true })).await;
    assert_eq!((few["ids"].as_array().unwrap().len(), few.get("limit")), (3, None));
    assert_eq!(server.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn a_filter_that_asks_for_too_much_is_not_supported() {
    let server = TestServer::new().await;
    append(&server, 1).await;
    let any = |conditions: Vec<Value>| json!({ "filter": { "operator": "OR", "conditions": conditions } });
    let refused = async |arguments: Value| {
        let response = call(&server, "Email/query", arguments).await;
        response["type"] == "unsupportedFilter"
    };
    let words = |count: usize| json!({ "filter": { "body": "a ".repeat(count) } });
    assert!(refused(words(JMAP_FILTER_WORDS + 1)).await);
    let keywords = |count: usize| any((0..count).map(|n| json!({ "hasKeyword": format!("k{n}") })).collect());
    assert!(!refused(keywords(QUERY_KEYWORDS)).await);
    assert!(refused(keywords(QUERY_KEYWORDS + 1)).await);
    let contents = |count: usize| any((0..count).map(|n| json!({ "body": "x", "minSize": n })).collect());
    assert!(refused(contents(QUERY_CONTENTS + 1)).await);
    let sizes = |count: usize| any((0..count).map(|n| json!({ "minSize": n })).collect());
    assert!(!refused(sizes(JMAP_FILTER_CONDITIONS - 1)).await);
    assert!(refused(sizes(JMAP_FILTER_CONDITIONS)).await);
    let mut deep = json!({ "minSize": 1 });
    for _ in 0..JMAP_FILTER_DEPTH {
        deep = json!({ "operator": "AND", "conditions": [deep] });
    }
    assert!(refused(json!({ "filter": deep })).await);
    assert_eq!(server.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn snippets_are_made_of_the_first_part_of_a_text() {
    let server = TestServer::new().await;
    let filling = "filling ".repeat(JMAP_SNIPPET_TEXT_BYTES / 8 - 2);
    for text in [format!("{filling}needle"), format!("{filling}and more of it needle")] {
        server.deliver("INBOX", format!("Subject: x\r\n\r\n{text}\r\n").as_bytes()).await;
    }
    let filter = json!({ "body": "needle" });
    let found = call(&server, "Email/query", json!({ "filter": filter })).await;
    assert_eq!(found["ids"].as_array().unwrap().len(), 2);
    let arguments = json!({ "filter": filter, "emailIds": found["ids"] });
    let snippets = call(&server, "SearchSnippet/get", arguments).await;
    assert_eq!(snippets["list"][0]["preview"], Value::Null);
    assert!(snippets["list"][1]["preview"].as_str().unwrap().contains("<mark>needle</mark>"));
    let many = vec!["M0"; JMAP_GET_OBJECTS + 1];
    let refused = call(&server, "SearchSnippet/get", json!({ "filter": filter, "emailIds": many })).await;
    assert_eq!(refused["type"], "requestTooLarge");
    assert_eq!(server.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn quotas_of_types_that_are_not_used_are_not_there() {
    let server = TestServer::new().await;
    let using = ["core", "quota"].map(|name| format!("urn:ietf:params:jmap:{name}"));
    let arguments = json!({ "accountId": format!("A{}", server.record.id), "ids": null });
    let request = json!({ "using": using, "methodCalls": [["Quota/get", arguments, "0"]] });
    let response = api(&server.caller().await, &request).await.unwrap();
    assert_eq!(response["methodResponses"][0][1]["list"], json!([]));
}
