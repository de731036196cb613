//! Email/get and Blob/get on messages of every kind, compared with what was sent; damaged and hostile
//! messages; downloads.

#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use it too")]
mod server;

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use sealpost_base::limits::{JMAP_BLOB_DATA_BYTES, JMAP_BODY_VALUE_BYTES, MIME_DEPTH, MIME_PARTS};
use sealpost_base::{Random, SeededRandom};
use sealpost_jmap_session::Caller;
use sealpost_mime::build::{Entity, MessageBuilder};
use sealpost_mime::encode;
use sealpost_vault::message;
use serde_json::{Map, Value, json};
use server::{TestServer, api};

const USING: [&str; 3] =
    ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail", "urn:ietf:params:jmap:blob"];

/// Sends one call; its response and the response's name.
async fn call(caller: &Caller, name: &str, arguments: Value) -> (String, Value) {
    let Value::Object(mut arguments) = arguments else { panic!("arguments") };
    arguments.insert("accountId".into(), json!(format!("A{}", caller.account())));
    let request = json!({ "using": USING, "methodCalls": [[name, arguments, "0"]] });
    let mut response = api(caller, &request).await.unwrap()["methodResponses"][0].take();
    (response[0].as_str().unwrap().to_owned(), response[1].take())
}

async fn get(caller: &Caller, arguments: Value) -> Vec<Value> {
    let (name, mut response) = call(caller, "Email/get", arguments).await;
    assert_eq!(name, "Email/get", "{response}");
    let Value::Array(list) = response["list"].take() else { panic!("a list") };
    list
}

/// The ids of all emails, in order of arrival.
async fn ids(caller: &Caller) -> Vec<String> {
    let (_, response) = call(caller, "Email/changes", json!({ "sinceState": "0" })).await;
    let created = response["created"].as_array().unwrap();
    let ids: Vec<&str> = created.iter().map(|id| id.as_str().unwrap()).collect();
    let mut emails = Vec::new();
    for ids in ids.chunks(500) {
        emails.extend(get(caller, json!({ "ids": ids, "properties": ["receivedAt"] })).await);
    }
    emails.sort_by_key(|email| email["receivedAt"].as_str().unwrap().to_owned());
    emails.iter().map(|email| email["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn headers_of_the_newest_emails_are_read_once() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let deliver = async |n: usize| {
        server.deliver("INBOX", format!("Subject: {n}\r\nFrom: a@x\r\n\r\ntext\r\n").as_bytes()).await;
    };
    for n in 0..5 {
        deliver(n).await;
    }
    let hits = || {
        let counts = server.ctx.accounts.cache_counts();
        counts.into_iter().find_map(|(name, counts)| (name == "headers").then_some(counts.hits)).unwrap()
    };
    let list = async || {
        let ids = ids(&caller).await;
        get(&caller, json!({ "ids": ids, "properties": ["subject", "from", "preview", "hasAttachment"] }))
            .await
    };
    let first = list().await;
    assert_eq!((first.len(), hits()), (5, 0));
    assert_eq!(list().await, first);
    assert_eq!(hits(), 5);
    deliver(5).await;
    let more = list().await;
    assert_eq!((&more[..5], more[5]["subject"].as_str()), (&first[..], Some("5")));
    assert!(hits() >= 10, "only the new one was read");
    // What has no header in its response needs none.
    let before = hits();
    get(&caller, json!({ "ids": ids(&caller).await, "properties": ["keywords"] })).await;
    assert_eq!(hits(), before);
}

#[tokio::test]
async fn segments_give_the_same_values_as_messages() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let alternative = "Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n\r\none\r\n\
                       --b\r\nContent-Type: text/html\r\n\r\n<p>two\r\n--b--\r\n";
    let file = "Content-Disposition: attachment\r\nContent-Type: image/png\r\n\r\nx\r\n";
    let long = format!("X-Long: {}\r\n\r\nbody\r\n", "y".repeat(20_000));
    let kinds = [
        alternative,
        "\r\nplain\r\n",
        "no header",
        file,
        &long,
        "From: a@x\r\nFrom: B <b@x>\r\nTo: c@x\r\n\r\n",
    ];
    let messages = 300;
    for n in 0..messages {
        let text = format!("Subject: {n}\r\nMessage-ID: <{n}@x>\r\n{}", kinds[n % kinds.len()]);
        server.deliver("INBOX", text.as_bytes()).await;
    }
    let ids = ids(&caller).await;
    let wanted = [
        json!([
            "subject",
            "from",
            "to",
            "sentAt",
            "messageId",
            "references",
            "inReplyTo",
            "preview",
            "hasAttachment"
        ]),
        json!(["headers", "keywords", "size"]),
        json!(["preview", "textBody"]),
        json!(["sender", "header:X-Long:asText"]),
    ];
    let all = async |of: usize, properties: &Value| {
        let mut list = Vec::new();
        for ids in ids.chunks(of) {
            let arguments = json!({ "ids": ids, "properties": properties, "bodyProperties": ["partId", "type", "blobId"] });
            list.extend(get(&caller, arguments).await);
        }
        list
    };
    let mut expected = Vec::new();
    for properties in &wanted {
        // Small calls read everything from the messages.
        expected.push(all(10, properties).await);
    }
    assert_eq!(expected[0].len(), messages);
    assert_eq!(expected[0][5]["from"], json!([{ "name": "B", "email": "b@x" }]));
    // A call for all emails makes the segments.
    all(messages, &wanted[0]).await;
    let account = server.account().await;
    let made = async {
        let is_made = async |kind: &str| {
            let listed: Vec<_> = account.store().list("acct", None).try_collect().await.unwrap();
            listed.iter().any(|object: &sealpost_vault::ListedObject| object.path.contains(kind))
        };
        while !is_made("/idx/structure/").await || !is_made("/idx/header/").await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), made).await.expect("segments are made");
    for (properties, expected) in wanted.iter().zip(&expected) {
        for _ in 0..2 {
            assert_eq!(&all(messages, properties).await, expected, "{properties}");
        }
    }
    drop(account);
    assert_eq!(server.ctx.budget.in_use(), 0);
}

