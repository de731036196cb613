//! Logins of OAuth clients with one scope: blobs, uploads and changes of the other one are not theirs.

#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use sealpost_auth::{Scope, Scopes};
use sealpost_jmap::State;
use sealpost_jmap::error::ProblemType;
use sealpost_jmap_session::{ApiError, Caller, StateChanges};
use serde_json::{Value, json};
use server::{TestServer, api};

const MESSAGE: &[u8] = b"Subject: plan\r\nMessage-ID: <plan@x>\r\n\r\nThe secret plan.\r\n";
const PICTURE: &str = "R0lGODlhAQABAAAAACw=";

/// A server with a message and a card with a picture, and one caller for each scope.
struct World {
    server: TestServer,
    all: Caller,
    mail: Caller,
    contacts: Caller,
    message: String,
    part: String,
    picture: String,
}

impl World {
    async fn new() -> Self {
        let server = TestServer::new().await;
        let all = server.caller().await;
        let mail = server.scoped_caller(Scopes::NONE.with(Scope::Mail)).await;
        let contacts = server.scoped_caller(Scopes::NONE.with(Scope::Contacts)).await;
        server.deliver("INBOX", MESSAGE).await;
        let found = call(&all, "Email/query", json!({})).await;
        let properties = ["blobId", "textBody"];
        let email = json!({ "ids": found["ids"], "properties": properties });
        let email = call(&all, "Email/get", email).await["list"][0].take();
        let photo = json!({ "kind": "photo", "uri": format!("data:image/gif;base64,{PICTURE}") });
        let card =
            json!({ "addressBookIds": { "K1": true }, "name": { "full": "Ada" }, "media": { "p": photo } });
        let set = call(&all, "ContactCard/set", json!({ "create": { "a": card } })).await;
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{email} {set}")).to_owned();
        let message = text(&email["blobId"]);
        let part = text(&email["textBody"][0]["blobId"]);
        let picture = text(&set["created"]["a"]["media"]["p"]["blobId"]);
        World { server, all, mail, contacts, message, part, picture }
    }

    /// Each caller of one scope, with the blobs that are its own and those that are not.
    fn callers(&self) -> [(&Caller, Vec<&str>, Vec<&str>); 2] {
        let (of_mail, of_contacts) = (vec![&*self.message, &*self.part], vec![&*self.picture]);
        [(&self.mail, of_mail.clone(), of_contacts.clone()), (&self.contacts, of_contacts, of_mail)]
    }
}

/// The arguments of the response to one call, which uses all capabilities of the login.
async fn call(caller: &Caller, method: &str, mut arguments: Value) -> Value {
    let account = format!("A{}", caller.account());
    arguments["accountId"] = json!(account);
    let session = caller.session("http://localhost").await.unwrap();
    let using: Vec<&String> = session.capabilities.keys().collect();
    let request = json!({ "using": using, "methodCalls": [[method, arguments, "0"]] });
    let mut response = api(caller, &request).await.unwrap();
    response["methodResponses"][0][1].take()
}

async fn download(caller: &Caller, blob: &str) -> Option<Vec<u8>> {
    let found = caller.download(&format!("A{}", caller.account()), blob).await.unwrap()?;
    let pieces: Vec<_> = found.bytes(0..u64::MAX).try_collect().await.unwrap();
    Some(pieces.concat())
}

