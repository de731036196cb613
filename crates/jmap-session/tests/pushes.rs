//! Pushes to a device, from the method that subscribes to what the device decrypts.

#[path = "support/push_service.rs"]
mod push_service;
#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use push_service::PushService;
use sealpost_auth::{Scope, Scopes};
use sealpost_base::limits::{PUSH_CREATED_PER_HOUR, PUSH_SUBSCRIPTIONS};
use sealpost_jmap_session::{Caller, JmapShared};
use sealpost_push::Pusher;
use sealpost_testkit::web_push::Device;
use serde_json::{Value, json};
use server::{TestServer, api};

const CORE: &str = "urn:ietf:params:jmap:core";
const MAIL: &str = "urn:ietf:params:jmap:mail";
const MESSAGE: &[u8] = b"Subject: x\r\n\r\ntext\r\n";

struct World {
    server: TestServer,
    service: PushService,
    push: Pusher,
    device: Device,
    data: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let (mut server, service) = (TestServer::new().await, PushService::start().await);
        let data = tempfile::tempdir().unwrap();
        let push = service.pusher(&server.ctx, Some(data.path().to_owned())).await;
        server.jmap = Arc::new(JmapShared::new(server.ctx.clone()).with_push(Some(push.clone())));
        World { server, service, push, device: Device::new([3; 32], [4; 16]), data }
    }

    /// A new subscription of a device.
    fn subscription(&self, name: &str) -> Value {
        let keys = json!({
            "p256dh": URL_SAFE.encode(self.device.point),
            "auth": URL_SAFE_NO_PAD.encode(self.device.secret),
        });
        json!({"deviceClientId": name, "url": "https://push.example.org/p/secret", "keys": keys})
    }

    /// Creates a subscription and verifies it; its id.
    async fn subscribe(&mut self, caller: &Caller, changes: &Value) -> String {
        let mut object = self.subscription("one");
        object.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let created = set(caller, json!({"create": {"a": object}})).await;
        let id = created["created"]["a"]["id"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        let sent = self.message().await;
        assert_eq!(sent["@type"], "PushVerification");
        assert_eq!(sent["pushSubscriptionId"], id.as_str());
        let code = sent["verificationCode"].clone();
        let updated = set(caller, json!({"update": {&id: {"verificationCode": code}}})).await;
        assert_eq!(updated["updated"], json!({&id: null}));
        id
    }

    /// What the device reads of the next push.
    async fn message(&mut self) -> Value {
        let received = self.service.next().await;
        assert_eq!(received.field("Content-Encoding"), Some("aes128gcm"), "{}", received.head);
        assert!(!received.body.windows(6).any(|bytes| bytes == b"\"@type"));
        let plain = self.device.decrypt(&received.body).expect("a message for this device");
        serde_json::from_slice(&plain).unwrap()
    }

    /// The states of the account in the next push.
    async fn states(&mut self) -> Value {
        let message = self.message().await;
        assert_eq!(message["@type"], "StateChange");
        message["changed"][format!("A{}", self.server.record.id)].clone()
    }

    /// The state that Email/get returns.
    async fn state(&self, caller: &Caller) -> Value {
        self.state_of(caller, "Email").await
    }

    /// The state that /get of a type returns.
    async fn state_of(&self, caller: &Caller, kind: &str) -> Value {
        let account = format!("A{}", self.server.record.id);
        let calls = json!([[format!("{kind}/get"), {"accountId": account, "ids": []}, "0"]]);
        let request = json!({"using": [CORE, MAIL], "methodCalls": calls});
        api(caller, &request).await.unwrap()["methodResponses"][0][1]["state"].clone()
    }

    /// Waits until this node knows so many subscriptions.
    async fn known(&self, count: usize) {
        self.until(|push| push.known() == count).await;
    }

    /// Waits for what the pusher does after the service has answered.
    async fn until(&self, is_done: impl Fn(&Pusher) -> bool) {
        let wait = async {
            while !is_done(&self.push) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait).await.expect("in time");
    }
}

async fn call(caller: &Caller, method: &str, arguments: Value) -> Value {
    let request = json!({"using": [CORE], "methodCalls": [[method, arguments, "0"]]});
    api(caller, &request).await.unwrap()["methodResponses"][0][1].clone()
}

async fn set(caller: &Caller, arguments: Value) -> Value {
    call(caller, "PushSubscription/set", arguments).await
}

async fn list(caller: &Caller) -> Value {
    call(caller, "PushSubscription/get", json!({"ids": null})).await["list"].clone()
}

