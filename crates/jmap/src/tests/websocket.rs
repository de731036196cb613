//! Messages of WebSockets.

use sealpost_base::limits::*;
use serde_json::{Value, json};

use crate::push::StateChange;
use crate::websocket::{ClientMessage, PushedChange, RequestError, response_prefix};
use crate::{Problem, State};

fn parse(message: &Value) -> Result<ClientMessage, RequestError> {
    ClientMessage::parse(message.to_string().as_bytes())
}

#[test]
fn the_examples_of_the_rfc_are_read() {
    // RFC 8887 §4.3.2, shortened, and §4.3.5.
    let request =
        json!({"@type": "Request", "id": "R1", "using": [], "methodCalls": [["Core/echo", {}, "b3ff"]]});
    let Ok(ClientMessage::Request { id, request }) = parse(&request) else { panic!() };
    assert_eq!((id.as_deref(), request.method_calls[0].name.as_str()), (Some("R1"), "Core/echo"));
    let enable =
        json!({"@type": "WebSocketPushEnable", "dataTypes": ["Mailbox", "Email"], "pushState": "aaa"});
    let types = Some(vec!["Mailbox".to_owned(), "Email".to_owned()]);
    assert_eq!(parse(&enable), Ok(ClientMessage::PushEnable { types, push_state: Some(State::new("aaa")) }));
    let enable = json!({"@type": "WebSocketPushEnable", "dataTypes": null});
    assert_eq!(parse(&enable), Ok(ClientMessage::PushEnable { types: None, push_state: None }));
    assert_eq!(parse(&json!({"@type": "WebSocketPushDisable"})), Ok(ClientMessage::PushDisable));
}

#[test]
fn errors_name_the_request() {
    let long = "x".repeat(JMAP_WEBSOCKET_ID_BYTES + 1);
    for (message, id) in [
        (json!({"@type": "Request", "id": "R1"}), Some("R1")),
        (json!({"@type": "Request", "id": 1}), None),
        (json!({"@type": "Request", "id": long, "using": [], "methodCalls": []}), None),
        (json!({"@type": "Other"}), None),
        (json!({"using": [], "methodCalls": []}), None),
        (json!({"@type": "WebSocketPushEnable", "dataTypes": vec!["x"; JMAP_PUSH_TYPES + 1]}), None),
        (json!([]), None),
    ] {
        let error = parse(&message).unwrap_err();
        assert_eq!(error.id.as_deref(), id, "{message}");
        let written = serde_json::to_value(&error).unwrap();
        assert_eq!(written["@type"], "RequestError");
        assert_eq!(written["type"], "urn:ietf:params:jmap:error:notRequest", "{message}");
    }
    let error = ClientMessage::parse(b"{").unwrap_err();
    assert_eq!(serde_json::to_value(&error).unwrap()["type"], "urn:ietf:params:jmap:error:notJSON");
}

#[test]
fn an_unparsed_message_is_refused_by_its_id() {
    let long = "x".repeat(JMAP_WEBSOCKET_ID_BYTES + 1);
    for (text, id) in [
        (r#"{"@type":"Request","methodCalls":[[{}]],"id":"R1"}"#.to_owned(), Some("R1")),
        (r#"{"id":"R1","more":"#.to_owned(), None),
        (r#"{"id":7}"#.to_owned(), None),
        (format!(r#"{{"id":"{long}"}}"#), None),
        ("[]".to_owned(), None),
    ] {
        let error = RequestError::unread(text.as_bytes(), Problem::limit("maxConcurrentRequests", "wait"));
        assert_eq!(error.id.as_deref(), id, "{text}");
    }
}

#[test]
fn responses_and_pushes_are_written() {
    assert_eq!(response_prefix(None), r#"{"@type":"Response","#);
    assert_eq!(response_prefix(Some("a\"b")), r#"{"@type":"Response","requestId":"a\"b","#);
    let pushed = PushedChange { change: StateChange::default(), push_state: State::new("s") };
    assert_eq!(
        serde_json::to_value(&pushed).unwrap(),
        json!({"@type": "StateChange", "changed": {}, "pushState": "s"})
    );
    let problem = Problem::limit("maxSizeRequest", "too large");
    let error = serde_json::to_value(RequestError { id: Some("R".to_owned()), problem }).unwrap();
    assert_eq!((error["limit"].as_str(), error["requestId"].as_str()), (Some("maxSizeRequest"), Some("R")));
}
