//! The only place that prints: results on standard output, as text or (`--json`) one JSON value per
//! line; all other messages on standard error.
//!
//! A closed output (`sealpost … | head`) is an error like any other and ends the command quietly;
//! nothing here panics.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the module that prints")]

use std::fmt::{self, Display};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::Duration;

use indicatif::HumanCount;
use serde::Serialize;

/// As [`sealpost_base::counted`], with separators between thousands: `1,234 messages`.
pub fn counted(n: impl TryInto<u64>, one: &str, many: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX);
    format!("{} {}", HumanCount(n), if n == 1 { one } else { many })
}

/// How long something takes or took, in its largest unit: `45s`, `12m`, `3h`, `2d`.
pub fn age(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// Where results go.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    json: bool,
    quiet: bool,
}

impl Output {
    /// JSON or text; `quiet`: nothing of what went well.
    pub fn new(json: bool, quiet: bool) -> Self {
        Output { json, quiet }
    }

    /// Whether to print neither success nor progress.
    pub fn is_quiet(self) -> bool {
        self.quiet
    }

    /// Whether progress is shown: at a terminal.
    pub fn shows_progress(self) -> bool {
        !self.json && !self.quiet && io::stderr().is_terminal()
    }

    /// What was done, as [`Output::show`]; nothing with `--quiet` if it is `good`.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn outcome<T: Serialize + ?Sized>(
        self,
        good: bool,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> io::Result<()> {
        if good && self.quiet && !self.json { Ok(()) } else { self.show(value, text) }
    }

    /// What went well, as [`Output::show`]; nothing with `--quiet`.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn done<T: Serialize + ?Sized>(self, value: &T, text: impl FnOnce(&T) -> String) -> io::Result<()> {
        self.outcome(true, value, text)
    }

    /// Whether `--json` was given.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// One line of text, in either mode; for text that is the result itself.
    ///
    /// # Errors
    /// If standard output is closed.
    pub fn line(self, text: impl Display) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let written = writeln!(out, "{text}").and_then(|()| out.flush());
        written.map_err(|e| if e.kind() == ErrorKind::BrokenPipe { unread() } else { e })
    }

    /// One line of JSON, in either mode.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> io::Result<()> {
        self.line(serde_json::to_string(value)?)
    }

    /// A result: as one line of JSON, or as the text that `text` makes of it (nothing if that is empty).
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn show<T: Serialize + ?Sized>(self, value: &T, text: impl FnOnce(&T) -> String) -> io::Result<()> {
        if self.json {
            return self.json(value);
        }
        match text(value) {
            text if text.is_empty() => Ok(()),
            text => self.line(text.trim_end_matches('\n')),
        }
    }

    /// A message for people and not for programs: on standard error, and not at all with `--json`
    /// or `--quiet`.
    pub fn note(self, text: impl Display) {
        if !self.json && !self.quiet {
            warn(text);
        }
    }
}

/// Says `text` on standard error, in either mode.
pub fn warn(text: impl Display) {
    // If standard error is closed, the message is lost.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Reports why the command failed; nothing if it failed because its output is closed.
pub fn error(error: &anyhow::Error) {
    if error.chain().any(is_unread) {
        return;
    }
    warn(format_args!("sealpost: {}", text(error)));
    if let Some(advice) = advice(error) {
        warn(format_args!("sealpost: {advice}"));
    }
}

/// An error and what caused it, each thing said once.
pub fn text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        // Some errors already say what caused them.
        let cause = cause.to_string();
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    without_numbers(&text)
}

