//! Contacts: many of them, several clients at the same time, another node, pushed changes, what a
//! refused card leaves.

#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;

use std::time::Duration;

use futures::TryStreamExt;
use sealpost_base::limits::{
    CARD_BYTES, CARD_MEDIA, CARD_MEDIA_BYTES, CARDS_ENTRY_BYTES, JMAP_FILTER_WORDS, JMAP_GET_OBJECTS,
    JMAP_SET_OBJECTS,
};
use sealpost_jmap::State;
use sealpost_jmap_session::Caller;
use serde_json::{Map, Value, json};
use server::{TestServer, api};

/// The arguments of the response to one call, which names no account.
async fn call(caller: &Caller, method: &str, mut arguments: Value) -> Value {
    arguments["accountId"] = json!(format!("A{}", caller.account()));
    let using = ["core", "mail", "contacts", "blob"].map(|name| format!("urn:ietf:params:jmap:{name}"));
    let request = json!({ "using": using, "methodCalls": [[method, arguments, "0"]] });
    let mut response = api(caller, &request).await.unwrap();
    response["methodResponses"][0][1].take()
}

/// The `n`-th card of many.
fn card(n: usize) -> Value {
    let given = ["Ada", "Björn", "Chloé", "Đorđe", "Eve"][n % 5];
    json!({ "uid": format!("u{n}"), "addressBookIds": { "K1": true }, "created": "2020-01-01T00:00:00Z",
        "updated": "2020-01-01T00:00:00Z",
        "name": { "components": [{ "kind": "given", "value": given },
                                 { "kind": "surname", "value": format!("S{:05}", n * 7919 % 10_007) }] },
        "emails": { "e": { "address": format!("{n}@example.org") } } })
}

/// Creates cards from `first` to before `end`; the response to the last call.
async fn create(caller: &Caller, first: usize, end: usize) -> Value {
    let mut last = Value::Null;
    for from in (first..end).step_by(JMAP_SET_OBJECTS) {
        let cards = (from..end.min(from + JMAP_SET_OBJECTS)).map(|n| (format!("{n:05}"), card(n)));
        let cards: Map<String, Value> = cards.collect();
        last = call(caller, "ContactCard/set", json!({ "create": cards })).await;
        assert_eq!(last["notCreated"], Value::Null);
    }
    last
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_most_cards_of_a_call_are_one_entry() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let set = create(&caller, 0, JMAP_SET_OBJECTS).await;
    assert_eq!((&set["oldState"], &set["newState"]), (&json!("0"), &json!("1")));
    let all = call(&caller, "ContactCard/get", json!({ "ids": null })).await;
    assert_eq!(all["list"].as_array().unwrap().len(), JMAP_SET_OBJECTS);
    create(&caller, JMAP_SET_OBJECTS, JMAP_SET_OBJECTS + 1).await;
    assert_eq!(call(&caller, "ContactCard/get", json!({})).await["type"], "requestTooLarge");
    let destroyed: Vec<String> = (1..=JMAP_GET_OBJECTS).map(|n| format!("C{n:x}")).collect();
    let set = call(&caller, "ContactCard/set", json!({ "destroy": destroyed })).await;
    assert_eq!((&set["oldState"], &set["newState"]), (&json!("2"), &json!("3")));
}

#[tokio::test]
async fn ten_thousand_cards_are_queried_and_followed() {
    const CARDS: usize = 10_000;
    let server = TestServer::new().await;
    let caller = server.caller().await;
    create(&caller, 0, CARDS).await;
    let sort = json!([{ "property": "name/surname", "isAscending": false }]);
    let filter = json!({ "name/given": "björn", "email": "example.org" });
    let arguments = json!({ "filter": filter, "sort": sort, "calculateTotal": true, "limit": 20 });
    let found = call(&caller, "ContactCard/query", arguments).await;
    let mut wanted: Vec<(usize, usize)> =
        (0..CARDS).filter(|n| n % 5 == 1).map(|n| (n * 7919 % 10_007, n)).collect();
    wanted.sort_by_key(|(surname, n)| (std::cmp::Reverse(*surname), *n));
    let ids = |some: &[(usize, usize)]| some.iter().map(|(_, n)| format!("C{:x}", n + 1)).collect::<Vec<_>>();
    assert_eq!(found["total"], CARDS / 5);
    assert_eq!(strings(&found["ids"]), ids(&wanted[..20]));

    // One card leaves the results, another one moves to the front.
    let (first, moved) = (format!("C{:x}", wanted[0].1 + 1), format!("C{:x}", wanted[5].1 + 1));
    let update = json!({ first.as_str(): { "emails": null },
        moved.as_str(): { "name/components": [{ "kind": "given", "value": "BJÖRN" }, { "kind": "surname", "value": "T" }] } });
    let set = call(&caller, "ContactCard/set", json!({ "update": update })).await;
    assert_eq!(set["notUpdated"], Value::Null);
    let arguments = json!({ "filter": filter, "sort": sort, "calculateTotal": true, "sinceQueryState": found["queryState"] });
    let changes = call(&caller, "ContactCard/queryChanges", arguments).await;
    let mut removed = strings(&changes["removed"]);
    removed.sort_unstable();
    let mut both = [first.as_str(), moved.as_str()];
    both.sort_unstable();
    assert_eq!(removed, both);
    assert_eq!(changes["added"], json!([{ "id": moved, "index": 0 }]));
    assert_eq!(changes["total"], CARDS / 5 - 1);
}