#[tokio::test]
async fn a_verified_device_hears_of_mail_and_flags() {
    let mut world = World::new().await;
    let caller = world.server.caller().await;
    // Before the subscription is verified nothing is pushed.
    let created = set(&caller, json!({"create": {"a": world.subscription("one")}})).await;
    let id = created["created"]["a"]["id"].as_str().unwrap().to_owned();
    assert_eq!(created["created"]["a"]["expires"], "2026-11-27T12:00:00Z");
    let received = world.service.next().await;
    let verification: Value = serde_json::from_slice(&world.device.decrypt(&received.body).unwrap()).unwrap();
    for (name, value) in [("TTL", "3600"), ("Urgency", "high"), ("Content-Type", "application/json")] {
        assert_eq!(received.field(name), Some(value), "{}", received.head);
    }
    assert!(received.head.starts_with("POST /p/secret HTTP/1.1\r\nHost: push.example.org\r\n"));
    let signed = received.field("Authorization").unwrap();
    let key = world.push.application_server_key();
    assert!(signed.starts_with("vapid t=") && signed.ends_with(key));
    // RFC 9749 §3: clients hand the key to their push service.
    let session = serde_json::to_value(caller.session("https://h").await.unwrap()).unwrap();
    let vapid = &session["capabilities"]["urn:ietf:params:jmap:webpush-vapid"];
    assert_eq!(*vapid, json!({"applicationServerKey": key}));
    world.server.deliver("INBOX", MESSAGE).await;
    let wrong = set(&caller, json!({"update": {&id: {"verificationCode": "0"}}})).await;
    assert_eq!(wrong["notUpdated"][&id]["type"], "invalidProperties");
    let code = verification["verificationCode"].clone();
    let updated = set(&caller, json!({"update": {&id: {"verificationCode": code}}})).await;
    assert_eq!(updated["updated"], json!({&id: null}));
    assert_eq!(list(&caller).await[0]["verificationCode"], code);
    assert!(world.service.is_quiet());

    world.server.deliver("INBOX", MESSAGE).await;
    let state = world.state(&caller).await;
    let all = json!({"Email": state, "EmailDelivery": state, "Mailbox": state, "Thread": state});
    let received = world.service.next().await;
    assert_eq!(received.field("Urgency"), Some("normal"));
    assert_eq!(received.field("Topic").map(str::len), Some(24));
    let message: Value = serde_json::from_slice(&world.device.decrypt(&received.body).unwrap()).unwrap();
    assert_eq!(message["changed"][format!("A{}", world.server.record.id)], all);
    // Changes of one second are one push, with the last state.
    world.server.act("flag INBOX 1 \\Seen").await;
    world.server.act("flag INBOX 2 \\Seen").await;
    let state = world.state(&caller).await;
    assert_eq!(world.states().await, json!({"Email": state, "Mailbox": state}));
    world.server.act("create Work").await;
    let state = world.state_of(&caller, "Mailbox").await;
    assert_eq!(world.states().await, json!({"Mailbox": state}));
    assert!(world.service.is_quiet());
    world.until(|push| push.metrics().sent.read() == 3).await;
    assert_eq!(world.push.metrics().verifications.read(), 1);
}

#[tokio::test]
async fn states_have_shared_mailboxes_and_types_are_kept_to() {
    let mut world = World::new().await;
    world.server.act("create Team").await;
    world.server.deliver("Team", MESSAGE).await;
    let caller = world.server.caller().await;
    world.subscribe(&caller, &json!({"types": ["Mailbox", "Todo"]})).await;
    world.server.act("share Team").await;
    let _ = world.states().await;
    // The share is known from here on: a request that reads the account says so.
    let state = world.state(&caller).await;
    assert!(state.as_str().unwrap().contains('-'), "{state}");
    world.server.deliver("INBOX", MESSAGE).await;
    // The push says where the logs end. From there nothing leads to the state of the type.
    let state = world.state_of(&caller, "Mailbox").await;
    let pushed = world.states().await["Mailbox"].clone();
    let account = format!("A{}", world.server.record.id);
    let calls = json!([["Mailbox/changes", {"accountId": account, "sinceState": pushed}, "0"]]);
    let request = json!({"using": [CORE, MAIL], "methodCalls": calls});
    let changes = api(&caller, &request).await.unwrap()["methodResponses"][0][1].clone();
    assert_eq!((&changes["newState"], &changes["updated"]), (&state, &json!([])), "{pushed}");
    // An entry of the share's log changes the state of its owner's account.
    world.server.act("see-shared Team").await;
    let seen = world.states().await;
    assert_ne!(seen, json!({"Mailbox": state}));
    assert_eq!(seen, json!({"Mailbox": world.state_of(&caller, "Mailbox").await}));
}

