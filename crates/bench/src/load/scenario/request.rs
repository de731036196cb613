//! A JMAP request in a scenario: the `methodCalls` of RFC 8620 §3.3 as JSON, with placeholders.
//!
//! `accountId` and call ids are added where they are missing, so that a step holds only what a
//! client decides: `[["Email/query", {"limit": 50}], ["Email/get", {"#ids": …}]]`. Ids that the
//! server makes are placeholders, `{email}` for example; the client fills in what it was sent.

use std::collections::BTreeSet;

use sealpost_base::suggest;
use sealpost_jmap::capability::Capability;
use serde_json::{Map, Value};

use super::template::{Template, closing};

/// Placeholders of requests besides `{Bench/…}`, and what they become.
pub const PLACEHOLDERS: [(&str, &str); 12] = [
    ("account", "the id of the client's JMAP account; added where accountId is missing"),
    ("email", "an email of the last Email/query in one of the bench's mailboxes"),
    ("thread", "the thread of that email"),
    ("state", "the state of emails: that of the first Email/get, then that of the last Email/changes"),
    ("identity", "the first identity of the last Identity/get"),
    ("position", "the position of the batch, in a step with the key batch"),
    ("limit", "the number of emails in the batch"),
    ("user", "the name of the account"),
    ("connection", "the number of the connection, from 1"),
    ("round", "the number of the round, from 1"),
    ("word", "a word that is in many messages"),
    ("rare", "a word that is in one of a hundred"),
];

/// Methods that change nothing, by the end of their names.
const READS: [&str; 6] = ["/get", "/query", "/changes", "/queryChanges", "/parse", "/echo"];

/// The method calls of one HTTP request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pieces: Vec<Piece>,
    methods: Vec<String>,
    name: String,
    changes_elsewhere: bool,
    picks_email: bool,
}

/// A piece of the JSON text.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// As it is sent.
    Text(String),
    /// The id of one of the bench's mailboxes.
    Mailbox(Template),
    /// One of [`PLACEHOLDERS`].
    Value(&'static str),
}

impl Request {
    /// Parses the JSON array of calls.
    ///
    /// # Errors
    /// The mistake.
    pub fn parse(text: &str) -> Result<Self, String> {
        let calls: Vec<Value> = serde_json::from_str(&with_numbers_quoted(text))
            .map_err(|e| format!("the calls are no JSON array: {e}"))?;
        if calls.is_empty() {
            return Err("a request without calls".into());
        }
        let mut methods = Vec::new();
        let mut complete = Vec::new();
        let (mut changes_elsewhere, mut picks_email) = (false, false);
        for (nth, call) in calls.into_iter().enumerate() {
            let (method, arguments, id) = parts(call, nth)?;
            changes_elsewhere |= changes(&method, &arguments);
            picks_email |= method == "Email/query" && in_own_mailbox(&arguments);
            methods.push(method.clone());
            complete.push(Value::from(vec![Value::from(method), Value::Object(arguments), Value::from(id)]));
        }
        let text = with_numbers_bare(&Value::from(complete).to_string());
        let name = methods.join(" + ");
        Ok(Request { pieces: pieces(&text)?, methods, name, changes_elsewhere, picks_email })
    }

    /// The text and what is filled in.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Its methods, in order.
    pub fn methods(&self) -> &[String] {
        &self.methods
    }

    /// Its name in reports: `Email/query + Email/get`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The capabilities for `using` (RFC 8620 §3.3).
    pub fn needs(&self) -> BTreeSet<&'static str> {
        let of = self.methods.iter().filter_map(|method| Capability::of_method(method));
        of.chain([Capability::Core]).map(Capability::name).collect()
    }

    /// The bench's mailboxes that it names.
    pub fn mailboxes(&self) -> impl Iterator<Item = &Template> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Mailbox(template) => Some(template),
            _ => None,
        })
    }

    /// Whether it is about the emails of one batch.
    pub fn asks_for_batch(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Value("position" | "limit")))
    }

    /// Whether `{email}` becomes one of the emails that it finds: they are in the bench's mailboxes.
    pub fn picks_email(&self) -> bool {
        self.picks_email
    }

    /// Whether it could change more than the bench's own mailboxes.
    pub fn changes_elsewhere(&self) -> bool {
        self.changes_elsewhere
    }
}

