//! JMAP for the server that does nothing: HTTP/1.1 with as much of it as the bench sends. Emails have
//! an id and nothing else, mailboxes exist once they were created.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use super::LINE_BYTES;
use crate::load::scenario::template::MAILBOX;

/// The largest request.
const REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// Names of mailboxes that clients created.
pub type Created = Arc<Mutex<BTreeSet<String>>>;

/// Serves one connection until it ends.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    created: Created,
    messages: u32,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some((line, body)) = request(&mut stream).await? {
        let path = line.split(' ').nth(1).unwrap_or_default();
        if path.starts_with("/events") {
            let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
            stream.write_all(head).await?;
            stream.flush().await?;
            // Until the client leaves.
            stream.read_u8().await?;
        }
        let answer = match path {
            "/.well-known/jmap" => session(),
            "/upload" => {
                json!({"accountId": "a", "blobId": "b", "type": "message/rfc822", "size": body.len()})
            }
            _ => answered(&body, &created, messages),
        };
        let answer = answer.to_string();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
        stream.write_all(&[head.as_bytes(), answer.as_bytes()].concat()).await?;
        stream.flush().await?;
    }
    Ok(())
}

/// The request line and the body of the next request.
async fn request(
    stream: &mut (impl AsyncBufReadExt + AsyncRead + Unpin),
) -> io::Result<Option<(String, Vec<u8>)>> {
    let (mut first, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        let read = (&mut *stream).take(LINE_BYTES as u64).read_line(&mut line).await?;
        let line = line.trim_end();
        if read == 0 {
            return Ok(None);
        }
        if line.is_empty() {
            break;
        }
        match line.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse::<usize>().unwrap_or(0).min(REQUEST_BYTES);
            }
            _ => drop(first.get_or_insert_with(|| line.to_owned())),
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some((first.unwrap_or_default(), body)))
}

fn session() -> Value {
    let capabilities =
        ["core", "mail", "submission"].map(|name| (format!("urn:ietf:params:jmap:{name}"), json!({})));
    json!({
        "capabilities": Value::from_iter(capabilities),
        "accounts": {"a": {}},
        "primaryAccounts": {},
        "apiUrl": "/api",
        "uploadUrl": "/upload",
        "downloadUrl": "/download",
        "eventSourceUrl": "/events?types={types}",
    })
}

fn answered(body: &[u8], created: &Created, messages: u32) -> Value {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let (mut ids, mut responses) = (Vec::new(), Vec::new());
    for call in request["methodCalls"].as_array().into_iter().flatten() {
        let (method, arguments) = (call[0].as_str().unwrap_or_default(), &call[1]);
        let answer = match method {
            "Mailbox/get" => json!({"state": "1", "list": mailboxes(created, messages)}),
            "Mailbox/set" => {
                let names = arguments["create"].as_object().into_iter().flatten();
                let names = names.filter_map(|(_, mailbox)| mailbox["name"].as_str());
                let mut created = created.lock().unwrap_or_else(PoisonError::into_inner);
                created.extend(names.filter(|name| *name != MAILBOX).map(str::to_owned));
                json!({})
            }
            "Email/query" => {
                let first = arguments["position"].as_u64().unwrap_or(0);
                let limit = arguments["limit"].as_u64().unwrap_or(u64::MAX);
                let last = first.saturating_add(limit).min(messages.into());
                ids = (first..last).map(|nth| format!("e{nth}")).collect();
                json!({"ids": ids})
            }
            "Email/changes" => json!({"newState": "2", "created": [], "updated": [], "destroyed": []}),
            "Email/get" => {
                let list = ids.iter().map(|id| json!({"id": id, "threadId": id}));
                json!({"state": "1", "list": Value::from_iter(list)})
            }
            "Identity/get" => json!({"state": "1", "list": [{"id": "i"}]}),
            _ => json!({}),
        };
        responses.push(json!([method, answer, call[2]]));
    }
    json!({"methodResponses": responses, "sessionState": "1"})
}

fn mailboxes(created: &Created, messages: u32) -> Value {
    let created = created.lock().unwrap_or_else(PoisonError::into_inner);
    let own = created.iter().map(
        |name| json!({"id": format!("m-{name}"), "name": name, "parentId": "root", "totalEmails": messages}),
    );
    Value::from_iter([json!({"id": "root", "name": MAILBOX, "parentId": null})].into_iter().chain(own))
}