/// A random text with characters that are hard for encodings and JSON.
fn random_text(random: &dyn Random) -> String {
    let pieces = ["a", " ", "\n", "é", "=", "\t", "<b>", "&amp;", "\u{1f600}", "\"\\", "From ", ".", "漢字"];
    let count = random.next_u64() % 400;
    (0..count).map(|_| pieces[(random.next_u64() % pieces.len() as u64) as usize]).collect()
}

/// A part with that text, in a random encoding and a charset that has its characters.
fn random_part(random: &dyn Random, text: &str) -> Entity {
    let kind = ["text/plain", "text/html", "text/csv"][(random.next_u64() % 3) as usize];
    let crlf = text.replace('\n', "\r\n");
    if random.next_u64().is_multiple_of(4) {
        let utf16: Vec<u8> = crlf.encode_utf16().flat_map(u16::to_le_bytes).collect();
        return Entity::raw(
            &format!("{kind}; charset=utf-16le"),
            "base64",
            encode::base64(&utf16).into_bytes(),
        );
    }
    let (encoding, body) = match random.next_u64() % 3 {
        0 => ("base64", encode::base64(crlf.as_bytes()).into_bytes()),
        1 => ("quoted-printable", encode::quoted_printable(text).into_bytes()),
        _ => ("8bit", crlf.into_bytes()),
    };
    Entity::raw(&format!("{kind}; charset=utf-8"), encoding, body)
}

