//! The only place that prints: results on standard output, as text or (`--json`) one JSON value per line; what is
//! said beside them on standard error.
//!
//! A reader that goes away (`sealpost … | head`) is an error like any other and ends the command quietly; nothing
//! here panics.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the module that prints")]

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use serde::Serialize;

/// Where results go.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    json: bool,
}

impl Output {
    /// JSON or text.
    pub fn new(json: bool) -> Self {
        Output { json }
    }

    /// Whether JSON was asked for.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// One line of text, in either mode; for text that is the result itself.
    ///
    /// # Errors
    /// If nobody reads standard output any more.
    pub fn line(self, text: impl Display) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()
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

    /// What a person wants to know and a program does not: on standard error, and not at all with `--json`.
    pub fn note(self, text: impl Display) {
        if !self.json {
            warn(text);
        }
    }
}

/// Says `text` on standard error, in either mode.
pub fn warn(text: impl Display) {
    // If standard error is gone there is nobody left to tell.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Says why the command failed; nothing if it failed because nobody reads its output any more.
pub fn error(error: &anyhow::Error) {
    if error.chain().any(is_broken_pipe) {
        return;
    }
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
    warn(format_args!("sealpost: {text}"));
}

fn is_broken_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
}
