//! Every reply of a session, and the one table from error kinds to replies.

use sealpost_auth::Denied;
use sealpost_base::{Error, Kind, limits};
use sealpost_directory::AccountRecord;
use sealpost_queue::MailId;
use sealpost_session::content_urls::UrlRefusal;
use sealpost_smtp::types::Reply;
use sealpost_submission::header::Fault;
use sealpost_submission::outbox::{LimitReached, Refusal};

/// The reply to a failure of the store or a bug in Sealpost: always temporary (RFC 5321 §4.2.1), so that no
/// error of this server makes a client drop a message.
pub(super) fn storage(error: &Error) -> Reply {
    match error.kind() {
        // A resource is exhausted: RFC 3463 §3.4 X.3.1.
        Kind::Limit => Reply::status(452, (4, 3, 1), "Insufficient system resources, try again later"),
        Kind::Retry | Kind::Conflict => {
            Reply::status(451, (4, 3, 0), "Storage is not available, try again later")
        }
        Kind::Invalid | Kind::NotFound | Kind::Denied | Kind::Corrupt | Kind::Offloaded | Kind::Internal => {
            Reply::status(451, (4, 3, 0), "Local error, try again later")
        }
    }
}

/// The reply to a failed lookup of a recipient.
pub(super) fn recipient(error: &Error) -> Reply {
    match error.kind() {
        // An alias leads to too many addresses; the operator can change it.
        Kind::Limit => Reply::status(451, (4, 2, 4), "This alias expands too far, try again later"),
        _ => storage(error),
    }
}

/// RFC 3463 §3.2: a mailbox of a domain that is served here.
pub(super) fn no_such_user() -> Reply {
    Reply::status(550, (5, 1, 1), "No such user here")
}

/// RFC 5321 §3.6.2, RFC 3463 §3.8: the address may well exist, but not here.
pub(super) fn relaying_denied() -> Reply {
    Reply::status(550, (5, 7, 1), "Relaying denied: this server takes no mail for that domain")
}

pub(super) fn ok(text: &'static str) -> Reply {
    Reply::status(250, (2, 0, 0), text)
}

pub(super) fn sender_ok() -> Reply {
    Reply::status(250, (2, 1, 0), "Sender ok")
}

pub(super) fn recipient_ok() -> Reply {
    Reply::status(250, (2, 1, 5), "Recipient ok")
}

pub(super) fn go_ahead() -> Reply {
    Reply::new(354, "Start mail input; end with <CRLF>.<CRLF>")
}

pub(super) fn chunk_ok(bytes: u64) -> Reply {
    Reply::status(250, (2, 0, 0), format!("{bytes} bytes received"))
}

/// RFC 4468 §6.
pub(super) fn content_ok(bytes: u64) -> Reply {
    Reply::status(250, (2, 5, 0), format!("{bytes} bytes taken, waiting for more"))
}

pub(super) fn too_many_urls() -> Reply {
    Reply::status(554, (5, 5, 0), format!("A message has at most {} URLs", limits::SUBMISSION_URLS))
}

/// Why a URL gives no content (RFC 4468 §3.4, §6).
pub(super) fn content_url(refusal: &UrlRefusal) -> Reply {
    match refusal {
        UrlRefusal::Invalid(why) => Reply::status(501, (5, 5, 4), format!("Not a URL to send: {why}")),
        // RFC 5248 gave the status code another number than RFC 4468 had.
        UrlRefusal::OtherServer => {
            Reply::status(554, (5, 7, 14), "The URL is of another server, which this one has no access to")
        }
        UrlRefusal::Unauthorized => Reply::status(554, (5, 7, 0), "IMAP URL authorization failed"),
        UrlRefusal::Missing => Reply::status(554, (5, 6, 6), "The URL names no message, or no part of one"),
        UrlRefusal::Unavailable(error) => {
            tracing::warn!(%error, "the content at a URL could not be read");
            match error.kind() {
                Kind::Limit => storage(error),
                _ => Reply::status(451, (4, 6, 6), "The message content cannot be read now, try again later"),
            }
        }
    }
}

pub(super) fn stored(id: &str) -> Reply {
    Reply::status(250, (2, 6, 0), format!("Message stored as {id}"))
}

pub(super) fn bye(hostname: &str) -> Reply {
    Reply::status(221, (2, 0, 0), format!("{hostname} closing connection"))
}

pub(super) fn start_tls() -> Reply {
    Reply::status(220, (2, 0, 0), "Ready to start TLS")
}

/// The outcome for an account is unknown, although the delivery was tried.
pub(super) fn unfinished() -> Reply {
    Reply::status(451, (4, 3, 0), "Local error, try again later")
}

/// RFC 5321 §3.5.3: neither confirmed nor denied.
pub(super) fn cannot_verify() -> Reply {
    Reply::status(252, (2, 5, 0), "Cannot verify; send it and see")
}

