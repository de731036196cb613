//! Submissions beyond their limits, and what is in the queue of those within.

#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;

use sealpost_base::limits;
use sealpost_jmap_session::Caller;
use sealpost_queue::MailId;
use sealpost_queue::envelope::{Body, Notify, Ret};
use serde_json::{Value, json};

use server::{TestServer, api};

/// A server with a draft, and what clients know of it.
struct Fixture {
    server: TestServer,
    caller: Caller,
    email: Value,
    identity: Value,
}

impl Fixture {
    async fn new() -> Self {
        let server = TestServer::new().await;
        let draft = b"From: me@localhost\r\nTo: a@there.example\r\nBcc: b@there.example\r\n\r\ntext\r\n";
        server.deliver("Drafts", draft).await;
        let caller = server.caller().await;
        let mut fixture = Fixture { server, caller, email: Value::Null, identity: Value::Null };
        fixture.email = fixture.call("Email/query", json!({})).await["ids"][0].clone();
        let identities = fixture.call("Identity/get", json!({ "ids": null })).await;
        fixture.identity = identities["list"][0]["id"].clone();
        fixture
    }

    async fn call(&self, method: &str, mut arguments: Value) -> Value {
        arguments["accountId"] = json!(format!("A{}", self.server.record.id));
        let using = ["core", "mail", "submission"].map(|name| format!("urn:ietf:params:jmap:{name}"));
        let request = json!({ "using": using, "methodCalls": [[method, arguments, "0"]] });
        api(&self.caller, &request).await.unwrap()["methodResponses"][0][1].clone()
    }

    /// Submits the draft to so many recipients; the response for it.
    async fn submit(&self, recipients: usize, parameters: Value) -> Value {
        let to: Vec<Value> = (0..recipients)
            .map(|n| json!({ "email": format!("u{n}@there.example"), "parameters": { "NOTIFY": "NEVER" } }))
            .collect();
        let from = json!({ "email": "me@localhost", "parameters": parameters });
        let envelope = json!({ "mailFrom": from, "rcptTo": to });
        let create = json!({ "identityId": self.identity, "emailId": self.email, "envelope": envelope });
        let done = self.call("EmailSubmission/set", json!({ "create": { "k": create } })).await;
        let created = done["created"]["k"].clone();
        if created.is_null() { done["notCreated"]["k"].clone() } else { created }
    }
}

#[tokio::test]
async fn recipients_and_sending_limits_bound_submissions() {
    let fixture = Fixture::new().await;
    let refused = fixture.submit(limits::SUBMISSION_RECIPIENTS + 1, Value::Null).await;
    assert_eq!(refused["type"], "tooManyRecipients");
    assert_eq!(refused["maxRecipients"], limits::SUBMISSION_RECIPIENTS);
    // The default of an hour is 200.
    let refused = fixture.submit(201, Value::Null).await;
    assert_eq!((&refused["type"], &refused["maxRecipients"]), (&json!("tooManyRecipients"), &json!(200)));
    assert_eq!(fixture.submit(150, Value::Null).await["undoStatus"], "pending");
    let refused = fixture.submit(51, Value::Null).await;
    assert_eq!(refused["type"], "forbiddenToSend", "{refused}");
    assert_eq!(fixture.server.outbox.queue().state().len(), 1);
    let submissions = fixture.call("EmailSubmission/query", json!({})).await;
    assert_eq!(submissions["ids"].as_array().unwrap().len(), 1, "a refused one leaves no record");
}

#[tokio::test]
async fn the_queue_has_the_envelope_and_no_bcc() {
    let fixture = Fixture::new().await;
    let parameters = json!({ "RET": "HDRS", "ENVID": "id 1", "HOLDUNTIL": "2026-11-20T14:00:00+01:00" });
    let made = fixture.submit(1, parameters).await;
    assert_eq!(made["sendAt"], "2026-11-20T13:00:00Z", "{made}");
    let mail = fixture.server.outbox.queue().read(MailId(0)).await.unwrap();
    assert_eq!(
        (mail.from.as_str(), mail.ret, mail.envid.as_deref()),
        ("me@localhost", Some(Ret::Headers), Some("id 1"))
    );
    assert_eq!(mail.released().seconds(), 1_795_179_600);
    assert_eq!(
        (mail.recipients[0].address.as_str(), mail.recipients[0].notify),
        ("u0@there.example", Some(Notify::NEVER))
    );
    let Body::Inline(body) = &mail.body else { panic!("a small one") };
    let text = String::from_utf8([mail.header.clone(), body.clone()].concat()).unwrap();
    assert!(text.starts_with("Received: by localhost\r\n\tid ") && !text.contains("Bcc"), "{text}");
    let of = mail.submission.as_ref().unwrap();
    assert_eq!(
        (made["id"].as_str().unwrap(), of.account.as_str()),
        (&*format!("S{}", of.id), "me@localhost")
    );
}

#[tokio::test]
async fn a_suspended_account_submits_nothing() {
    let fixture = Fixture::new().await;
    fixture.server.ctx.directory.suspend(&fixture.server.record.name).await.unwrap();
    let refused = fixture.submit(1, Value::Null).await;
    assert_eq!(refused["type"], "forbiddenToSend", "{refused}");
    assert!(fixture.server.outbox.queue().state().is_empty());
}