#[tokio::test]
async fn texts_come_as_they_were_written() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let random = SeededRandom::new(7);
    let mut expected = Vec::new();
    for _ in 0..60 {
        let texts: Vec<String> = (0..1 + random.next_u64() % 5).map(|_| random_text(&random)).collect();
        let mut parts: Vec<Entity> = texts.iter().map(|text| random_part(&random, text)).collect();
        let mut values = Map::new();
        let body = if parts.len() == 1 {
            values.insert("1".into(), json!(texts[0]));
            parts.remove(0)
        } else {
            // The first two are in a multipart of their own.
            let inner = parts.drain(..2).collect();
            parts.insert(0, Entity::multipart("alternative", inner));
            parts.push(Entity::attachment("image/png", "é.png", &random.next_u64().to_be_bytes()));
            for (number, text) in texts.iter().enumerate() {
                let id = if number < 2 { format!("1.{}", number + 1) } else { number.to_string() };
                values.insert(id, json!(text));
            }
            Entity::multipart("mixed", parts)
        };
        // Some messages do not fit into one read.
        let padding = "x".repeat(if random.next_u64().is_multiple_of(8) { 100_000 } else { 10 });
        let message = MessageBuilder::new().subject("random").field("X-Padding", &padding).body(body).build();
        server.deliver("INBOX", &message).await;
        expected.push(values);
    }
    let ids = ids(&caller).await;
    let arguments = json!({ "ids": ids, "properties": ["bodyValues", "bodyStructure"], "fetchAllBodyValues": true,
        "bodyProperties": ["partId", "blobId", "size", "type"] });
    let list = get(&caller, arguments).await;
    assert_eq!(list.len(), expected.len());
    for (email, expected) in list.iter().zip(&expected) {
        let values = email["bodyValues"].as_object().unwrap();
        let texts: Map<String, Value> =
            values.iter().map(|(id, value)| (id.clone(), value["value"].clone())).collect();
        assert_eq!(&texts, expected);
        assert!(values.values().all(|value| value["isEncodingProblem"] == false));
        let mut left = vec![&email["bodyStructure"]];
        while let Some(part) = left.pop() {
            left.extend(part["subParts"].as_array().into_iter().flatten());
            let Some(blob) = part["blobId"].as_str() else { continue };
            // A blob has the size that its part reports, and its content.
            let (_, found) = call(&caller, "Blob/get", json!({ "ids": [blob] })).await;
            assert_eq!(found["list"][0]["size"], part["size"], "{part}");
            if let Some(text) = found["list"][0]["data:asText"].as_str()
                && let Some(value) = texts.get(part["partId"].as_str().unwrap())
            {
                assert_eq!(&json!(text.replace("\r\n", "\n")), value);
            }
        }
    }
    // Whatever the length requested, the value is a prefix.
    for most in [1, 7, 100] {
        let arguments = json!({ "ids": ids, "properties": ["bodyValues"], "fetchAllBodyValues": true, "maxBodyValueBytes": most });
        for (email, expected) in get(&caller, arguments).await.iter().zip(&expected) {
            for (id, value) in email["bodyValues"].as_object().unwrap() {
                let (text, whole) = (value["value"].as_str().unwrap(), expected[id].as_str().unwrap());
                assert!(text.len() <= most && whole.starts_with(text));
                assert_eq!(value["isTruncated"], whole.len() > most);
            }
        }
    }
    assert_eq!(server.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn a_damaged_message_hides_no_other() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    for n in 0..3 {
        server.deliver("INBOX", format!("Subject: {n}\r\n\r\ntext {n}\r\n").as_bytes()).await;
    }
    let account = server.account().await;
    account.catch_up().await.unwrap();
    let path = {
        let state = account.state();
        let row = state.inbox().all_rows().nth(1).unwrap();
        message::path(account.id(), state.message(row.message).unwrap().object)
    };
    account.store().delete(&path).await.unwrap();
    let ids = ids(&caller).await;
    let properties = ["subject", "size", "bodyValues", "textBody", "preview"];
    let list =
        get(&caller, json!({ "ids": ids, "properties": properties, "fetchTextBodyValues": true })).await;
    assert_eq!(
        list.iter().map(|email| &email["subject"]).collect::<Vec<_>>(),
        [&json!("0"), &json!(null), &json!("2")]
    );
    assert_eq!(list[2]["bodyValues"]["1"]["value"], "text 2\n");
    assert_eq!(list[1]["size"], list[0]["size"]);
    let (name, _) = call(&caller, "Email/parse", json!({ "blobIds": [format!("B{}", &ids[1][1..])] })).await;
    assert_eq!(name, "error");
}