/// RFC 5321 §4.2.4.
pub(super) fn not_implemented() -> Reply {
    Reply::status(502, (5, 5, 1), "Command not implemented")
}

/// RFC 2033 §4.1: "The 500 reply code is recommended".
pub(super) fn wrong_protocol(text: &'static str) -> Reply {
    Reply::status(500, (5, 5, 1), text)
}

/// RFC 5321 §4.1.4.
pub(super) fn out_of_order(text: &'static str) -> Reply {
    Reply::status(503, (5, 5, 1), text)
}

pub(super) fn no_recipients() -> Reply {
    out_of_order("No valid recipients")
}

/// RFC 1870 §6.1, §6.3.
pub(super) fn too_large(limit: u64) -> Reply {
    Reply::status(552, (5, 3, 4), format!("Message size exceeds the limit of {limit} bytes"))
}

/// RFC 5321 §4.2.3, RFC 3463 §3.3: the owner may delete mail before the client gives up.
pub(super) fn mailbox_full() -> Reply {
    Reply::status(452, (4, 2, 2), "Mailbox full, try again later")
}

/// RFC 5321 §4.2.3, RFC 3463 §3.3.
pub(super) fn never_fits() -> Reply {
    Reply::status(552, (5, 2, 2), "Message is larger than the whole mailbox may be")
}

/// RFC 5321 §4.5.3.1.10.
pub(super) fn too_many_recipients() -> Reply {
    Reply::status(452, (4, 5, 3), "Too many recipients")
}

/// RFC 3463 §3.4: other sessions may have freed memory when the client retries.
pub(super) fn no_memory() -> Reply {
    Reply::status(452, (4, 3, 1), "Not enough memory for more recipients, try again later")
}

/// RFC 6531 §3.5.
pub(super) fn sender_needs_utf8() -> Reply {
    Reply::status(550, (5, 6, 7), "A sender address outside ASCII needs SMTPUTF8")
}

/// RFC 6531 §3.5.
pub(super) fn recipient_needs_utf8() -> Reply {
    Reply::status(553, (5, 6, 7), "A recipient address outside ASCII needs SMTPUTF8")
}

/// RFC 5321 §6.3.
pub(super) fn loops() -> Reply {
    Reply::status(554, (5, 4, 6), "Too many Received fields: this message loops")
}

/// RFC 5321 §4.1.1.4, §2.3.8.
pub(super) fn lookalike() -> Reply {
    Reply::status(554, (5, 6, 0), "A line of one dot did not end with CRLF on both sides; message refused")
}

pub(super) fn too_many_errors() -> Reply {
    Reply::status(421, (4, 7, 0), "Too many errors, closing connection")
}

/// RFC 5321 §3.8, §4.5.3.2.7.
pub(super) fn timeout() -> Reply {
    Reply::status(421, (4, 4, 2), "Timeout, closing connection")
}

pub(super) fn too_slow() -> Reply {
    Reply::status(421, (4, 4, 2), "The message arrives too slowly while memory is short, closing connection")
}

/// RFC 5321 §3.8.
pub(super) fn stopping(hostname: &str) -> Reply {
    Reply::status(421, (4, 3, 2), format!("{hostname} is stopping, closing connection"))
}

/// It contains no input of the client, since a browser may show it as a page.
pub(super) fn http() -> Reply {
    Reply::status(421, (4, 7, 0), "This is not a web server, closing connection")
}

pub(super) fn unintelligible() -> Reply {
    Reply::status(421, (4, 5, 2), "Invalid data, closing connection")
}

/// The login of a session was revoked.
pub(super) fn revoked() -> Reply {
    Reply::status(421, (4, 7, 0), "The login is no longer valid, closing connection")
}

/// RFC 4954 §6.
pub(super) fn authenticated() -> Reply {
    Reply::status(235, (2, 7, 0), "Authentication succeeded")
}

/// RFC 4954 §6.
pub(super) fn authentication_required() -> Reply {
    Reply::status(530, (5, 7, 0), "Authentication required")
}

/// RFC 4954 §4.
pub(super) fn no_such_mechanism() -> Reply {
    Reply::status(504, (5, 5, 4), "No such authentication mechanism")
}

/// RFC 4954 §4, §6.
pub(super) fn encryption_required() -> Reply {
    Reply::status(538, (5, 7, 11), "Encryption required: send STARTTLS first")
}

/// RFC 4954 §4.
pub(super) fn not_base64() -> Reply {
    Reply::status(501, (5, 5, 2), "Not base64")
}

/// RFC 4954 §4.
pub(super) fn not_of_mechanism() -> Reply {
    Reply::status(501, (5, 5, 2), "Not a message of that authentication mechanism")
}

/// RFC 4954 §4.
pub(super) fn auth_cancelled() -> Reply {
    Reply::status(501, (5, 7, 0), "Authentication cancelled")
}

