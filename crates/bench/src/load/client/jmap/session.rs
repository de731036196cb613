//! The Session object (RFC 8620 §2): where requests go, what the server announces.

use std::collections::BTreeMap;

use hyper::Method;
use sealpost_jmap::capability::Capability;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::answer::Refusal;
use super::http::{Http, Outgoing, path_of};
use crate::load::client::Fail;

/// Redirections on the way to it.
const REDIRECTIONS: usize = 5;

/// The Session object, as far as it is needed (RFC 8620 §2).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Session {
    capabilities: BTreeMap<String, IgnoredAny>,
    #[serde(default)]
    primary_accounts: BTreeMap<String, String>,
    #[serde(default)]
    accounts: BTreeMap<String, IgnoredAny>,
    /// The path of requests.
    pub(super) api_url: String,
    /// The URI template of uploads.
    pub(super) upload_url: String,
    /// The URI template of event streams.
    pub(super) event_source_url: String,
    /// The account with the mail.
    #[serde(skip)]
    pub(super) account: String,
}

impl Session {
    /// The Session object, wherever the server redirects to (RFC 8620 §2.2).
    pub(super) async fn find(http: &mut Http) -> Result<Self, Fail> {
        let mut path = "/.well-known/jmap".to_owned();
        for _ in 0..=REDIRECTIONS {
            let outgoing =
                Outgoing { method: Method::GET, path: &path, accept: "application/json", body: None };
            let received = http.exchange(outgoing).await?;
            match (received.status, received.location) {
                (200, _) => return Session::parse(&received.body),
                (301 | 302 | 303 | 307 | 308, Some(to)) => path = path_of(&to)?,
                (401 | 403, _) => {
                    return Err(Fail::Denied(format!("{path}: {}: the login was refused", received.status)));
                }
                (429 | 503, _) => return Err(Fail::Unavailable(format!("{path}: {}", received.status))),
                (status, _) => {
                    let why = Refusal::of_status(status, &received.body).example;
                    return Err(Fail::Protocol(format!("no JMAP at {path}: {why}")));
                }
            }
        }
        Err(Fail::Protocol("/.well-known/jmap redirects without end".into()))
    }

    fn parse(body: &[u8]) -> Result<Self, Fail> {
        let mut session: Session =
            serde_json::from_slice(body).map_err(|e| Fail::Protocol(format!("no Session object: {e}")))?;
        let first = session.accounts.keys().next();
        let account = session.primary_accounts.get(Capability::Mail.name()).or(first).cloned();
        session.account =
            account.ok_or_else(|| Fail::Protocol("the Session object has no account".into()))?;
        session.api_url = path_of(&session.api_url)?;
        Ok(session)
    }

    /// Whether the server has a capability.
    pub(super) fn announces(&self, capability: &str) -> bool {
        self.capabilities.contains_key(capability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_the_primary_one_for_mail() {
        let session = |primary: &str| {
            let text = format!(
                r#"{{"capabilities":{{"x":{{"y":[1]}}}},"primaryAccounts":{primary},"accounts":{{"a":{{}},"b":{{}}}},
                "apiUrl":"https://h.example/jmap/","uploadUrl":"/u","eventSourceUrl":"/e","more":1}}"#
            );
            Session::parse(text.as_bytes()).unwrap()
        };
        assert_eq!(session(r#"{"urn:ietf:params:jmap:mail":"b"}"#).account, "b");
        let first = session("{}");
        assert_eq!((first.account.as_str(), first.api_url.as_str()), ("a", "/jmap/"));
        assert!(first.announces("x") && !first.announces("y"));
    }
}
