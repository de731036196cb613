//! Submissions of JMAP clients, through the queue, into mailboxes and to other servers.

use std::time::Duration;

use sealpost_jmap::Request;
use sealpost_jmap_session::{Caller, ClientGone, Credentials, JmapShared, ResponseSink};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::world::{Answer, Node, TIMEOUT, World};

/// A client of JMAP.
struct Client {
    caller: Caller,
    account: String,
}

#[derive(Default)]
struct Sink(Vec<u8>);

#[async_trait::async_trait]
impl ResponseSink for Sink {
    async fn send(&mut self, bytes: Vec<u8>) -> Result<(), ClientGone> {
        self.0.extend(bytes);
        Ok(())
    }
}

impl Client {
    async fn login(node: &Node, name: &str) -> Self {
        let jmap = JmapShared::new(node.ctx.clone()).sending(Some(node.sending.outbox().clone()));
        let secret = "secret".to_owned().into();
        let credentials = Credentials::Password { name: format!("{name}@localhost"), secret };
        let caller = std::sync::Arc::new(jmap).authenticate(&credentials, None).await.unwrap();
        let account = format!("A{}", caller.account());
        Client { caller, account }
    }

    /// The response to one call.
    async fn call(&self, method: &str, mut arguments: Value) -> Value {
        arguments["accountId"] = json!(self.account);
        let using = ["core", "mail", "submission", "mdn"].map(|name| format!("urn:ietf:params:jmap:{name}"));
        let request = json!({ "using": using, "methodCalls": [[method, arguments, "0"]] });
        let request = Request::parse(request.to_string().as_bytes()).unwrap();
        let mut sink = Sink::default();
        Box::pin(self.caller.api(request, &mut sink)).await.unwrap();
        let response: Value = serde_json::from_slice(&sink.0).unwrap();
        response["methodResponses"][0][1].clone()
    }

