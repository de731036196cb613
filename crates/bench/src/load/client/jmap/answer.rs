//! What the bench reads of JMAP responses: ids, states and errors. Everything else is skipped
//! without being kept, so that a response takes no more memory than its text.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A response to a request (RFC 8620 §3.4).
#[derive(Debug, Deserialize)]
pub struct Answer {
    /// Name, arguments and call id of each response.
    #[serde(rename = "methodResponses")]
    pub responses: Vec<(String, Arguments, String)>,
}

/// The arguments of a response, of whichever method.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Arguments {
    #[serde(rename = "type")]
    kind: Option<String>,
    description: Option<String>,
    /// Of a /get.
    pub state: Option<String>,
    /// Of /changes and /set.
    pub new_state: Option<String>,
    /// Of a /query.
    pub ids: Vec<String>,
    /// Of a /get.
    pub list: Vec<Object>,
    not_created: Option<BTreeMap<String, SetError>>,
    not_updated: Option<BTreeMap<String, SetError>>,
    not_destroyed: Option<BTreeMap<String, SetError>>,
}

/// An object of a /get, of whichever type.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Object {
    /// Its id.
    pub id: Option<String>,
    /// Of an email.
    pub thread_id: Option<String>,
    /// Of a mailbox or identity.
    pub name: Option<String>,
    /// Of a mailbox.
    pub parent_id: Option<String>,
    /// Of a mailbox.
    pub total_emails: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct SetError {
    #[serde(rename = "type")]
    kind: String,
    description: Option<String>,
}

/// A refusal by the server: its kind in reports, and an example.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// An HTTP status, the type of a JMAP error, or `wrong`.
    pub kind: String,
    /// What the server said.
    pub example: String,
}

impl Refusal {
    /// Success without what it should bring.
    pub fn wrong(example: impl Into<String>) -> Self {
        Refusal { kind: "wrong".into(), example: example.into() }
    }

    /// A response with an HTTP status of failure; `body` may be a problem (RFC 7807).
    pub fn of_status(status: u16, body: &[u8]) -> Self {
        let problem = serde_json::from_slice::<Value>(body).ok();
        let said = |name: &str| problem.as_ref()?.get(name)?.as_str().map(str::to_owned);
        let said = [said("type"), said("detail")].into_iter().flatten().collect::<Vec<_>>().join(": ");
        let text = if said.is_empty() { String::from_utf8_lossy(body).trim().to_owned() } else { said };
        Refusal { kind: status.to_string(), example: shortened(&format!("{status} {text}")) }
    }
}

impl Answer {
    /// The response to a request with these methods.
    ///
    /// # Errors
    /// What the server refused, or that it is no response to them.
    pub fn parse(body: &[u8], methods: &[String]) -> Result<Self, Refusal> {
        let answer: Answer =
            serde_json::from_slice(body).map_err(|e| Refusal::wrong(format!("no JMAP response: {e}")))?;
        for (name, arguments, _) in &answer.responses {
            if let Some(refusal) = arguments.refusal(name) {
                return Err(refusal);
            }
        }
        // Further responses may come between them (RFC 8620 §3.4), but none may be left out.
        let mut names = answer.responses.iter().map(|(name, ..)| name);
        match methods.iter().find(|method| !names.any(|name| name == *method)) {
            Some(method) => Err(Refusal::wrong(format!("{method} was not answered"))),
            None => Ok(answer),
        }
    }

    /// How many objects of a type, in upper case, all /get responses have.
    pub fn objects(&self, data_type: &str) -> usize {
        let of =
            |name: &str| name.strip_suffix("/get").is_some_and(|name| name.eq_ignore_ascii_case(data_type));
        self.responses
            .iter()
            .filter(|(name, ..)| of(name))
            .map(|(_, arguments, _)| arguments.list.len())
            .sum()
    }

    /// The arguments of the first response of `method`.
    pub fn of(&self, method: &str) -> Option<&Arguments> {
        self.responses.iter().find(|(name, ..)| name == method).map(|(_, arguments, _)| arguments)
    }
}

impl Arguments {
    fn refusal(&self, name: &str) -> Option<Refusal> {
        // RFC 8620 §3.6.2.
        if name == "error" {
            let kind = self.kind.clone().unwrap_or_else(|| "error".into());
            let said = self.description.clone().unwrap_or_default();
            return Some(Refusal { example: shortened(&format!("{kind} {said}")), kind });
        }
        // RFC 8620 §5.3.
        let all = [&self.not_created, &self.not_updated, &self.not_destroyed];
        let (id, error) = all.into_iter().flatten().flat_map(|errors| errors.iter()).next()?;
        let said = error.description.as_deref().unwrap_or_default();
        let example = shortened(&format!("{name}: {id}: {} {said}", error.kind));
        Some(Refusal { kind: error.kind.clone(), example })
    }
}

fn shortened(text: &str) -> String {
    text.trim_end().chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(responses: &str, methods: &[&str]) -> Result<Answer, Refusal> {
        let methods: Vec<String> = methods.iter().map(|method| (*method).to_owned()).collect();
        Answer::parse(
            format!("{{\"methodResponses\":[{responses}],\"sessionState\":\"x\"}}").as_bytes(),
            &methods,
        )
    }

    #[test]
    fn errors_of_methods_and_objects_are_refusals() {
        for (response, kind, example) in [
            (r#"["error",{"type":"unknownMethod"},"0"]"#, "unknownMethod", "unknownMethod"),
            (
                r#"["Email/set",{"notUpdated":{"e":{"type":"notFound","description":"gone"}}},"0"]"#,
                "notFound",
                "Email/set: e: notFound gone",
            ),
            (r#"["Email/get",{"list":[]},"0"]"#, "wrong", "Email/set was not answered"),
            ("3", "wrong", "no JMAP response"),
        ] {
            let refusal = parsed(response, &["Email/set"]).unwrap_err();
            assert_eq!(refusal.kind, kind);
            assert!(refusal.example.starts_with(example), "{refusal:?}");
        }
    }

    #[test]
    fn changes_of_both_kinds_are_read() {
        let set = r#"["Email/set",{"created":{"a":{"id":"x"}},"updated":{"e":null},"notCreated":null},"0"]"#;
        let changes = r#"["Email/changes",{"created":["a"],"updated":[],"newState":"s"},"1"]"#;
        let get = r#"["Email/get",{"list":[{"id":"e","threadId":"t","subject":7}]},"2"]"#;
        let answer = parsed(&format!("{set},{changes},{get}"), &["Email/set", "Email/get"]).unwrap();
        assert_eq!(answer.of("Email/changes").unwrap().new_state.as_deref(), Some("s"));
        assert_eq!((answer.objects("EMAIL"), answer.objects("THREAD")), (1, 0));
    }

    #[test]
    fn a_status_tells_its_problem() {
        let limit = Refusal::of_status(400, br#"{"type":"urn:x:limit","detail":"too many"}"#);
        assert_eq!((limit.kind.as_str(), limit.example.as_str()), ("400", "400 urn:x:limit: too many"));
        let long = Refusal::of_status(500, &[b'x'; 10_000]);
        assert!(long.example.len() <= 300);
    }
}
