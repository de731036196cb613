//! Ids, dates, pointers, patches, requests and arguments of RFC 8620.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::capability::Capability;
use crate::date::{Date, UtcDate};
use crate::error::{MethodErrorType, SetError, SetErrorType};
use crate::id::{CreatedIds, GivenId, MailboxId};
use crate::patch::{PatchObject, PropertyPatch};
use crate::read::{Fields, FromJson};
use crate::standard::{ChangesRequest, CopyRequest, GetRequest, SetRequest};
use crate::{CreationId, Id, Request, json};

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(members) = value else { panic!("no object: {value}") };
    members
}

fn written(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

#[test]
fn json_is_strict() {
    for (bytes, why) in [
        (&b"{\"a\":1,\"a\":2}"[..], "\"a\" is twice"),
        (b"{\"a\":{\"b\":1,\"\\u0062\":2}}", "\"b\" is twice"),
        (b"[\"\xff\"]", "invalid unicode"),
        (b"[\"\\ud800\"]", "hex escape"),
        (b"[1e999]", "out of range"),
        (b"[1] 2", "trailing"),
        (b"[01]", "invalid number"),
        (b"[1,]", "trailing comma"),
        (b"", "EOF"),
        (b"\xef\xbb\xbf[]", "expected value"),
    ] {
        let error = json::parse(bytes).unwrap_err().to_string();
        assert!(error.contains(why), "{}: {error}", bytes.escape_ascii());
    }
    let taken = br#" {"a": [null, true, -1, 1.5, 18446744073709551615, "\u00e9\n"], "": {}} "#;
    let value = json::parse(taken).unwrap();
    assert_eq!(value, json!({"a": [null, true, -1, 1.5, u64::MAX, "é\n"], "": {}}));
}

#[test]
fn ids_have_safe_characters() {
    for good in ["a", "-", "Z_9", &"x".repeat(255)] {
        assert_eq!(Id::new(good).unwrap().as_str(), good);
    }
    for bad in ["", "a b", "é", "a=", "#a", "a/b", &"x".repeat(256)] {
        assert_eq!(Id::new(bad), None, "{bad}");
        let error = Id::from_json(json!(bad)).unwrap_err().to_string();
        assert!(error.starts_with("expected an id (1 to 255 of A-Z a-z 0-9 - _), found"), "{error}");
    }
}

#[test]
fn a_given_id_may_be_a_creation_id_or_impossible() {
    let mut created = CreatedIds::default();
    created.insert(CreationId::new("k1").unwrap(), Id::new("M1").unwrap());
    created.insert(CreationId::new("k1").unwrap(), Id::new("M2").unwrap());
    for (given, resolved) in
        [("M7", Some("M7")), ("#k1", Some("M2")), ("#k2", None), ("#", None), ("", None), ("ö", None)]
    {
        let id = GivenId::from(given.to_owned());
        assert_eq!(id.resolve(&created).map(Id::as_str), resolved, "{given}");
        assert_eq!(id.to_string(), given);
    }
}

#[test]
fn dates_are_read_and_written() {
    for (text, normal) in [
        ("2014-10-30T14:12:00+08:00", None),
        ("2014-10-30T06:12:00Z", None),
        ("1969-12-31T23:59:59.5Z", None),
        ("2016-02-29T00:00:00-23:59", None),
        ("2014-10-30T06:12:00.000Z", Some("2014-10-30T06:12:00Z")),
        ("2014-10-30T06:12:00.120987Z", Some("2014-10-30T06:12:00.12Z")),
        ("2016-12-31T23:59:60Z", Some("2017-01-01T00:00:00Z")),
        ("2014-10-30T06:12:00+00:00", Some("2014-10-30T06:12:00Z")),
    ] {
        let date = Date::from_json(json!(text)).unwrap();
        assert_eq!(date.to_string(), normal.unwrap_or(text));
        assert_eq!(UtcDate::from_json(json!(text)).is_ok(), text.ends_with('Z'), "{text}");
    }
    for bad in [
        "",
        "2014-10-30",
        "2014-10-30t06:12:00Z",
        "2014-10-30T06:12:00z",
        "2014-10-30 06:12:00Z",
        "2014-10-30T06:12:00",
        "2014-10-30T06:12:00.Z",
        "2015-02-29T06:12:00Z",
        "2014-13-01T06:12:00Z",
        "2014-10-30T24:00:00Z",
        "2014-10-30T06:12:00+24:00",
        "2014-10-30T06:12:00+0800",
        "2014-10-30T06:12:00ZZ",
        "0000-01-01T00:00:00+00:01",
        "+014-10-30T06:12:00Z",
        "2014-10-30T06:12:00é",
    ] {
        assert!(Date::from_json(json!(bad)).is_err(), "{bad}");
    }
    assert!(Date::from_json(json!(5)).is_err());
}

proptest! {
    #[test]
    fn any_moment_is_read_back(ms in -62_000_000_000_000_i64..253_000_000_000_000, offset in -1439_i16..=1439) {
        let moment = UtcDate::new(sealpost_base::Timestamp(ms));
        prop_assert_eq!(UtcDate::from_json(json!(moment.to_string())), Ok(moment));
        let date = Date::new(moment, offset).unwrap();
        prop_assert_eq!(Date::from_json(json!(date.to_string())), Ok(date));
    }
}

#[test]
fn patches_are_checked() {
    for (patch, why) in [
        (json!({"alerts": {}, "alerts/1/offset": 1}), "alerts/1/offset is within alerts"),
        (json!({"a/b": 1, "a/b/c": 1, "a0": 2}), "a/b/c is within a/b"),
        (json!({"a~2": 1}), "~ must be followed"),
        (json!({"a~": 1}), "~ must be followed"),
    ] {
        let error = PatchObject::new(object(patch)).unwrap_err();
        assert_eq!(error.error, SetErrorType::InvalidPatch);
        assert!(error.description.as_ref().unwrap().contains(why), "{error:?}");
    }
    assert!(PatchObject::new(object(json!({"a": 1, "ab/c": 1, "a~1b": 1}))).is_ok());
}

#[test]
fn patches_set_remove_and_restore_defaults() {
    let patch = |patch| PatchObject::new(object(patch)).unwrap();
    let mut mailbox =
        object(json!({"keywords": {"1": true, "$seen": true}, "list": [1], "sortOrder": 5, "x": 1}));
    let before = mailbox.clone();
    let defaults = object(json!({"sortOrder": 0}));
    for (bad, why) in [
        (json!({"x": 2, "list/0": 5}), "points into an array"),
        (json!({"x": 2, "nothing/a": 5}), "does not exist"),
        (json!({"x": 2, "sortOrder/a": 5}), "is no object"),
    ] {
        let error = patch(bad).apply(&mut mailbox, &defaults).unwrap_err();
        assert!(error.description.unwrap().contains(why));
        assert_eq!(mailbox, before, "all or nothing");
    }
    // Members whose names are digits are members, and null removes them (RFC 8620 §5.3).
    let good = json!({"keywords/1": null, "keywords/2": true, "keywords/a~1b": true, "keywords/none": null,
        "sortOrder": null, "x": null, "list": [2]});
    patch(good.clone()).apply(&mut mailbox, &defaults).unwrap();
    let expected = json!({"keywords": {"2": true, "$seen": true, "a/b": true}, "list": [2], "sortOrder": 0});
    assert_eq!(Value::Object(mailbox), expected);

    let properties = patch(good.clone()).properties();
    assert_eq!(properties["x"], PropertyPatch::Replace(Value::Null));
    let PropertyPatch::Members(members) = &properties["keywords"] else { panic!("{properties:?}") };
    let names: Vec<String> = members.iter().map(|(path, _)| path.to_string()).collect();
    assert_eq!(names, ["1", "2", "a~1b", "none"]);
    assert_eq!(written(&patch(good.clone())), good);
}

#[test]
fn a_method_belongs_to_a_capability() {
    for (method, capability) in [
        ("Core/echo", Some(Capability::Core)),
        ("Blob/copy", Some(Capability::Core)),
        ("Blob/upload", Some(Capability::Blob)),
        ("Email/import", Some(Capability::Mail)),
        ("EmailSubmission/set", Some(Capability::Submission)),
        ("VacationResponse/get", Some(Capability::VacationResponse)),
        ("MDN/parse", Some(Capability::Mdn)),
        ("Quota/query", Some(Capability::Quota)),
        ("Calendar/get", None),
        ("Email", None),
    ] {
        assert_eq!(Capability::of_method(method), capability, "{method}");
    }
}

#[test]
fn errors_of_a_request_name_the_cause() {
    for (body, status, kind, detail) in [
        ("{", 400, "notJSON", "not I-JSON"),
        ("{\"using\":[],\"using\":[]}", 400, "notJSON", "\"using\" is twice"),
        ("[]", 400, "notRequest", "expected an object, found an array"),
        ("{\"using\":[]}", 400, "notRequest", "methodCalls: missing"),
        ("{\"methodCalls\":[]}", 400, "notRequest", "using: missing; expected an array, each a string"),
        (
            "{\"using\":[1],\"methodCalls\":[]}",
            400,
            "notRequest",
            "using[0]: expected a string, found the number 1",
        ),
        (
            "{\"using\":[],\"methodCalls\":[[\"a\",{},\"c\"],[\"a\",[],\"c\"]]}",
            400,
            "notRequest",
            "methodCalls[1][1]: expected an object",
        ),
        (
            "{\"using\":[],\"methodCalls\":[[\"a\",{}]]}",
            400,
            "notRequest",
            "methodCalls[0]: expected an array of",
        ),
        (
            "{\"using\":[],\"methodCalls\":[],\"createdIds\":null}",
            400,
            "notRequest",
            "createdIds: expected an object",
        ),
        (
            "{\"using\":[],\"methodCalls\":[],\"createdIds\":{\"a\":\"!\"}}",
            400,
            "notRequest",
            "createdIds.a: expected an id",
        ),
    ] {
        let problem = Request::parse(body.as_bytes()).unwrap_err();
        let wire = written(&problem);
        assert_eq!(wire["type"], format!("urn:ietf:params:jmap:error:{kind}"), "{body}");
        assert_eq!(wire["status"], status);
        assert!(wire["detail"].as_str().unwrap().contains(detail), "{body}: {wire}");
    }
    let body = br#"{"using":["urn:ietf:params:jmap:core","urn:x"],"methodCalls":[],"future":[1]}"#;
    let request = Request::parse(body).unwrap();
    let problem = request.capabilities(&[Capability::Core]).unwrap_err();
    assert!(problem.detail.contains("\"urn:x\""), "{problem:?}");
    let body = br#"{"using":["urn:ietf:params:jmap:core"],"methodCalls":[]}"#;
    assert_eq!(Request::parse(body).unwrap().capabilities(&[Capability::Core]), Ok(vec![Capability::Core]));
}

#[test]
fn arguments_that_are_wrong_are_named() {
    let get = |arguments| GetRequest::<String>::from_arguments(object(arguments)).unwrap_err();
    for (arguments, why) in [
        (json!({"ids": []}), "accountId: missing; expected an id"),
        (json!({"accountId": null}), "accountId: expected an id, found null"),
        (
            json!({"accountId": "A", "ids": "a"}),
            "ids: expected an array, each an id or null, found the string \"a\"",
        ),
        (json!({"accountId": "A", "ids": ["a", 5]}), "ids[1]: expected an id, found the number 5"),
        (
            json!({"accountId": "A", "properties": [true]}),
            "properties[0]: expected a string, found a boolean",
        ),
        (json!({"accountId": "A", "idz": []}), "idz: unknown name"),
    ] {
        let error = get(arguments);
        assert_eq!(error.error, MethodErrorType::InvalidArguments);
        assert_eq!(error.description.unwrap().replace("each an id, found", "each an id or null, found"), why);
    }
    assert_eq!(get(json!({"accountId": "no id"})).error, MethodErrorType::AccountNotFound);
    let copy = json!({"accountId": "A", "fromAccountId": "no id", "create": {}});
    let error = CopyRequest::from_arguments(object(copy)).unwrap_err();
    assert_eq!(error.error, MethodErrorType::FromAccountNotFound);
    let copy = json!({"accountId": "A", "fromAccountId": "A", "create": {}});
    let error = CopyRequest::from_arguments(object(copy)).unwrap_err();
    assert_eq!(error.description.unwrap(), "fromAccountId: must differ from accountId");
    for bad in [json!(0), json!(-1), json!(1.5), json!(1_u64 << 53), json!("1")] {
        let changes = json!({"accountId": "A", "sinceState": "1", "maxChanges": bad});
        let error = ChangesRequest::from_arguments(object(changes)).unwrap_err();
        assert!(error.description.unwrap().starts_with("maxChanges: expected an integer from"));
    }
    let set = json!({"accountId": "A", "create": {"a b": {}}});
    let error = SetRequest::from_arguments(object(set)).unwrap_err().description.unwrap();
    assert!(error.starts_with("create.a b: expected an id"), "{error}");
}

#[test]
fn ids_that_are_repeated_count_once() {
    let arguments = json!({"accountId": "A", "ids": ["b", "a", "b", "not an id"], "properties": null});
    let request = GetRequest::<String>::from_arguments(object(arguments)).unwrap();
    assert_eq!(written(&request.ids), json!(["b", "a", "not an id"]));
    assert_eq!(request.properties, None);
    let arguments = json!({"accountId": "A", "destroy": ["b", "b"], "create": null, "update": {"#k": {}}});
    let request = SetRequest::from_arguments(object(arguments)).unwrap();
    assert_eq!(request.destroy.len(), 1);
    assert_eq!(request.update.keys().next(), Some(&GivenId::Created(CreationId::new("k").unwrap())));
}

#[test]
fn set_errors_are_read_back() {
    for wire in [
        json!({"type": "invalidProperties", "properties": ["name"], "description": "taken"}),
        json!({"type": "alreadyExists", "existingId": "M1"}),
        json!({"type": "blobNotFound", "notFound": ["B1"]}),
        json!({"type": "tooManyRecipients", "maxRecipients": 5}),
        json!({"type": "invalidRecipients", "invalidRecipients": ["x"]}),
        json!({"type": "tooLarge", "maxSize": 5}),
        json!({"type": "singleton"}),
    ] {
        assert_eq!(written(&SetError::from_json(wire.clone()).unwrap()), wire);
    }
    for kind in SetErrorType::ALL {
        assert_eq!(SetErrorType::from_name(kind.name()), Some(*kind));
    }
}

#[test]
fn typed_ids_are_ids() {
    let mailbox = MailboxId::from_json(json!("F1")).unwrap();
    assert_eq!(Id::from(mailbox.clone()).as_str(), "F1");
    assert_eq!(MailboxId::from(Id::from(mailbox.clone())), mailbox);
}

#[test]
fn long_text_of_clients_is_not_repeated() {
    let mut fields = Fields::from(object(json!({"a": "ö".repeat(10_000)})));
    let error = fields.required::<bool>("a").unwrap_err().to_string();
    assert!(error.len() < 300, "{}", error.len());
    let fields = Fields::from(object(json!({"ö".repeat(10_000): 1})));
    assert!(fields.finish().unwrap_err().to_string().len() < 300);
}
