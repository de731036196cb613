//! Authorization requests (RFC 6749 §4.1.1, draft-ietf-mailmaint-oauth-public §3.4): what a browser
//! brings to the consent page.

use sealpost_auth::Scopes;
use sealpost_session::settings::Origin;

use crate::OAuth;
use crate::client::Client;
use crate::error::{ErrorCode, OAuthError};
use crate::parameters::Parameters;
use crate::pkce::is_challenge;
use crate::redirect_uri::RedirectUri;

/// A request that the user may consent to.
#[derive(Debug, Clone)]
pub struct Authorization {
    pub(crate) client: Client,
    pub(crate) client_id: String,
    pub(crate) redirect: RedirectUri,
    pub(crate) state: Option<String>,
    pub(crate) scopes: Scopes,
    /// The same as names, for the form.
    pub(crate) scope_names: String,
    pub(crate) challenge: String,
    /// The name that the user gave to the client.
    pub(crate) login_hint: String,
    /// Where clients reach this server: its identifier as an issuer.
    pub(crate) issuer: String,
}

/// Why there is no page of consent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthorizationRefused {
    /// Nothing shows where the browser came from: the page says why (RFC 6749 §4.1.2.1).
    Page(&'static str),
    /// The client learns why: the browser goes to this URL.
    Redirect(String),
}

impl OAuth {
    /// The request with these parameters; `issuer` is where clients reach this server.
    ///
    /// # Errors
    /// Why not, for the user or for the client.
    pub fn authorization(
        &self,
        parameters: &Parameters,
        issuer: &str,
    ) -> Result<Authorization, AuthorizationRefused> {
        let (client_id, client, redirect) =
            self.client_and_redirect(parameters).map_err(AuthorizationRefused::Page)?;
        let state = parameters.get("state");
        let checked = state.and_then(|state| {
            let (scopes, challenge) = self.checked(parameters, &client, issuer)?;
            let login_hint = parameters.get("login_hint")?.unwrap_or_default().to_owned();
            Ok((state.map(str::to_owned), scopes, challenge, login_hint))
        });
        match checked {
            Ok((state, scopes, challenge, login_hint)) => Ok(Authorization {
                client,
                client_id,
                redirect,
                state,
                scopes,
                scope_names: scopes.to_string(),
                challenge,
                login_hint,
                issuer: issuer.to_owned(),
            }),
            Err(error) => {
                let state = state.unwrap_or_default();
                Err(AuthorizationRefused::Redirect(refusal(&redirect, state, issuer, error)))
            }
        }
    }

    fn client_and_redirect(
        &self,
        parameters: &Parameters,
    ) -> Result<(String, Client, RedirectUri), &'static str> {
        let twice = |error: OAuthError| error.description;
        let id = parameters.required("client_id", "The program did not name itself.").map_err(twice)?;
        let client = self
            .client_with(id)
            .ok_or("This server does not know the program. Start again in the program.")?;
        let wanted = parameters.get("redirect_uri").map_err(twice)?;
        let wanted = wanted.ok_or("The program did not say where to return to.")?;
        let redirect = RedirectUri::parse(wanted, self.web());
        let is_registered = |redirect: &RedirectUri| {
            let registered =
                client.redirect_uris.iter().filter_map(|uri| RedirectUri::parse(uri, self.web()));
            registered.into_iter().any(|registered| redirect.is_as_registered(&registered))
        };
        match redirect.filter(is_registered) {
            Some(redirect) => Ok((id.to_owned(), client, redirect)),
            None => Err("The program asks to return to an address that it did not register."),
        }
    }

    fn checked(
        &self,
        parameters: &Parameters,
        client: &Client,
        issuer: &str,
    ) -> Result<(Scopes, String), OAuthError> {
        if parameters.required("response_type", "response_type is missing")? != "code" {
            return Err(OAuthError::new(ErrorCode::UnsupportedResponseType, "response_type is code"));
        }
        // RFC 7636 §4.3: the default, plain, is not for this profile.
        let challenge = parameters.required("code_challenge", "code_challenge is missing")?;
        if parameters.get("code_challenge_method")? != Some("S256") || !is_challenge(challenge) {
            return Err(OAuthError::invalid_request("code_challenge_method is S256"));
        }
        let registered = Scopes::parse(&client.scopes).and(self.supported);
        let scopes = match parameters.get("scope")? {
            Some(scope) => Scopes::parse(scope).and(registered),
            None => registered,
        };
        if scopes.is_empty() {
            let why = "none of the scopes is supported here and registered by the client";
            return Err(OAuthError::new(ErrorCode::InvalidScope, why));
        }
        if !parameters.all("resource").all(|resource| is_resource(resource, issuer)) {
            return Err(OAuthError::new(ErrorCode::InvalidTarget, "a resource is not one of this server"));
        }
        Ok((scopes, challenge.to_owned()))
    }
}

impl Authorization {
    /// The URL that tells the client that the user refused.
    pub fn refusal(&self) -> String {
        let error = OAuthError::new(ErrorCode::AccessDenied, "the user refused");
        refusal(&self.redirect, self.state.as_deref(), &self.issuer, error)
    }
}

fn refusal(redirect: &RedirectUri, state: Option<&str>, issuer: &str, error: OAuthError) -> String {
    let mut parameters = vec![("error", error.code.name()), ("error_description", error.description)];
    parameters.extend(state.map(|state| ("state", state)));
    // RFC 9207 §2: in errors too.
    parameters.push(("iss", issuer));
    redirect.with(&parameters)
}

/// Whether a token of this server may be sent there (RFC 8707 §2). Over HTTP there is one origin; of
/// servers of mail the name does not tell whose they are, and a client that was led to a wrong one
/// notices the issuer (draft-ietf-mailmaint-oauth-public §4).
fn is_resource(resource: &str, issuer: &str) -> bool {
    let Some((scheme, rest)) = resource.split_once("://") else { return false };
    if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
        return true;
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    format!("{scheme}://{host}").parse::<Origin>().is_ok_and(|origin| origin.as_str() == issuer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_of_other_web_servers_are_refused() {
        let issuer = "https://mail.example.org";
        for (resource, expected) in [
            ("https://mail.example.org/jmap/session", true),
            ("https://mail.example.org", true),
            ("HTTPS://Mail.example.org:443/x", true),
            ("imaps://imap.example.org:993", true),
            ("https://evil.example/", false),
            ("https://mail.example.org.evil.example/", false),
            ("https://mail.example.org@evil.example/", false),
            ("http://mail.example.org/", false),
            ("mail.example.org", false),
        ] {
            assert_eq!(is_resource(resource, issuer), expected, "{resource}");
        }
    }
}
