//! Logins, the Session object, and the limits of a request.

#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;

use std::sync::Arc;

use sealpost_base::limits::{
    HTTP_SMALL_MESSAGE_BYTES, JMAP_CHANGES, JMAP_CONCURRENT_REQUESTS, JMAP_GET_OBJECTS, JMAP_SEND_BYTES,
};
use sealpost_jmap::error::ProblemType;
use sealpost_jmap::{Problem, Request};
use sealpost_jmap_session::{ApiError, ClientGone, JmapShared, LoginRefused, ResponseSink};
use serde_json::{Value, json};
use server::{BASIC, Sink, TestServer, api, credentials};

const BLOB: &str = "urn:ietf:params:jmap:blob";
const CONTACTS: &str = "urn:ietf:params:jmap:contacts";
const CORE: &str = "urn:ietf:params:jmap:core";
const MAIL: &str = "urn:ietf:params:jmap:mail";
const PRINCIPALS: &str = "urn:ietf:params:jmap:principals";
const OWNER: &str = "urn:ietf:params:jmap:principals:owner";
const QUOTA: &str = "urn:ietf:params:jmap:quota";
const VACATION: &str = "urn:ietf:params:jmap:vacationresponse";
const MDN: &str = "urn:ietf:params:jmap:mdn";
const SUBMISSION: &str = "urn:ietf:params:jmap:submission";
const WEBSOCKET: &str = "urn:ietf:params:jmap:websocket";

fn echo(argument: &Value) -> Value {
    json!({ "using": [CORE], "methodCalls": [["Core/echo", { "a": argument }, "0"]] })
}

#[tokio::test]
async fn passwords_and_app_passwords_log_in() {
    let server = TestServer::new().await;
    let added = server.ctx.directory.add_app_password(&server.record.name, &server.root, "test").await;
    let (info, token) = added.unwrap();
    let token = token.to_string();
    let by_password = server.login(BASIC).await.unwrap();
    let by_token = server.login(&format!("Bearer {token}")).await.unwrap();
    assert_eq!((by_password.name(), by_password.account()), ("me@localhost", server.record.id));
    assert_eq!(by_token.account(), server.record.id);
    assert_eq!(api(&by_token, &echo(&json!(1))).await.unwrap()["methodResponses"][0][1]["a"], 1);
    // Neither is an app password: the password that Basic accepts is no Bearer token.
    for wrong in ["Bearer secret", "Basic bWVAbG9jYWxob3N0Ondyb25n", "Basic bm9ib2R5OnNlY3JldA=="] {
        assert_eq!(server.login(wrong).await.err(), Some(LoginRefused::Credentials), "{wrong}");
    }
    assert_eq!(LoginRefused::Credentials.problem().status, 401);

    // Revoking an app password ends its callers, and no others.
    server.ctx.directory.revoke_app_password(&server.record.name, info.id).await.unwrap();
    server.ctx.auth.standings().look(server.record.id);
    by_token.lost().await;
    assert!(by_password.holds() && !by_token.holds());
    let refused = api(&by_token, &echo(&json!(1))).await.unwrap_err();
    assert!(matches!(refused, ApiError::Problem(Problem { status: 401, .. })), "{refused:?}");
}

