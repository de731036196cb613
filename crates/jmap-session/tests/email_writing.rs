//! Emails that clients write: uploads, many at once, and JMAP beside IMAP on one account.

#[path = "support/imap.rs"]
mod imap;
#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use sealpost_base::limits::{JMAP_CONCURRENT_UPLOADS, JMAP_SET_OBJECTS, JMAP_UPLOAD_BYTES, JMAP_UPLOADS};
use sealpost_base::{ObjectId, SeededRandom};
use sealpost_jmap::error::ProblemType;
use sealpost_jmap_session::{ApiError, BodyEnded, Caller, UploadBody};
use sealpost_vault::Sealed;
use serde_json::{Map, Value, json};
use server::{TestServer, api};

async fn call(caller: &Caller, name: &str, mut arguments: Value) -> Value {
    arguments["accountId"] = json!(format!("A{}", caller.account()));
    let using = ["core", "mail", "blob"].map(|name| format!("urn:ietf:params:jmap:{name}"));
    let request = json!({ "using": using, "methodCalls": [[name, arguments, "0"]] });
    let response = api(caller, &request).await.unwrap();
    assert_eq!(response["methodResponses"][0][0], name, "{response}");
    response["methodResponses"][0][1].clone()
}

fn body(pieces: &[&'static [u8]]) -> UploadBody<'static> {
    let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::from_static(piece))).collect();
    stream::iter(pieces).boxed()
}

async fn stored_uploads(server: &TestServer) -> usize {
    let listed = server.ctx.store.list(&format!("acct/{}/upload", server.record.id), None);
    listed.try_collect::<Vec<_>>().await.unwrap().len()
}

#[tokio::test]
async fn an_upload_is_read_on_another_node() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let account = format!("A{}", server.record.id);
    let uploaded = caller.upload(&account, "text/x", body(&[b"Subject: up\r\n", b"\r\nbody"])).await.unwrap();
    assert_eq!((uploaded.size, uploaded.media_type.as_str()), (19, "text/x"));
    let other = server.other_node().await;
    let got = call(&other, "Blob/get", json!({ "ids": [uploaded.blob_id] })).await;
    assert_eq!(got["list"][0]["data:asText"], "Subject: up\r\n\r\nbody");
    let download = other.download(&account, uploaded.blob_id.as_str()).await.unwrap().unwrap();
    let bytes: Vec<Bytes> = download.bytes(3..9).try_collect().await.unwrap();
    assert_eq!(bytes.concat(), b"ject: ");
}

#[tokio::test]
async fn uploads_are_bounded_and_leave_nothing_if_refused() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let account = format!("A{}", server.record.id);
    let problem = |result: Result<_, ApiError>| match result.map(|_| ()) {
        Err(ApiError::Problem(problem)) => (problem.problem, problem.status),
        other => panic!("{other:?}"),
    };
    assert_eq!(problem(caller.upload("A1", "a/b", body(&[b"x"])).await), (ProblemType::About, 404));
    const PIECE: &[u8] = &[0; 1_000_000];
    let pieces = vec![PIECE; usize::try_from(JMAP_UPLOAD_BYTES).unwrap() / PIECE.len()];
    let too_much: Vec<&'static [u8]> = pieces.iter().copied().chain([&b"x"[..]]).collect();
    let refused = problem(caller.upload(&account, "a/b", body(&too_much)).await);
    assert_eq!(refused, (ProblemType::Limit("maxSizeUpload"), 413));
    let cut = stream::iter([Ok(Bytes::from_static(b"x")), Err(BodyEnded)]).boxed();
    assert_eq!(caller.upload(&account, "a/b", cut).await.err(), Some(ApiError::Ended));
    assert_eq!(stored_uploads(&server).await, 0);

    let mut stuck = Vec::new();
    for _ in 0..JMAP_CONCURRENT_UPLOADS {
        let (caller, account) = (server.caller().await, account.clone());
        let never = stream::pending().boxed();
        let mut work = Box::pin(async move { caller.upload(&account, "a/b", never).await });
        assert!(futures::poll!(&mut work).is_pending());
        stuck.push(work);
    }
    let refused = problem(caller.upload(&account, "a/b", body(&[b"x"])).await);
    assert_eq!(refused, (ProblemType::Limit("maxConcurrentUpload"), 400));
    drop(stuck);
    assert!(caller.upload(&account, "a/b", body(&[])).await.is_ok());
    assert_eq!(stored_uploads(&server).await, 1);
}

