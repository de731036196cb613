//! Content-Type and Content-Disposition: a value and its parameters (RFC 2045 §5.1, RFC 2183, RFC 2231).

mod continued;

use sealpost_base::limits;

use super::word;
use continued::extended;

pub use continued::{Form, joined};

/// A parameter as written: the name in lower case, the value unquoted and not decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameter {
    /// The name, lower case, with the `*` and `*0*` of RFC 2231 if they are there.
    pub name: String,
    /// The value, quotes removed.
    pub value: String,
}

impl Parameter {
    /// A parameter with this name and value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Parameter { name: name.into(), value: value.into() }
    }
}

/// A media type and its parameters, type and subtype in lower case; `None` if the value has no
/// `type/subtype`.
pub fn content_type(value: &str) -> Option<(String, String, Vec<Parameter>)> {
    let mut at = Cursor(value);
    let media_type = at.token()?;
    at.0 = at.0.strip_prefix('/')?;
    let subtype = at.token()?;
    // Real mail has parameters without the `;` before them: `multipart/mixed boundary=x`.
    Some((media_type, subtype, parameters(at.0)))
}

/// A disposition and its parameters, the disposition in lower case; `None` if there is none.
pub fn disposition(value: &str) -> Option<(String, Vec<Parameter>)> {
    let (head, rest) = split_head(value);
    let kind = head.trim().to_ascii_lowercase();
    (!kind.is_empty() && kind.bytes().all(is_token)).then(|| (kind, parameters(rest)))
}

/// The bare token of a field such as Content-Transfer-Encoding, comments removed, lower case.
pub fn token(value: &str) -> Option<String> {
    let (head, _) = split_head(value);
    let word = head.split_whitespace().next()?;
    Some(word.to_ascii_lowercase())
}

/// RFC 2045 §5.1 `token`, with 8-bit characters let through.
fn is_token(byte: u8) -> bool {
    !matches!(
        byte,
        0..=b' '
            | 0x7f
            | b'('
            | b')'
            | b'<'
            | b'>'
            | b'@'
            | b','
            | b';'
            | b':'
            | b'\\'
            | b'"'
            | b'/'
            | b'['
            | b']'
            | b'?'
            | b'='
    )
}

/// The text before the first `;`, comments removed, and the text after it.
fn split_head(value: &str) -> (String, &str) {
    let mut head = String::new();
    let mut at = Cursor(value);
    loop {
        match at.peek() {
            None => return (head, ""),
            Some(';') => return (head, &at.0[1..]),
            Some('(') => at.comment(),
            Some(c) => {
                head.push(c);
                at.skip(c);
            }
        }
    }
}

/// The parameters in `rest`, at most `limits::MIME_PARAMETERS`.
fn parameters(rest: &str) -> Vec<Parameter> {
    let mut found = Vec::new();
    let mut at = Cursor(rest);
    while found.len() < limits::MIME_PARAMETERS {
        at.blank();
        let Some(c) = at.peek() else { break };
        if c == ';' {
            at.skip(c);
            continue;
        }
        let name = at.take_while(|c| !matches!(c, '=' | ';' | '('));
        at.blank();
        if at.peek() != Some('=') {
            // A word that is not a parameter; skip to the next `;`.
            at.take_while(|c| c != ';');
            continue;
        }
        at.skip('=');
        at.blank();
        let value = if at.peek() == Some('"') { at.quoted() } else { at.bare() };
        // Anything between a value and the next `;` is ignored.
        at.blank();
        at.take_while(|c| c != ';');
        // After words that are not parameters, without a `;`.
        let name = name.split_whitespace().next_back().unwrap_or_default().to_ascii_lowercase();
        if !name.is_empty() {
            found.push(Parameter { name, value });
        }
    }
    found
}