#[tokio::test]
async fn the_session_object_lists_working_capabilities_and_urls() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let session = serde_json::to_value(caller.session("https://mail.example.org").await.unwrap()).unwrap();
    let account = format!("A{}", server.record.id);
    let of_account = [BLOB, CONTACTS, MAIL, MDN, PRINCIPALS, QUOTA, SUBMISSION, VACATION];
    let of_account = of_account.map(str::to_owned).to_vec();
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&session["capabilities"]),
        [BLOB, CONTACTS, CORE, MAIL, MDN, PRINCIPALS, QUOTA, SUBMISSION, VACATION, WEBSOCKET]
    );
    let usable = &session["accounts"][&account]["accountCapabilities"];
    assert_eq!(names(&session["primaryAccounts"]), of_account);
    // RFC 9670 §1.5.2: a key of accounts alone.
    let with_owner = [BLOB, CONTACTS, MAIL, MDN, PRINCIPALS, OWNER, QUOTA, SUBMISSION, VACATION];
    assert_eq!(names(usable), with_owner);
    assert_eq!(usable[OWNER]["accountIdForPrincipal"], json!(account));
    assert_eq!(usable[OWNER]["principalId"], usable[PRINCIPALS]["currentUserPrincipalId"]);
    // RFC 9610 §1.4.1.
    assert_eq!(usable[CONTACTS], json!({ "maxAddressBooksPerCard": null, "mayCreateAddressBook": true }));
    assert_eq!(session["capabilities"][CONTACTS], json!({}));
    assert_eq!(session["capabilities"][WEBSOCKET]["url"], "wss://mail.example.org/jmap/ws");
    assert_eq!(session["capabilities"][CORE]["maxCallsInRequest"], 16);
    assert_eq!(session["accounts"][&account]["isPersonal"], true);
    assert_eq!(usable[SUBMISSION]["maxDelayedSend"], 30 * 86_400);
    let extensions = &usable[SUBMISSION]["submissionExtensions"];
    assert_eq!(extensions["FUTURERELEASE"], json!(["2592000"]));
    assert_eq!(session["username"], "me@localhost");
    assert_eq!(session["apiUrl"], "https://mail.example.org/jmap/api");
    for (url, variables) in [
        ("downloadUrl", ["accountId", "blobId", "type", "name"].as_slice()),
        ("uploadUrl", &["accountId"]),
        ("eventSourceUrl", &["types", "closeafter", "ping"]),
    ] {
        let template = session[url].as_str().unwrap();
        for variable in variables {
            assert!(template.contains(&format!("{{{variable}}}")), "{template}");
        }
    }
    // A server that does not send announces no vacation responses, and knows no capability of that name.
    let silent = Arc::new(JmapShared::new(server.ctx.clone()));
    let silent = silent.authenticate(&credentials(BASIC), None).await.unwrap();
    let session = serde_json::to_value(silent.session("https://mail.example.org").await.unwrap()).unwrap();
    assert_eq!(names(&session["capabilities"]), [BLOB, CONTACTS, CORE, MAIL, PRINCIPALS, QUOTA, WEBSOCKET]);
    let problem = api(&silent, &json!({ "using": [CORE, VACATION], "methodCalls": [] })).await.unwrap_err();
    assert!(matches!(problem, ApiError::Problem(Problem { status: 400, .. })), "{problem:?}");
    let session = serde_json::to_value(caller.session("https://mail.example.org").await.unwrap()).unwrap();
    // Responses repeat its state, whatever the client calls the server (RFC 8620 §3.4).
    let response = api(&caller, &echo(&json!(null))).await.unwrap();
    assert_eq!(response["sessionState"], session["state"]);
    assert_eq!(session["state"], json!(caller.session("http://localhost").await.unwrap().state));
}

#[tokio::test]
async fn a_server_that_does_not_send_announces_no_submission() {
    let server = TestServer::new().await;
    let caller = server.caller_without_sending().await;
    let session = serde_json::to_value(caller.session("https://mail.example.org").await.unwrap()).unwrap();
    let capabilities = session["capabilities"].as_object().unwrap();
    assert!(!capabilities.contains_key(SUBMISSION) && !capabilities.contains_key(MDN));
    let request = json!({ "using": [CORE, SUBMISSION], "methodCalls": [] });
    let Err(ApiError::Problem(problem)) = api(&caller, &request).await else { panic!() };
    assert_eq!(problem.problem, ProblemType::UnknownCapability);
}

#[tokio::test]
async fn a_method_works_only_with_its_capability() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let call = json!(["Mailbox/get", { "accountId": format!("A{}", server.record.id) }, "0"]);
    let request = json!({ "using": [CORE], "methodCalls": [call] });
    let response = api(&caller, &request).await.unwrap();
    assert_eq!(response["methodResponses"][0][1]["type"], "unknownMethod");
    let request = json!({ "using": [CORE, "urn:example:nothing"], "methodCalls": [] });
    let Err(ApiError::Problem(problem)) = api(&caller, &request).await else { panic!() };
    assert_eq!((problem.problem, problem.status), (ProblemType::UnknownCapability, 400));
}

