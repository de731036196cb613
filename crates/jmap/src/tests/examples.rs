//! Every example of the RFCs is read and written back equal.
//!
//! `rfcNNNN.json` have them as they are in the RFCs, without what those leave out by dots; some
//! are whole requests, most are lists of calls or of responses. Equal means: but for members that
//! are null or have their default value, which may be omitted (RFC 8620 §3.5).

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::{Map, Value};

use crate::blob::*;
use crate::email::*;
use crate::error::{MethodError, Problem};
use crate::identity::*;
use crate::invocation::Invocation;
use crate::mailbox::*;
use crate::patch::PatchObject;
use crate::push::*;
use crate::quota::*;
use crate::read::{Fields, FromJson, Mismatch};
use crate::request::Request;
use crate::response::Response;
use crate::session::Session;
use crate::snippet::*;
use crate::standard::*;
use crate::submission::*;
use crate::thread::*;

/// Conditions and sort keys of the type `Todo`, which only the examples have.
#[derive(Debug, Serialize)]
struct AnyCondition(Map<String, Value>);

impl Condition for AnyCondition {
    fn read(fields: &mut Fields) -> Result<Self, Mismatch> {
        Ok(AnyCondition(std::iter::from_fn(|| fields.pop()).collect()))
    }
}

#[derive(Debug)]
struct AnyKey(String, BTreeMap<String, Value>);

impl SortKey for AnyKey {
    fn read(property: &str, fields: &mut Fields) -> Result<Option<Self>, Mismatch> {
        Ok(Some(AnyKey(property.to_owned(), std::iter::from_fn(|| fields.pop()).collect())))
    }

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("property", &self.0)?;
        self.1.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))
    }
}

type Rewritten = Result<Value, String>;

fn rewritten<T: Serialize, E: std::fmt::Debug>(read: Result<T, E>) -> Rewritten {
    let value = read.map_err(|error| format!("{error:?}"))?;
    serde_json::to_value(value).map_err(|error| error.to_string())
}

fn read<T: FromJson + Serialize>(arguments: Map<String, Value>) -> Rewritten {
    rewritten(T::from_json(Value::Object(arguments)))
}

/// Arguments of some /set; its patches are read and written as well.
fn set<T: Serialize, R, S>(arguments: Map<String, Value>, read: R, set_of: S) -> Rewritten
where
    R: Fn(Map<String, Value>) -> Result<T, MethodError>,
    S: Fn(&T) -> &SetRequest,
{
    let request = read(arguments);
    for patch in request.iter().flat_map(|request| set_of(request).update.values()) {
        let written = rewritten(PatchObject::new(patch.clone()))?;
        assert_eq!(written, Value::Object(patch.clone()));
    }
    rewritten(request)
}

/// The arguments of a call, read as its method reads them.
fn call(name: &str, arguments: Map<String, Value>) -> Rewritten {
    match name {
        "Foo/get" | "Todo/get" => rewritten(GetRequest::<String>::from_arguments(arguments)),
        "Foo/changes" | "Todo/changes" => rewritten(ChangesRequest::from_arguments(arguments)),
        "Todo/query" => rewritten(QueryRequest::<AnyCondition, AnyKey>::from_arguments(arguments)),
        "Todo/queryChanges" => {
            rewritten(QueryChangesRequest::<AnyCondition, AnyKey>::from_arguments(arguments))
        }
        "Todo/set" => set(arguments, SetRequest::from_arguments, |it| it),
        "Todo/copy" => rewritten(CopyRequest::from_arguments(arguments)),
        _ => mail_call(name, arguments),
    }
}

/// The arguments of a response.
fn response(name: &str, arguments: Map<String, Value>) -> Rewritten {
    match name {
        "error" => read::<MethodError>(arguments),
        "Foo/get" | "Todo/get" => read::<GetResponse<Value>>(arguments),
        "Foo/changes" | "Todo/changes" => read::<ChangesResponse>(arguments),
        "Todo/query" => read::<QueryResponse>(arguments),
        "Todo/queryChanges" => read::<QueryChangesResponse>(arguments),
        "Todo/set" => read::<SetResponse<Value>>(arguments),
        "Todo/copy" => read::<CopyResponse<Value>>(arguments),
        _ => mail_response(name, arguments),
    }
}