#[tokio::test]
async fn hostile_messages_stay_within_limits() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let mut deep = String::new();
    for level in 0..10 * MIME_DEPTH {
        deep.push_str(&format!("Content-Type: multipart/mixed; boundary=b{level}\r\n\r\n--b{level}\r\n"));
    }
    let mut nested = String::new();
    for _ in 0..10 * MIME_DEPTH {
        nested.push_str("Content-Type: message/rfc822\r\n\r\n");
    }
    let many = format!(
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n{}",
        "--b\r\nX-A: b\r\n\r\nx\r\n".repeat(3 * MIME_PARTS)
    );
    let header = format!("{}\r\n\r\n", "X-Field: value\r\n".repeat(100_000));
    let field = format!("X-Field: {}\r\n\r\n", "\"".repeat(1_000_000));
    let addresses = format!("To: {}\r\n\r\n", "a@x,".repeat(100_000));
    let large =
        format!("Content-Type: text/plain; charset=utf-8\r\n\r\n{}", "\u{1}é".repeat(JMAP_BODY_VALUE_BYTES));
    let wrong = "Content-Type: text/html; charset=nothing\r\nContent-Transfer-Encoding: base64\r\n\r\n<<<=-%\u{0}\u{ff}".to_owned();
    let messages = [deep, nested, many, header, field, addresses, large, wrong, String::new()];
    for message in &messages {
        server.deliver("INBOX", message.as_bytes()).await;
    }
    let ids = ids(&caller).await;
    assert_eq!(ids.len(), messages.len());
    // The same field a hundred times, in different spellings.
    let mut properties: Vec<String> =
        (0..100).map(|n| format!("header:{}:all", spelled("x-field", n))).collect();
    properties.extend(
        ["headers", "bodyStructure", "bodyValues", "textBody", "attachments", "to", "preview"]
            .map(str::to_owned),
    );
    let mut part_properties: Vec<String> =
        (0..100).map(|n| format!("header:{}:all", spelled("x-field", n))).collect();
    part_properties.extend(["partId", "blobId", "size", "headers", "type"].map(str::to_owned));
    for id in &ids {
        let arguments = json!({ "ids": [id], "properties": properties, "bodyProperties": part_properties, "fetchAllBodyValues": true });
        let list = get(&caller, arguments).await;
        let values = list[0]["bodyValues"].as_object().unwrap();
        let bytes: usize = values.values().map(|value| value["value"].as_str().unwrap().len()).sum();
        assert!(bytes <= JMAP_BODY_VALUE_BYTES);
        let (name, _) = call(
            &caller,
            "Email/parse",
            json!({ "blobIds": [format!("B{}", &id[1..])], "properties": properties }),
        )
        .await;
        assert_eq!(name, "Email/parse");
    }
    let list =
        get(&caller, json!({ "ids": [ids[6]], "properties": ["bodyValues"], "fetchTextBodyValues": true }))
            .await;
    assert_eq!(list[0]["bodyValues"]["1"]["isTruncated"], true);
    let list =
        get(&caller, json!({ "ids": [ids[7]], "properties": ["bodyValues"], "fetchTextBodyValues": true }))
            .await;
    assert_eq!(list[0]["bodyValues"]["1"]["isEncodingProblem"], true);
    // A client downloads a large blob range by range.
    let blob = format!("B{}", &ids[6][1..]);
    let (name, refused) = call(&caller, "Blob/get", json!({ "ids": [blob] })).await;
    assert_eq!((name.as_str(), &refused["type"]), ("error", &json!("requestTooLarge")));
    let arguments = json!({ "ids": [blob], "properties": ["data:asBase64"], "offset": 5, "length": JMAP_BLOB_DATA_BYTES });
    let (_, found) = call(&caller, "Blob/get", arguments).await;
    assert_eq!(found["list"][0]["isTruncated"], Value::Null);
    assert_eq!(server.ctx.budget.in_use(), 0);
}

