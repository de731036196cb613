//! The Response object (RFC 8620 §3.4), written call by call.
//!
//! [`ResponseWriter`] holds what is written and not taken yet. The arguments of one response are
//! written at once ([`ResponseWriter::respond`]) or name by name and item by item
//! ([`ResponseWriter::open`]), so that a session can send a large list while it makes it. Of
//! responses that later calls refer to it keeps a copy, of the others nothing.

use std::collections::HashSet;

use sealpost_base::limits::JMAP_REFERENCED_BYTES;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::MethodError;
use crate::id::CreatedIds;
use crate::invocation::Invocation;
use crate::reference::{self, KeptResponse};
use crate::request::Request;
use crate::state::State;

/// Writes one Response object.
#[derive(Debug)]
pub struct ResponseWriter {
    buffer: Vec<u8>,
    is_first: bool,
    /// Ids of calls that references name.
    referenced: HashSet<String>,
    kept: Vec<KeptResponse>,
    kept_bytes: usize,
}

impl ResponseWriter {
    /// Begins the response to `request`.
    pub fn new(request: &Request) -> Self {
        let calls = request.method_calls.iter();
        let referenced = calls.flat_map(|call| reference::referenced(&call.arguments)).map(str::to_owned);
        ResponseWriter {
            buffer: br#"{"methodResponses":["#.to_vec(),
            is_first: true,
            referenced: referenced.collect(),
            kept: Vec::new(),
            kept_bytes: 0,
        }
    }

    /// The arguments of a call, with the values that its references name (RFC 8620 §3.7).
    pub fn resolve(&self, mut arguments: Map<String, Value>) -> Result<Map<String, Value>, MethodError> {
        reference::resolve(&mut arguments, &self.kept)?;
        Ok(arguments)
    }

    /// Writes one response whole.
    pub fn respond(&mut self, name: &str, arguments: &impl Serialize, call_id: &str) {
        self.begin(name);
        let start = self.buffer.len();
        write_json(&mut self.buffer, arguments);
        let kept = self.keeps(call_id).then(|| self.buffer[start..].to_vec());
        self.end(name, call_id, kept);
    }

    /// Writes the error of a method.
    pub fn error(&mut self, error: &MethodError, call_id: &str) {
        self.respond("error", error, call_id);
    }

    /// Writes the response of Core/echo (RFC 8620 §4).
    pub fn echo(&mut self, call: &Invocation) {
        self.respond(&call.name, &call.arguments, &call.call_id);
    }

    /// Begins a response whose arguments are written one after another.
    pub fn open<'a>(&'a mut self, name: &'a str, call_id: &'a str) -> OpenResponse<'a> {
        let before = Some((self.buffer.len(), self.is_first));
        self.begin(name);
        let kept = self.keeps(call_id).then(Vec::new);
        let start = self.buffer.len();
        self.buffer.push(b'{');
        OpenResponse { writer: self, name, call_id, kept, before, start, is_first: true }
    }

    /// What is written and was not taken yet, in bytes.
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// Takes it, to be sent.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Ends the object; the rest of the bytes. `created` is given if the request had `createdIds`.
    pub fn finish(mut self, session_state: &State, created: Option<&CreatedIds>) -> Vec<u8> {
        self.buffer.push(b']');
        if let Some(created) = created {
            self.buffer.extend_from_slice(br#","createdIds":"#);
            write_json(&mut self.buffer, created);
        }
        self.buffer.extend_from_slice(br#","sessionState":"#);
        write_json(&mut self.buffer, session_state);
        self.buffer.push(b'}');
        self.buffer
    }

    fn begin(&mut self, name: &str) {
        if !std::mem::take(&mut self.is_first) {
            self.buffer.push(b',');
        }
        self.buffer.push(b'[');
        write_json(&mut self.buffer, name);
        self.buffer.push(b',');
    }

    fn end(&mut self, name: &str, call_id: &str, arguments: Option<Vec<u8>>) {
        self.buffer.push(b',');
        write_json(&mut self.buffer, call_id);
        self.buffer.push(b']');
        let Some(arguments) = arguments else { return };
        let bytes = self.kept_bytes + arguments.len();
        let fits = bytes <= JMAP_REFERENCED_BYTES;
        if fits {
            self.kept_bytes = bytes;
        }
        let (name, call_id) = (name.to_owned(), call_id.to_owned());
        self.kept.push(KeptResponse { name, call_id, arguments: fits.then_some(arguments) });
    }

    /// Only the first response of a call can be referred to (RFC 8620 §3.7).
    fn keeps(&self, call_id: &str) -> bool {
        self.referenced.contains(call_id) && !self.kept.iter().any(|kept| kept.call_id == call_id)
    }
}

/// A response that is being written: arguments, some of them arrays item by item.
///
/// It must be closed or abandoned: dropped before, it leaves a response that is no JSON.
#[derive(Debug)]
#[must_use = "close it"]
pub struct OpenResponse<'a> {
    writer: &'a mut ResponseWriter,
    name: &'a str,
    call_id: &'a str,
    /// The arguments that were taken from the buffer, if a later call refers to them.
    kept: Option<Vec<u8>>,
    /// Where in the buffer the response begins, and whether it is the first one; `None` when some
    /// of it was taken.
    before: Option<(usize, bool)>,
    /// Where in the buffer those begin that were not.
    start: usize,
    is_first: bool,
}