/// `["Email/get", {…}]` or `["Email/get", {…}, "id"]`.
fn parts(call: Value, nth: usize) -> Result<(String, Map<String, Value>, String), String> {
    let wrong = || "a call is written as [\"Email/get\", {…}]".to_owned();
    let Value::Array(parts) = call else { return Err(wrong()) };
    let mut parts = parts.into_iter();
    let (Some(Value::String(method)), Some(Value::Object(mut arguments))) = (parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    let id = match (parts.next(), parts.next()) {
        (None, None) => nth.to_string(),
        (Some(Value::String(id)), None) => id,
        _ => return Err(wrong()),
    };
    let Some(capability) = Capability::of_method(&method) else {
        return Err(format!("there is no method {method} of JMAP"));
    };
    // The methods of the core have no account (RFC 8620 §4, §7.2), Blob/copy apart.
    if capability != Capability::Core {
        arguments.entry("accountId").or_insert_with(|| Value::from("{account}"));
    }
    Ok((method, arguments, id))
}

/// Whether a call could change more than the bench's own mailboxes. Emails that it names are those
/// of `{email}`; new ones are in `{Bench/…}`; everything else counts as a change.
fn changes(method: &str, arguments: &Map<String, Value>) -> bool {
    if READS.iter().any(|end| method.ends_with(end)) {
        return false;
    }
    if method != "Email/set" {
        return true;
    }
    let object = |name: &str| arguments.get(name).and_then(Value::as_object);
    let own_email = |id: &str| id == "{email}";
    let own_mailbox = |path: &str| path.starts_with("{Bench/");
    let updates_own = object("update").is_none_or(|update| {
        update.iter().all(|(id, patch)| {
            let patch = patch.as_object().into_iter().flatten();
            own_email(id)
                && patch.into_iter().all(|(path, value)| match path.strip_prefix("mailboxIds") {
                    Some("") => all_own(value, own_mailbox),
                    Some(path) => own_mailbox(path.trim_start_matches('/')),
                    None => true,
                })
        })
    });
    let creates_own = object("create").is_none_or(|create| {
        create.values().all(|email| email.get("mailboxIds").is_some_and(|ids| all_own(ids, own_mailbox)))
    });
    let destroyed = arguments.get("destroy").and_then(Value::as_array);
    let destroys_own = destroyed.is_none_or(|ids| ids.iter().all(|id| id.as_str().is_some_and(own_email)));
    let by_reference = arguments.keys().any(|name| name.starts_with('#'));
    by_reference || !(updates_own && creates_own && destroys_own)
}

fn in_own_mailbox(query: &Map<String, Value>) -> bool {
    let mailbox = query.get("filter").and_then(|filter| filter.get("inMailbox"));
    mailbox.and_then(Value::as_str).is_some_and(|mailbox| mailbox.starts_with("{Bench/"))
}

fn all_own(ids: &Value, own: impl Fn(&str) -> bool) -> bool {
    ids.as_object().is_some_and(|ids| ids.keys().all(|id| own(id)))
}

/// Numbers are written bare, and JSON has no bare braces: quoted, as text, they are JSON.
fn with_numbers_quoted(text: &str) -> String {
    let mut text = with_numbers_bare(text);
    for name in ["{position}", "{limit}"] {
        text = text.replace(name, &format!("\"{name}\""));
    }
    text
}

fn with_numbers_bare(text: &str) -> String {
    text.replace("\"{position}\"", "{position}").replace("\"{limit}\"", "{limit}")
}

/// Cuts JSON at its placeholders: in JSON no brace is followed by a letter.
fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(open) = text[at..].find('{').map(|open| at + open) {
        at = open + 1;
        if !text[at..].starts_with(|c: char| c.is_ascii_alphabetic()) {
            continue;
        }
        let close = closing(&text[open..]).ok_or("a { without its }")? + open;
        pieces.push(Piece::Text(text[from..open].to_owned()));
        pieces.push(placeholder(&text[open..=close])?);
        from = close + 1;
        at = from;
    }
    pieces.push(Piece::Text(text[from..].to_owned()));
    Ok(pieces)
}