#[tokio::test]
async fn created_ids_come_back() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let request = json!({ "using": [CORE], "methodCalls": [], "createdIds": { "k1": "Fa-1" } });
    assert_eq!(api(&caller, &request).await.unwrap()["createdIds"], json!({ "k1": "Fa-1" }));
    let request = json!({ "using": [CORE], "methodCalls": [] });
    assert_eq!(api(&caller, &request).await.unwrap().get("createdIds"), None);
}

/// A client that never reads.
struct StuckClient;

#[async_trait::async_trait]
impl ResponseSink for StuckClient {
    async fn send(&mut self, _: Vec<u8>) -> Result<(), ClientGone> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn requests_of_one_user_are_bounded() {
    let server = TestServer::new().await;
    let request = || Request::parse(echo(&json!(1)).to_string().as_bytes()).unwrap();
    let mut stuck = Vec::new();
    for _ in 0..JMAP_CONCURRENT_REQUESTS {
        let caller = server.caller().await;
        let mut work = Box::pin(async move { caller.api(request(), &mut StuckClient).await });
        assert!(futures_poll(&mut work).await.is_none(), "the client takes nothing");
        stuck.push(work);
    }
    let caller = server.caller().await;
    let refused = caller.api(request(), &mut Sink::default()).await.unwrap_err();
    let ApiError::Problem(problem) = refused else { panic!("{refused:?}") };
    assert_eq!(problem.problem, ProblemType::Limit("maxConcurrentRequests"));
    stuck.pop();
    caller.api(request(), &mut Sink::default()).await.unwrap();
}

#[tokio::test]
async fn large_requests_of_one_user_take_turns() {
    let server = TestServer::new().await;
    let (caller, other) = (server.caller().await, server.caller().await);
    // Few bytes, but values that take much memory.
    let many =
        json!({"@type": "Request", "id": "R", "using": [], "methodCalls": [], "x": vec![json!({}); 1000]});
    let text = many.to_string();
    assert!(text.len() <= HTTP_SMALL_MESSAGE_BYTES);
    let first = caller.read(text.as_bytes()).await.unwrap();
    let mut second = Box::pin(other.read(text.as_bytes()));
    assert!(futures_poll(&mut second).await.is_none(), "it waits for the first");
    let (refused, permit) = other.read_message(text.as_bytes()).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.problem.problem, ProblemType::Limit("maxConcurrentRequests"));
    assert!(refused.id.as_deref() == Some("R") && permit.is_none());
    // What is small does not wait.
    let small = other.read(echo(&json!(1)).to_string().as_bytes()).await.unwrap();
    other.api(small, &mut Sink::default()).await.unwrap();
    caller.api(first, &mut Sink::default()).await.unwrap();
    assert!(second.await.is_ok(), "the memory is free as soon as the response is sent");
}

