//! The accounts of other owners: what they share with a caller, by the rights that they give.

#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;

use sealpost_jmap_session::Caller;
use serde_json::{Value, json};

use crate::server::{TestServer, api};

const CORE: &str = "urn:ietf:params:jmap:core";
const MAIL: &str = "urn:ietf:params:jmap:mail";
const BLOB: &str = "urn:ietf:params:jmap:blob";
const QUOTA: &str = "urn:ietf:params:jmap:quota";

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
        let request = json!({ "using": [CORE, MAIL, BLOB, QUOTA], "methodCalls": calls });
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
    let mut accounts = pair.session_accounts().await;
    accounts.sort();
    assert_eq!(accounts, [("me@localhost".to_owned(), false, true), ("you@localhost".to_owned(), true, false)]);
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
    let got = pair.there("Email/get", json!({ "ids": found["ids"], "properties": ["subject", "threadId"] })).await;
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
async fn what_may_not_be_read_is_nowhere() {
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
    let got = pair.there("Email/get", json!({ "ids": all_ids, "properties": ["blobId", "threadId", "subject"] })).await;
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
    let got = pair.call("Email/get", json!({ "accountId": own, "ids": [id], "properties": properties })).await;
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
    let uploaded = pair.call("Blob/upload", json!({ "accountId": own, "create": {
        "b": { "data": [{ "data:asText": "Subject: hello\r\n\r\nhi" }] } } })).await;
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
    let id = ids(&pair.there("Email/query", json!({ "filter": { "subject": "plan" } })).await["ids"]).remove(0);
    let got = pair.there("Email/get", json!({ "ids": [id], "properties": ["blobId"] })).await;
    let blob = got["list"][0]["blobId"].as_str().unwrap().to_owned();
    let copied = pair
        .call("Blob/copy", json!({ "fromAccountId": shared, "accountId": own, "blobIds": [blob] }))
        .await;
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
    let set = pair.there("Mailbox/set", json!({ "update": {
        team.clone(): { "isSubscribed": true, "sortOrder": 5 }, sub.clone(): { "name": "Other" } },
        "destroy": [sub] })).await;
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