#[tokio::test]
async fn uploads_of_the_last_hour_make_no_room_for_others() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let account = format!("A{}", server.record.id);
    let first = caller.upload(&account, "text/x", body(&[b"first"])).await.unwrap().blob_id;
    for _ in 1..JMAP_UPLOADS {
        let path = format!("acct/{}/upload/{}", server.record.id, ObjectId::random(&*server.ctx.random));
        server.ctx.store.put_new(&path, Sealed::marker()).await.unwrap();
    }
    match caller.upload(&account, "text/x", body(&[b"one more"])).await {
        Err(ApiError::Problem(problem)) => assert_eq!(problem.status, 429),
        other => panic!("{other:?}"),
    }
    let create = json!({ "create": { "a": { "data": [{ "data:asText": "one more" }] } } });
    let refused = call(&caller, "Blob/upload", create).await;
    assert_eq!(refused["notCreated"]["a"]["type"], "overQuota", "{refused}");
    assert_eq!(stored_uploads(&server).await, JMAP_UPLOADS);
    let got = call(&caller, "Blob/get", json!({ "ids": [first] })).await;
    assert_eq!(got["list"][0]["data:asText"], "first");
}

#[tokio::test]
async fn the_most_emails_of_a_call_are_one_entry() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let (account, inbox) = (server.account().await, inbox(&caller).await);
    let position = || account.state().position().0;
    let before = position();
    let email = json!({ "mailboxIds": { &inbox: true }, "subject": "x" });
    let create: Map<String, Value> =
        (0..JMAP_SET_OBJECTS).map(|n| (format!("c{n}"), email.clone())).collect();
    let set = call(&caller, "Email/set", json!({ "create": create })).await;
    assert_eq!(set["created"].as_object().unwrap().len(), JMAP_SET_OBJECTS);
    assert_eq!(position(), before + 1);
    let ids: Vec<String> = set["created"]
        .as_object()
        .unwrap()
        .values()
        .map(|email| email["id"].as_str().unwrap().to_owned())
        .collect();
    let update: Map<String, Value> =
        ids.iter().map(|id| (id.clone(), json!({ "keywords/$seen": true }))).collect();
    let set = call(&caller, "Email/set", json!({ "update": update })).await;
    assert_eq!(set["updated"].as_object().unwrap().len(), JMAP_SET_OBJECTS);
    assert_eq!(position(), before + 2);
    let set = call(&caller, "Email/set", json!({ "destroy": ids })).await;
    assert_eq!(set["destroyed"].as_array().unwrap().len(), JMAP_SET_OBJECTS);
    assert_eq!(position(), before + 3);
}

#[tokio::test]
async fn emails_are_created_within_the_quota() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let limit = |record: &mut sealpost_directory::AccountRecord| {
        record.quota_messages = Some(1);
        Ok(())
    };
    server.ctx.directory.update(&server.record.name, limit).await.unwrap();
    let email = json!({ "mailboxIds": { inbox(&caller).await: true } });
    let set = call(&caller, "Email/set", json!({ "create": { "a": email, "b": email } })).await;
    assert_eq!(set["notCreated"], json!({ "b": { "type": "overQuota" } }));
    assert!(set["created"]["a"]["id"].is_string());
}

