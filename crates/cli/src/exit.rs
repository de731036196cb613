//! What the exit status says.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed, or `check` found damage |
//! | 2 | the command line or the configuration is wrong, or names what is not there or cannot be used; nothing was done |
//! | 3 | there is no such account, alias, app password, domain, mail, mailbox or store |
//! | 4 | wrong password |
//! | 75 | a temporary failure, such as a full disk or a taken port: the same command may work later |

use std::process::ExitCode;
use std::{fmt, io};

use sealpost_base::{Error, Kind};
use sealpost_bench::UsageError;
use sealpost_files::owner;

use crate::output::text;

/// For `--help`.
pub const HELP: &str = "Examples:
  sealpost try                                        a server with sample mail, to try Sealpost
  sealpost account add jane@example.org
  sealpost serve --config /etc/sealpost.toml
  sealpost archive add work                           back up a mailbox of another server

Exit status: 0 done; 1 failed, or damage found; 2 wrong command line or configuration; \
                        3 no such account, alias, app password, mailbox or store; 4 wrong password; 75 temporary failure.";

/// Failed, or damage found.
pub const FAILED: u8 = 1;
const USAGE: u8 = 2;
/// There is no such thing.
pub const NOT_FOUND: u8 = 3;
const DENIED: u8 = 4;
/// `EX_TEMPFAIL` of sysexits.h.
pub const TEMPORARY: u8 = 75;

/// The command line or the configuration is wrong.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A failure to use what the command line or the configuration names (a file, a directory, an
/// address to listen on): that is wrong then, unless it may work later.
pub fn named(e: impl Into<anyhow::Error>) -> anyhow::Error {
    let e = e.into();
    match status(&e) {
        USAGE | TEMPORARY => e,
        _ => Usage(text(&e)).into(),
    }
}

/// The failure to open what one process has at a time: if another one has it, it may work later.
pub fn in_use(e: Error) -> Error {
    match e.kind() {
        Kind::Conflict => Error::retry(e.to_string()),
        _ => e,
    }
}

/// The exit status for a failure.
pub fn code(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(status(error))
}

/// The meaning of a failure decides, wherever it arose. It is in the kind of the error, or in
/// [`Usage`]; of errors of the system only those count that mean the same everywhere.
fn status(error: &anyhow::Error) -> u8 {
    let causes = || error.chain();
    if causes().any(|cause| cause.is::<Usage>() || cause.is::<UsageError>()) {
        return USAGE;
    }
    // A file that may not be read is no wrong password, and will not be read later.
    if causes().any(owner::is_denied) {
        return FAILED;
    }
    match causes().find_map(|cause| cause.downcast_ref::<Error>()).map(Error::kind) {
        Some(Kind::NotFound) => NOT_FOUND,
        Some(Kind::Denied) => DENIED,
        Some(Kind::Retry) => TEMPORARY,
        Some(_) => FAILED,
        None if causes().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(is_temporary) => TEMPORARY,
        None => FAILED,
    }
}

fn is_temporary(e: &io::Error) -> bool {
    use io::ErrorKind::{
        AddrInUse, AddrNotAvailable, ConnectionRefused, ConnectionReset, FileTooLarge, HostUnreachable,
        Interrupted, NetworkDown, NetworkUnreachable, QuotaExceeded, ReadOnlyFilesystem, ResourceBusy,
        StorageFull, TimedOut,
    };
    matches!(
        e.kind(),
        AddrInUse
            | AddrNotAvailable
            | ConnectionRefused
            | ConnectionReset
            | FileTooLarge
            | HostUnreachable
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
            | QuotaExceeded
            | ReadOnlyFilesystem
            | ResourceBusy
            | StorageFull
            | TimedOut
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_follows_the_error() {
        let io = |kind: io::ErrorKind| anyhow::Error::from(io::Error::from(kind));
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        for (error, expected) in [
            (Usage("--x".into()).into(), USAGE),
            (Error::not_found("no account").into(), NOT_FOUND),
            (Error::denied("not the password").into(), DENIED),
            (Error::retry("the store").into(), TEMPORARY),
            (Error::retry("the store").with_source(denied()).into(), FAILED),
            (Error::denied("a.mbox").with_source(denied()).into(), FAILED),
            (Error::corrupt("damaged").into(), FAILED),
            (Error::invalid("no mail").into(), FAILED),
            (io(io::ErrorKind::StorageFull).context("out.mbox"), TEMPORARY),
            (io(io::ErrorKind::NotFound).context("out.mbox"), FAILED),
            (anyhow::anyhow!("mistake"), FAILED),
        ] {
            assert_eq!(status(&error), expected, "{error:#}");
        }
    }

    #[test]
    fn unusable_arguments_are_usage_errors_unless_temporary() {
        let io = |kind: io::ErrorKind| {
            named(anyhow::Error::from(io::Error::from(kind)).context("the password in a"))
        };
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::IsADirectory, io::ErrorKind::PermissionDenied] {
            assert_eq!(status(&io(kind)), USAGE);
        }
        assert_eq!(io(io::ErrorKind::NotFound).to_string(), "the password in a: entity not found");
        assert_eq!(status(&io(io::ErrorKind::TimedOut)), TEMPORARY);
        assert_eq!(status(&named(Error::invalid("no certificate"))), USAGE);
        assert_eq!(status(&named(Error::retry("a taken port"))), TEMPORARY);
        assert_eq!(status(&in_use(Error::conflict("another has it")).into()), TEMPORARY);
        assert_eq!(status(&in_use(Error::corrupt("damaged")).into()), FAILED);
    }
}