/// The remedy for a location that cannot be written, whether the system or SQLite found that out.
pub fn advice(error: &anyhow::Error) -> Option<&'static str> {
    let is = |cause: &(dyn std::error::Error + 'static), kinds: &[ErrorKind], words: &[&str]| {
        let of = cause.downcast_ref::<io::Error>().is_some_and(|e| kinds.contains(&e.kind()));
        let text = cause.to_string();
        of || words.iter().any(|words| text.contains(words))
    };
    let any = |kinds: &[ErrorKind], words: &[&str]| error.chain().any(|cause| is(cause, kinds, words));
    if any(
        &[ErrorKind::StorageFull, ErrorKind::QuotaExceeded],
        &["database or disk is full", "No space left on device", "quota exceeded"],
    ) {
        return Some("the disk is full: free disk space and run the command again; completed work is kept");
    }
    if any(&[ErrorKind::FileTooLarge], &["File too large"]) {
        return Some(
            "a file has reached the size limit: raise the limit (`ulimit -f`, LimitFSIZE in a systemd unit), \
             or use a file system that supports larger files, and run the command again; completed work is \
             kept",
        );
    }
    if any(
        &[ErrorKind::ReadOnlyFilesystem],
        &["attempt to write a readonly database", "Read-only file system"],
    ) {
        return Some(
            "the disk is read-only: mount it read-write, or copy the data directory to another disk; only \
             check, stats, export and similar commands work on a read-only data directory",
        );
    }
    // An error that names the file owner says what to do.
    if any(&[ErrorKind::PermissionDenied], &[]) && !any(&[], &["permission denied: "]) {
        return Some("permission denied: run the command as the file owner, or change the file owner");
    }
    // All that SQLite says of a file that may not grow, among other things.
    if any(&[], &["disk I/O error"]) {
        return Some(
            "the disk fails to read or write (see the system log), or a file has reached the size limit \
             (`ulimit -f`); completed work is kept",
        );
    }
    None
}

/// `(os error 28)` says nothing that the words before it do not.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|b| b.is_ascii_digit()) => out.push_str(rest),
            _ => {
                out.push_str(" (os error ");
                out.push_str(part);
            }
        }
    }
    out
}

/// Standard output is closed. A closed socket is a broken pipe too, and must be reported.
#[derive(Debug)]
struct Unread;

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reader of the output has exited")
    }
}

impl std::error::Error for Unread {}

fn unread() -> io::Error {
    io::Error::new(ErrorKind::BrokenPipe, Unread)
}

fn is_unread(cause: &(dyn std::error::Error + 'static)) -> bool {
    let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    inner.is_some_and(|inner| inner.is::<Unread>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_errors_are_explained_wherever_they_occur() {
        let io = |kind: ErrorKind| anyhow::Error::from(io::Error::from(kind)).context("copy/INBOX.mbox");
        let sqlite =
            sealpost_base::Error::retry("store: acct/log/1").with_source("commit: database or disk is full");
        for (error, begins) in [
            (io(ErrorKind::StorageFull), Some("the disk is full")),
            (sqlite.into(), Some("the disk is full")),
            (io(ErrorKind::ReadOnlyFilesystem), Some("the disk is read-only")),
            (io(ErrorKind::FileTooLarge), Some("a file has reached")),
            (io(ErrorKind::PermissionDenied), Some("permission denied: run")),
            (sealpost_base::Error::retry("commit: disk I/O error").into(), Some("the disk fails to")),
            (io(ErrorKind::NotFound), None),
            (sealpost_base::Error::denied("wrong password").into(), None),
        ] {
            let advice = advice(&error);
            assert!(
                advice.is_some() == begins.is_some()
                    && advice.unwrap_or("").starts_with(begins.unwrap_or("")),
                "{error:#}"
            );
        }
    }

    #[test]
    fn only_a_closed_pipe_ends_quietly() {
        let quiet = |error: anyhow::Error| error.context("a").chain().any(is_unread);
        assert!(quiet(unread().into()));
        assert!(!quiet(io::Error::from(ErrorKind::BrokenPipe).into()), "a server that has closed");
    }

    #[test]
    fn numbers_of_the_system_are_left_out() {
        for (text, expected) in [
            ("a/b: No space left on device (os error 28)", "a/b: No space left on device"),
            ("a (os error 2): b (os error 13): c", "a: b: c"),
            ("a (os error x) b", "a (os error x) b"),
        ] {
            assert_eq!(without_numbers(text), expected);
        }
    }
}
