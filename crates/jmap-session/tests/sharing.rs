//! The accounts of other owners: what they share with a caller, by the rights that they give.

#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;

use sealpost_directory::AccountName;
use sealpost_jmap_session::Caller;
use sealpost_vault::Hash;
use serde_json::{Value, json};

use crate::server::{TestServer, api};

const CORE: &str = "urn:ietf:params:jmap:core";
const MAIL: &str = "urn:ietf:params:jmap:mail";
const BLOB: &str = "urn:ietf:params:jmap:blob";
const QUOTA: &str = "urn:ietf:params:jmap:quota";
const PRINCIPALS: &str = "urn:ietf:params:jmap:principals";

/// An owner and a reader on one server.
struct Pair {
    owner: TestServer,
    reader: TestServer,
    caller: Caller,
}

impl Pair {
    async fn new() -> Self {
        let owner = TestServer::new().await;
        let reader = owner.neighbour("you@localhost").await;
        owner.act("create Team").await;
        let caller = reader.login_by_password().await;
        Pair { owner, reader, caller }
    }

    async fn deliver(&self, mailbox: &str, subject: &str) {
        let text = format!("Message-ID: <{subject}@x>\r\nSubject: {subject}\r\n\r\ntext\r\n");
        self.owner.deliver(mailbox, text.as_bytes()).await;
    }

    fn shared(&self) -> String {
        format!("A{}", self.owner.record.id)
    }

    fn own(&self) -> String {
        format!("A{}", self.reader.record.id)
    }

    async fn calls(&self, calls: Value) -> Vec<Value> {
        let request = json!({ "using": [CORE, MAIL, BLOB, QUOTA, PRINCIPALS], "methodCalls": calls });
        let response = api(&self.caller, &request).await.unwrap();
        response["methodResponses"].as_array().unwrap().clone()
    }

    /// The arguments of the response to one call.
    async fn call(&self, name: &str, arguments: Value) -> Value {
        self.calls(json!([[name, arguments, "0"]])).await.remove(0)[1].take()
    }

    /// The same in the owner's account.
    async fn there(&self, name: &str, mut arguments: Value) -> Value {
        arguments["accountId"] = json!(self.shared());
        self.call(name, arguments).await
    }

    async fn mailboxes(&self) -> Vec<Value> {
        self.there("Mailbox/get", json!({ "ids": null })).await["list"].as_array().unwrap().clone()
    }

    async fn session_accounts(&self) -> Vec<(String, bool, bool)> {
        let session = self.caller.session("http://localhost").await.unwrap();
        let accounts = session.accounts.into_values();
        accounts.map(|account| (account.name, account.is_personal, account.is_read_only)).collect()
    }
}