fn mail_call(name: &str, arguments: Map<String, Value>) -> Rewritten {
    match name {
        "method1" | "method2" | "method3" | "anotherResponseFromMethod2" | "Core/echo" => {
            Ok(Value::Object(arguments))
        }
        "Mailbox/get" => rewritten(MailboxGet::from_arguments(arguments)),
        "Mailbox/changes" | "Email/changes" => rewritten(ChangesRequest::from_arguments(arguments)),
        "Mailbox/set" => set(arguments, MailboxSet::from_arguments, |it| &it.set),
        "Thread/get" => rewritten(ThreadGet::from_arguments(arguments)),
        "Email/get" => rewritten(EmailGet::from_arguments(arguments)),
        "Email/query" => rewritten(EmailQuery::from_arguments(arguments)),
        "Email/queryChanges" => rewritten(EmailQueryChanges::from_arguments(arguments)),
        "Email/set" => set(arguments, SetRequest::from_arguments, |it| it),
        "Email/copy" => rewritten(CopyRequest::from_arguments(arguments)),
        "SearchSnippet/get" => rewritten(SnippetGet::from_arguments(arguments)),
        "Identity/get" => rewritten(IdentityGet::from_arguments(arguments)),
        "EmailSubmission/set" => set(arguments, SubmissionSet::from_arguments, |it| &it.set),
        "PushSubscription/get" => rewritten(PushSubscriptionGet::from_arguments(arguments)),
        "PushSubscription/set" => rewritten(PushSubscriptionSet::from_arguments(arguments)),
        "Blob/upload" => rewritten(BlobUpload::from_arguments(arguments)),
        "Blob/get" => rewritten(BlobGet::from_arguments(arguments)),
        "Blob/lookup" => rewritten(BlobLookup::from_arguments(arguments)),
        "Quota/get" => rewritten(QuotaGet::from_arguments(arguments)),
        "Quota/changes" => rewritten(QuotaChanges::from_arguments(arguments)),
        _ => Err("no such method".into()),
    }
}

fn mail_response(name: &str, arguments: Map<String, Value>) -> Rewritten {
    match name {
        "Mailbox/get" => read::<MailboxGetResponse>(arguments),
        "Mailbox/changes" => read::<MailboxChangesResponse>(arguments),
        "Mailbox/set" => read::<MailboxSetResponse>(arguments),
        "Thread/get" => read::<ThreadGetResponse>(arguments),
        "Email/get" => read::<EmailGetResponse>(arguments),
        "Email/query" => read::<QueryResponse>(arguments),
        "Email/changes" => read::<ChangesResponse>(arguments),
        "Email/queryChanges" => read::<QueryChangesResponse>(arguments),
        "Email/set" => read::<EmailSetResponse>(arguments),
        "Email/copy" => read::<EmailCopyResponse>(arguments),
        "SearchSnippet/get" => read::<SnippetGetResponse>(arguments),
        "Identity/get" => read::<IdentityGetResponse>(arguments),
        "EmailSubmission/set" => read::<SubmissionSetResponse>(arguments),
        "PushSubscription/get" => read::<PushSubscriptionGetResponse>(arguments),
        "PushSubscription/set" => read::<PushSubscriptionSetResponse>(arguments),
        "Blob/upload" => read::<BlobUploadResponse>(without_set(arguments)),
        "Blob/get" => read::<BlobGetResponse>(arguments),
        "Blob/lookup" => read::<BlobLookupResponse>(arguments),
        "Quota/get" => read::<QuotaGetResponse>(arguments),
        "Quota/changes" => read::<QuotaChangesResponse>(arguments),
        _ => mail_call(name, arguments),
    }
}

/// Some examples of Blob/upload have all that a /set has, as null.
fn without_set(mut arguments: Map<String, Value>) -> Map<String, Value> {
    for name in ["updated", "destroyed", "notUpdated", "notDestroyed"] {
        assert!(arguments.remove(name).is_none_or(|value| value.is_null()));
    }
    arguments
}

/// Without members that may be omitted.
fn normal(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let may_be_omitted = |name: &str, value: &Value| match name {
                "position" | "anchorOffset" => *value == 0,
                "isAscending" => *value == true,
                "notFound" | "added" | "removed" => value.is_null() || value == &Value::Array(Vec::new()),
                _ => value.is_null(),
            };
            let kept = members.into_iter().filter(|(name, value)| !may_be_omitted(name, value));
            Value::Object(kept.map(|(name, value)| (name, normal(value))).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(normal).collect()),
        other => other,
    }
}

/// What only responses have.
fn is_response(arguments: &Map<String, Value>) -> bool {
    let names = ["state", "newState", "queryState", "newQueryState", "type", "list", "created", "updated"];
    names.iter().any(|name| arguments.contains_key(*name))
}

