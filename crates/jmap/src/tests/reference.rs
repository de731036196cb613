//! Result references, and responses written whole or in pieces.

use serde_json::{Value, json};

use crate::error::MethodErrorType;
use crate::id::CreatedIds;
use crate::read::FromJson;
use crate::response::Response;
use crate::{Request, ResponseWriter, State, json};

fn request(calls: Value) -> Request {
    Request::parse(json!({"using": [], "methodCalls": calls}).to_string().as_bytes()).unwrap()
}

#[test]
fn references_select_from_earlier_responses() {
    let reference = |of: &str, name: &str, path: &str| json!({"resultOf": of, "name": name, "path": path});
    let list =
        json!({"list": [{"ids": ["a", "b"], "n": 1, "~/": 7}, {"ids": ["c"], "n": 2, "~/": 8}], "0": [5, 6]});
    for (of, name, path, result) in [
        ("t0", "Foo/get", "/list/*/ids", Ok(json!(["a", "b", "c"]))),
        ("t0", "Foo/get", "/list/*/n", Ok(json!([1, 2]))),
        ("t0", "Foo/get", "/list/1/ids/0", Ok(json!("c"))),
        ("t0", "Foo/get", "/list/*/~0~1", Ok(json!([7, 8]))),
        ("t0", "Foo/get", "/0/1", Ok(json!(6))),
        ("t0", "Foo/get", "", Ok(list.clone())),
        ("t0", "Foo/get", "/list/*/gone", Err("nothing is at \"gone\"")),
        ("t0", "Foo/get", "/list/2", Err("has no item \"2\"")),
        ("t0", "Foo/get", "/list/01", Err("has no item \"01\"")),
        ("t0", "Foo/get", "/list/-", Err("has no item \"-\"")),
        ("t0", "Foo/get", "/list/0/n/x", Err("no object and no array")),
        ("t0", "Foo/get", "list", Err("does not begin with /")),
        ("t0", "Foo/get", "/~", Err("~ must be followed")),
        ("t0", "Foo/changes", "/list", Err("is Foo/get")),
        ("t9", "Foo/get", "/list", Err("no earlier call")),
    ] {
        let call = json!({"#ids": reference(of, name, path), "x": 1});
        let request = request(json!([["Foo/get", {}, "t0"], ["Foo/get", call, "t1"]]));
        let mut writer = ResponseWriter::new(&request);
        writer.respond("Foo/get", &list, "t0");
        writer.respond("Other", &json!({}), "t0");
        let resolved = writer.resolve(request.method_calls[1].arguments.clone());
        match result {
            Ok(ids) => assert_eq!(Value::Object(resolved.unwrap()), json!({"ids": ids, "x": 1}), "{path}"),
            Err(why) => {
                let error = resolved.unwrap_err();
                assert_eq!(error.error, MethodErrorType::InvalidResultReference);
                assert!(error.description.as_ref().unwrap().contains(why), "{path}: {error:?}");
            }
        }
    }
}

#[test]
fn wrong_references_are_wrong_arguments() {
    let reference = json!({"resultOf": "a", "name": "b", "path": "/c"});
    for (arguments, why) in [
        (json!({"ids": [], "#ids": reference}), "ids: given both as a value and as the reference #ids"),
        (json!({"#ids": {"resultOf": "a", "name": "b"}}), "#ids.path: missing; expected a string"),
        (json!({"#ids": ["a"]}), "#ids: expected an object with resultOf, name and path, found an array"),
    ] {
        let request = request(json!([["Foo/get", arguments, "t0"]]));
        let writer = ResponseWriter::new(&request);
        let error = writer.resolve(request.method_calls[0].arguments.clone()).unwrap_err();
        assert_eq!(error.error, MethodErrorType::InvalidArguments);
        assert_eq!(error.description.unwrap(), why);
    }
}

#[test]
fn a_response_written_in_items_equals_a_whole_one() {
    let reference = json!({"resultOf": "t0", "name": "Foo/get", "path": "/list/*/id"});
    let calls = json!([["Foo/get", {}, "t0"], ["Foo/get", {"#ids": reference}, "t1"]]);
    let request = request(calls);
    let items = [json!({"id": "a"}), json!({"id": "b"})];
    let mut whole = ResponseWriter::new(&request);
    whole.respond("Foo/get", &json!({"accountId": "A", "list": items, "z": []}), "t0");
    whole.error(&MethodErrorType::UnknownMethod.into(), "t1");
    let whole_ids = whole.resolve(request.method_calls[1].arguments.clone()).unwrap();
    let whole = whole.finish(&State::new("s"), Some(&CreatedIds::default()));

    let mut pieces = ResponseWriter::new(&request);
    let mut sent = pieces.take();
    let mut open = pieces.open("Foo/get", "t0");
    open.argument("accountId", &"A");
    open.open_array("list");
    for item in &items {
        open.item(item);
        assert!(open.pending() > 0);
        sent.extend(open.take());
    }
    open.close_array();
    open.open_array("z");
    open.close_array();
    open.close();
    pieces.error(&MethodErrorType::UnknownMethod.into(), "t1");
    assert_eq!(pieces.resolve(request.method_calls[1].arguments.clone()).unwrap(), whole_ids);
    assert_eq!(whole_ids["ids"], json!(["a", "b"]));
    sent.extend(pieces.finish(&State::new("s"), Some(&CreatedIds::default())));
    assert_eq!(String::from_utf8(sent).unwrap(), String::from_utf8(whole.clone()).unwrap());

    let response = Response::from_json(json::parse(&whole).unwrap()).unwrap();
    assert_eq!(response.method_responses.len(), 2);
    assert_eq!(response.method_responses[1].name, "error");
    assert_eq!(response.created_ids, Some(Default::default()));
}

#[test]
fn a_response_that_fails_before_sending_leaves_no_trace() {
    let request = request(json!([["Foo/get", {}, "t0"], ["Foo/get", {}, "t1"]]));
    let mut writer = ResponseWriter::new(&request);
    let mut open = writer.open("Foo/get", "t0");
    open.open_object("parsed");
    open.member("a", &1);
    open.close_object();
    assert!(open.abandon());
    writer.error(&MethodErrorType::ServerFail.into(), "t0");
    let mut open = writer.open("Foo/get", "t1");
    open.open_object("parsed");
    open.member("a", &1);
    open.member("b", &2);
    open.close_object();
    open.argument("notFound", &json!(null));
    open.close();
    let response = Response::from_json(json::parse(&writer.finish(&State::new("s"), None)).unwrap()).unwrap();
    let names: Vec<&str> = response.method_responses.iter().map(|response| response.name.as_str()).collect();
    assert_eq!(names, ["error", "Foo/get"]);
    let expected = json!({"parsed": {"a": 1, "b": 2}, "notFound": null});
    assert_eq!(Value::Object(response.method_responses[1].arguments.clone()), expected);

    // What was sent cannot be taken back.
    let mut writer = ResponseWriter::new(&request);
    let mut open = writer.open("Foo/get", "t0");
    assert!(!open.take().is_empty());
    assert!(!open.abandon());
}