#[tokio::test]
async fn updates_of_several_nodes_all_count() {
    let server = TestServer::new().await;
    let (one, two) = (server.caller().await, server.other_node().await);
    create(&one, 0, 1).await;
    let update = |caller: Caller, property: &'static str| async move {
        for n in 0..10 {
            let patch = json!({ format!("example.org:{property}{n}"): n });
            let set = call(&caller, "ContactCard/set", json!({ "update": { "C1": patch } })).await;
            assert_eq!(set["notUpdated"], Value::Null, "{set}");
        }
    };
    tokio::join!(update(one, "a"), update(two.clone(), "b"));
    let found = call(&two, "ContactCard/get", json!({ "ids": ["C1"] })).await;
    let card = found["list"][0].as_object().unwrap();
    assert_eq!(card.keys().filter(|name| name.starts_with("example.org:")).count(), 20);
    assert_eq!(card["name"]["components"][0]["value"], "Ada");
}

#[tokio::test(start_paused = true)]
async fn changes_of_contacts_are_pushed() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let mut changes = caller.follow(Some(&State::new("0"))).await.unwrap();
    let mut next = async || {
        let change = tokio::time::timeout(Duration::from_secs(60), changes.next()).await.unwrap().unwrap();
        let types = change.changed.into_values().next().unwrap();
        types.into_keys().filter(|name| matches!(&**name, "AddressBook" | "ContactCard")).collect::<Vec<_>>()
    };
    call(&caller, "AddressBook/set", json!({ "create": { "a": { "name": "Work" } } })).await;
    assert_eq!(next().await, ["AddressBook"]);
    create(&caller, 0, 1).await;
    assert_eq!(next().await, ["ContactCard"]);
    server.deliver("INBOX", b"Subject: x\r\n\r\nx").await;
    assert!(next().await.is_empty());
    call(&caller, "AddressBook/set", json!({ "destroy": ["K1"], "onSuccessSetIsDefault": "K2" })).await;
    call(&caller, "AddressBook/set", json!({ "onSuccessSetIsDefault": "K2" })).await;
    call(&caller, "AddressBook/set", json!({ "destroy": ["K1"], "onDestroyRemoveContents": true })).await;
    assert_eq!(next().await, ["AddressBook", "ContactCard"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_names_the_types_it_touches_alone() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let mut changes = caller.follow(None).await.unwrap();
    let mut next = async || {
        let change = tokio::time::timeout(Duration::from_secs(60), changes.next()).await.unwrap().unwrap();
        change.changed.into_values().next().unwrap().into_keys().collect::<Vec<_>>()
    };
    create(&caller, 0, 1).await;
    assert_eq!(next().await, ["ContactCard"]);
    server.deliver("INBOX", b"Subject: x\r\n\r\nx").await;
    assert_eq!(next().await, ["Email", "EmailDelivery", "Mailbox", "Thread"]);
    server.act("flag INBOX 1 \\Seen").await;
    assert_eq!(next().await, ["Email", "Mailbox"]);
    server.act("create Work").await;
    assert_eq!(next().await, ["Mailbox", "Quota"]);
    server.act("flag INBOX 1 \\Deleted").await;
    assert_eq!(next().await, ["Email", "Mailbox", "Thread"]);
}

#[tokio::test]
async fn a_refused_card_leaves_no_medium() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    create(&caller, 0, 1).await;
    let photo = json!({ "kind": "photo", "uri": "data:image/gif;base64,R0lGODlhAQABAAAAACw=" });
    let with = |uid: &str, more: Value| {
        let mut card = card(1);
        (card["uid"], card["notes"]) = (json!(uid), more);
        card["media"] = json!({ "p": photo });
        card
    };
    let long = json!({ "n": { "note": "x".repeat(CARD_BYTES) } });
    let wrong =
        json!({ "a": with("u0", json!({})), "b": with("b", long), "c": with("c", json!({ "n": {} })) });
    let set = call(&caller, "ContactCard/set", json!({ "create": wrong })).await;
    let kinds = ["a", "b", "c"].map(|name| set["notCreated"][name]["type"].as_str().unwrap().to_owned());
    assert_eq!(kinds, ["alreadyExists", "tooLarge", "invalidProperties"]);
    let stored = async || {
        let listed = server.ctx.store.list(&format!("acct/{}/msg/", server.record.id), None);
        listed.try_collect::<Vec<_>>().await.unwrap().len()
    };
    // They are removed in the background.
    let removed = async {
        while stored().await > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), removed).await.expect("nothing is left");
    let set = call(&caller, "ContactCard/set", json!({ "create": { "d": with("d", json!({})) } })).await;
    assert!(set["created"]["d"]["media"]["p"]["blobId"].is_string());
    assert_eq!(stored().await, 1);
}