/// A position in a value.
struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<char> {
        self.0.chars().next()
    }

    fn skip(&mut self, c: char) {
        self.0 = &self.0[c.len_utf8()..];
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let (taken, rest) = self.0.split_at(self.0.find(|c| !keep(c)).unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A token, in lower case, and the white space and comments around it.
    fn token(&mut self) -> Option<String> {
        self.blank();
        let token = self.take_while(|c| !c.is_ascii() || is_token(c as u8)).to_ascii_lowercase();
        self.blank();
        (!token.is_empty()).then_some(token)
    }

    /// Skips white space and comments.
    fn blank(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            match self.peek() {
                Some('(') => self.comment(),
                _ => return,
            }
        }
    }

    /// Skips a comment; nested ones are counted, not recursed into. An unclosed one ends the value.
    fn comment(&mut self) {
        let mut depth = 0usize;
        while let Some(c) = self.peek() {
            self.skip(c);
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                '\\' => {
                    if let Some(quoted) = self.peek() {
                        self.skip(quoted);
                    }
                }
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// A quoted-string, unquoted; an unclosed one extends to the end.
    fn quoted(&mut self) -> String {
        let mut value = String::new();
        self.skip('"');
        while let Some(c) = self.peek() {
            self.skip(c);
            match c {
                '"' => break,
                '\\' => {
                    if let Some(quoted) = self.peek() {
                        self.skip(quoted);
                        value.push(quoted);
                    }
                }
                _ => value.push(c),
            }
        }
        value
    }

    /// A value without quotes: up to `;`, inner spaces kept (unquoted file names are common),
    /// comments dropped.
    fn bare(&mut self) -> String {
        let mut value = String::new();
        while let Some(c) = self.peek() {
            match c {
                ';' => break,
                '(' if value.ends_with([' ', '\t']) => self.comment(),
                _ => {
                    value.push(c);
                    self.skip(c);
                }
            }
        }
        value.truncate(value.trim_end().len());
        value
    }
}

/// The value of the parameter `name` (lower case): RFC 2231 continuations joined, percent and
/// charset decoded; a plain value with its encoded-words decoded, which mail programs write against
/// RFC 2047 §5.
pub fn decoded(params: &[Parameter], name: &str) -> Option<String> {
    extended(params, name).or_else(|| {
        let plain = params.iter().find(|p| p.name == name)?;
        Some(word::decode(&plain.value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(value: &str) -> Vec<(String, String)> {
        content_type(value).unwrap().2.into_iter().map(|p| (p.name, p.value)).collect()
    }
    fn pair(name: &str, value: &str) -> (String, String) {
        (name.into(), value.into())
    }

    #[test]
    fn rfc_2045_examples() {
        let (t, s, p) = content_type("text/plain; charset=us-ascii (Plain text)").unwrap();
        assert_eq!((t.as_str(), s.as_str()), ("text", "plain"));
        assert_eq!(p, [Parameter::new("charset", "us-ascii")]);
        assert_eq!(params("Text/Plain; Charset=\"us-ascii\""), [pair("charset", "us-ascii")]);
    }

    #[test]
    fn broken_forms() {
        assert_eq!(params("a/b; name=My File.pdf; x"), [pair("name", "My File.pdf")]);
        assert_eq!(params("a/b; name=\"never closed; x=1"), [pair("name", "never closed; x=1")]);
        assert_eq!(params("a/b;; ; =x; b = \"q\\\"q\" junk; c=(no)d"), [pair("b", "q\"q"), pair("c", "d")]);
        assert_eq!(params("a/b (c;d(e)f\\)); x=1"), [pair("x", "1")]);
        assert_eq!(content_type("text"), None);
        assert_eq!(content_type("/x"), None);
        assert_eq!(content_type("te xt/plain"), None);
        assert_eq!(params("text/plain charset=x"), [pair("charset", "x")]);
        assert_eq!(params("a / b (c) junk d=e"), [pair("d", "e")]);
        assert_eq!(params("a/b/c; d=e"), [pair("d", "e")]);
        assert_eq!(disposition("ATTACHMENT; filename=x").unwrap().0, "attachment");
        assert_eq!(token(" Base64 (really)").unwrap(), "base64");
    }

    #[test]
    fn rfc_2231_forms() {
        let get = |value: &str, name: &str| decoded(&content_type(value).unwrap().2, name);
        let long = "message/external-body; access-type=URL; URL*0=\"ftp://\"; URL*1=\"cs.utk.edu/pub/moore/bulk-mailer/bulk-mailer.tar\"";
        assert_eq!(get(long, "url").unwrap(), "ftp://cs.utk.edu/pub/moore/bulk-mailer/bulk-mailer.tar");
        assert_eq!(
            get("a/b; title*=us-ascii'en-us'This%20is%20%2A%2A%2Afun%2A%2A%2A", "title").unwrap(),
            "This is ***fun***"
        );
        let mixed = "a/b; title*1*=%2A%2A%2Afun%2A%2A%2A%20; title*0*=us-ascii'en'This%20is%20even%20more%20; title*2=\"isn't it!\"";
        assert_eq!(get(mixed, "title").unwrap(), "This is even more ***fun*** isn't it!");
        assert_eq!(get("a/b; name=\"=?utf-8?Q?=C3=A9t=C3=A9?=\"", "name").unwrap(), "été");
        assert_eq!(get("a/b; name*=utf-8''%c3%a9; name=plain", "name").unwrap(), "é");
        assert_eq!(get("a/b; name*1=x; name=plain", "name").unwrap(), "plain");
        assert_eq!(get("a/b; name*0=a; name*2=c", "name").unwrap(), "a");
        assert_eq!(get("a/b", "name"), None);
    }

    #[test]
    fn parameters_are_limited() {
        let many = "; x=1".repeat(limits::MIME_PARAMETERS + 5);
        assert_eq!(params(&format!("a/b{many}")).len(), limits::MIME_PARAMETERS);
    }
}
