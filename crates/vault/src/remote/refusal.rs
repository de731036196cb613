//! Explains failures of a remote store that come from its configuration, for the operator.
//!
//! Servers report them with a status and a document (Amazon S3 API Reference, "Error responses"),
//! and differ: for an unknown key Garage says AccessDenied, too. The errors of the `object_store`
//! crate have no public type, so this reads their text. Only messages for people depend on it.

use std::error::Error as StdError;
use std::iter::successors;

use sealpost_base::Error;

/// Why a store cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such bucket.
    NoBucket,
    /// The access key is not known there.
    UnknownKey,
    /// The secret is not that of the access key: the signature is wrong.
    WrongSecret,
    /// The access key is known, and the request is not permitted.
    NotAllowed,
    /// Requests have to be signed for another region: that one, if the server tells.
    WrongRegion(Option<String>),
    /// The clocks of the server and this machine are too far apart.
    WrongClock,
    /// No server listens at the address.
    ConnectionRefused,
    /// The host's name leads nowhere.
    NoHost,
    /// What listens there does not speak TLS.
    NoTls,
    /// The server's certificate is not accepted: why.
    BadCertificate(String),
    /// The server's certificate is one that is made to sign others.
    AuthorityCertificate,
    /// No answer came in time.
    NoAnswer,
    /// No connection came about, or one broke off: how.
    NoConnection(String),
    /// What listens there answers with that status, and is no store.
    NoStore(String),
    /// Answers do not say how long an object is.
    NoLength,
    /// The store fails itself, with that status.
    Fails(String),
    /// Something else, in the server's words.
    Other(String),
}

/// What comes before a status in the crate's text.
const STATUS: &str = "status code: ";
/// What the crate says of an answer to a GET without that header.
const NO_LENGTH: &str = "Content-Length Header missing";
/// What comes before a failure of the connection.
const CONNECTION: &str = "HTTP error: ";
/// The most characters of a server's own words that are shown.
const WORDS: usize = 200;