async fn mailboxes(caller: &Caller) -> BTreeMap<String, String> {
    let got = call(caller, "Mailbox/get", json!({ "properties": ["role"] })).await;
    let list = got["list"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list.map(|mailbox| (text(&mailbox["role"]), text(&mailbox["id"]))).collect()
}

async fn inbox(caller: &Caller) -> String {
    mailboxes(caller).await["inbox"].clone()
}

/// Mailboxes and keywords of an email.
type Known = (BTreeSet<String>, BTreeSet<String>);

/// A JMAP client that tracks all emails, from its own changes and from responses.
struct Client {
    caller: Caller,
    known: BTreeMap<String, Known>,
    state: Value,
    /// How often its own changes led to `newState` without a request for changes.
    exact: usize,
}

fn names(set: &Value) -> BTreeSet<String> {
    set.as_object().unwrap().keys().cloned().collect()
}

fn set_of(names: &BTreeSet<String>) -> Value {
    names.iter().map(|name| (name.clone(), json!(true))).collect::<Map<_, _>>().into()
}

impl Client {
    async fn get(&self, ids: Value) -> BTreeMap<String, Known> {
        let arguments = json!({ "ids": ids, "properties": ["mailboxIds", "keywords"] });
        let got = call(&self.caller, "Email/get", arguments).await;
        let known = |email: &Value| {
            let id = email["id"].as_str().unwrap().to_owned();
            (id, (names(&email["mailboxIds"]), names(&email["keywords"])))
        };
        got["list"].as_array().unwrap().iter().map(known).collect()
    }

    /// Requests the changes since its state.
    async fn follow(&mut self) {
        let changes = call(&self.caller, "Email/changes", json!({ "sinceState": self.state })).await;
        self.state = changes["newState"].clone();
        let ids = |name: &str| changes[name].as_array().unwrap().clone();
        for id in ids("destroyed") {
            assert!(self.known.remove(id.as_str().unwrap()).is_some(), "{id} was not known");
        }
        let changed: Vec<Value> = ids("created").into_iter().chain(ids("updated")).collect();
        self.known.extend(self.get(json!(changed)).await);
    }

    /// Creates, changes and destroys some emails, and applies its own changes locally if `oldState` allows.
    async fn write(&mut self, random: &SeededRandom, mailboxes: &[String]) {
        const KEYWORDS: [&str; 4] = ["$seen", "$flagged", "$junk", "work"];
        let some = |names: &[String]| -> BTreeSet<String> {
            names.iter().filter(|_| random.below(3) == 0).cloned().collect()
        };
        let keywords = KEYWORDS.map(str::to_owned);
        let (mut create, mut update, mut destroy) = (Map::new(), Map::new(), Vec::new());
        let (mut made, mut after) = (BTreeMap::new(), self.known.clone());
        for n in 0..random.below(3) {
            let mut places = some(mailboxes);
            places.insert(mailboxes[random.below(mailboxes.len() as u64) as usize].clone());
            let flags = some(&keywords);
            create.insert(
                format!("c{n}"),
                json!({ "mailboxIds": set_of(&places), "keywords": set_of(&flags) }),
            );
            made.insert(format!("c{n}"), (places, flags));
        }
        for (id, (places, flags)) in &self.known {
            match random.below(6) {
                0 => {
                    destroy.push(id.clone());
                    after.remove(id);
                }
                1 => {
                    let flags = some(&keywords);
                    update.insert(id.clone(), json!({ "keywords": set_of(&flags) }));
                    after.insert(id.clone(), (places.clone(), flags));
                }
                2 => {
                    let (mailbox, keyword) = (
                        &mailboxes[random.below(mailboxes.len() as u64) as usize],
                        KEYWORDS[random.below(4) as usize],
                    );
                    let path = [format!("mailboxIds/{mailbox}"), format!("keywords/{keyword}")];
                    update.insert(id.clone(), json!({ &path[0]: true, &path[1]: null }));
                    let (mut places, mut flags) = (places.clone(), flags.clone());
                    places.insert(mailbox.clone());
                    flags.remove(keyword);
                    after.insert(id.clone(), (places, flags));
                }
                _ => {}
            }
        }
        let arguments = json!({ "create": create, "update": update, "destroy": destroy });
        let set = call(&self.caller, "Email/set", arguments).await;
        assert!(set["notCreated"].is_null(), "{set}");
        if set["oldState"] == self.state && set["notUpdated"].is_null() && set["notDestroyed"].is_null() {
            for (creation, email) in set["created"].as_object().into_iter().flatten() {
                after.insert(email["id"].as_str().unwrap().to_owned(), made[creation].clone());
            }
            (self.known, self.state) = (after, set["newState"].clone());
            self.exact += 1;
        }
    }
}

/// A random command of the IMAP client in its inbox.
async fn disturb(imap: &mut imap::Client, random: &SeededRandom) {
    let number = 1 + random.below(6);
    match random.below(6) {
        0 => imap.append(b"Subject: imap\r\n\r\nx\r\n").await,
        1 => drop(imap.command(&format!("STORE {number} +FLAGS (\\Seen work)")).await),
        2 => drop(imap.command(&format!("STORE {number} +FLAGS (\\Deleted)")).await),
        3 => drop(imap.command(&format!("STORE {number} -FLAGS (\\Deleted)")).await),
        4 => drop(imap.command(&format!("COPY {number} Archive")).await),
        _ => drop(imap.command("EXPUNGE").await),
    }
}

#[tokio::test]
async fn jmap_and_imap_clients_agree() {
    let server = TestServer::new().await;
    for name in ["Team"] {
        server.act(&format!("create {name}")).await;
        server.act(&format!("share {name}")).await;
    }
    let mut exact = 0;
    for seed in 1..5 {
        let random = SeededRandom::new(seed);
        let caller = server.caller().await;
        let all = mailboxes(&caller).await;
        let places: Vec<String> = ["inbox", "archive", ""].iter().map(|role| all[*role].clone()).collect();
        let mut client = Client { caller, known: BTreeMap::new(), state: json!(null), exact: 0 };
        client.known = client.get(json!(null)).await;
        client.state = call(&client.caller, "Email/get", json!({ "ids": [] })).await["state"].clone();
        let mut imap = imap::Client::select(&server, "INBOX").await;
        for step in 0..40 {
            if step % 2 == 0 {
                client.write(&random, &places).await;
            } else {
                tokio::join!(client.write(&random, &places), disturb(&mut imap, &random));
            }
            // The IMAP session sees every change at once, whatever the JMAP client requests.
            let shown: BTreeSet<String> = imap.emails().await;
            client.follow().await;
            let now = client.get(json!(null)).await;
            assert_eq!(client.known, now, "seed {seed}, step {step}");
            let in_inbox = now.iter().filter(|(_, (mailboxes, _))| mailboxes.contains(&places[0]));
            assert_eq!(shown, in_inbox.map(|(id, _)| id.clone()).collect(), "seed {seed}, step {step}");
        }
        exact += client.exact;
    }
    assert!(exact > 40, "oldState was given: {exact}");
}