/// Polls a future once.
async fn futures_poll<T>(work: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test]
async fn responses_are_sent_in_pieces_until_the_client_is_gone() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let text = "x".repeat(JMAP_SEND_BYTES);
    let calls: Vec<Value> =
        (0..8).map(|call| json!(["Core/echo", { "a": text }, call.to_string()])).collect();
    let request = json!({ "using": [CORE], "methodCalls": calls }).to_string();
    let mut sink = Sink::default();
    caller.api(Request::parse(request.as_bytes()).unwrap(), &mut sink).await.unwrap();
    let response: Value = serde_json::from_slice(&sink.bytes).unwrap();
    assert_eq!(response["methodResponses"].as_array().unwrap().len(), 8);
    assert!(sink.pieces >= 8, "{} pieces", sink.pieces);
    let mut full = Sink { room: 3 * JMAP_SEND_BYTES, ..Sink::default() };
    let ended = caller.api(Request::parse(request.as_bytes()).unwrap(), &mut full).await;
    assert_eq!((ended, full.pieces), (Err(ApiError::Ended), 3));
    assert_eq!(server.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn more_mailboxes_than_one_get_gives_are_read_in_parts() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let using = [CORE, "urn:ietf:params:jmap:mail"];
    let account = format!("A{}", server.record.id);
    let all = json!({ "using": using, "methodCalls": [["Mailbox/get", { "accountId": account }, "0"]] });
    let had = api(&caller, &all).await.unwrap()["methodResponses"][0][1]["list"].as_array().unwrap().len();
    let names =
        |range: std::ops::Range<usize>| range.map(|number| format!("m{number:05}")).collect::<Vec<_>>();
    server.create_mailboxes(&names(0..JMAP_GET_OBJECTS - had)).await;
    let response = api(&caller, &all).await.unwrap();
    assert_eq!(response["methodResponses"][0][1]["list"].as_array().unwrap().len(), JMAP_GET_OBJECTS);
    server.create_mailboxes(&names(JMAP_GET_OBJECTS..JMAP_GET_OBJECTS + 1)).await;
    let response = api(&caller, &all).await.unwrap();
    assert_eq!(response["methodResponses"][0][1]["type"], "requestTooLarge");
    // A query returns all of them, so that gets can name ids.
    let query = json!(["Mailbox/query", { "accountId": account, "calculateTotal": true, "limit": 3 }, "0"]);
    let reference = json!({ "resultOf": "0", "name": "Mailbox/query", "path": "/ids" });
    let get = json!(["Mailbox/get", { "accountId": account, "#ids": reference }, "1"]);
    let response = api(&caller, &json!({ "using": using, "methodCalls": [query, get] })).await.unwrap();
    assert_eq!(response["methodResponses"][0][1]["total"], JMAP_GET_OBJECTS + 1);
    assert_eq!(response["methodResponses"][1][1]["list"].as_array().unwrap().len(), 3);
    assert_eq!(server.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn changes_have_an_upper_limit() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let using = [CORE, "urn:ietf:params:jmap:mail"];
    let names: Vec<String> = (0..=JMAP_CHANGES).map(|number| format!("m{number:05}")).collect();
    server.create_mailboxes(&names).await;
    let arguments =
        json!({ "accountId": format!("A{}", server.record.id), "sinceState": "0", "maxChanges": 100_000 });
    let call = json!(["Mailbox/changes", arguments, "0"]);
    let response = api(&caller, &json!({ "using": using, "methodCalls": [call] })).await.unwrap();
    let changes = &response["methodResponses"][0][1];
    assert_eq!(
        (changes["created"].as_array().unwrap().len(), &changes["hasMoreChanges"]),
        (JMAP_CHANGES, &json!(true))
    );
    // The rest of that entry.
    let arguments = json!({ "accountId": changes["accountId"], "sinceState": changes["newState"] });
    let call = json!(["Mailbox/changes", arguments, "0"]);
    let response = api(&caller, &json!({ "using": using, "methodCalls": [call] })).await.unwrap();
    let changes = &response["methodResponses"][0][1];
    assert_eq!(
        (changes["created"].as_array().unwrap().len(), &changes["hasMoreChanges"]),
        (1, &json!(false))
    );
}

#[tokio::test]
async fn a_suspended_account_has_no_callers() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let suspend = |record: &mut sealpost_directory::AccountRecord| {
        record.suspended = Some(server::NOW);
        Ok(())
    };
    server.ctx.directory.update(&server.record.name, suspend).await.unwrap();
    assert_eq!(server.login(BASIC).await.err(), Some(LoginRefused::Suspended));
    server.ctx.auth.standings().look(server.record.id);
    caller.lost().await;
}

#[tokio::test]
async fn mailboxes_are_created_within_the_quota() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    // A new account has six mailboxes.
    let limit = |record: &mut sealpost_directory::AccountRecord| {
        record.quota_mailboxes = Some(7);
        Ok(())
    };
    server.ctx.directory.update(&server.record.name, limit).await.unwrap();
    let create = json!({ "a": { "name": "A" }, "b": { "name": "B" } });
    let arguments = json!({ "accountId": format!("A{}", server.record.id), "create": create });
    let using = [CORE, "urn:ietf:params:jmap:mail"];
    let request =
        json!({ "using": using, "methodCalls": [["Mailbox/set", arguments, "0"]], "createdIds": {} });
    let response = api(&caller, &request).await.unwrap();
    let set = &response["methodResponses"][0][1];
    assert_eq!(set["notCreated"], json!({ "b": { "type": "overQuota" } }));
    // Later requests may refer to it (RFC 8620 §3.3).
    assert_eq!(response["createdIds"], json!({ "a": set["created"]["a"]["id"] }));
}