impl Refusal {
    /// What the failure of a request says; `None` if it is none that a remote store has caused.
    pub fn of(e: &Error) -> Option<Self> {
        // Some errors say what caused them, others do not.
        let causes = successors(Some(e as &(dyn StdError + 'static)), |&e| e.source());
        let text = causes.map(|cause| cause.to_string()).collect::<Vec<_>>().join(": ");
        if let Some((_, answer)) = text.split_once(STATUS) {
            return Some(Self::of_answer(answer));
        }
        // The crate keeps neither the body of a redirect nor the region that S3 names in a header.
        if text.contains("redirect without LOCATION") {
            return Some(Refusal::WrongRegion(None));
        }
        if text.contains(NO_LENGTH) {
            return Some(Refusal::NoLength);
        }
        if let Some((_, why)) = text.split_once(CONNECTION) {
            return Some(Self::of_connection(why));
        }
        text.contains(super::retrier::TOO_LATE).then_some(Refusal::NoAnswer)
    }

    /// `403 Forbidden: <Error>…`.
    fn of_answer(answer: &str) -> Self {
        let (status, body) = answer.split_once(':').unwrap_or((answer, ""));
        let status = || words(status);
        let message = element(body, "Message").unwrap_or_default();
        match element(body, "Code") {
            Some("NoSuchBucket" | "ContainerNotFound") => Refusal::NoBucket,
            Some("InvalidAccessKeyId" | "InvalidToken" | "ExpiredToken") => Refusal::UnknownKey,
            // Versity S3 Gateway 1.8.
            Some("XAdminUserNotFound") => Refusal::UnknownKey,
            Some("SignatureDoesNotMatch" | "AuthenticationFailed") => Refusal::WrongSecret,
            Some("RequestTimeTooSkewed") => Refusal::WrongClock,
            // Garage 2.5.
            Some("InvalidRequest") if message.contains("Date is too old") => Refusal::WrongClock,
            // Garage 2.5.
            Some("AccessDenied") if message.contains("No such key") => Refusal::UnknownKey,
            Some("AccessDenied") if message.contains("Invalid signature") => Refusal::WrongSecret,
            Some("AccessDenied" | "AllAccessDisabled" | "AuthorizationFailure") => Refusal::NotAllowed,
            Some(
                "AuthorizationHeaderMalformed"
                | "PermanentRedirect"
                | "IllegalLocationConstraintException"
                | "InvalidRegion",
            ) => Refusal::WrongRegion(element(body, "Region").map(words)),
            _ if ["5", "408", "429"].iter().any(|begin| answer.starts_with(begin)) => {
                Refusal::Fails(status())
            }
            Some(code) => Refusal::Other(words(&format!("{code}: {message}"))),
            // Google, of a service account.
            None if body.trim_start().starts_with('{') => {
                Refusal::Other(words(answer.split(": Error performing").next().unwrap_or(answer)))
            }
            None => Refusal::NoStore(status()),
        }
    }

    /// `error sending request: client error (Connect): …`, the cause last.
    fn of_connection(why: &str) -> Self {
        let has = |words: &str| why.contains(words);
        // What is in the text of an error is in that of its causes once more.
        let cause = || words(why.rsplit(": ").next().unwrap_or(why));
        if has("dns error") {
            Refusal::NoHost
        } else if has("Connection refused") {
            Refusal::ConnectionRefused
        } else if has("InvalidContentType") {
            Refusal::NoTls
        } else if has("CaUsedAsEndEntity") {
            Refusal::AuthorityCertificate
        } else if has("certificate") {
            Refusal::BadCertificate(cause())
        } else if has("timed out") || has("Timeout") || has("deadline has elapsed") {
            Refusal::NoAnswer
        } else {
            Refusal::NoConnection(cause())
        }
    }
}

/// What is in the first element of that name.
fn element<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = document.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(content, _)| content)
}

/// A server's words as they can be shown at a terminal.
fn words(text: &str) -> String {
    text.trim().chars().filter(|c| !c.is_control()).take(WORDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_it_in_their_ways() {
        let answered = |answer: &str| {
            let text = format!(
                "Error performing PUT http://h/b/p in 1ms - Server returned non-2xx {STATUS}{answer}"
            );
            Refusal::of(&Error::retry("store: probe/1").with_source(text)).unwrap()
        };
        let document = |status: &str, code: &str, more: &str| {
            answered(&format!("{status}: <?xml version=\"1.0\"?><Error><Code>{code}</Code>{more}</Error>"))
        };
        for (status, code, more, expected) in [
            ("404 Not Found", "NoSuchBucket", "", Refusal::NoBucket),
            ("404 Not Found", "ContainerNotFound", "", Refusal::NoBucket),
            ("403 Forbidden", "InvalidAccessKeyId", "", Refusal::UnknownKey),
            ("404 Not Found", "XAdminUserNotFound", "", Refusal::UnknownKey),
            (
                "403 Forbidden",
                "AccessDenied",
                "<Message>Forbidden: No such key: G</Message>",
                Refusal::UnknownKey,
            ),
            ("403 Forbidden", "SignatureDoesNotMatch", "", Refusal::WrongSecret),
            (
                "403 Forbidden",
                "AccessDenied",
                "<Message>Forbidden: Invalid signature</Message>",
                Refusal::WrongSecret,
            ),
            ("403 Forbidden", "AccessDenied", "", Refusal::NotAllowed),
            ("403 Forbidden", "RequestTimeTooSkewed", "", Refusal::WrongClock),
            (
                "400 Bad Request",
                "InvalidRequest",
                "<Message>Bad request: Date is too old</Message>",
                Refusal::WrongClock,
            ),
            (
                "400 Bad Request",
                "AuthorizationHeaderMalformed",
                "<Region>garage</Region>",
                Refusal::WrongRegion(Some("garage".into())),
            ),
            ("301 Moved", "PermanentRedirect", "", Refusal::WrongRegion(None)),
            ("400 Bad Request", "Odd", "<Message>a\u{1b}[2Jb</Message>", Refusal::Other("Odd: a[2Jb".into())),
        ] {
            assert_eq!(document(status, code, more), expected, "{code}");
        }
        assert_eq!(answered("503 Service Unavailable: "), Refusal::Fails("503 Service Unavailable".into()));
        let json = "400 Bad Request: {\"error\":\"invalid_grant\"}";
        assert_eq!(answered(json), Refusal::Other(json.into()));
        assert_eq!(answered("405 Not Allowed: <html>no</html>"), Refusal::NoStore("405 Not Allowed".into()));
    }

    #[test]
    fn connections_fail_in_many_ways() {
        let failed = |why: &str| {
            let text = format!("{CONNECTION}error sending request: client error (Connect): {why}");
            Refusal::of(&Error::retry("store: probe/1").with_source(text)).unwrap()
        };
        assert_eq!(
            failed("tcp connect error: Connection refused (os error 111)"),
            Refusal::ConnectionRefused
        );
        assert_eq!(failed("dns error: failed to lookup address information"), Refusal::NoHost);
        assert_eq!(failed("received corrupt message of type InvalidContentType"), Refusal::NoTls);
        assert_eq!(
            failed("invalid peer certificate: UnknownIssuer"),
            Refusal::BadCertificate("UnknownIssuer".into())
        );
        assert_eq!(failed("operation timed out"), Refusal::NoAnswer);
        assert_eq!(
            failed("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))"),
            Refusal::AuthorityCertificate
        );
        // The client's own limit for a connection to come about.
        assert_eq!(failed("tcp connect error: deadline has elapsed"), Refusal::NoAnswer);
        assert_eq!(failed("Network is unreachable"), Refusal::NoConnection("Network is unreachable".into()));
        assert_eq!(Refusal::of(&Error::corrupt("probe/1 is not what was written")), None);
    }

    #[test]
    fn a_store_that_fails_says_so_with_a_document_too() {
        for (status, code) in
            [("503 Service Unavailable", "SlowDown"), ("500 Internal Server Error", "InternalError")]
        {
            let text =
                format!("Server returned non-2xx {STATUS}{status}: <Error><Code>{code}</Code></Error>");
            let refusal = Refusal::of(&Error::retry("store: probe/1").with_source(text));
            assert_eq!(refusal, Some(Refusal::Fails(status.into())), "{code}");
        }
    }
}
