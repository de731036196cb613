//! Clients and their registration (RFC 7591). The id of a client is all that it registered, sealed
//! by the server: nothing is stored, so registering costs a stranger no more than a request.

use minicbor::{Decode, Encode};
use sealpost_auth::Scopes;
use sealpost_auth::grant_token::{opened_text, sealed_text};
use sealpost_base::limits::{OAUTH_CLIENT_ID_BYTES, OAUTH_CLIENT_NAME_BYTES, OAUTH_REDIRECT_URIS};
use sealpost_session::settings::Origin;
use sealpost_vault::TokenKind;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::OAuth;
use crate::error::{ErrorCode, OAuthError};
use crate::redirect_uri::RedirectUri;

/// A client, as its id says.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Client {
    /// What it calls itself; nothing shows that it is true.
    #[n(0)]
    pub name: Option<String>,
    /// Where codes may go.
    #[n(1)]
    pub redirect_uris: Vec<String>,
    /// What it may ask for, as names.
    #[n(2)]
    pub scopes: String,
    /// When it registered, in seconds.
    #[n(3)]
    pub issued: i64,
}

/// What is read of a registration (RFC 7591 §2); the rest is ignored.
#[derive(Deserialize)]
struct Registration {
    redirect_uris: Vec<String>,
    token_endpoint_auth_method: Option<String>,
    grant_types: Option<Vec<String>>,
    response_types: Option<Vec<String>>,
    scope: Option<String>,
    client_name: Option<String>,
}

/// Properties that are given back as they came: the server has no use for them.
const GIVEN_BACK: [&str; 6] =
    ["client_uri", "logo_uri", "tos_uri", "policy_uri", "software_id", "software_version"];

impl OAuth {
    /// Registers a client: the response to it (RFC 7591 §3.2.1).
    ///
    /// # Errors
    /// `invalid_client_metadata` and `invalid_redirect_uri`.
    pub fn register(&self, body: &[u8]) -> Result<String, OAuthError> {
        let wrong = |why| OAuthError::new(ErrorCode::InvalidClientMetadata, why);
        let sent: Map<String, Value> =
            serde_json::from_slice(body).map_err(|_| wrong("the registration is no JSON object"))?;
        let asked: Registration = serde_json::from_value(Value::Object(sent.clone()))
            .map_err(|_| wrong("a property is missing or has another type"))?;
        let client = self.client(&asked)?;
        let id = self.id_of(&client).ok_or_else(|| wrong("the registration is too long"))?;
        let mut registered = Map::new();
        for name in GIVEN_BACK {
            if let Some(Value::String(text)) = sent.get(name) {
                registered.insert(name.to_owned(), json!(text));
            }
        }
        let own = json!({
            "client_id": id,
            "client_id_issued_at": client.issued,
            "redirect_uris": client.redirect_uris,
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "scope": client.scopes,
        });
        if let Value::Object(own) = own {
            registered.extend(own);
        }
        if let Some(name) = client.name {
            registered.insert("client_name".to_owned(), json!(name));
        }
        Ok(Value::Object(registered).to_string())
    }

    fn client(&self, asked: &Registration) -> Result<Client, OAuthError> {
        let wrong = |why| OAuthError::new(ErrorCode::InvalidClientMetadata, why);
        let invalid = |why| OAuthError::new(ErrorCode::InvalidRedirectUri, why);
        if asked.redirect_uris.is_empty() || asked.redirect_uris.len() > OAUTH_REDIRECT_URIS {
            return Err(invalid("a client registers one to eight redirect URIs"));
        }
        if !asked.redirect_uris.iter().all(|uri| RedirectUri::parse(uri, self.web()).is_some()) {
            return Err(invalid(
                "redirect URIs are http://127.0.0.1/, http://[::1]/ or a private-use scheme with a dot",
            ));
        }
        if asked.token_endpoint_auth_method.as_deref().is_some_and(|method| method != "none") {
            return Err(wrong("clients are public: token_endpoint_auth_method is none"));
        }
        let has = |list: &Option<Vec<String>>, needed: &str| {
            list.as_ref().is_none_or(|list| list.iter().any(|item| item == needed))
        };
        if !has(&asked.grant_types, "authorization_code") || !has(&asked.response_types, "code") {
            return Err(wrong("the grant type is authorization_code, the response type code"));
        }
        let scopes = match asked.scope.as_deref().filter(|scope| !scope.trim().is_empty()) {
            Some(scope) => Scopes::parse(scope).and(self.supported),
            None => self.supported,
        };
        if scopes.is_empty() {
            return Err(wrong("none of the scopes is supported here"));
        }
        let name = asked.client_name.as_deref().map(visible).filter(|name| !name.is_empty());
        let issued = self.ctx.clock.now().seconds();
        Ok(Client { name, redirect_uris: asked.redirect_uris.clone(), scopes: scopes.to_string(), issued })
    }

    fn id_of(&self, client: &Client) -> Option<String> {
        let plain = minicbor::to_vec(client).ok()?;
        let keys = self.ctx.directory.token_keys();
        let id = sealed_text(TokenKind::Client, &plain, keys, &*self.ctx.random);
        (id.len() <= OAUTH_CLIENT_ID_BYTES).then(|| id.to_string())
    }

    /// The client with that id; `None` if this installation gave out no such id.
    pub(crate) fn client_with(&self, id: &str) -> Option<Client> {
        let plain = opened_text(TokenKind::Client, id.as_bytes(), self.ctx.directory.token_keys())?;
        minicbor::decode(&plain).ok()
    }

    /// Origins of web applications that may be clients.
    pub(crate) fn web(&self) -> &[Origin] {
        &self.ctx.settings.http.oauth_redirect_origins
    }
}

/// A name that can be shown: no control and format characters, with which it could look like
/// something else (Unicode bidirectional controls), and not too long.
fn visible(name: &str) -> String {
    let is_format = |c: char| {
        matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    let mut shown = String::new();
    for c in name.trim().chars().filter(|c| !c.is_control() && !is_format(*c)) {
        if shown.len() + c.len_utf8() > OAUTH_CLIENT_NAME_BYTES {
            break;
        }
        shown.push(c);
    }
    shown.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_visible_and_short() {
        assert_eq!(visible(" Mail\u{202e}\r\n\u{200b}App "), "MailApp");
        assert_eq!(visible(&"ü".repeat(100)).len(), OAUTH_CLIENT_NAME_BYTES);
        assert_eq!(visible("\u{7}\u{2066}"), "");
    }
}
