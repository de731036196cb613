//! Clients that follow the objects of a type, or the results of a query, by states.

use std::collections::BTreeMap;

use sealpost_jmap_session::Caller;
use serde_json::{Value, json};

use crate::server::api;

/// The types that an account has.
pub const OWN_TYPES: &[&str] =
    &["AddressBook", "ContactCard", "Email", "EmailSubmission", "Identity", "Mailbox", "Thread"];
/// Those of another owner's account.
pub const SHARED_TYPES: &[&str] = &["Email", "Mailbox", "Thread"];

/// Calls one method; its response, or the error.
pub async fn call(caller: &Caller, account: &str, name: &str, mut arguments: Value) -> Value {
    arguments["accountId"] = json!(account);
    let using = ["core", "mail", "contacts", "submission"].map(|name| format!("urn:ietf:params:jmap:{name}"));
    // A node that sends nothing has no submissions.
    let using =
        &using[..if name.starts_with("EmailSubmission") || name.starts_with("Identity") { 4 } else { 3 }];
    let request = json!({ "using": using, "methodCalls": [[name, arguments, "0"]] });
    api(caller, &request).await.unwrap()["methodResponses"][0][1].take()
}

/// Objects by their ids.
pub type Objects = BTreeMap<String, Value>;

fn properties(kind: &str) -> Option<Vec<&'static str>> {
    match kind {
        "Email" => Some(vec!["id", "mailboxIds", "keywords", "threadId"]),
        _ => None,
    }
}

/// The objects with these ids.
async fn get(caller: &Caller, account: &str, kind: &str, ids: Value) -> (Value, Objects) {
    let arguments = json!({ "ids": ids, "properties": properties(kind) });
    let got = call(caller, account, &format!("{kind}/get"), arguments).await;
    let list = got["list"].as_array().into_iter().flatten();
    let objects = list.map(|object| (object["id"].as_str().unwrap().to_owned(), object.clone()));
    (got["state"].clone(), objects.collect())
}

/// The state of a type, and all of its objects. Null where the caller has no such account.
pub async fn read_all(caller: &Caller, account: &str, kind: &str) -> (Value, Objects) {
    match kind {
        "Thread" => {
            let emails = get(caller, account, "Email", Value::Null).await.1;
            let mut threads: Vec<Value> =
                emails.into_values().map(|mut email| email["threadId"].take()).collect();
            threads.sort_by_key(|id| id.as_str().map(str::to_owned));
            threads.dedup();
            get(caller, account, kind, json!(threads)).await
        }
        _ => get(caller, account, kind, Value::Null).await,
    }
}

/// A client of one type.
pub struct Follower {
    pub kind: &'static str,
    pub most: Option<usize>,
    /// Whether it follows its own account.
    pub is_own: bool,
    state: Value,
    known: Objects,
    /// Responses that were not the last.
    pub pages: usize,
    /// How often it read everything.
    pub anew: usize,
}

impl Follower {
    pub fn new(kind: &'static str, most: Option<usize>, is_own: bool) -> Self {
        Follower { kind, most, is_own, state: Value::Null, known: Objects::new(), pages: 0, anew: 0 }
    }

