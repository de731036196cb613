//! What a check of a record came to, and how it is printed.

use sealpost_dns::DnsName;
use serde::Serialize;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::cmd::domain) enum Found {
    /// It is right.
    Ok,
    /// It works, with a warning.
    Warning,
    /// It is not there, and need not be.
    Optional,
    /// It is not there.
    Missing,
    /// It is wrong.
    Wrong,
    /// DNS did not answer.
    Unknown,
}

/// One check.
#[derive(Debug, Serialize)]
pub(in crate::cmd::domain) struct Checked {
    pub what: &'static str,
    pub name: String,
    pub found: Found,
    /// What DNS has.
    pub is: Vec<String>,
    /// The required value; empty if it is right.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wanted: String,
    /// What to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fix: String,
}

impl Checked {
    pub(super) fn new(what: &'static str, name: &DnsName, found: Found, is: Vec<String>) -> Self {
        let (wanted, fix) = Default::default();
        Checked { what, name: name.to_string(), found, is, wanted, fix }
    }

    pub(super) fn wanting(mut self, wanted: impl Into<String>, fix: impl Into<String>) -> Self {
        (self.wanted, self.fix) = (wanted.into(), fix.into());
        self
    }

    /// Whether it needs attention.
    pub fn is_wrong(&self) -> bool {
        matches!(self.found, Found::Missing | Found::Wrong | Found::Unknown)
    }

    /// Whether DNS confirms it.
    pub fn is_certainly_wrong(&self) -> bool {
        matches!(self.found, Found::Missing | Found::Wrong)
    }

    pub fn lines(&self) -> String {
        let found = match self.found {
            Found::Ok => "ok",
            Found::Warning => "look at it",
            Found::Optional => "not there (optional)",
            Found::Missing => "MISSING",
            Found::Wrong => "WRONG",
            Found::Unknown => "NO ANSWER",
        };
        let mut text = format!("  {:<8} {:<12} {}\n", self.what, found, self.name);
        if self.found != Found::Ok {
            self.is.iter().for_each(|is| text.push_str(&format!("    there   {is}\n")));
        }
        if !self.wanted.is_empty() {
            text.push_str(&format!("    wanted  {}\n", self.wanted));
        }
        if !self.fix.is_empty() {
            text.push_str(&format!("    do      {}\n", self.fix));
        }
        text
    }
}