#[tokio::test]
async fn subscriptions_end_with_the_push_service() {
    let mut world = World::new().await;
    let caller = world.server.caller().await;
    world.subscribe(&caller, &json!({})).await;
    world.service.reply("410 Gone");
    world.server.deliver("INBOX", MESSAGE).await;
    let _ = world.states().await;
    world.known(0).await;
    assert_eq!(list(&caller).await, json!([]));
    assert_eq!(world.push.metrics().removed.read(), 1);
}

#[tokio::test]
async fn subscriptions_end_with_their_login() {
    let mut world = World::new().await;
    let caller = world.server.caller().await;
    let name = &world.server.record.name;
    let (added, token) =
        world.server.ctx.directory.add_app_password(name, &world.server.root, "phone").await.unwrap();
    let phone = world.server.login(&format!("Bearer {}", *token)).await.unwrap();
    world.subscribe(&phone, &json!({})).await;
    assert_eq!(list(&phone).await.as_array().map(Vec::len), Some(1));
    assert_eq!(list(&caller).await, json!([]), "of another login");
    world.server.ctx.directory.revoke_app_password(&world.server.record.name, added.id).await.unwrap();
    world.server.deliver("INBOX", MESSAGE).await;
    world.known(0).await;
    assert!(world.service.is_quiet());
    world.until(|push| push.metrics().removed.read() == 1).await;
}

#[tokio::test]
async fn pushes_that_are_owed_survive_a_restart() {
    let mut world = World::new().await;
    let caller = world.server.caller().await;
    world.subscribe(&caller, &json!({})).await;
    world.server.deliver("INBOX", MESSAGE).await;
    let _ = world.states().await;
    world.push.stop().await;
    // What is appended while nothing pushes is found by the positions in the data directory.
    world.server.deliver("INBOX", MESSAGE).await;
    let state = world.state(&caller).await;
    let again = world.service.pusher(&world.server.ctx, Some(world.data.path().to_owned())).await;
    let owed = world.states().await;
    assert_eq!(owed["Email"], json!(state));
    let all: Vec<_> = owed.as_object().unwrap().keys().map(String::as_str).collect();
    let of_mail = ["Email", "EmailDelivery", "EmailSubmission", "Identity", "Mailbox", "Thread"];
    assert_eq!(all, [&["AddressBook", "ContactCard"], &of_mail[..]].concat());
    assert_eq!(again.known(), 1);
    again.stop().await;
    // A node that never pushed takes what is there for known.
    let fresh = tempfile::tempdir().unwrap();
    let other = world.service.pusher(&world.server.ctx, Some(fresh.path().to_owned())).await;
    world.push = other;
    world.known(1).await;
    world.server.deliver("INBOX", MESSAGE).await;
    let _ = world.states().await;
    assert!(world.service.is_quiet());
}

#[tokio::test]
async fn failed_pushes_are_tried_again_and_redirects_are_not_followed() {
    let mut world = World::new().await;
    let caller = world.server.caller().await;
    world.subscribe(&caller, &json!({})).await;
    world.service.reply("307 Temporary Redirect\r\nLocation: https://inside.example.org/");
    world.server.deliver("INBOX", MESSAGE).await;
    let _ = world.states().await;
    world.server.deliver("INBOX", MESSAGE).await;
    let state = world.state(&caller).await;
    assert_eq!(world.states().await["Email"], state);
    world.service.reply("500 Internal Server Error");
    world.server.deliver("INBOX", MESSAGE).await;
    let failed = world.states().await;
    assert_eq!(world.states().await, failed, "the second attempt");
    world.until(|push| push.metrics().sent.read() == 2).await;
    assert_eq!((world.push.metrics().failed.read(), world.push.metrics().dropped.read()), (2, 1));
}

#[tokio::test]
async fn subscriptions_of_a_user_are_bounded_in_number_and_rate() {
    let world = World::new().await;
    let caller = world.server.caller().await;
    let mut create = serde_json::Map::new();
    for number in 0..=PUSH_SUBSCRIPTIONS {
        create.insert(format!("c{number:03}"), world.subscription(&format!("device {number}")));
    }
    let response = set(&caller, json!({"create": create})).await;
    assert_eq!(response["created"].as_object().map(serde_json::Map::len), Some(PUSH_SUBSCRIPTIONS));
    assert_eq!(response["notCreated"][format!("c{PUSH_SUBSCRIPTIONS:03}")]["type"], "overQuota");
    // The same device again: the new one is in the place of the old one.
    let mut refused = Value::Null;
    for _ in PUSH_SUBSCRIPTIONS..=PUSH_CREATED_PER_HOUR {
        refused = set(&caller, json!({"create": {"a": world.subscription("device 0")}})).await["notCreated"]
            .clone();
    }
    assert_eq!(refused["a"]["type"], "rateLimit");
    assert_eq!(list(&caller).await.as_array().map(Vec::len), Some(PUSH_SUBSCRIPTIONS));
}