#[tokio::test]
async fn large_cards_of_a_call_are_several_entries() {
    const SIZE: usize = CARD_BYTES - 1024;
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let count = 3 * CARDS_ENTRY_BYTES / SIZE;
    let cards = (0..count).map(|n| {
        let mut card = card(n);
        card["notes"] = json!({ "n": { "note": "x".repeat(SIZE) } });
        (format!("{n:05}"), card)
    });
    let set = call(&caller, "ContactCard/set", json!({ "create": cards.collect::<Map<_, _>>() })).await;
    assert_eq!(set["created"].as_object().unwrap().len(), count);
    // The client continues at the new state without asking, as no other client wrote.
    assert_eq!((&set["oldState"], &set["newState"]), (&json!("0"), &json!("3")));
    // They are read back a few at a time.
    let all = call(&caller, "ContactCard/get", json!({ "properties": ["uid"] })).await;
    let uids = all["list"].as_array().unwrap().iter().map(|card| card["uid"].as_str().unwrap().to_owned());
    assert!(uids.eq((0..count).map(|n| format!("u{n}"))));
    let update: Map<String, Value> =
        (1..=count).map(|n| (format!("C{n:x}"), json!({ "language": "en" }))).collect();
    let set = call(&caller, "ContactCard/set", json!({ "update": update })).await;
    assert_eq!((set["updated"].as_object().unwrap().len(), &set["newState"]), (count, &json!("6")));
}

#[tokio::test]
async fn media_are_bounded_in_number_and_size() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let with = |media: Map<String, Value>| {
        let mut card = card(0);
        card["media"] = Value::Object(media);
        json!({ "create": { "a": card } })
    };
    let sound = |uri: &str| json!({ "kind": "sound", "uri": uri });
    let many = |count: usize| (0..count).map(|n| (format!("m{n}"), sound(&format!("data:,{n}")))).collect();
    let large = |bytes: u64| [("m".to_owned(), sound(&format!("data:,{}", "x".repeat(bytes as usize))))];
    for media in [many(CARD_MEDIA + 1), large(CARD_MEDIA_BYTES + 1).into_iter().collect()] {
        let set = call(&caller, "ContactCard/set", with(media)).await;
        assert_eq!(set["notCreated"]["a"]["properties"], json!(["media"]), "{set}");
    }
    let set = call(&caller, "ContactCard/set", with(many(CARD_MEDIA))).await;
    assert_eq!(set["created"]["a"]["media"].as_object().unwrap().len(), CARD_MEDIA);
    let all = json!({ "update": { "C1": { "media": Map::from_iter(large(CARD_MEDIA_BYTES)) } } });
    let set = call(&caller, "ContactCard/set", all).await;
    assert_eq!(set["notUpdated"], Value::Null);
    let id = set["updated"]["C1"]["media"]["m"]["blobId"].clone();
    let blob = call(&caller, "Blob/get", json!({ "ids": [id], "properties": ["size"] })).await;
    assert_eq!(blob["list"][0]["size"], CARD_MEDIA_BYTES);
}

#[tokio::test]
async fn a_filter_has_so_many_words() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    create(&caller, 0, 1).await;
    let query = async |words: usize| {
        let filter = json!({ "operator": "AND", "conditions": [{ "text": "ada " }, { "name": "ada ".repeat(words - 1) }] });
        call(&caller, "ContactCard/query", json!({ "filter": filter })).await
    };
    assert_eq!(query(JMAP_FILTER_WORDS).await["ids"], json!(["C1"]));
    assert_eq!(query(JMAP_FILTER_WORDS + 1).await["type"], "unsupportedFilter");
}
