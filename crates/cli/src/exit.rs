//! What the exit status says.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed, or `check` found damage |
//! | 2 | the command line or the configuration is wrong; nothing was done |
//! | 3 | there is no such account, alias, token, mailbox or store |
//! | 4 | wrong password |
//! | 75 | a temporary failure, such as a full disk: the same command may work later |

use std::process::ExitCode;
use std::{fmt, io};

use sealpost_base::{Error, Kind};
use sealpost_bench::Wrong;

/// For `--help`.
pub const HELP: &str = "Exit status: 0 done; 1 failed, or damage found; 2 wrong command line or configuration; \
                        3 no such account, alias, token, mailbox or store; 4 wrong password; 75 temporary failure.";

/// Failed, or damage found.
pub const FAILED: u8 = 1;
const USAGE: u8 = 2;
const NOT_FOUND: u8 = 3;
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

/// The exit status for a failure.
pub fn code(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(|cause| cause.is::<Usage>() || cause.is::<Wrong>()) {
        return ExitCode::from(USAGE);
    }
    // A file that may not be read is no wrong password.
    if error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
    }) {
        return ExitCode::from(FAILED);
    }
    let kind = error.chain().find_map(|cause| cause.downcast_ref::<Error>()).map(Error::kind);
    ExitCode::from(match kind {
        Some(Kind::NotFound) => NOT_FOUND,
        Some(Kind::Denied) => DENIED,
        Some(Kind::Retry) => TEMPORARY,
        _ => FAILED,
    })
}