/// The names of types.
fn names(states: &Value) -> Vec<&str> {
    states.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_subscription_keeps_the_types_of_its_scopes() {
    let world = World::new().await;
    let of_contacts = ["AddressBook", "ContactCard", "Principal", "Quota", "ShareNotification"];
    let contacts = world.server.scoped_caller(Scopes::NONE.with(Scope::Contacts)).await;
    let mail = world.server.scoped_caller(Scopes::NONE.with(Scope::Mail)).await;
    let with = |types: Value| {
        let mut object = world.subscription("one");
        object["types"] = types;
        json!({"create": {"a": object}})
    };
    for (caller, wanted, kept) in [
        (&contacts, json!(null), json!(of_contacts)),
        (&contacts, json!(["Email", "ContactCard"]), json!(["ContactCard"])),
        (&contacts, json!(["Email", "EmailDelivery", "Mailbox", "Thread"]), json!([])),
        (&mail, json!(["Email", "ContactCard", "VacationResponse"]), json!(["Email", "VacationResponse"])),
    ] {
        let created = set(caller, with(wanted.clone())).await;
        // RFC 8620 §5.3: the response has what is not as the client said.
        assert_eq!(created["created"]["a"]["types"], kept, "{wanted}");
        assert_eq!(list(caller).await[0]["types"], kept, "{wanted}");
    }
    let created = set(&contacts, json!({"create": {"a": world.subscription("two")}})).await;
    assert_eq!(created["created"]["a"]["types"], json!(of_contacts), "no types are all that are granted");
    let id = created["created"]["a"]["id"].as_str().unwrap().to_owned();
    for (wanted, kept) in [(json!(["Email"]), json!([])), (json!(null), json!(of_contacts))] {
        let updated = set(&contacts, json!({"update": {&id: {"types": wanted}}})).await;
        assert_eq!(updated["updated"][&id], json!({"types": kept}));
    }
    let updated = set(&contacts, json!({"update": {&id: {"types": ["ContactCard"]}}})).await;
    assert_eq!(updated["updated"], json!({&id: null}));
    // A login that may do everything keeps what it names, and null.
    let caller = world.server.caller().await;
    let created = set(&caller, with(json!(["Email", "Todo"]))).await;
    assert_eq!(created["created"]["a"].get("types"), None, "{created}");
    let created = set(&caller, with(json!(null))).await;
    assert_eq!(created["created"]["a"]["types"], json!(null), "{created}");
}

#[tokio::test]
async fn a_device_hears_of_the_types_of_its_scopes() {
    for scope in [Scope::Contacts, Scope::Mail] {
        let mut world = World::new().await;
        let caller = world.server.scoped_caller(Scopes::NONE.with(scope)).await;
        world.subscribe(&caller, &json!({})).await;
        let all = world.server.caller().await;
        let book = json!([["AddressBook/set", {"create": {"a": {"name": "Work"}},
            "accountId": format!("A{}", world.server.record.id)}, "0"]]);
        let request = json!({"using": [CORE, "urn:ietf:params:jmap:contacts"], "methodCalls": book});
        // What the scope does not grant comes first: it is in no push, alone or with the next change.
        if scope == Scope::Contacts {
            world.server.deliver("INBOX", MESSAGE).await;
            api(&all, &request).await.unwrap();
            assert_eq!(names(&world.states().await), ["AddressBook"]);
        } else {
            api(&all, &request).await.unwrap();
            world.server.deliver("INBOX", MESSAGE).await;
            let states = world.states().await;
            assert_eq!(names(&states), ["Email", "EmailDelivery", "Mailbox", "Thread"]);
        }
        assert!(world.service.is_quiet());
    }
}

#[tokio::test]
async fn a_server_without_pushes_refuses_subscriptions() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let object = json!({"deviceClientId": "one", "url": "https://push.example.org/"});
    let wrong = json!({"deviceClientId": "two", "url": "http://push.example.org/"});
    let response = set(
        &caller,
        json!({"create": {"a": object, "b": wrong}, "update": {"P1": {"types": null}}, "destroy": ["P2"]}),
    )
    .await;
    assert_eq!(response["notCreated"]["a"]["type"], "forbidden");
    assert_eq!(response["notCreated"]["b"]["type"], "invalidProperties");
    assert_eq!(response["notUpdated"]["P1"]["type"], "notFound");
    assert_eq!(response["notDestroyed"]["P2"]["type"], "notFound");
    assert_eq!(list(&caller).await, json!([]));
    let session = caller.session("https://h").await.unwrap();
    assert!(!session.capabilities.keys().any(|name| name.contains("vapid")));
}