#[tokio::test]
async fn a_login_reads_the_blobs_of_its_scopes() {
    let world = World::new().await;
    assert_eq!(download(&world.mail, &world.message).await.unwrap(), MESSAGE);
    assert!(download(&world.contacts, &world.picture).await.unwrap().starts_with(b"GIF89a"));
    let unknown = format!("B{}", "0".repeat(world.message.len() - 1));
    for (caller, own, other) in world.callers() {
        for blob in &own {
            assert!(download(caller, blob).await.is_some(), "{blob}");
        }
        for blob in &other {
            assert!(download(caller, blob).await.is_none(), "{blob}");
            assert!(download(&world.all, blob).await.is_some(), "{blob}");
        }
        let ids = [&own[..], &other[..]].concat();
        let found = call(caller, "Blob/get", json!({ "ids": ids })).await;
        let shown: Vec<&str> =
            found["list"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
        assert_eq!((shown, &found["notFound"]), (own.clone(), &json!(other)), "{found}");
        // A blob of another scope is like one that does not exist.
        let hidden = call(caller, "Blob/get", json!({ "ids": [&unknown] })).await;
        assert_eq!(hidden["notFound"], json!([unknown]));
    }
}

#[tokio::test]
async fn a_blob_is_looked_up_and_copied_within_its_scope() {
    let world = World::new().await;
    for (caller, own, other) in world.callers() {
        let is_mail = own[0] == world.message;
        let type_names = if is_mail { json!(["Email", "Mailbox", "Thread"]) } else { json!(["ContactCard"]) };
        let name = if is_mail { "Email" } else { "ContactCard" };
        let ids = [&own[..1], &other[..1]].concat();
        let found = call(caller, "Blob/lookup", json!({ "typeNames": type_names, "ids": ids })).await;
        let matched = |n: usize| found["list"][n]["matchedIds"][name].as_array().map(Vec::len);
        assert_eq!((matched(0), matched(1)), (Some(1), Some(0)), "{found}");
        let of_other = if is_mail { "ContactCard" } else { "Email" };
        let refused = call(caller, "Blob/lookup", json!({ "typeNames": [of_other], "ids": ids })).await;
        assert_eq!(refused["type"], "unknownDataType");

        let from = format!("A{}", caller.account());
        let copied = call(caller, "Blob/copy", json!({ "fromAccountId": from, "blobIds": ids })).await;
        assert_eq!(copied["copied"], json!({ own[0]: own[0] }), "{copied}");
        assert_eq!(copied["notCopied"][other[0]]["type"], "notFound");
        for (blob, is_made) in [(own[0], true), (other[0], false)] {
            let create = json!({ "create": { "a": { "data": [{ "blobId": blob }] } } });
            let made = call(caller, "Blob/upload", create).await;
            assert_eq!(made["created"]["a"].is_object(), is_made, "{made}");
            assert!(is_made || made["notCreated"]["a"]["type"] == "blobNotFound", "{made}");
        }
    }
}

#[tokio::test]
async fn objects_are_made_of_blobs_of_their_scope() {
    let world = World::new().await;
    let medium = json!({ "kind": "photo", "blobId": world.message, "mediaType": "image/gif" });
    let card =
        json!({ "addressBookIds": { "K1": true }, "name": { "full": "Bob" }, "media": { "p": medium } });
    let set = call(&world.contacts, "ContactCard/set", json!({ "create": { "a": card } })).await;
    assert_eq!(set["notCreated"]["a"]["type"], "blobNotFound", "{set}");
    let parsed = call(&world.mail, "Email/parse", json!({ "blobIds": [world.picture] })).await;
    assert_eq!(parsed["notFound"], json!([world.picture]), "{parsed}");
}

#[tokio::test]
async fn any_scope_uploads_and_no_scope_does_not() {
    let world = World::new().await;
    let upload = async |caller: &Caller| {
        let body = futures::stream::iter([Ok(bytes::Bytes::from_static(b"text"))]).boxed();
        caller.upload(&format!("A{}", caller.account()), "text/plain", body).await
    };
    for (caller, ..) in world.callers() {
        let blob = upload(caller).await.unwrap().blob_id.to_string();
        assert_eq!(download(caller, &blob).await.unwrap(), b"text");
    }
    let blob = upload(&world.all).await.unwrap().blob_id.to_string();
    let none = world.server.scoped_caller(Scopes::NONE).await;
    let Err(ApiError::Problem(problem)) = upload(&none).await else { panic!("it has no scope") };
    assert_eq!((problem.problem, problem.status), (ProblemType::About, 403));
    for blob in [&blob, &world.message, &world.part, &world.picture] {
        assert!(download(&none, blob).await.is_none(), "{blob}");
    }
}

/// The types that the next change names in the own account; empty if none comes.
async fn next(changes: &mut StateChanges) -> Vec<String> {
    match tokio::time::timeout(Duration::from_secs(60), changes.next()).await {
        Ok(change) => change.unwrap().changed.into_values().flatten().map(|(name, _)| name).collect(),
        Err(_) => Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_login_hears_of_changes_of_its_scopes() {
    let world = World::new().await;
    let (none, of_mail) = (Vec::<String>::new(), ["Email", "EmailDelivery", "Mailbox", "Thread"]);
    let mut mail = world.mail.follow(None).await.unwrap();
    let mut contacts = world.contacts.follow(None).await.unwrap();
    let (before_mail, before_contacts) = (mail.state(), contacts.state());
    world.server.deliver("INBOX", MESSAGE).await;
    assert_eq!(
        (next(&mut mail).await, next(&mut contacts).await),
        (of_mail.map(str::to_owned).to_vec(), none.clone())
    );
    world.server.act("create Work").await;
    world.server.act("flag INBOX 1 \\Seen").await;
    assert_eq!(next(&mut contacts).await, none);
    assert_eq!(next(&mut mail).await, ["Email", "Mailbox", "Quota"]);
    call(&world.all, "Identity/set", json!({ "create": { "a": { "email": "me@localhost" } } })).await;
    assert_eq!(next(&mut contacts).await, none);
    assert!(next(&mut mail).await.contains(&"Identity".to_owned()));
    call(&world.all, "AddressBook/set", json!({ "create": { "a": { "name": "Work" } } })).await;
    assert_eq!(
        (next(&mut mail).await, next(&mut contacts).await),
        (none.clone(), vec!["AddressBook".to_owned()])
    );
    // A login with all scopes hears of all, and a client that comes back of what its login grants.
    let mut mail = world.mail.follow(Some(&before_mail)).await.unwrap();
    assert_eq!(next(&mut mail).await, ["Email", "EmailDelivery", "Identity", "Mailbox", "Quota", "Thread"]);
    let mut contacts = world.contacts.follow(Some(&before_contacts)).await.unwrap();
    assert_eq!(next(&mut contacts).await, ["AddressBook"]);
    let mut all = world.all.follow(Some(&State::new("0"))).await.unwrap();
    let heard = next(&mut all).await;
    assert!(
        ["AddressBook", "ContactCard", "Email", "Mailbox"]
            .iter()
            .all(|name| heard.contains(&(*name).to_owned()))
    );
}

#[tokio::test(start_paused = true)]
async fn mail_of_other_owners_needs_its_scope_too() {
    let owner = TestServer::new().await;
    let reader = owner.neighbour("you@localhost").await;
    owner.act("create Team").await;
    owner.deliver("Team", MESSAGE).await;
    owner.grant("Team", &reader, "lr").await;
    reader.act("subscribe Other Users/me@localhost/Team").await;
    let shared = format!("A{}", owner.record.id);
    let mut blob = String::new();
    for (scope, is_mail) in [(Scope::Mail, true), (Scope::Contacts, false)] {
        let caller = reader.scoped_caller(Scopes::NONE.with(scope)).await;
        if is_mail {
            let using = ["core", "mail"].map(|name| format!("urn:ietf:params:jmap:{name}"));
            let calls = json!([["Email/query", { "accountId": shared }, "0"],
                ["Email/get", { "accountId": shared, "properties": ["blobId"],
                    "#ids": { "resultOf": "0", "name": "Email/query", "path": "/ids" } }, "1"]]);
            let response = api(&caller, &json!({ "using": using, "methodCalls": calls })).await.unwrap();
            let found = &response["methodResponses"][1][1]["list"][0]["blobId"];
            blob = found.as_str().unwrap_or_else(|| panic!("{response}")).to_owned();
        }
        assert_eq!(caller.download(&shared, &blob).await.unwrap().is_some(), is_mail);
        let mut changes = caller.follow(None).await.unwrap();
        owner.act("see-shared Team").await;
        owner.deliver("Team", MESSAGE).await;
        assert_eq!(!next(&mut changes).await.is_empty(), is_mail);
    }
}
