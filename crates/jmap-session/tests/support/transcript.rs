//! Transcripts (`tests/transcripts/*.txt`): requests and the responses that they must get.
//!
//! ```text
//! # a comment
//! create Work                    an action of another client (`TestServer::act`)
//! deliver INBOX                  a message that arrives: the lines that follow as `| line`
//! > ["Mailbox/get", {}, "a"]     a call; consecutive calls are one request
//! < ["Mailbox/get", {}, "a"]     the responses that it must get, no others
//! ```
//! A call or response continues in lines that begin with the same character and two spaces more. In
//! responses the string `<any>` stands for any value, `<name:=>` too and keeps it; `<name>` in calls
//! and responses is what was kept, `<account>` the id of the account. Every request uses core,
//! mail, blob, mdn, quota and principals. `jane …` is done by another account, `jane@localhost`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustls::RootCertStore;
use sealpost_jmap_session::{Caller, JmapShared};
use serde_json::{Value, json};

use crate::push_service::pusher;
use crate::server::{TestServer, api};

pub async fn play(name: &str, text: &str) {
    let mut server = TestServer::new().await;
    if name.starts_with("push_") {
        // Nothing answers: what is pushed is the matter of other tests.
        let push = pusher(&server.ctx, None, RootCertStore::empty(), None).await;
        let jmap = JmapShared::new(server.ctx.clone()).sending(Some(server.outbox.clone()));
        server.jmap = Arc::new(jmap.with_push(Some(push)));
    }
    let caller = server.caller().await;
    let mut kept = BTreeMap::from([("account".to_owned(), json!(format!("A{}", server.record.id)))]);
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let place = format!("{name}.txt:{}", number + 1);
        match line.split_at_checked(2) {
            _ if line.trim().is_empty() || line.starts_with('#') => {}
            Some(("> ", _)) => {
                let mut request = vec![line.to_owned()];
                let mut response = Vec::new();
                // A call after a response begins the next request.
                while let Some((_, line)) = lines.next_if(|(_, line)| {
                    line.starts_with('<') || line.starts_with('>') && response.is_empty()
                }) {
                    if line.starts_with('>') { &mut request } else { &mut response }.push(line.to_owned());
                }
                exchange(&caller, &place, &request, &response, &mut kept).await;
            }
            _ if line.starts_with("deliver ") => {
                let mut message = String::new();
                while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with('|')) {
                    message.push_str(line.strip_prefix("| ").unwrap_or_default());
                    message.push_str("\r\n");
                }
                match line["deliver ".len()..].split_once(' ') {
                    Some(("jane", mailbox)) => server.deliver_to_jane(mailbox, message.as_bytes()).await,
                    _ => server.deliver(&line["deliver ".len()..], message.as_bytes()).await,
                }
            }
            _ => server.act(line).await,
        }
    }
}

async fn exchange(
    caller: &Caller,
    place: &str,
    request: &[String],
    response: &[String],
    kept: &mut BTreeMap<String, Value>,
) {
    let calls: Vec<Value> = invocations(request).iter().map(|call| filled(call, kept)).collect();
    let using =
        ["core", "mail", "blob", "mdn", "quota", "contacts", "principals", "submission", "vacationresponse"]
            .map(|name| format!("urn:ietf:params:jmap:{name}"));
    let answer = api(caller, &json!({ "using": using, "methodCalls": calls })).await;
    let answer = answer.unwrap_or_else(|error| panic!("{place}: {error:?}"));
    let (got, wanted) = (&answer["methodResponses"], Value::Array(invocations(response)));
    if let Err(why) = matches(&wanted, got, kept, "") {
        panic!("{place}: {why}\ngot {}", serde_json::to_string_pretty(got).unwrap());
    }
}

/// The values on lines of one kind.
fn invocations(lines: &[String]) -> Vec<Value> {
    let mut texts: Vec<String> = Vec::new();
    for line in lines {
        match (line[1..].strip_prefix("   "), texts.last_mut()) {
            (Some(more), Some(text)) => text.push_str(more),
            _ => texts.push(line[1..].to_owned()),
        }
    }
    texts
        .iter()
        .map(|text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}")))
        .collect()
}

fn name_in(text: &str) -> Option<&str> {
    text.strip_prefix('<')?.strip_suffix('>')
}

/// Replaces names by their stored values, also in names of members.
fn filled(value: &Value, kept: &BTreeMap<String, Value>) -> Value {
    let known =
        |text: &str| name_in(text).map(|name| kept.get(name).unwrap_or_else(|| panic!("<{name}>")).clone());
    match value {
        Value::String(text) => known(text).unwrap_or_else(|| value.clone()),
        Value::Array(items) => items.iter().map(|item| filled(item, kept)).collect(),
        Value::Object(members) => {
            // Paths in patches contain names.
            let name_of = |name: &String| {
                let texts = kept.iter().filter_map(|(known, value)| Some((known, value.as_str()?)));
                texts.fold(name.clone(), |name, (known, text)| name.replace(&format!("<{known}>"), text))
            };
            let member = |(name, value): (&String, &Value)| (name_of(name), filled(value, kept));
            Value::Object(members.iter().map(member).collect())
        }
        _ => value.clone(),
    }
}

fn matches(
    wanted: &Value,
    got: &Value,
    kept: &mut BTreeMap<String, Value>,
    path: &str,
) -> Result<(), String> {
    let differs = |wanted: &Value| Err(format!("at {path}: wanted {wanted}, got {got}"));
    match (wanted, got) {
        (Value::String(text), _) if name_in(text).is_some() => {
            let name = name_in(text).unwrap();
            if let Some(name) = name.strip_suffix(":=") {
                kept.insert(name.to_owned(), got.clone());
            } else if name != "any" {
                let known = kept.get(name).ok_or(format!("at {path}: <{name}> is not kept"))?;
                return if known == got { Ok(()) } else { differs(known) };
            }
            Ok(())
        }
        (Value::Array(wanted_items), Value::Array(items)) if wanted_items.len() == items.len() => {
            let mut pairs = wanted_items.iter().zip(items).enumerate();
            pairs.try_for_each(|(at, (wanted, got))| matches(wanted, got, kept, &format!("{path}/{at}")))
        }
        (Value::Object(wanted_members), Value::Object(members)) => {
            let known = |name: &String| match name_in(name).and_then(|name| kept.get(name)) {
                Some(Value::String(known)) => known.clone(),
                _ => name.clone(),
            };
            let wanted_members: BTreeMap<String, &Value> =
                wanted_members.iter().map(|(name, value)| (known(name), value)).collect();
            let names: BTreeSet<&String> = members.keys().collect();
            if names != wanted_members.keys().collect() {
                return differs(wanted);
            }
            let mut pairs = wanted_members.into_iter();
            pairs.try_for_each(|(name, wanted)| {
                matches(wanted, &members[&name], kept, &format!("{path}/{name}"))
            })
        }
        _ if wanted == got => Ok(()),
        _ => differs(wanted),
    }
}