fn ids(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_shared_mailbox_makes_an_account() {
    let pair = Pair::new().await;
    pair.deliver("Team", "plan").await;
    pair.deliver("INBOX", "secret").await;
    assert_eq!(pair.session_accounts().await, [("you@localhost".to_owned(), true, false)]);
    let missing = pair.there("Mailbox/get", json!({})).await;
    assert_eq!(missing["type"], "accountNotFound");
    pair.owner.grant("Team", &pair.reader, "lr").await;
    // RFC 9670 §1.4: in the Session object once the user has subscribed to something there.
    assert_eq!(pair.session_accounts().await.len(), 1);
    let team = pair.mailboxes().await[0]["id"].as_str().unwrap().to_owned();
    let subscribe = json!({ "update": { team.clone(): { "isSubscribed": true } } });
    assert_eq!(pair.there("Mailbox/set", subscribe).await["updated"], json!({ team: null }));
    let mut accounts = pair.session_accounts().await;
    accounts.sort();
    assert_eq!(
        accounts,
        [("me@localhost".to_owned(), false, true), ("you@localhost".to_owned(), true, false)]
    );
    let list = pair.mailboxes().await;
    assert_eq!(list.len(), 1);
    assert_eq!(
        (&list[0]["name"], &list[0]["parentId"], &list[0]["totalEmails"]),
        (&json!("Team"), &json!(null), &json!(1))
    );
    assert_eq!(list[0]["myRights"]["mayReadItems"], true);
    assert_eq!(list[0]["myRights"]["mayAddItems"], false);
    let found = pair.there("Email/query", json!({ "calculateTotal": true })).await;
    assert_eq!(found["total"], 1);
    let got =
        pair.there("Email/get", json!({ "ids": found["ids"], "properties": ["subject", "threadId"] })).await;
    assert_eq!(got["list"][0]["subject"], "plan");
    // Nothing of it is in the own account.
    let own = pair.call("Email/query", json!({ "accountId": pair.own() })).await;
    assert_eq!(own["ids"], json!([]));
    let own = pair.call("Email/get", json!({ "accountId": pair.own(), "ids": found["ids"] })).await;
    assert_eq!(own["notFound"], found["ids"]);
    // Changes need rights that are not there.
    let set = pair.there("Email/set", json!({ "destroy": found["ids"] })).await;
    assert_eq!(set["type"], "accountReadOnly");
}

#[tokio::test]
async fn unreadable_mailboxes_appear_in_no_response() {
    let pair = Pair::new().await;
    pair.owner.act("create Hidden").await;
    pair.owner.act("create Listed").await;
    for mailbox in ["Team", "Hidden", "Listed"] {
        pair.deliver(mailbox, mailbox).await;
        pair.owner.grant(mailbox, &pair.reader, "lrswite").await;
    }
    let all = pair.there("Email/query", json!({})).await;
    let all_ids = ids(&all["ids"]);
    assert_eq!(all_ids.len(), 3);
    let got = pair
        .there("Email/get", json!({ "ids": all_ids, "properties": ["blobId", "threadId", "subject"] }))
        .await;
    let email = |subject: &str| {
        let list = got["list"].as_array().unwrap();
        list.iter().find(|email| email["subject"] == subject).unwrap().clone()
    };
    pair.owner.grant("Hidden", &pair.reader, "rswite").await;
    pair.owner.grant("Listed", &pair.reader, "lswite").await;
    let names: Vec<Value> = pair.mailboxes().await.iter().map(|mailbox| mailbox["name"].clone()).collect();
    assert_eq!(names, ["Listed", "Team"]);
    let listed = &pair.mailboxes().await[0];
    assert_eq!((&listed["totalEmails"], &listed["myRights"]["mayReadItems"]), (&json!(0), &json!(false)));
    assert_eq!(ids(&pair.there("Email/query", json!({})).await["ids"]).len(), 1);
    for subject in ["Hidden", "Listed"] {
        let email = email(subject);
        let get = pair.there("Email/get", json!({ "ids": [email["id"]] })).await;
        assert_eq!(get["notFound"], json!([email["id"]]), "{subject}");
        let get = pair.there("Thread/get", json!({ "ids": [email["threadId"]] })).await;
        assert_eq!(get["notFound"], json!([email["threadId"]]), "{subject}");
        let get = pair.there("Blob/get", json!({ "ids": [email["blobId"]] })).await;
        assert_eq!(get["notFound"], json!([email["blobId"]]), "{subject}");
        let set = pair.there("Email/set", json!({ "destroy": [email["id"]] })).await;
        assert_eq!(set["notDestroyed"][email["id"].as_str().unwrap()]["type"], "notFound", "{subject}");
    }
    let changes = pair.there("Email/changes", json!({ "sinceState": all["queryState"] })).await;
    assert_eq!(changes["type"], "cannotCalculateChanges");
    // What happens in mailboxes that may not be read does not change a state.
    let state = pair.there("Email/get", json!({ "ids": [] })).await["state"].clone();
    for mailbox in ["Hidden", "Listed"] {
        pair.owner.act(&format!("see-shared {mailbox}")).await;
    }
    assert_eq!(pair.there("Email/get", json!({ "ids": [] })).await["state"], state);
    pair.owner.act("see-shared Team").await;
    assert_ne!(pair.there("Email/get", json!({ "ids": [] })).await["state"], state);
}

#[tokio::test]
async fn texts_are_found_in_all_mailboxes_of_an_owner() {
    let pair = Pair::new().await;
    pair.owner.act("create Plans").await;
    for mailbox in ["Team", "Plans"] {
        pair.deliver(mailbox, mailbox).await;
        pair.owner.grant(mailbox, &pair.reader, "lr").await;
    }
    let found = async |filter: Value, sort: &str| {
        let query = json!({ "filter": filter, "sort": [{ "property": sort }] });
        pair.there("Email/query", query).await["ids"].as_array().unwrap().len()
    };
    assert_eq!(found(json!({ "body": "text" }), "subject").await, 2);
    assert_eq!(found(json!({ "subject": "plans" }), "receivedAt").await, 1);
    assert_eq!(found(json!({ "hasAttachment": false }), "from").await, 2);
    // An account of which nothing can be read has no emails.
    for mailbox in ["Team", "Plans"] {
        pair.owner.grant(mailbox, &pair.reader, "l").await;
    }
    assert_eq!(found(json!({ "body": "text" }), "subject").await, 0);
}

#[tokio::test]
async fn each_change_needs_its_right() {
    let pair = Pair::new().await;
    pair.deliver("Team", "plan").await;
    pair.owner.grant("Team", &pair.reader, "lrs").await;
    let id = ids(&pair.there("Email/query", json!({})).await["ids"]).remove(0);
    let seen = json!({ "update": { id.clone(): { "keywords/$seen": true } } });
    let flag = json!({ "update": { id.clone(): { "keywords/$flagged": true } } });
    let destroy = json!({ "destroy": [id] });
    let set = pair.there("Email/set", seen.clone()).await;
    assert_eq!(set["updated"], json!({ id.clone(): null }));
    assert_ne!(set["oldState"], json!(null));
    let set = pair.there("Email/set", flag.clone()).await;
    assert_eq!(set["notUpdated"][&id]["type"], "forbidden");
    let set = pair.there("Email/set", destroy.clone()).await;
    assert_eq!(set["notDestroyed"][&id]["type"], "forbidden");
    pair.owner.grant("Team", &pair.reader, "lrwte").await;
    let set = pair.there("Email/set", json!({ "update": { id.clone(): { "keywords/$seen": null } } })).await;
    assert_eq!(set["notUpdated"][&id]["type"], "forbidden");
    assert_eq!(pair.there("Email/set", flag).await["updated"], json!({ id.clone(): null }));
    assert_eq!(pair.there("Email/set", destroy).await["destroyed"], json!([id]));
}

#[tokio::test]
async fn changes_of_a_shared_account_are_exact() {
    let pair = Pair::new().await;
    pair.deliver("Team", "one").await;
    pair.owner.grant("Team", &pair.reader, "lrsk").await;
    let found = pair.there("Email/query", json!({})).await;
    let before = pair.there("Mailbox/get", json!({})).await;
    let (state, team) = (before["state"].clone(), before["list"][0]["id"].clone());
    assert_eq!(found["queryState"], state);
    // Others change nothing here.
    pair.deliver("INBOX", "elsewhere").await;
    assert_eq!(pair.there("Mailbox/get", json!({})).await["state"], state);
    pair.owner.act("see-shared Team").await;
    let changes = pair.there("Email/changes", json!({ "sinceState": state })).await;
    assert_eq!((&changes["updated"], &changes["created"]), (&found["ids"], &json!([])));
    let changes = pair.there("Mailbox/changes", json!({ "sinceState": state })).await;
    assert_eq!(changes["updated"], json!([team]));
    assert!(changes["updatedProperties"].is_array());
    let changes = pair.there("Email/queryChanges", json!({ "sinceQueryState": state })).await;
    assert_eq!(changes["removed"], json!([]), "{changes}");
    // Another right is another mailbox list.
    let state = pair.there("Mailbox/get", json!({})).await["state"].clone();
    pair.owner.grant("Team", &pair.reader, "lrs").await;
    let changes = pair.there("Mailbox/changes", json!({ "sinceState": state })).await;
    assert_eq!(changes["type"], "cannotCalculateChanges");
    let changes = pair.there("Email/changes", json!({ "sinceState": state })).await;
    assert_eq!(changes["updated"], json!([]));
    // States of one account are none of another.
    let changes = pair.call("Email/changes", json!({ "accountId": pair.own(), "sinceState": state })).await;
    assert_eq!(changes["type"], "cannotCalculateChanges");
}

#[tokio::test]
async fn emails_are_copied_between_accounts() {
    let pair = Pair::new().await;
    pair.deliver("Team", "plan").await;
    pair.owner.grant("Team", &pair.reader, "lrswite").await;
    let id = ids(&pair.there("Email/query", json!({})).await["ids"]).remove(0);
    let (own, shared) = (pair.own(), pair.shared());
    let inbox = pair.call("Mailbox/query", json!({ "accountId": own, "filter": { "role": "inbox" } })).await;
    let inbox = inbox["ids"][0].as_str().unwrap().to_owned();
    let copy = json!({ "fromAccountId": shared, "accountId": own, "create": { "c": {
        "id": id, "mailboxIds": { inbox.clone(): true }, "keywords": { "$flagged": true },
        "receivedAt": "2020-01-02T03:04:05Z" } } });
    let copied = pair.call("Email/copy", copy.clone()).await;
    assert_eq!(copied["created"]["c"]["id"], id, "{copied}");
    let again = pair.call("Email/copy", copy).await;
    assert_eq!(again["notCreated"]["c"]["type"], "alreadyExists");
    assert_eq!(again["notCreated"]["c"]["existingId"], id);
    let properties = json!(["subject", "keywords", "receivedAt", "mailboxIds"]);
    let got =
        pair.call("Email/get", json!({ "accountId": own, "ids": [id], "properties": properties })).await;
    let email = &got["list"][0];
    assert_eq!((&email["subject"], &email["keywords"]), (&json!("plan"), &json!({ "$flagged": true })));
    assert_eq!(email["receivedAt"], "2020-01-02T03:04:05Z");
    // Back again, and gone where it was.
    let team = pair.mailboxes().await[0]["id"].as_str().unwrap().to_owned();
    pair.there("Email/set", json!({ "destroy": [id] })).await;
    let back = json!([["Email/copy", { "fromAccountId": own, "accountId": shared, "create": {
        "c": { "id": id, "mailboxIds": { team.clone(): true } },
        "d": { "id": "M00", "mailboxIds": { team: true } } }, "onSuccessDestroyOriginal": true }, "0"]]);
    let responses = pair.calls(back).await;
    assert_eq!(responses[0][1]["created"]["c"]["id"], id, "{responses:?}");
    assert_eq!(responses[0][1]["notCreated"]["d"]["type"], "notFound");
    assert_eq!((&responses[1][0], &responses[1][1]["destroyed"]), (&json!("Email/set"), &json!([id])));
    assert_eq!(pair.there("Email/query", json!({})).await["ids"], json!([id]));
    let own = pair.call("Email/query", json!({ "accountId": own })).await;
    assert_eq!(own["ids"], json!([]));
}

#[tokio::test]
async fn blobs_are_copied_between_accounts() {
    let pair = Pair::new().await;
    pair.deliver("Team", "plan").await;
    pair.owner.grant("Team", &pair.reader, "lri").await;
    let (own, shared) = (pair.own(), pair.shared());
    let uploaded = pair
        .call(
            "Blob/upload",
            json!({ "accountId": own, "create": {
        "b": { "data": [{ "data:asText": "Subject: hello\r\n\r\nhi" }] } } }),
        )
        .await;
    let upload = uploaded["created"]["b"]["id"].as_str().unwrap().to_owned();
    let get = pair.there("Blob/get", json!({ "ids": [upload] })).await;
    assert_eq!(get["notFound"], json!([upload]));
    let copied = pair
        .call("Blob/copy", json!({ "fromAccountId": own, "accountId": shared, "blobIds": [upload, "Bx"] }))
        .await;
    let there = copied["copied"][&upload].as_str().unwrap().to_owned();
    assert_eq!(copied["notCopied"]["Bx"]["type"], "notFound");
    let get = pair.there("Blob/get", json!({ "ids": [there] })).await;
    assert_eq!(get["list"][0]["data:asText"], "Subject: hello\r\n\r\nhi");
    let team = pair.mailboxes().await[0]["id"].as_str().unwrap().to_owned();
    let import = json!({ "emails": { "i": { "blobId": there, "mailboxIds": { team: true } } } });
    assert!(pair.there("Email/import", import).await["created"]["i"]["id"].is_string());
    // A message of the owner, into the own account.
    let id =
        ids(&pair.there("Email/query", json!({ "filter": { "subject": "plan" } })).await["ids"]).remove(0);
    let got = pair.there("Email/get", json!({ "ids": [id], "properties": ["blobId"] })).await;
    let blob = got["list"][0]["blobId"].as_str().unwrap().to_owned();
    let copied =
        pair.call("Blob/copy", json!({ "fromAccountId": shared, "accountId": own, "blobIds": [blob] })).await;
    let here = copied["copied"][&blob].clone();
    let get = pair.call("Blob/get", json!({ "accountId": own, "ids": [here, blob] })).await;
    assert_eq!(get["notFound"], json!([blob]));
    assert!(get["list"][0]["data:asText"].as_str().unwrap().contains("Subject: plan"));
}

#[tokio::test]
async fn mailboxes_of_other_owners_change_by_their_rights() {
    let pair = Pair::new().await;
    pair.owner.grant("Team", &pair.reader, "lrk").await;
    let team = pair.mailboxes().await[0]["id"].as_str().unwrap().to_owned();
    let create = json!({ "create": { "a": { "name": "Sub", "parentId": team }, "b": { "name": "Top" } } });
    let set = pair.there("Mailbox/set", create).await;
    assert_eq!(set["notCreated"]["b"]["type"], "forbidden");
    let sub = set["created"]["a"]["id"].as_str().unwrap_or_else(|| panic!("{set}")).to_owned();
    let list = pair.mailboxes().await;
    assert_eq!((list.len(), &list[1]["name"], &list[1]["parentId"]), (2, &json!("Sub"), &json!(team)));
    let set = pair
        .there(
            "Mailbox/set",
            json!({ "update": {
        team.clone(): { "isSubscribed": true, "sortOrder": 5 }, sub.clone(): { "name": "Other" } },
        "destroy": [sub] }),
        )
        .await;
    assert_eq!(set["updated"], json!({ team.clone(): null }), "{set}");
    assert_eq!(set["notUpdated"][&sub]["type"], "willDestroy");
    assert_eq!(set["notDestroyed"][&sub]["type"], "forbidden");
    let set = pair.there("Mailbox/set", json!({ "update": { sub.clone(): { "name": "Other" } } })).await;
    assert_eq!(set["notUpdated"][&sub]["type"], "forbidden");
    let team_now = &pair.mailboxes().await[0];
    assert_eq!((&team_now["isSubscribed"], &team_now["sortOrder"]), (&json!(true), &json!(5)));
    pair.owner.grant("Team/Sub", &pair.reader, "lrx").await;
    let set = pair.there("Mailbox/set", json!({ "destroy": [sub] })).await;
    assert_eq!(set["destroyed"], json!([sub]));
    assert_eq!(pair.mailboxes().await.len(), 1);
}

#[tokio::test]
async fn principals_are_of_the_domain_and_of_shares() {
    let pair = Pair::new().await;
    let stranger = pair.owner.neighbour("stranger@elsewhere.example").await;
    let partner = pair.owner.neighbour("partner@elsewhere.example").await;
    let all = |value: &Value| -> Vec<String> {
        let list = value["list"].as_array().unwrap().iter();
        list.map(|principal| principal["name"].as_str().unwrap().to_owned()).collect()
    };
    let get = json!({ "accountId": pair.own(), "ids": null });
    let before = pair.call("Principal/get", get.clone()).await;
    assert_eq!(all(&before), ["me@localhost", "you@localhost"]);
    assert_eq!(before["list"][0]["accounts"], json!(null));
    assert_eq!(before["list"][1]["accounts"][pair.own()]["isPersonal"], true);
    partner.act("create Plans").await;
    partner.grant("Plans", &pair.reader, "lr").await;
    pair.owner.grant("Team", &pair.reader, "lr").await;
    let after = pair.call("Principal/get", get).await;
    assert_eq!(all(&after), ["me@localhost", "partner@elsewhere.example", "you@localhost"]);
    // Not subscribed, and there all the same.
    assert_eq!(after["list"][0]["accounts"][pair.shared()]["isReadOnly"], true);
    let changes = json!({ "accountId": pair.own(), "sinceState": before["state"] });
    assert_eq!(pair.call("Principal/changes", changes).await["type"], "cannotCalculateChanges");
    let changes = json!({ "accountId": pair.own(), "sinceState": after["state"] });
    assert_eq!(pair.call("Principal/changes", changes).await["newState"], after["state"]);
    // By an id that is guessed nothing more is found.
    let hash = Hash::of(format!("sealpost principal v1 {}", stranger.record.name).as_bytes()).to_string();
    let stranger = format!("R{}", &hash[..32]);
    let get = pair.call("Principal/get", json!({ "accountId": pair.own(), "ids": [stranger] })).await;
    assert_eq!(get["notFound"], json!([stranger]));
    for (filter, found) in [
        (json!({ "name": "PARTNER" }), vec![&after["list"][1]["id"]]),
        (json!({ "accountIds": [pair.shared()] }), vec![&after["list"][0]["id"]]),
        (json!({ "text": "stranger" }), vec![]),
        (json!({ "type": "group" }), vec![]),
    ] {
        let query = json!({ "accountId": pair.own(), "filter": filter });
        let query = pair.call("Principal/query", query).await;
        assert_eq!(query["ids"], json!(found), "{filter}");
    }
    let sorted = json!({ "accountId": pair.own(), "sort": [{ "property": "name", "isAscending": false }] });
    let ids = pair.call("Principal/query", sorted).await["ids"].clone();
    assert_eq!(ids[0], after["list"][2]["id"]);
    let me = after["list"][2]["id"].as_str().unwrap().to_owned();
    let set = json!({ "accountId": pair.own(), "create": { "p": {} }, "update": { me.clone(): { "name": "x" } },
        "destroy": ["Rx"] });
    let set = pair.call("Principal/set", set).await;
    assert_eq!(set["notCreated"]["p"]["type"], "forbidden");
    assert_eq!(set["notUpdated"][&me]["type"], "forbidden");
    assert_eq!(set["notDestroyed"]["Rx"]["type"], "forbidden");
    // A name that rights were given to is shown, whether it has an account or not.
    pair.reader.act("create Mine").await;
    for name in ["nobody@elsewhere.example", "stranger@elsewhere.example"] {
        pair.reader.grant_to("Mine", &AccountName::parse(name).unwrap(), "lr").await;
    }
    let get = json!({ "accountId": pair.own(), "ids": null, "properties": ["name", "accounts"] });
    let get = pair.call("Principal/get", get).await;
    let names = ["me@", "nobody@", "partner@", "stranger@", "you@"];
    for (name, shown) in names.iter().zip(get["list"].as_array().unwrap()) {
        assert!(shown["name"].as_str().unwrap().starts_with(name), "{shown}");
        assert_eq!(shown["accounts"].is_null(), ["nobody@", "stranger@"].contains(name), "{shown}");
    }
    let there = pair.there("Principal/get", json!({ "ids": null })).await;
    assert_eq!(there["type"], "accountNotSupportedByMethod");
}

#[tokio::test]
async fn changes_of_rights_are_notified() {
    let pair = Pair::new().await;
    let get = json!({ "accountId": pair.own(), "ids": null });
    let none = pair.call("ShareNotification/get", get.clone()).await;
    assert_eq!((&none["state"], &none["list"]), (&json!("n0"), &json!([])));
    pair.owner.grant("Team", &pair.reader, "lr").await;
    let shared = pair.call("ShareNotification/get", get.clone()).await;
    let notice = &shared["list"][0];
    let team = pair.mailboxes().await[0].clone();
    assert_eq!((&notice["objectType"], &notice["objectId"]), (&json!("Mailbox"), &team["id"]));
    assert_eq!((&notice["objectAccountId"], &notice["name"]), (&json!(pair.shared()), &json!("Team")));
    assert_eq!((&notice["oldRights"], &notice["newRights"]), (&json!(null), &team["myRights"]));
    assert_eq!(notice["changedBy"]["email"], "me@localhost");
    assert_eq!(notice["created"], "2026-11-20T12:00:00Z");
    let first = notice["id"].clone();
    // Many changes between two looks are one.
    for rights in ["lrs", "lrsw", "lri"] {
        pair.owner.grant("Team", &pair.reader, rights).await;
    }
    pair.owner.grant("Team", &pair.reader, "lrsw").await;
    let changes = json!({ "accountId": pair.own(), "sinceState": shared["state"] });
    let changes = pair.call("ShareNotification/changes", changes).await;
    assert_eq!(ids(&changes["created"]).len(), 1);
    pair.owner.grant("Team", &pair.reader, "").await;
    let all = pair.call("ShareNotification/get", get.clone()).await;
    let last = &all["list"][2];
    assert_eq!((&last["newRights"], &last["oldRights"]["maySetKeywords"]), (&json!(null), &json!(true)));
    let newest = json!({ "accountId": pair.own(), "sort": [{ "property": "created", "isAscending": false }],
        "filter": { "objectAccountId": pair.shared(), "after": "2026-11-20T12:00:00Z" } });
    let newest = pair.call("ShareNotification/query", newest).await;
    assert_eq!((&newest["ids"][0], &newest["ids"][2]), (&last["id"], &first));
    let set = json!({ "accountId": pair.own(), "destroy": [first, "Nx"], "create": { "n": {} } });
    let set = pair.call("ShareNotification/set", set).await;
    assert_eq!((&set["destroyed"], &set["oldState"]), (&json!([first]), &all["state"]));
    assert_eq!(set["notDestroyed"]["Nx"]["type"], "notFound");
    assert_eq!(set["notCreated"]["n"]["type"], "forbidden");
    let changes = json!({ "accountId": pair.own(), "sinceQueryState": newest["queryState"] });
    let changes = pair.call("ShareNotification/queryChanges", changes).await;
    assert_eq!((&changes["removed"], &changes["added"]), (&json!([first]), &json!([])));
}

#[tokio::test]
async fn a_user_is_not_notified_of_own_changes() {
    let pair = Pair::new().await;
    pair.owner.grant("Team", &pair.reader, "lrx").await;
    let get = json!({ "accountId": pair.own(), "ids": null });
    assert_eq!(pair.call("ShareNotification/get", get.clone()).await["state"], "n1");
    let team = pair.mailboxes().await[0]["id"].clone();
    assert_eq!(pair.there("Mailbox/set", json!({ "destroy": [team] })).await["destroyed"], json!([team]));
    assert_eq!(pair.call("ShareNotification/get", get).await["state"], "n1");
}

#[tokio::test(start_paused = true)]
async fn pushes_name_the_accounts_of_other_owners() {
    let pair = Pair::new().await;
    pair.deliver("Team", "one").await;
    let mut changes = pair.caller.follow(None).await.unwrap();
    pair.owner.grant("Team", &pair.reader, "lr").await;
    let pushed = serde_json::to_value(changes.next().await.unwrap()).unwrap();
    assert!(pushed["changed"][pair.own()]["ShareNotification"].is_string(), "{pushed}");
    assert_eq!(pushed["changed"].get(pair.shared()), None, "not subscribed");
    pair.reader.act("subscribe Other Users/me@localhost/Team").await;
    let pushed = serde_json::to_value(changes.next().await.unwrap()).unwrap();
    assert!(pushed["changed"][pair.shared()]["Mailbox"].is_string(), "{pushed}");
    assert_eq!(pushed["changed"][pair.shared()].get("EmailDelivery"), None, "old mail, new rights");
    let before = changes.state();
    pair.owner.act("see-shared Team").await;
    let pushed = serde_json::to_value(changes.next().await.unwrap()).unwrap();
    let state = pair.there("Email/get", json!({ "ids": [] })).await["state"].clone();
    assert_eq!(pushed["changed"][pair.shared()]["Email"], state, "{pushed}");
    assert_eq!(pushed["changed"].get(pair.own()), None);
    // A client that comes back with its state hears the same; one that is up to date hears nothing.
    let mut again = pair.caller.follow(Some(&before)).await.unwrap();
    let pushed = serde_json::to_value(again.next().await.unwrap()).unwrap();
    assert_eq!(pushed["changed"][pair.shared()]["Email"], state);
    let mut current = pair.caller.follow(Some(&changes.state())).await.unwrap();
    let waited = tokio::time::timeout(std::time::Duration::from_secs(60), current.next()).await;
    assert!(waited.is_err(), "{waited:?}");
    // Rights that go bring no mail either.
    pair.owner.grant("Team", &pair.reader, "l").await;
    let pushed = serde_json::to_value(changes.next().await.unwrap()).unwrap();
    assert!(pushed["changed"][pair.shared()]["Email"].is_string(), "{pushed}");
    assert_eq!(pushed["changed"][pair.shared()].get("EmailDelivery"), None, "{pushed}");
}