/// The name with its letters in a mix of cases that depends on the number.
fn spelled(name: &str, number: usize) -> String {
    let letter =
        |(index, c): (usize, char)| if number >> index & 1 == 1 { c.to_ascii_uppercase() } else { c };
    name.chars().enumerate().map(letter).collect()
}

#[tokio::test]
async fn downloads_are_ranges_of_blobs() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    let bytes: Vec<u8> = (0..200_000u32).flat_map(u32::to_be_bytes).collect();
    let file = Entity::attachment("application/x", "a", &bytes);
    let message =
        MessageBuilder::new().body(Entity::multipart("mixed", vec![Entity::text("text"), file])).build();
    server.deliver("INBOX", &message).await;
    let account = format!("A{}", caller.account());
    let whole = format!("B{}", &ids(&caller).await[0][1..]);
    let download = async |blob: &str, range: std::ops::Range<u64>| {
        let found = caller.download(&account, blob).await.unwrap().expect("there is one");
        let pieces: Vec<_> = found.bytes(range).try_collect().await.unwrap();
        (found.size(), pieces.concat())
    };
    assert_eq!(download(&whole, 0..u64::MAX).await, (message.len() as u64, message));
    let part = format!("{whole}-2");
    assert_eq!(download(&part, 0..u64::MAX).await, (bytes.len() as u64, bytes.clone()));
    assert_eq!(download(&part, 400_000..400_010).await.1, bytes[400_000..400_010]);
    assert_eq!(download(&part, 799_999..900_000).await.1, bytes[799_999..]);
    assert!(download(&part, 800_000..900_000).await.1.is_empty());
    for (account, blob) in [
        ("Aother", &whole),
        (&account, &format!("{whole}-3")),
        (&account, &format!("{whole}-1-2")),
        (&account, &"B0000000000000000000000000000000f".to_owned()),
        (&account, &"x".repeat(10_000)),
    ] {
        let found = caller.download(account, blob).await.unwrap();
        assert!(found.is_none(), "{account} {blob}");
    }
    // A download ends when the login ends.
    let (info, token) =
        server.ctx.directory.add_app_password(&server.record.name, &server.root, "test").await.unwrap();
    let other = server.login(&format!("Bearer {}", *token)).await.unwrap();
    let mut pieces = other.download(&account, &part).await.unwrap().expect("there is one").bytes(0..u64::MAX);
    assert!(pieces.next().await.is_some_and(|piece| piece.is_ok()));
    server.ctx.directory.revoke_app_password(&server.record.name, info.id).await.unwrap();
    server.ctx.auth.standings().look(server.record.id);
    other.lost().await;
    assert!(pieces.next().await.is_some_and(|piece| piece.is_err()) && pieces.next().await.is_none());
    assert!(other.download(&account, &part).await.is_err());
    drop(pieces);
    assert_eq!(server.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn all_emails_are_given_if_they_are_few() {
    let server = TestServer::new().await;
    let caller = server.caller().await;
    for n in 0..501 {
        server.deliver("INBOX", format!("Subject: {n}\r\n\r\n").as_bytes()).await;
    }
    let arguments = || json!({ "ids": null, "properties": ["id"] });
    let (name, refused) = call(&caller, "Email/get", arguments()).await;
    assert_eq!((name.as_str(), &refused["type"]), ("error", &json!("requestTooLarge")));
    server.act("flag INBOX 7 \\Deleted").await;
    assert_eq!(get(&caller, arguments()).await.len(), 500);
    let ids = vec!["M0"; 501].into_iter().enumerate().map(|(n, id)| format!("{id}{n}")).collect::<Vec<_>>();
    let (name, refused) = call(&caller, "Email/get", json!({ "ids": ids })).await;
    assert_eq!((name.as_str(), &refused["type"]), ("error", &json!("requestTooLarge")));
}
