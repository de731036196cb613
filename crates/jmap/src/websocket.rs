//! JMAP over WebSockets (RFC 8887 §4.3): what a client sends, and what a server sends besides
//! responses.

use sealpost_base::limits::{JMAP_PUSH_TYPES, JMAP_STATE_BYTES, JMAP_WEBSOCKET_ID_BYTES};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::json;
use crate::object::object;
use crate::push::StateChange;
use crate::read::{Fields, FromJson, Mismatch};
use crate::request::{Request, not_json};
use crate::state::State;

/// A message of a client.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientMessage {
    /// A request; its response repeats the id, if there is one.
    Request {
        /// The id.
        id: Option<String>,
        /// The request.
        request: Request,
    },
    /// The client wants to hear of changes (§4.3.5.2).
    PushEnable {
        /// Of these types; `None`: of all.
        types: Option<Vec<String>>,
        /// Those after this state, which a push said.
        push_state: Option<State>,
    },
    /// It wants that no more (§4.3.5.3).
    PushDisable,
}

/// Why a message is no [`ClientMessage`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestError {
    /// The id of the request, if it was read.
    pub id: Option<String>,
    /// What is wrong.
    pub problem: Problem,
}

impl ClientMessage {
    /// Reads a message.
    ///
    /// # Errors
    /// What the client gets.
    pub fn parse(text: &[u8]) -> Result<Self, RequestError> {
        let without_id = |problem| RequestError { id: None, problem };
        let value = json::parse(text).map_err(|error| without_id(not_json(error)))?;
        let mut fields = Fields::from_json(value).map_err(|wrong| without_id(not_message(&wrong)))?;
        let kind: String = fields.required("@type").map_err(|wrong| without_id(not_message(&wrong)))?;
        let id: Option<String> = match kind.as_str() {
            "Request" => fields.optional("id").map_err(|wrong| without_id(not_message(&wrong)))?,
            _ => None,
        };
        if id.as_ref().is_some_and(|id| id.len() > JMAP_WEBSOCKET_ID_BYTES) {
            let detail = format!("The id of a request has at most {JMAP_WEBSOCKET_ID_BYTES} bytes.");
            return Err(without_id(Problem::not_request(detail)));
        }
        let failed = |problem| RequestError { id: id.clone(), problem };
        match kind.as_str() {
            "Request" => {
                let request = Request::read(fields).map_err(failed)?;
                Ok(ClientMessage::Request { id, request })
            }
            "WebSocketPushEnable" => push_enable(fields).map_err(|wrong| failed(not_message(&wrong))),
            "WebSocketPushDisable" => Ok(ClientMessage::PushDisable),
            other => {
                let shown = crate::read::shortened(other);
                Err(failed(Problem::not_request(format!("There is no message of type {shown:?}."))))
            }
        }
    }
}

impl RequestError {
    /// Refuses a message that is not parsed. Of its text only the id is read, as it is if it needs no escapes.
    pub fn unread(text: &[u8], problem: Problem) -> Self {
        #[derive(Deserialize)]
        struct Named<'a> {
            id: Option<&'a str>,
        }
        let id = serde_json::from_slice::<Named<'_>>(text).ok().and_then(|named| named.id);
        let id = id.filter(|id| id.len() <= JMAP_WEBSOCKET_ID_BYTES).map(str::to_owned);
        RequestError { id, problem }
    }
}

fn push_enable(mut fields: Fields) -> Result<ClientMessage, Mismatch> {
    let types: Option<Vec<String>> = fields.optional("dataTypes")?;
    if types.as_ref().is_some_and(|types| types.len() > JMAP_PUSH_TYPES) {
        return Err(Mismatch::because(format!("more than {JMAP_PUSH_TYPES}")).within("dataTypes"));
    }
    let state: Option<String> = fields.optional("pushState")?;
    // A longer one cannot be the server's.
    let push_state = state.map(|state| State::new(if state.len() > JMAP_STATE_BYTES { "" } else { &state }));
    Ok(ClientMessage::PushEnable { types, push_state })
}

fn not_message(wrong: &Mismatch) -> Problem {
    Problem::not_request(format!("Not a message of JMAP: {wrong}."))
}

impl Serialize for RequestError {
    /// §4.3.4.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("@type", "RequestError")?;
        map.serialize_entry("requestId", &self.id)?;
        self.problem.serialize_into(&mut map)?;
        map.end()
    }
}

/// What a response begins with instead of its brace (§4.3.3).
pub fn response_prefix(id: Option<&str>) -> String {
    let mut prefix = r#"{"@type":"Response","#.to_owned();
    if let Some(id) = id {
        prefix.push_str(r#""requestId":"#);
        prefix.push_str(&serde_json::Value::from(id).to_string());
        prefix.push(',');
    }
    prefix
}

/// A StateChange on a WebSocket (§4.3.5.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushedChange {
    /// What changed.
    pub change: StateChange,
    /// What the client repeats to hear what comes after it.
    pub push_state: State,
}

impl Serialize for PushedChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("@type", "StateChange")?;
        map.serialize_entry("changed", &self.change.changed)?;
        map.serialize_entry("pushState", &self.push_state)?;
        map.end()
    }
}

object! {
    /// `urn:ietf:params:jmap:websocket`, of the server (§3).
    pub struct WebSocketCapability {
        /// Where WebSockets are opened.
        url: String = "url" [required],
        /// Whether changes are pushed over them.
        supports_push: bool = "supportsPush" [required],
    }
}