    /// Takes at most `responses` to /changes, and compares what it knows if the last one was the end.
    pub async fn follow(&mut self, caller: &Caller, account: &str, responses: usize, place: &str) {
        let (now, all) = read_all(caller, account, self.kind).await;
        for _ in 0..responses {
            let arguments = json!({ "sinceState": self.state, "maxChanges": self.most });
            let name = format!("{}/changes", self.kind);
            let changes = match self.state.is_null() {
                true => Value::Null,
                false => call(caller, account, &name, arguments).await,
            };
            if changes["newState"].is_null() {
                let kinds = ["cannotCalculateChanges", "accountNotFound"];
                let kind = changes["type"].as_str();
                assert!(kind.is_none_or(|kind| kinds.contains(&kind)), "{changes} {place}");
                (self.state, self.known) = (now, all);
                self.anew += 1;
                return;
            }
            assert_eq!(changes["oldState"], self.state, "{place}");
            let ids = |name: &str| -> Vec<String> {
                let ids = changes[name].as_array().unwrap().iter();
                ids.map(|id| id.as_str().unwrap().to_owned()).collect()
            };
            let (created, updated, destroyed) = (ids("created"), ids("updated"), ids("destroyed"));
            let count = created.len() + updated.len() + destroyed.len();
            assert!(self.most.is_none_or(|most| count <= most), "{changes} {place}");
            for id in destroyed {
                // A mailbox that was made meanwhile may be destroyed alone.
                let was_known = self.known.remove(&id).is_some();
                assert!(was_known || self.kind == "Mailbox", "{id} was not known: {changes} {place}");
            }
            for id in &created {
                assert!(!self.known.contains_key(id), "{id} was known: {changes} {place}");
                self.known.insert(id.clone(), Value::Null);
            }
            assert!(updated.iter().all(|id| self.known.contains_key(id)), "{changes} {place}");
            let changed: Vec<String> = created.into_iter().chain(updated).collect();
            let mut got = get(caller, account, self.kind, json!(changed)).await.1;
            for id in changed {
                // One that is gone by now is destroyed in a later response.
                let object = got.remove(&id).unwrap_or_default();
                self.known.insert(id, object);
            }
            assert_ne!(
                (&changes["newState"], &changes["hasMoreChanges"]),
                (&self.state, &json!(true)),
                "{place}"
            );
            self.state = changes["newState"].clone();
            if changes["hasMoreChanges"] == json!(false) {
                // The node may have read on meanwhile: it had to, if the client knew more.
                let (now, all) = read_all(caller, account, self.kind).await;
                assert_eq!(self.state, now, "{changes} {place}");
                assert_eq!(self.known, all, "{changes} {place}");
                return;
            }
            self.pages += 1;
        }
    }
}

/// A client of the results of a query.
pub struct QueryFollower {
    kind: &'static str,
    state: Value,
    results: Vec<Value>,
}

impl QueryFollower {
    pub fn new(kind: &'static str) -> Self {
        QueryFollower { kind, state: Value::Null, results: Vec::new() }
    }

    fn arguments(&self) -> Value {
        match self.kind {
            "Email" => json!({ "filter": { "notKeyword": "$seen" },
                "sort": [{ "property": "receivedAt", "isAscending": false }] }),
            _ => json!({ "sort": [{ "property": "updated" }] }),
        }
    }

    pub async fn follow(&mut self, caller: &Caller, account: &str, place: &str) {
        if !self.state.is_null() {
            let mut arguments = self.arguments();
            arguments["sinceQueryState"] = self.state.clone();
            let changes = call(caller, account, &format!("{}/queryChanges", self.kind), arguments).await;
            if changes["newQueryState"].is_string() {
                let removed = changes["removed"].as_array().unwrap();
                self.results.retain(|id| !removed.contains(id));
                for added in changes["added"].as_array().unwrap() {
                    assert!(!self.results.contains(&added["id"]), "{changes} {place}");
                    let index = usize::try_from(added["index"].as_u64().unwrap()).unwrap();
                    self.results.insert(index, added["id"].clone());
                }
                let found = call(caller, account, &format!("{}/query", self.kind), self.arguments()).await;
                assert_eq!(json!(self.results), found["ids"], "{changes} {place}");
                assert_eq!(changes["newQueryState"], found["queryState"], "{place}");
                self.state = changes["newQueryState"].clone();
                return;
            }
            assert_eq!(changes["type"], "cannotCalculateChanges", "{changes} {place}");
        }
        let found = call(caller, account, &format!("{}/query", self.kind), self.arguments()).await;
        self.state = found["queryState"].clone();
        self.results = found["ids"].as_array().unwrap().clone();
    }
}
