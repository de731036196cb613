//! What a NO, BAD or BYE means for what happens next.

use std::time::Duration;

use sealpost_base::{Error, Kind};
use sealpost_imap::types::{Code, Status};

/// Words by which servers without a response code say "later": Exchange, Gmail, Yahoo, and others
/// behind proxies.
const LATER: [&str; 10] = [
    "throttl",
    "backoff",
    "too many",
    "try again",
    "try later",
    "temporar",
    "timed out",
    "timeout",
    "unavailable",
    "bandwidth",
];
/// With these, "too many" refers to the message, and waiting does not help: Cyrus limits the
/// keywords of a mailbox.
const OF_A_MESSAGE: [&str; 2] = ["flag", "keyword"];
/// The longest wait that a server can ask for.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// The error for a reply that is not OK.
pub(super) fn error(what: &str, status: Status, code: Option<&Code>, text: &str) -> Error {
    let code_name = match code {
        Some(Code::Other(name, _)) => format!("[{}] ", name.as_str()),
        _ => String::new(),
    };
    let message = format!("{what}: the server replied {} {code_name}{}", status.name(), shown(text));
    Error::new(kind(status, code, text), message)
}

fn kind(status: Status, code: Option<&Code>, text: &str) -> Kind {
    match code {
        Some(
            Code::AuthenticationFailed
            | Code::AuthorizationFailed
            | Code::Expired
            | Code::PrivacyRequired
            | Code::NoPerm
            | Code::ContactAdmin,
        ) => return Kind::Denied,
        Some(Code::NonExistent | Code::TryCreate) => return Kind::NotFound,
        Some(Code::Unavailable | Code::InUse | Code::Limit | Code::ServerBug | Code::ExpungeIssued) => {
            return Kind::Retry;
        }
        // Gmail also sends OVERQUOTA for bandwidth.
        Some(Code::OverQuota) if !is_later(text) => return Kind::Limit,
        Some(Code::Other(name, _)) if *name == *"THROTTLED" => return Kind::Retry,
        Some(Code::AlreadyExists) => return Kind::Conflict,
        Some(Code::TooBig) => return Kind::Limit,
        _ => {}
    }
    if status == Status::Bye || is_later(text) { Kind::Retry } else { Kind::Invalid }
}

/// Whether the text says that the same may work later.
pub fn is_later(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let of_a_message = OF_A_MESSAGE.iter().any(|word| text.contains(word));
    LATER.iter().any(|word| text.contains(word) && !(*word == "too many" && of_a_message))
}

/// The wait that the server asks for: `Suggested Backoff Time: 92415 milliseconds` (Exchange).
pub fn suggested_wait(text: &str) -> Option<Duration> {
    let lower = text.to_ascii_lowercase();
    let after = &lower[lower.find("backoff time:")? + "backoff time:".len()..];
    let mut words = after.split_ascii_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let unit = words.next().unwrap_or("milliseconds");
    let wait =
        if unit.starts_with('s') { Duration::from_secs(number) } else { Duration::from_millis(number) };
    Some(wait.min(LONGEST))
}

/// Of MESSAGELIMIT (RFC 9738 §3.1), `1000 23221`: the lowest UID that the command processed. Those
/// below were left out.
pub fn lowest(code: &Code) -> Option<u32> {
    match code {
        Code::Other(name, Some(text)) if name.as_str().eq_ignore_ascii_case("MESSAGELIMIT") => {
            text.split_ascii_whitespace().nth(1)?.parse().ok()
        }
        _ => None,
    }
}

/// Text from a server, for a terminal: no control characters, bounded length.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_later_in_many_ways() {
        let exchange = "Request is throttled. Suggested Backoff Time: 92415 milliseconds";
        assert_eq!(kind(Status::Bye, None, exchange), Kind::Retry);
        assert_eq!(suggested_wait(exchange), Some(Duration::from_millis(92_415)));
        let gmail = "Account exceeded command or bandwidth limits. (Failure)";
        assert_eq!(kind(Status::No, Some(&Code::OverQuota), gmail), Kind::Retry);
        assert_eq!(kind(Status::No, None, "Too many simultaneous connections"), Kind::Retry);
        assert_eq!(kind(Status::No, None, "Too many user flags in mailbox"), Kind::Invalid);
        assert_eq!(kind(Status::No, Some(&Code::OverQuota), "Quota exceeded"), Kind::Limit);
        assert_eq!(kind(Status::No, Some(&Code::AuthenticationFailed), "wrong"), Kind::Denied);
        assert_eq!(kind(Status::Bad, None, "Unknown command"), Kind::Invalid);
        assert_eq!(suggested_wait("Suggested Backoff Time: 99999999999 ms"), Some(LONGEST));
        assert_eq!(suggested_wait("soon"), None);
    }

    #[test]
    fn a_server_does_not_write_to_the_terminal() {
        assert_eq!(shown("a\x1b[2Jb"), "a[2Jb");
    }
}
