//! Mailboxes that clients change: which entries and objects the changes leave.

#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;

use sealpost_jmap_session::Caller;
use serde_json::{Value, json};
use server::{TestServer, api};

async fn call(caller: &Caller, name: &str, mut arguments: Value) -> Value {
    arguments["accountId"] = json!(format!("A{}", caller.account()));
    let using = ["core", "mail"].map(|name| format!("urn:ietf:params:jmap:{name}"));
    let request = json!({ "using": using, "methodCalls": [[name, arguments, "0"]] });
    let response = api(caller, &request).await.unwrap();
    assert_eq!(response["methodResponses"][0][0], name, "{response}");
    response["methodResponses"][0][1].clone()
}

async fn id_of(caller: &Caller, name: &str) -> String {
    let found = call(caller, "Mailbox/query", json!({ "filter": { "name": name } })).await;
    found["ids"][0].as_str().unwrap().to_owned()
}

async fn sort_order(caller: &Caller, id: &str) -> Value {
    let got = call(caller, "Mailbox/get", json!({ "ids": [id], "properties": ["sortOrder"] })).await;
    got["list"][0]["sortOrder"].clone()
}

#[tokio::test]
async fn a_sort_order_survives_a_restart() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let new = json!({ "create": { "w": { "name": "Work", "sortOrder": 20 } } });
    let created = call(&caller, "Mailbox/set", new).await;
    let work = created["created"]["w"]["id"].as_str().unwrap();
    let trash = id_of(&caller, "trash").await;
    call(&caller, "Mailbox/set", json!({ "update": { (&trash): { "sortOrder": 90 } } })).await;
    let restarted = server.other_node().await;
    assert_eq!(sort_order(&restarted, work).await, 20);
    assert_eq!(sort_order(&restarted, &trash).await, 90);
}

#[tokio::test]
async fn a_mailbox_is_created_or_updated_in_one_entry() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let account = server.account().await;
    let start = account.state().position();
    let new = json!({ "create": { "w": { "name": "Work", "sortOrder": 20, "role": "important" } } });
    let work = call(&caller, "Mailbox/set", new).await["created"]["w"]["id"].as_str().unwrap().to_owned();
    account.catch_up().await.unwrap();
    assert_eq!(account.state().position(), start.next());
    let changed = json!({ "name": "Plans", "sortOrder": 3, "role": null, "isSubscribed": false });
    call(&caller, "Mailbox/set", json!({ "update": { (&work): changed } })).await;
    account.catch_up().await.unwrap();
    assert_eq!(account.state().position(), start.next().next());
    assert_eq!(sort_order(&caller, &work).await, 3);
}

/// The position in the account's own log that a state contains.
fn position(state: &Value) -> u64 {
    u64::from_str_radix(state.as_str().unwrap().split('-').next().unwrap(), 16).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_of_a_set_enclose_no_entry_of_others() {
    let server = TestServer::new().await;
    let callers = [server.caller().await, server.other_node().await];
    let trash = id_of(&callers[0], "trash").await;
    let (mut round, mut unknown) = (0, 0);
    // At least so many, and until an entry came between two of a node.
    while round < 20 || unknown == 0 {
        assert!(round < 1000, "no entry came between");
        let calls = [0, 1, 0, 1].into_iter().zip(1..).map(|(node, nth)| {
            let (caller, order) = (callers[node].clone(), 10 * round + nth);
            let change = json!({ "update": { (&trash): { "sortOrder": order } } });
            tokio::spawn(async move { call(&caller, "Mailbox/set", change).await })
        });
        for set in futures::future::join_all(calls).await {
            let set = set.unwrap();
            assert!(set["updated"].get(&trash).is_some(), "{set}");
            match &set["oldState"] {
                Value::Null => unknown += 1,
                old => assert_eq!(position(old) + 1, position(&set["newState"]), "{set}"),
            }
        }
        round += 1;
    }
}

#[tokio::test]
async fn a_destroyed_shared_mailbox_leaves_no_sort_order() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let kept = || async {
        let account = server.account().await;
        account.catch_up().await.unwrap();
        account.state().objects("sort-order/").count()
    };
    call(&caller, "Mailbox/set", json!({ "create": { "t": { "name": "Team", "sortOrder": 5 } } })).await;
    server.act("share Team").await;
    let team = id_of(&caller, "team").await;
    assert_eq!((sort_order(&caller, &team).await, kept().await), (json!(5), 1));
    let destroyed = call(&caller, "Mailbox/set", json!({ "destroy": [team] })).await;
    assert_eq!((&destroyed["destroyed"][0], kept().await), (&json!(team), 0));
}
