//! One step past every limit of the core.

use sealpost_base::limits::*;
use serde_json::{Map, Value, json};

use crate::error::MethodErrorType;
use crate::patch::PatchObject;
use crate::read::FromJson;
use crate::standard::{GetRequest, SetRequest};
use crate::{Request, ResponseWriter, State, json};

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(members) = value else { panic!("no object: {value}") };
    members
}

fn problem(body: &[u8]) -> Value {
    serde_json::to_value(Request::parse(body).unwrap_err()).unwrap()
}

fn body(request: Value) -> Vec<u8> {
    request.to_string().into_bytes()
}

#[test]
fn large_requests_are_refused() {
    let mut request = body(json!({"using": [], "methodCalls": []}));
    request.resize(JMAP_REQUEST_BYTES, b' ');
    assert!(Request::parse(&request).is_ok());
    request.push(b' ');
    let wire = problem(&request);
    assert_eq!((&wire["limit"], &wire["status"]), (&json!("maxSizeRequest"), &json!(400)));
    assert_eq!(wire["type"], "urn:ietf:params:jmap:error:limit");
}

#[test]
fn requests_with_many_calls_are_refused() {
    let calls = |count| body(json!({"using": [], "methodCalls": vec![json!(["a", {}, "c"]); count]}));
    assert!(Request::parse(&calls(JMAP_CALLS)).is_ok());
    assert_eq!(problem(&calls(JMAP_CALLS + 1))["limit"], "maxCallsInRequest");
}

#[test]
fn lists_of_a_request_are_bounded() {
    let using = |count| body(json!({"using": vec!["a"; count], "methodCalls": []}));
    assert!(Request::parse(&using(JMAP_USING)).is_ok());
    assert!(problem(&using(JMAP_USING + 1))["detail"].as_str().unwrap().starts_with("using:"));
    let created = |count: usize| {
        let ids: Map<String, Value> = (0..count).map(|n| (format!("k{n}"), json!("M1"))).collect();
        body(json!({"using": [], "methodCalls": [], "createdIds": ids}))
    };
    assert!(Request::parse(&created(JMAP_CREATED_IDS)).is_ok());
    assert!(problem(&created(JMAP_CREATED_IDS + 1))["detail"].as_str().unwrap().starts_with("createdIds:"));
}

#[test]
fn deep_json_is_refused() {
    let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
    assert!(json::parse(&nested(JMAP_JSON_DEPTH)).is_ok());
    assert_eq!(json::parse(&nested(JMAP_JSON_DEPTH + 1)), Err(json::JsonError::TooDeep));
    assert_eq!(json::parse(&vec![b'['; 1_000_000]), Err(json::JsonError::TooDeep));
    assert_eq!(json::parse(&b"{\"a\":".repeat(100_000)), Err(json::JsonError::TooDeep));
}

#[test]
fn small_values_in_a_large_request_are_refused() {
    for piece in ["0,", "{\"a\":0},", "[],"] {
        let values = format!("[{}0]", piece.repeat(JMAP_REQUEST_BYTES / piece.len() - 2));
        assert!(values.len() <= JMAP_REQUEST_BYTES);
        assert_eq!(json::parse(values.as_bytes()), Err(json::JsonError::TooManyValues), "{piece}");
        let body = format!("{{\"using\":[],\"methodCalls\":[[\"a\",{{\"b\":{values}}},\"c\"]]}}");
        assert_eq!(problem(body.as_bytes())["limit"], "maxSizeRequest");
    }
    let members: String = (0..JMAP_JSON_VALUE_BYTES / 100).map(|n| format!("\"{n}\":0,")).collect();
    let members = format!("{{{members}\"\":0}}");
    assert_eq!(json::parse(members.as_bytes()), Err(json::JsonError::TooManyValues));
    let most = format!("[{}0]", "0,".repeat(JMAP_JSON_VALUE_BYTES / 64 - 1));
    assert!(json::parse(most.as_bytes()).is_ok());
}

#[test]
fn get_and_set_have_500_objects() {
    let get = |count: usize| {
        let ids: Vec<String> = (0..count).map(|n| format!("M{n}")).collect();
        GetRequest::<String>::from_arguments(object(json!({"accountId": "A", "ids": ids})))
    };
    assert!(get(JMAP_GET_OBJECTS).is_ok());
    let error = get(JMAP_GET_OBJECTS + 1).unwrap_err();
    assert_eq!(error.error, MethodErrorType::RequestTooLarge);
    assert_eq!(error.description.unwrap(), "501 objects in one call; maxObjectsInGet is 500");
    let set = |count: usize| {
        let update: Map<String, Value> = (0..count - 2).map(|n| (format!("M{n}"), json!({}))).collect();
        let arguments = json!({"accountId": "A", "create": {"a": {}}, "update": update, "destroy": ["M0"]});
        SetRequest::from_arguments(object(arguments))
    };
    assert!(set(JMAP_SET_OBJECTS).is_ok());
    assert_eq!(set(JMAP_SET_OBJECTS + 1).unwrap_err().error, MethodErrorType::RequestTooLarge);
    let get = |count| {
        let arguments = json!({"accountId": "A", "properties": vec!["id"; count]});
        GetRequest::<String>::from_arguments(object(arguments))
    };
    assert!(get(JMAP_PROPERTIES).is_ok());
    assert!(get(JMAP_PROPERTIES + 1).unwrap_err().description.unwrap().starts_with("properties:"));
}