fn check_invocation(place: &str, value: &Value) {
    let invocation = Invocation::from_json(value.clone()).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!(&serde_json::to_value(&invocation).unwrap(), value, "{place}");
    let Invocation { name, mut arguments, .. } = invocation;
    if name.contains('/') && !name.starts_with("PushSubscription/") && !name.starts_with("Core/") {
        // Some examples lack it.
        arguments.entry("accountId").or_insert_with(|| "account1".into());
    }
    let expected = Value::Object(arguments.clone());
    let written = if is_response(&arguments) {
        response(&name, arguments)
    } else {
        // References are resolved before arguments are read.
        let references: Vec<String> =
            arguments.keys().filter(|name| name.starts_with('#')).cloned().collect();
        let references: Map<String, Value> =
            references.into_iter().filter_map(|name| arguments.remove_entry(&name)).collect();
        call(&name, arguments).map(|mut written| {
            written.as_object_mut().unwrap().extend(references);
            written
        })
    };
    let written = written.unwrap_or_else(|error| panic!("{place}, {name}: {error}"));
    assert_eq!(normal(written), normal(expected), "{place}, {name}");
}

fn is_invocation(value: &Value) -> bool {
    matches!(
        value.as_array().map(Vec::as_slice),
        Some([Value::String(_), Value::Object(_), Value::String(_)])
    )
}

fn check(place: &str, value: &Value) {
    if is_invocation(value) {
        return check_invocation(place, value);
    }
    match value {
        Value::Array(list) if list.iter().all(is_invocation) => {
            list.iter().for_each(|invocation| check_invocation(place, invocation));
        }
        Value::Object(members) if members.contains_key("methodCalls") => {
            let request = Request::parse(value.to_string().as_bytes()).unwrap();
            assert_eq!(&serde_json::to_value(&request).unwrap(), value, "{place}");
            request
                .method_calls
                .iter()
                .for_each(|call| check_invocation(place, &serde_json::to_value(call).unwrap()));
        }
        Value::Object(members) if members.contains_key("methodResponses") => {
            let read = Response::from_json(value.clone()).unwrap();
            assert_eq!(&serde_json::to_value(&read).unwrap(), value, "{place}");
        }
        Value::Object(members) if members.contains_key("status") => check_problem(place, value),
        _ => other(place, value),
    }
}

fn check_problem(place: &str, value: &Value) {
    let detail = value["detail"].as_str().unwrap();
    let problem = match value["limit"].as_str() {
        Some(_) => Problem::limit("maxSizeRequest", detail),
        None => Problem { detail: detail.to_owned(), ..Problem::unknown_capability("x") },
    };
    assert_eq!(&serde_json::to_value(problem).unwrap(), value, "{place}");
}

/// Examples that are no calls: objects, and the arguments that references lead to.
fn other(place: &str, value: &Value) {
    let written = match place {
        "8620 §3.7 (3)" => call("Foo/get", value.as_object().unwrap().clone()),
        "8620 §3.7 (6)" => call("Email/get", value.as_object().unwrap().clone()),
        "8620 §2.1 (1)" => rewritten(Session::from_json(value.clone())),
        "8620 §7.1.1 (1)" => rewritten(StateChange::from_json(value.clone())),
        "8620 §7.2.3 (5)" => rewritten(PushVerification::from_json(value.clone())),
        // What §4.2 and §4.9 list as defaults are the defaults.
        "8621 §4.2 (1)" => rewritten(Ok::<_, ()>(BodyProperty::defaults())),
        "8621 §4.2 (2)" => rewritten(Ok::<_, ()>(EmailProperty::get_defaults())),
        "8621 §4.9 (1)" => rewritten(Ok::<_, ()>(EmailProperty::parse_defaults())),
        "8621 §4.1.2.3 (1)" => rewritten(Vec::<EmailAddress>::from_json(value.clone())),
        "8621 §4.1.2.4 (1)" => rewritten(Vec::<EmailAddressGroup>::from_json(value.clone())),
        "8621 §4.4.2 (1)" => {
            let mut fields = Fields::from(Map::from_iter([("sort".to_owned(), value.clone())]));
            rewritten(Comparator::<EmailSortKey>::read(&mut fields))
        }
        _ => Err("no test for it".into()),
    };
    let written = written.unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!(normal(written), normal(value.clone()), "{place}");
}

fn check_rfc(number: &str, text: &str) {
    let examples: Map<String, Value> = serde_json::from_str(text).unwrap();
    for (place, example) in &examples {
        check(&format!("{number} {place}"), example);
    }
}

#[test]
fn rfc_8620() {
    check_rfc("8620", include_str!("rfc8620.json"));
}

#[test]
fn rfc_8621() {
    check_rfc("8621", include_str!("rfc8621.json"));
}

#[test]
fn rfc_9404() {
    check_rfc("9404", include_str!("rfc9404.json"));
}

#[test]
fn rfc_9425() {
    check_rfc("9425", include_str!("rfc9425.json"));
}