/// RFC 4954 §6.
pub(super) fn auth_line_too_long() -> Reply {
    Reply::status(500, (5, 5, 6), "Authentication exchange line is too long")
}

/// RFC 4954 §6.
pub(super) fn acting_for_others() -> Reply {
    Reply::status(535, (5, 7, 8), "Acting for others is not possible")
}

/// Too many connections of one account.
pub(super) fn crowded_login() -> Reply {
    Reply::status(454, (4, 7, 0), "Too many connections of this account, close some")
}

/// RFC 4954 §6, RFC 5248 §3.1. The client learns no more of the reason than that.
pub(super) fn denied(denied: &Denied) -> Reply {
    match denied {
        Denied::Credentials => Reply::status(535, (5, 7, 8), "Wrong name or password"),
        Denied::Expired => Reply::status(535, (5, 7, 8), "The token has expired or was revoked"),
        Denied::Scope => Reply::status(535, (5, 7, 8), "The token is not for mail"),
        Denied::Suspended => {
            Reply::status(535, (5, 7, 13), "This account is suspended, ask the administrator of the server")
        }
        Denied::Busy => Reply::status(454, (4, 7, 0), "Too many logins at once, try again later"),
        Denied::Unavailable(error) => {
            tracing::warn!(%error, "a login could not be checked");
            Reply::status(454, (4, 7, 0), "Logins cannot be checked now, try again later")
        }
    }
}

/// The queue has the submitted message.
pub(super) fn queued(id: MailId) -> Reply {
    Reply::status(250, (2, 0, 0), format!("Message queued as {id}"))
}

/// RFC 4865 §5.
pub(super) fn hold_too_long(seconds: u64) -> Reply {
    Reply::status(501, (5, 5, 4), format!("A message is held for at most {seconds} seconds"))
}

/// RFC 6409 §4.2.
pub(super) fn incomplete_domain() -> Reply {
    Reply::status(554, (5, 1, 2), "The domain is incomplete; write it out")
}

/// RFC 3463 §3.8: the policy of this server, for now.
pub(super) fn sending_limit(reached: &LimitReached) -> Reply {
    Reply::status(450, (4, 7, 1), format!("You have reached your limit of {reached}"))
}

/// An alias leads to other servers, and forwarding is off.
pub(super) fn forwarding_is_off() -> Reply {
    Reply::status(451, (4, 3, 2), "This address forwards its mail, and sending is off, try again later")
}

/// RFC 3030 §3, RFC 3463 §3.7.
pub(super) fn binary_not_forwarded() -> Reply {
    Reply::status(554, (5, 6, 1), "This address forwards its mail, and binary content is not forwarded")
}

/// RFC 3463 §3.8: the policy of this server, for now.
pub(super) fn forwarding_limit(reached: &LimitReached) -> Reply {
    Reply::status(450, (4, 7, 1), format!("This address forwards at most {reached}"))
}

/// A rewritten sender of forwarded mail, which takes reports alone.
pub(super) fn reports_only() -> Reply {
    Reply::status(550, (5, 7, 1), "This address takes reports only")
}

/// The reply to a refused forwarding; `id` is for the log.
pub(super) fn forwarding(refusal: &Refusal, id: &str) -> Reply {
    match refusal {
        Refusal::Limit(reached) => forwarding_limit(reached),
        refusal => submission(refusal, None, id),
    }
}

/// The reply to a refused submission or sender; `id` is for the log.
pub(super) fn submission(refusal: &Refusal, account: Option<&AccountRecord>, id: &str) -> Reply {
    let unsendable = |text: &'static str| Reply::status(554, (5, 6, 0), text);
    match refusal {
        // RFC 6409 §6.1.
        Refusal::Sender(address) => Reply::status(
            550,
            (5, 7, 1),
            format!(
                "You may not send as {address}; the administrator can allow it: \
                 sealpost account allow-from {} {address}",
                account.map_or_else(String::new, |account| account.name.to_string())
            ),
        ),
        Refusal::Header(Fault::TooLarge) => Reply::status(
            552,
            (5, 3, 4),
            format!("The header exceeds the limit of {} bytes", limits::SUBMISSION_HEADER_BYTES),
        ),
        // RFC 6409 §8.1.
        Refusal::Header(Fault::NoFrom) => unsendable("The message has no From address"),
        Refusal::Header(Fault::Repeated) => unsendable("The message has several From or Sender fields"),
        Refusal::Header(Fault::Unreadable) => unsendable("From or Sender has something that is no address"),
        Refusal::TooLarge(limit) => too_large(*limit),
        Refusal::Loop => loops(),
        Refusal::Limit(reached) => sending_limit(reached),
        Refusal::NoMemory => {
            Reply::status(452, (4, 3, 1), "Not enough memory for so large a header, try again later")
        }
        Refusal::Store(error) => {
            tracing::warn!(id, %error, "a message could not be queued");
            storage(error)
        }
    }
}