#[test]
fn states_pointers_and_patches_are_bounded() {
    assert!(State::from_json(json!("s".repeat(JMAP_STATE_BYTES))).is_ok());
    assert!(State::from_json(json!("s".repeat(JMAP_STATE_BYTES + 1))).is_err());
    let patch = |path: String| PatchObject::new(object(json!({path: 1})));
    assert!(patch("p".repeat(JMAP_POINTER_BYTES)).is_ok());
    assert!(patch("p".repeat(JMAP_POINTER_BYTES + 1)).is_err());
    assert!(patch("p/".repeat(JMAP_POINTER_PARTS - 1)).is_ok());
    assert!(patch("p/".repeat(JMAP_POINTER_PARTS)).is_err());
    let patch = |count: usize| PatchObject::new((0..count).map(|n| (format!("p{n}"), json!(1))).collect());
    assert!(patch(JMAP_PATCH_PATHS).is_ok());
    assert!(patch(JMAP_PATCH_PATHS + 1).is_err());
}

#[test]
fn references_are_bounded() {
    let reference = json!({"resultOf": "t0", "name": "Foo/get", "path": "/list/*/ids"});
    let calls = json!([["Foo/get", {}, "t0"], ["Foo/get", {"#ids": reference}, "t1"]]);
    let request = Request::parse(&body(json!({"using": [], "methodCalls": calls}))).unwrap();
    let resolve = |list: Value| {
        let mut writer = ResponseWriter::new(&request);
        writer.respond("Foo/get", &json!({"list": list}), "t0");
        writer.resolve(request.method_calls[1].arguments.clone())
    };
    let list = |count: usize| json!([{"ids": vec!["a"; count / 2]}, {"ids": vec!["a"; count - count / 2]}]);
    // Each of the two arrays is a value, and an item of the list that the path maps through.
    assert!(resolve(list(JMAP_REFERENCE_VALUES - 4)).is_ok());
    let error = resolve(list(JMAP_REFERENCE_VALUES - 3)).unwrap_err();
    assert_eq!(error.error, MethodErrorType::InvalidResultReference);
    assert!(error.description.unwrap().contains("more than 50000 values"));
    // Arrays that are empty count too.
    assert!(resolve(json!(vec![json!({"ids": []}); JMAP_REFERENCE_VALUES + 1])).is_err());
    let large = json!([{"ids": ["a"], "text": "x".repeat(JMAP_REFERENCED_BYTES)}]);
    let error = resolve(large.clone()).unwrap_err();
    assert!(error.description.unwrap().contains("too large to be referred to"));

    let small = json!(vec![json!({"a": {}}); JMAP_JSON_VALUE_BYTES / 700]);
    assert!(resolve(small).unwrap_err().description.unwrap().contains("too many values"));
    let text = json!([{"ids": ["x".repeat(64 * JMAP_REFERENCE_VALUES)]}]);
    assert!(resolve(text).unwrap_err().description.unwrap().contains("more than 50000 values"));

    let mut writer = ResponseWriter::new(&request);
    let mut open = writer.open("Foo/get", "t0");
    open.open_array("list");
    open.item(&large[0]);
    open.take();
    open.close_array();
    open.close();
    assert!(writer.resolve(request.method_calls[1].arguments.clone()).is_err());
}

#[test]
fn many_references_cost_no_more_than_one() {
    let reference = json!({"resultOf": "t0", "name": "Foo/get", "path": "/list"});
    let references = |count: usize| -> Map<String, Value> {
        (0..count).map(|n| (format!("#a{n}"), reference.clone())).collect()
    };
    let resolve = |count| {
        let calls = json!([["Foo/get", {}, "t0"], ["Foo/get", references(count), "t1"]]);
        let request = Request::parse(&body(json!({"using": [], "methodCalls": calls}))).unwrap();
        let mut writer = ResponseWriter::new(&request);
        writer.respond("Foo/get", &json!({"list": vec![1; 999]}), "t0");
        writer.resolve(request.method_calls[1].arguments.clone())
    };
    assert_eq!(resolve(JMAP_REFERENCE_VALUES / 1000).unwrap().len(), JMAP_REFERENCE_VALUES / 1000);
    assert_eq!(
        resolve(JMAP_REFERENCE_VALUES / 1000 + 1).unwrap_err().error,
        MethodErrorType::InvalidResultReference
    );
}
