//! Request-level errors (RFC 8620 §3.6.1) as problem details (RFC 7807).

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// What is wrong with a request as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemType {
    /// `using` has a capability that the server does not support.
    UnknownCapability,
    /// Not `application/json`, or not I-JSON.
    NotJson,
    /// JSON, but not a Request object.
    NotRequest,
    /// Beyond a limit of the capability object, which it names: `maxSizeRequest`.
    Limit(&'static str),
    /// A plain HTTP error, which its status says.
    About,
}

impl ProblemType {
    /// Its URI.
    pub fn uri(self) -> &'static str {
        match self {
            ProblemType::UnknownCapability => "urn:ietf:params:jmap:error:unknownCapability",
            ProblemType::NotJson => "urn:ietf:params:jmap:error:notJSON",
            ProblemType::NotRequest => "urn:ietf:params:jmap:error:notRequest",
            ProblemType::Limit(_) => "urn:ietf:params:jmap:error:limit",
            ProblemType::About => "about:blank",
        }
    }
}

/// The body of an HTTP error response; its content type is `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The type.
    pub problem: ProblemType,
    /// The status of the HTTP response.
    pub status: u16,
    /// What was wrong, for developers of clients.
    pub detail: String,
}

impl Problem {
    /// A problem with a status of its own.
    pub fn new(problem: ProblemType, status: u16, detail: impl Into<String>) -> Self {
        Problem { problem, status, detail: detail.into() }
    }

    /// 400, not I-JSON.
    pub fn not_json(detail: impl Into<String>) -> Self {
        Problem::new(ProblemType::NotJson, 400, detail)
    }

    /// 400, not a Request object.
    pub fn not_request(detail: impl Into<String>) -> Self {
        Problem::new(ProblemType::NotRequest, 400, detail)
    }

    /// 400, a capability that the server does not have.
    pub fn unknown_capability(capability: &str) -> Self {
        let shown = crate::read::shortened(capability);
        let detail = format!("The request uses capability {shown:?}, which this server does not support.");
        Problem::new(ProblemType::UnknownCapability, 400, detail)
    }

    /// 400, beyond a limit of the core capability, by its name there.
    pub fn limit(limit: &'static str, detail: impl Into<String>) -> Self {
        Problem::new(ProblemType::Limit(limit), 400, detail)
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.serialize_into(&mut map)?;
        map.end()
    }
}

impl Problem {
    /// Writes the members into an object that has others.
    pub(crate) fn serialize_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("type", self.problem.uri())?;
        if let ProblemType::Limit(limit) = self.problem {
            map.serialize_entry("limit", limit)?;
        }
        map.serialize_entry("status", &self.status)?;
        map.serialize_entry("detail", &self.detail)
    }
}
