//! A request as handlers see it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use sealpost_base::AccountId;
use zeroize::Zeroizing;

use crate::authorization::{Authorization, NoAuthorization};
use crate::connection::Connection;
use crate::cookie;
use crate::gate::Place;
use crate::request_body::RequestBody;
use crate::router::decoded;
use crate::sender::Sender;

/// A request.
pub struct Request {
    /// Everything but the body.
    pub head: RequestHead,
    /// The body.
    pub body: RequestBody,
}

/// A request without its body.
pub struct RequestHead {
    /// The method. HEAD stays HEAD, although the route of GET handles it.
    pub method: Method,
    /// The path, still percent-encoded.
    pub path: String,
    /// The query after the question mark, still percent-encoded.
    pub query: Option<String>,
    /// The header fields.
    pub headers: HeaderMap,
    /// The name of the route.
    pub route: &'static str,
    /// The client's address, as its trusted proxy reports it if there is one; `None` on a Unix socket.
    pub client: Option<IpAddr>,
    pub(crate) params: Vec<(&'static str, String)>,
    pub(crate) base_url: String,
    pub(crate) is_tls: bool,
    pub(crate) connection: Arc<Connection>,
}

/// Counts a request in progress for its account; dropping it ends that.
pub struct AccountPlace {
    place: Place<AccountId>,
}

impl AccountPlace {
    pub(crate) fn account(&self) -> AccountId {
        *self.place.key()
    }
}

/// Which limit of the account a request exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooMany {
    /// Too many requests in progress.
    Requests,
    /// Too many connections.
    Connections,
}

impl RequestHead {
    /// The path segment that the route names so, decoded; empty if the route has no such name.
    pub fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// The first value of that name in the query, decoded as form data. `None` if there is none, or if its
    /// encoding is invalid.
    pub fn query_param(&self, name: &str) -> Option<String> {
        query_param(self.query.as_deref()?, name)
    }

    /// All names and values of the query; `None` if one is not encoded rightly.
    pub fn query_pairs(&self) -> Option<Vec<(String, String)>> {
        form_pairs(self.query.as_deref().unwrap_or_default())
    }

    /// The credentials.
    ///
    /// # Errors
    /// Why there are none.
    pub fn authorization(&self) -> Result<Authorization, NoAuthorization> {
        Authorization::of(&self.headers)
    }

    /// Whether the client speaks TLS, with this server or with its proxy.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The value of the cookie of this server, if the request has exactly one.
    pub fn cookie(&self) -> Option<Zeroizing<String>> {
        cookie::value(&self.headers, self.is_tls)
    }

    /// The field that gives the client's browser the cookie of this server.
    pub fn set_cookie(&self, value: &str, lifetime: Duration) -> HeaderValue {
        cookie::set(value, lifetime, self.is_tls)
    }

    /// Which page sends the request, as far as its browser says.
    pub fn sender(&self) -> Sender {
        Sender::of(&self.headers, &self.base_url)
    }

    /// Where the client reaches this server, without a slash at the end: `https://mail.example.org`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Assigns the request to an account. From now on the server does not close its connection in favour of
    /// others. Hold the result until the response is complete.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn logged_in(&self, account: AccountId, name: &str) -> Result<AccountPlace, TooMany> {
        let place = self.connection.shared.of_account.enter(account).ok_or(TooMany::Requests)?;
        if self.connection.logged_in(account, name) {
            Ok(AccountPlace { place })
        } else {
            Err(TooMany::Connections)
        }
    }

    /// As [`RequestHead::logged_in`], for a long-lived response such as an event stream. It does not count as
    /// a request in progress.
    ///
    /// # Errors
    /// [`TooMany::Connections`].
    pub fn logged_in_for_long(&self, account: AccountId, name: &str) -> Result<(), TooMany> {
        if self.connection.logged_in(account, name) { Ok(()) } else { Err(TooMany::Connections) }
    }

    /// Counts a failed login in the session's log line.
    pub fn login_failed(&self) {
        self.connection.log().count("failed_logins", 1);
    }
}

/// Names and values of a form, `application/x-www-form-urlencoded`, in their order; `None` if one is
/// not encoded rightly.
pub fn form_pairs(form: &str) -> Option<Vec<(String, String)>> {
    let pairs = form.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| Some((decoded(name, true)?, decoded(value, true)?))).collect()
}

fn query_param(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut values = pairs.filter(|(key, _)| decoded(key, true).as_deref() == Some(name));
    decoded(values.next()?.1, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_forms() {
        let query = "types=*&closeafter=no&ping=0&na+me=a%2Bb+c&ping=9&bad=%";
        for (name, value) in [
            ("types", Some("*")),
            ("ping", Some("0")),
            ("na me", Some("a+b c")),
            ("bad", None),
            ("missing", None),
        ] {
            assert_eq!(query_param(query, name).as_deref(), value, "{name}");
        }
        let pairs = form_pairs("a=1&&b&c=%3D+%26&a=2").unwrap();
        let expected = [("a", "1"), ("b", ""), ("c", "= &"), ("a", "2")];
        assert!(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(expected), "{pairs:?}");
        assert_eq!((form_pairs(""), form_pairs("a=%ff")), (Some(Vec::new()), None));
    }
}