/// A mailbox in a step of JMAP.
pub(super) fn own_mailbox(template: Template) -> Result<Template, String> {
    match template.is_own_without_levels() {
        true => Ok(template),
        false => Err("with JMAP a mailbox is one of the bench's own, without levels: {Bench/x}".into()),
    }
}

fn placeholder(text: &str) -> Result<Piece, String> {
    if text.starts_with("{Bench/") {
        return own_mailbox(Template::parse(text)?).map(Piece::Mailbox);
    }
    let name = &text[1..text.len() - 1];
    let names = || PLACEHOLDERS.iter().map(|(name, _)| *name);
    match (names().find(|known| *known == name), suggest::nearest(name, names())) {
        (Some(known), _) => Ok(Piece::Value(known)),
        (None, Some(near)) => Err(format!("there is no {text} with JMAP; is it {{{near}}}?")),
        (None, None) => {
            let all: Vec<_> = names().map(|name| format!("{{{name}}}")).collect();
            Err(format!(
                "there is no {text} with JMAP: neither a parameter in [set] nor one of {}",
                all.join(" ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: &Request) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Mailbox(_) => "<mailbox>".to_owned(),
            Piece::Value(name) => format!("<{name}>"),
        };
        request.pieces.iter().map(piece).collect()
    }

    #[test]
    fn accounts_and_call_ids_are_added() {
        let request = Request::parse(
            r#"[["Email/query", {"filter": {"inMailbox": "{Bench/a}"}, "position": {position}, "limit": "{limit}"}],
                ["Email/get", {"accountId": "x", "ids": ["{email}"]}, "mine"]]"#,
        )
        .unwrap();
        assert_eq!(
            text(&request),
            r#"[["Email/query",{"accountId":"<account>","filter":{"inMailbox":"<mailbox>"},"limit":<limit>,"position":<position>},"0"],["Email/get",{"accountId":"x","ids":["<email>"]},"mine"]]"#
        );
        assert_eq!(request.name(), "Email/query + Email/get");
        assert!(request.asks_for_batch());
        assert_eq!(
            request.needs().into_iter().collect::<Vec<_>>(),
            ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"]
        );
    }

    #[test]
    fn mistakes_in_requests_are_named() {
        for (text, why) in [
            ("[]", "a request without calls"),
            ("[[", "the calls are no JSON array"),
            (r#"[["Email/get"]]"#, "a call is written as"),
            (r#"[["Email/get", {}, "a", "b"]]"#, "a call is written as"),
            (r#"[["Emial/get", {}]]"#, "there is no method Emial/get of JMAP"),
            (r#"[["Email/get", {"ids": ["{emaill}"]}]]"#, "there is no {emaill} with JMAP; is it {email}?"),
            (r#"[["Email/get", {"ids": ["{Bench/*}"]}]]"#, "is no name for a mailbox"),
        ] {
            let error = Request::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn changes_outside_of_the_bench_are_found() {
        for (text, elsewhere) in [
            (r#"[["Email/get", {"ids": null}]]"#, false),
            (r#"[["Email/set", {"update": {"{email}": {"keywords/$flagged": true}}}]]"#, false),
            (r#"[["Email/set", {"update": {"{email}": {"mailboxIds/{Bench/a}": null}}}]]"#, false),
            (r#"[["Email/set", {"update": {"{email}": {"mailboxIds/x": true}}}]]"#, true),
            (
                r#"[["Email/set", {"update": {"{email}": {"mailboxIds": {"{Bench/a}": true, "x": true}}}}]]"#,
                true,
            ),
            (r#"[["Email/set", {"update": {"x": {}}}]]"#, true),
            (r##"[["Email/set", {"#destroy": {}}]]"##, true),
            (r#"[["Email/set", {"destroy": ["{email}"]}]]"#, false),
            (r#"[["Email/set", {"create": {"a": {"mailboxIds": {"{Bench/a}": true}}}}]]"#, false),
            (r#"[["Email/set", {"create": {"a": {}}}]]"#, true),
            (r#"[["Mailbox/set", {}]]"#, true),
            (r#"[["EmailSubmission/set", {}]]"#, true),
        ] {
            assert_eq!(Request::parse(text).unwrap().changes_elsewhere(), elsewhere, "{text}");
        }
    }
}
