//! The reasons for which a session ends, and how they are reported.

use std::borrow::Cow;
use std::io;

/// Why a session ends.
#[derive(Debug)]
pub(crate) enum End {
    /// The client sent LOGOUT and received its reply.
    Logout,
    /// The client disconnected.
    Closed,
    /// The client sent or took nothing for too long.
    Timeout,
    /// The server is shutting down.
    Shutdown,
    /// Too many bad commands.
    Errors,
    /// The rest of the input cannot be parsed.
    Fatal(Cow<'static, str>),
    /// The client speaks HTTP.
    Http,
    /// There is no memory for such a long command.
    NoMemory,
    /// The selected mailbox no longer exists (RFC 2180 §3.3).
    MailboxGone,
    /// There is no memory for the view of the selected mailbox.
    Crowded,
    /// A message could not be sent completely.
    Broken,
    /// The secret of the login is no longer valid.
    Revoked,
    /// The connection failed.
    Io(io::Error),
}

impl End {
    /// The reason for the log.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            End::Logout => "logout",
            End::Closed => "closed",
            End::Timeout => "timeout",
            End::Shutdown => "shutdown",
            End::Errors => "too many errors",
            End::Fatal(_) => "protocol",
            End::Http => "HTTP",
            End::NoMemory => "no memory",
            End::MailboxGone => "mailbox gone",
            End::Crowded => "no memory for the view",
            End::Broken => "message unreadable",
            End::Revoked => "login revoked",
            End::Io(_) => "connection failed",
        }
    }

    /// The text of `* BYE`; `None` if the client has disconnected, or BYE was sent.
    pub(crate) fn goodbye(&self) -> Option<&str> {
        match self {
            End::Logout | End::Closed | End::Broken | End::Io(_) => None,
            End::Timeout => Some("idle for too long"),
            End::Shutdown => Some("server is shutting down"),
            End::Errors => Some("too many bad commands"),
            End::Fatal(reason) => Some(reason),
            End::Http => Some("this is not a web server"),
            End::NoMemory => Some("not enough memory for long commands; retry later"),
            End::MailboxGone => {
                Some("the selected mailbox was deleted, renumbered, or may not be read any more")
            }
            End::Crowded => {
                Some("not enough memory for a mailbox with so many gaps between UIDs; retry later")
            }
            End::Revoked => Some("this login is no longer valid"),
        }
    }
}

impl From<io::Error> for End {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::TimedOut => End::Timeout,
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::UnexpectedEof => End::Closed,
            _ => End::Io(e),
        }
    }
}
