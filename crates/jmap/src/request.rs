//! The Request object (RFC 8620 §3.3), read from the body of an API request.

use std::collections::BTreeMap;

use sealpost_base::limits::{JMAP_CALLS, JMAP_CREATED_IDS, JMAP_REQUEST_BYTES, JMAP_USING};
use serde::Serialize;
use serde_json::Value;

use crate::capability::Capability;
use crate::error::Problem;
use crate::id::{CreationId, Id};
use crate::invocation::Invocation;
use crate::json::{self, JsonError};
use crate::read::{Fields, FromJson, Mismatch};

/// What a client asks for.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// URIs of the capabilities that the client uses.
    pub using: Vec<String>,
    /// The calls, processed in order; 1 to [`JMAP_CALLS`], or none.
    pub method_calls: Vec<Invocation>,
    /// Ids of objects created in earlier requests; if given, the response has them too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_ids: Option<BTreeMap<CreationId, Id>>,
}

impl Request {
    /// Reads the body of a request. Properties that are unknown are ignored (RFC 8620 §3.3).
    pub fn parse(body: &[u8]) -> Result<Self, Problem> {
        if body.len() > JMAP_REQUEST_BYTES {
            let detail = format!("A request has at most {JMAP_REQUEST_BYTES} bytes.");
            return Err(Problem::limit("maxSizeRequest", detail));
        }
        let value = json::parse(body).map_err(not_json)?;
        Request::read(Fields::from_json(value).map_err(not_request)?)
    }

    /// Reads the object.
    pub(crate) fn read(mut fields: Fields) -> Result<Self, Problem> {
        let wrong = not_request;
        let using: Vec<String> = fields.required("using").map_err(wrong)?;
        if using.len() > JMAP_USING {
            return Err(Problem::not_request(format!("using: at most {JMAP_USING} capabilities.")));
        }
        // Counted before they are read: the limit comes before what is wrong in a call.
        let calls: Vec<Value> = fields.required("methodCalls").map_err(wrong)?;
        if calls.len() > JMAP_CALLS {
            let detail = format!("{} method calls in one request; at most {JMAP_CALLS} are.", calls.len());
            return Err(Problem::limit("maxCallsInRequest", detail));
        }
        let method_calls =
            Vec::from_json(Value::Array(calls)).map_err(|it| wrong(it.within("methodCalls")))?;
        let created_ids: Option<BTreeMap<CreationId, Id>> = fields.present("createdIds").map_err(wrong)?;
        if created_ids.as_ref().is_some_and(|ids| ids.len() > JMAP_CREATED_IDS) {
            return Err(Problem::not_request(format!("createdIds: at most {JMAP_CREATED_IDS} ids.")));
        }
        Ok(Request { using, method_calls, created_ids })
    }

    /// The capabilities in `using`, or `unknownCapability` for the first that is not `supported`.
    pub fn capabilities(&self, supported: &[Capability]) -> Result<Vec<Capability>, Problem> {
        let known = |name: &String| {
            let capability = Capability::from_name(name).filter(|capability| supported.contains(capability));
            capability.ok_or_else(|| Problem::unknown_capability(name))
        };
        self.using.iter().map(known).collect()
    }
}

/// What a client gets that does not send I-JSON, or too much of it.
pub(crate) fn not_json(error: JsonError) -> Problem {
    match error {
        JsonError::Syntax(what) => Problem::not_json(format!("The request is not I-JSON: {what}.")),
        // Valid JSON, but no Request that a client has reason to send.
        JsonError::TooDeep => Problem::not_request(format!("In the request, {error}.")),
        JsonError::TooManyValues => Problem::limit("maxSizeRequest", "The request has too many values."),
    }
}

fn not_request(wrong: Mismatch) -> Problem {
    Problem::not_request(format!("Not a Request object: {wrong}."))
}