impl OpenResponse<'_> {
    /// Writes one argument.
    pub fn argument(&mut self, name: &str, value: &impl Serialize) {
        self.member(name, value);
    }

    /// Begins an argument that is an array.
    pub fn open_array(&mut self, name: &str) {
        self.name(name);
        self.writer.buffer.push(b'[');
        self.is_first = true;
    }

    /// Writes one item of it.
    pub fn item(&mut self, value: &impl Serialize) {
        self.comma();
        write_json(&mut self.writer.buffer, value);
    }

    /// Ends it.
    pub fn close_array(&mut self) {
        self.writer.buffer.push(b']');
        self.is_first = false;
    }

    /// Begins an argument that is an object.
    pub fn open_object(&mut self, name: &str) {
        self.name(name);
        self.writer.buffer.push(b'{');
        self.is_first = true;
    }

    /// Writes one member of it; names must differ.
    pub fn member(&mut self, name: &str, value: &impl Serialize) {
        self.name(name);
        write_json(&mut self.writer.buffer, value);
    }

    /// Ends it.
    pub fn close_object(&mut self) {
        self.writer.buffer.push(b'}');
        self.is_first = false;
    }

    /// What is written and was not taken yet, in bytes.
    pub fn pending(&self) -> usize {
        self.writer.pending()
    }

    /// Takes it, to be sent.
    pub fn take(&mut self) -> Vec<u8> {
        self.keep();
        self.before = None;
        self.start = 0;
        self.writer.take()
    }

    /// Gives the response up, so that another one can be written in its place; false if some of it
    /// was taken already, and what was taken has no end.
    pub fn abandon(self) -> bool {
        let Some((start, is_first)) = self.before else { return false };
        self.writer.buffer.truncate(start);
        self.writer.is_first = is_first;
        true
    }

    /// Ends the response.
    pub fn close(mut self) {
        self.writer.buffer.push(b'}');
        self.keep();
        let kept = self.kept.take();
        self.writer.end(self.name, self.call_id, kept);
    }

    fn keep(&mut self) {
        let Some(kept) = &mut self.kept else { return };
        // Beyond the limit it is not kept at all: nothing larger than this is copied.
        if kept.len() <= JMAP_REFERENCED_BYTES {
            kept.extend_from_slice(&self.writer.buffer[self.start..]);
        }
    }

    fn name(&mut self, name: &str) {
        self.comma();
        write_json(&mut self.writer.buffer, name);
        self.writer.buffer.push(b':');
    }

    fn comma(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            self.writer.buffer.push(b',');
        }
    }
}

/// The types of this crate have only names that are strings, and a vector takes all bytes: writing
/// them cannot fail.
fn write_json<T: Serialize + ?Sized>(buffer: &mut Vec<u8>, value: &T) {
    let length = buffer.len();
    if serde_json::to_writer(&mut *buffer, value).is_err() {
        debug_assert!(false, "a type that JSON cannot write");
        buffer.truncate(length);
        buffer.extend_from_slice(b"null");
    }
}

/// A Response object read whole, as a client does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    /// The responses, in order.
    pub method_responses: Vec<Invocation>,
    /// Ids of created objects, if the request had some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_ids: Option<std::collections::BTreeMap<crate::CreationId, crate::Id>>,
    /// The state of the Session object.
    pub session_state: State,
}

impl crate::read::FromJson for Response {
    fn expected() -> String {
        "a Response object".into()
    }

    fn from_json(value: Value) -> Result<Self, crate::read::Mismatch> {
        let mut fields = crate::read::Fields::from_json(value)?;
        Ok(Response {
            method_responses: fields.required("methodResponses")?,
            created_ids: fields.present("createdIds")?,
            session_state: fields.required("sessionState")?,
        })
    }
}