    /// The id of a new draft to these recipients.
    async fn draft(&self, to: &[&str]) -> String {
        let mailboxes = self.call("Mailbox/query", json!({ "filter": { "role": "drafts" } })).await;
        let drafts = mailboxes["ids"][0].as_str().unwrap();
        let to: Vec<Value> = to.iter().map(|email| json!({ "email": email })).collect();
        let draft = json!({
            "mailboxIds": { drafts: true },
            "from": [{ "email": "me@localhost" }],
            "to": to,
            "bcc": [{ "email": "secret@there.example" }],
            "subject": "Hello",
            "bodyValues": { "1": { "value": "Text." } },
            "textBody": [{ "partId": "1", "type": "text/plain" }],
        });
        let made = self.call("Email/set", json!({ "create": { "d": draft } })).await;
        made["created"]["d"]["id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    /// Submits a draft; what the server says of it. With `held`, not to be sent for so many seconds.
    async fn submit(&self, to: &[&str], held: Option<u64>) -> Value {
        let email = self.draft(to).await;
        let identities = self.call("Identity/get", json!({ "ids": null })).await;
        let identity = &identities["list"][0]["id"];
        let mut object = json!({ "identityId": identity, "emailId": email });
        if let Some(seconds) = held {
            let to: Vec<Value> = to.iter().map(|email| json!({ "email": email })).collect();
            let parameters = json!({ "HOLDFOR": seconds.to_string() });
            let from = json!({ "email": "me@localhost", "parameters": parameters });
            object["envelope"] = json!({ "mailFrom": from, "rcptTo": to });
        }
        let made = self.call("EmailSubmission/set", json!({ "create": { "s": object } })).await;
        assert!(made["created"]["s"].is_object(), "{made}");
        made["created"]["s"].clone()
    }

    async fn submission(&self, id: &Value) -> Value {
        let got = self.call("EmailSubmission/get", json!({ "ids": [id] })).await;
        got["list"][0].clone()
    }

    /// The submission once it is as wanted.
    async fn submission_that(&self, id: &Value, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let submission = self.submission(id).await;
            if is_wanted(&submission) {
                return submission;
            }
            assert!(Instant::now() < deadline, "{submission}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn cancel(&self, id: &Value) -> Value {
        let id = id.as_str().unwrap();
        self.call("EmailSubmission/set", json!({ "update": { id: { "undoStatus": "canceled" } } })).await
    }
}

fn is_final(submission: &Value) -> bool {
    submission["undoStatus"] == "final"
        && submission["deliveryStatus"]
            .as_object()
            .unwrap()
            .values()
            .all(|status| status["delivered"] != "queued")
}

#[tokio::test]
async fn recipients_get_a_submission_and_its_account_learns_of_them() {
    let world = World::new().await;
    world.mail_server("there.example", "192.0.2.1");
    world.mail_server("refusing.example", "192.0.2.2");
    let there = world.peers.put("192.0.2.1", Answer::Take);
    world.peers.put("192.0.2.2", Answer::RefuseRecipients);
    let node = world.start().await;
    let me = Client::login(&node, "me").await;
    let made = me.submit(&["you@localhost", "u@there.example", "v@refusing.example"], None).await;
    let to = &made["envelope"]["rcptTo"];
    assert_eq!(to[3]["email"], "secret@there.example", "{made}");
    let submission = me.submission_that(&made["id"], is_final).await;
    let status = |of: &str| {
        let status = &submission["deliveryStatus"][of];
        (status["delivered"].as_str().unwrap().to_owned(), status["smtpReply"].as_str().unwrap().to_owned())
    };
    assert_eq!(status("you@localhost"), ("yes".to_owned(), "250 2.1.5 Delivered".to_owned()));
    assert_eq!(status("u@there.example"), ("unknown".to_owned(), "250 2.0.0 taken".to_owned()));
    assert_eq!(status("v@refusing.example"), ("no".to_owned(), "550 5.1.1 no such user".to_owned()));
    // The report about the refused one is in the sender's account, and the submission names it.
    let state = me.call("EmailSubmission/get", json!({ "ids": [] })).await["state"].clone();
    let is_reported = |submission: &Value| submission["dsnBlobIds"] != json!([]);
    let reported = me.submission_that(&made["id"], is_reported).await;
    let reports =
        me.call("Email/query", json!({ "filter": { "subject": "Undelivered" } })).await["ids"].clone();
    let reports = me.call("Email/get", json!({ "ids": reports, "properties": ["blobId", "from"] })).await;
    assert_eq!(reported["dsnBlobIds"], json!([reports["list"][0]["blobId"]]), "{reports}");
    assert_eq!(reported["mdnBlobIds"], json!([]));
    let now = me.call("EmailSubmission/get", json!({ "ids": [] })).await["state"].clone();
    let changes = me.call("EmailSubmission/changes", json!({ "sinceState": state })).await;
    assert!(now == state || changes["updated"] == json!([made["id"]]), "{changes}");
    let [message] = &node.inbox(&world, "you").await[..] else { panic!("one message") };
    assert!(message.contains("Subject: Hello") && !message.to_lowercase().contains("secret"), "{message}");
    let [sent] = &there.messages()[..] else { panic!("one message to both recipients") };
    assert!(sent.contains("RCPT TO:<secret@there.example>") && !sent.contains("Bcc"), "{sent}");
    // Another account does not see it, and cannot submit the email.
    let you = Client::login(&node, "you").await;
    assert_eq!(you.submission(&made["id"]).await, Value::Null);
    let own = you.call("Identity/get", json!({ "ids": null })).await;
    let email = &me.submission(&made["id"]).await["emailId"];
    let create = json!({ "s": { "identityId": own["list"][0]["id"], "emailId": email } });
    let refused = you.call("EmailSubmission/set", json!({ "create": create })).await;
    assert_eq!(refused["notCreated"]["s"]["properties"], json!(["emailId"]), "{refused}");
    assert_eq!(you.cancel(&made["id"]).await["updated"], Value::Null);
    node.stop().await;
}

#[tokio::test]
async fn a_held_submission_survives_a_restart_and_is_sent_then() {
    let world = World::new().await;
    let node = world.start().await;
    let me = Client::login(&node, "me").await;
    let made = me.submit(&["you@localhost"], Some(3600)).await;
    assert_eq!((&made["undoStatus"], &made["sendAt"]), (&json!("pending"), &json!("2026-11-20T13:00:00Z")));
    node.stop().await;
    let node = world.start().await;
    let me = Client::login(&node, "me").await;
    assert_eq!(me.submission(&made["id"]).await["undoStatus"], "pending");
    assert!(node.inbox(&world, "you").await.is_empty());
    world.clock.advance(Duration::from_secs(3601));
    me.submission_that(&made["id"], is_final).await;
    assert_eq!(node.inbox(&world, "you").await.len(), 1);
    node.stop().await;
}

#[tokio::test]
async fn a_held_submission_is_canceled_by_any_node() {
    // A store that notifies the other node of requests.
    let dir = tempfile::tempdir().unwrap();
    let world = World::over(sealpost_vault::Store::local(dir.path()).await.unwrap()).await;
    let node = world.start().await;
    let me = Client::login(&node, "me").await;
    let [first, second] =
        [me.submit(&["you@localhost"], Some(600)).await, me.submit(&["you@localhost"], Some(600)).await];
    let canceled = me.cancel(&first["id"]).await;
    assert_eq!(canceled["updated"][first["id"].as_str().unwrap()], Value::Null, "{canceled}");
    assert_eq!(me.submission(&first["id"]).await["undoStatus"], "canceled");
    let data = tempfile::tempdir().unwrap();
    let key = world.data.path().join(sealpost_server::sending::KEY_FILE);
    std::fs::copy(key, data.path().join(sealpost_server::sending::KEY_FILE)).unwrap();
    let other = world.try_start(data.path()).await.unwrap();
    let there = Client::login(&other, "me").await;
    let canceled = there.cancel(&second["id"]).await;
    assert!(canceled["updated"].is_object(), "{canceled}");
    world.clock.advance(Duration::from_secs(601));
    node.drained().await;
    assert!(node.inbox(&world, "you").await.is_empty());
    other.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn a_record_that_no_queue_has_counts_as_canceled() {
    use sealpost_account::Event;
    use sealpost_account::submission::{PathAddress, Submission};
    use sealpost_base::{Clock, IdentityId, ObjectId, SubmissionId};
    let world = World::new().await;
    let node = world.start().await;
    let me = Client::login(&node, "me").await;
    // As a node leaves it that ends between the two logs.
    let (record, root) = &world.owners["me"];
    let account = node.ctx.accounts.open(record.id, root).await.unwrap();
    let path = |address: &str| PathAddress { address: address.to_owned(), parameters: None };
    let submission = Submission {
        id: SubmissionId([7; 16]),
        identity: IdentityId([1; 16]),
        email: ObjectId([2; 16]),
        thread: sealpost_account::ThreadId::of_object(ObjectId([2; 16])),
        from: path("me@localhost"),
        to: vec![path("you@localhost")],
        send_at: world.clock.now(),
        queue: node.sending.queue().node(),
    };
    let submitted = Event::Submitted { submission };
    account.commit(|_| Ok((vec![submitted.clone()], ()))).await.unwrap();
    let id = json!(format!("S{}", SubmissionId([7; 16])));
    assert_eq!(me.submission(&id).await["undoStatus"], "pending");
    world.clock.advance(Duration::from_secs(601));
    let submission = me.submission(&id).await;
    assert_eq!(submission["undoStatus"], "canceled");
    assert_eq!(submission["deliveryStatus"]["you@localhost"]["delivered"], "no");
    node.stop().await;
}

#[tokio::test]
async fn listeners_hear_of_submissions_and_identities() {
    let world = World::new().await;
    let node = world.start().await;
    let me = Client::login(&node, "me").await;
    let mut changes = me.caller.follow(None).await.unwrap();
    let made = me.submit(&["you@localhost"], None).await;
    let mut types = std::collections::BTreeSet::new();
    while !(types.contains("EmailSubmission") && types.contains("Identity")) {
        let change = tokio::time::timeout(TIMEOUT, changes.next()).await.expect("no change").unwrap();
        types.extend(change.changed.into_values().flat_map(|types| types.into_keys()));
    }
    me.submission_that(&made["id"], is_final).await;
    node.stop().await;
}

#[tokio::test]
async fn a_notification_reaches_the_sender_with_the_null_sender() {
    let world = World::new().await;
    world.mail_server("there.example", "192.0.2.1");
    let there = world.peers.put("192.0.2.1", Answer::Take);
    let node = world.start().await;
    let me = Client::login(&node, "me").await;
    let (record, _) = &world.owners["me"];
    let mut ingest = node.ctx.accounts.ingest(record.id).await.unwrap();
    let text = b"From: s@there.example\r\nDisposition-Notification-To: s@there.example\r\n\
                 Message-ID: <1@there.example>\r\nSubject: x\r\n\r\ntext\r\n";
    ingest.write(text).await.unwrap();
    let stored = ingest.finish().await.unwrap();
    let delivery = sealpost_account::Delivery::to(sealpost_base::Clock::now(&*world.clock), None);
    node.ctx.accounts.deliver(record.id, &record.public, stored, delivery).await.unwrap();
    let email = me.call("Email/query", json!({})).await["ids"][0].as_str().unwrap().to_owned();
    let identity = me.call("Identity/get", json!({ "ids": null })).await["list"][0]["id"].clone();
    let disposition =
        json!({ "actionMode": "manual-action", "sendingMode": "mdn-sent-manually", "type": "displayed" });
    let mdn = json!({ "forEmailId": email, "includeOriginalMessage": true, "disposition": disposition });
    let update = json!({ email: { "keywords/$mdnsent": true } });
    let arguments = json!({ "identityId": identity, "send": { "k": mdn }, "onSuccessUpdateEmail": update });
    let sent = me.call("MDN/send", arguments).await;
    assert_eq!(sent["sent"]["k"]["originalMessageId"], "<1@there.example>", "{sent}");
    there.got(1).await;
    let message = &there.messages()[0];
    assert!(message.starts_with("MAIL FROM:<>"), "{message}");
    assert!(message.contains("\r\nDisposition: manual-action/mdn-sent-manually; displayed\r\n"), "{message}");
    node.stop().await;
}
