//! Content-Type and Content-Disposition: a value and its parameters (RFC 2045 §5.1, RFC 2183, RFC 2231).

use minicbor::{Decode, Encode};
use sealpost_base::limits;

use super::word;
use crate::decode::charset;

/// A parameter as written: the name in lower case, the value unquoted and not decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Parameter {
    /// The name, lower case, with the `*` and `*0*` of RFC 2231 if they are there.
    #[n(0)]
    pub name: String,
    /// The value, quotes removed.
    #[n(1)]
    pub value: String,
}

impl Parameter {
    /// A parameter with this name and value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Parameter { name: name.into(), value: value.into() }
    }
}

/// A media type and its parameters, type and subtype in lower case; `None` if the value has no `type/subtype`.
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

/// What stands before the first `;`, comments removed, and what follows it.
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
            // A word that is no parameter; pass over it to the next `;`.
            at.take_while(|c| c != ';');
            continue;
        }
        at.skip('=');
        at.blank();
        let value = if at.peek() == Some('"') { at.quoted() } else { at.bare() };
        // Whatever stands between a value and the next `;` is ignored.
        at.blank();
        at.take_while(|c| c != ';');
        // After words that are no parameter, without a `;`.
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

    /// Passes over white space and comments.
    fn blank(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            match self.peek() {
                Some('(') => self.comment(),
                _ => return,
            }
        }
    }

    /// Passes over a comment; nested ones are counted, not recursed into. An unclosed one ends the value.
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

    /// A quoted-string, unquoted; one that is never closed goes to the end.
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

    /// A value without quotes: up to `;`, inner spaces kept (unquoted file names are common), comments dropped.
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

/// The value of the parameter `name` (lower case): RFC 2231 continuations put together, percent and charset decoded; a
/// plain value with its encoded-words decoded, as mail programs write them against RFC 2047 §5.
pub fn decoded(params: &[Parameter], name: &str) -> Option<String> {
    extended(params, name).or_else(|| {
        let plain = params.iter().find(|p| p.name == name)?;
        Some(word::decode(&plain.value))
    })
}

/// How [`joined`] writes the values that it puts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Charset and percent encoding stay: text of seven bits, as IMAP4rev1 needs it.
    Encoded,
    /// UTF-8 (RFC 9051 §7.5.2).
    Decoded,
}

/// The parameters with those of RFC 2231 put together (§6: servers SHOULD do so), each where the first of its sections
/// stands. A value that has a charset keeps the `*` behind its name, which says so. Sections that are missing end a value; what
/// stands behind such a gap, or stands there twice, is left as it is written.
pub fn joined(params: &[Parameter], form: Form) -> Vec<Parameter> {
    let mut found: Vec<Parameter> = Vec::with_capacity(params.len());
    let mut taken = vec![false; params.len()];
    for (at, param) in params.iter().enumerate() {
        if taken[at] {
            continue;
        }
        let name = param.name.split_once('*').map(|(name, _)| name);
        let sections = name.map_or_else(Vec::new, |name| sections(params, name));
        let here = sections.iter().any(|section| section.at == at);
        match name.filter(|_| here) {
            Some(name) => {
                sections.iter().for_each(|section| taken[section.at] = true);
                let star = if sections.iter().any(|section| section.percent) { "*" } else { "" };
                let value = match form {
                    Form::Encoded => encoded_value(&sections),
                    Form::Decoded => decoded_value(&sections),
                };
                found.push(Parameter::new(format!("{name}{star}"), value));
            }
            None => found.push(param.clone()),
        }
    }
    found
}

/// One section of a value that is cut in pieces (RFC 2231 §3).
struct Section<'a> {
    number: usize,
    /// It is percent-encoded (§4).
    percent: bool,
    value: &'a str,
    /// Which of the parameters it is.
    at: usize,
}

/// `name*`, or `name*0`, `name*1`, … in order (RFC 2231 §3, §4), as far as none is missing.
fn sections<'a>(params: &'a [Parameter], name: &str) -> Vec<Section<'a>> {
    let section = |at: usize, param: &'a Parameter| {
        let rest = param.name.strip_prefix(name)?.strip_prefix('*')?;
        let (digits, percent) = match rest.strip_suffix('*') {
            Some(digits) => (digits, true),
            None => (rest, rest.is_empty()),
        };
        let number = match digits {
            "" => 0,
            _ if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
            _ => return None,
        };
        Some(Section { number, percent, value: &param.value, at })
    };
    let mut sections: Vec<Section> =
        params.iter().enumerate().filter_map(|(at, param)| section(at, param)).collect();
    sections.sort_by_key(|section| section.number);
    sections.dedup_by_key(|section| section.number);
    // A gap ends the value: what comes after it would be put in the wrong place.
    let whole =
        sections.iter().enumerate().take_while(|(expected, section)| section.number == *expected).count();
    sections.truncate(whole);
    sections
}

fn extended(params: &[Parameter], name: &str) -> Option<String> {
    let sections = sections(params, name);
    (!sections.is_empty()).then(|| decoded_value(&sections))
}

fn decoded_value(sections: &[Section]) -> String {
    let mut charset = None;
    let mut bytes = Vec::new();
    for Section { number, percent, value, .. } in sections {
        let mut value = *value;
        if *number == 0 && *percent {
            // charset'language'value
            let mut pieces = value.splitn(3, '\'');
            if let (Some(label), Some(_), Some(rest)) = (pieces.next(), pieces.next(), pieces.next()) {
                charset = Some(label).filter(|label| !label.is_empty());
                value = rest;
            }
        }
        if *percent { percent_decode(value, &mut bytes) } else { bytes.extend(value.as_bytes()) }
    }
    charset::decode(charset, &bytes)
}

/// The values one behind the other. If one is percent-encoded, all are then.
fn encoded_value(sections: &[Section]) -> String {
    let percent = sections.iter().any(|section| section.percent);
    let mut out = String::new();
    if percent && sections.first().is_some_and(|first| !first.percent) {
        // No charset and no language.
        out.push_str("''");
    }
    for section in sections {
        if section.percent || !percent {
            out.push_str(section.value);
        } else {
            percent_encode(section.value, &mut out);
        }
    }
    out
}

/// Everything but `attribute-char` (RFC 2231 §7) becomes `%` and two digits.
fn percent_encode(value: &str, out: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii() && is_token(byte) && !matches!(byte, b'*' | b'\'' | b'%') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

fn percent_decode(value: &str, out: &mut Vec<u8>) {
    let mut bytes = value.as_bytes();
    while let Some((&byte, rest)) = bytes.split_first() {
        bytes = rest;
        let digit = |i: usize| rest.get(i).and_then(|b| (*b as char).to_digit(16));
        if byte == b'%'
            && let (Some(high), Some(low)) = (digit(0), digit(1))
        {
            out.push((high << 4 | low) as u8);
            bytes = &rest[2..];
        } else {
            out.push(byte);
        }
    }
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
    fn continuations_are_joined_as_imap4rev2_wants_them() {
        let join = |value: &str| -> Vec<(String, String)> {
            let params = content_type(value).unwrap().2;
            joined(&params, Form::Decoded).into_iter().map(|p| (p.name, p.value)).collect()
        };
        assert_eq!(
            join("a/b; x=1; baz*1=b; y=2; baz*0=a; baz*2=c"),
            [pair("x", "1"), pair("baz", "abc"), pair("y", "2")]
        );
        assert_eq!(join("a/b; foo*0*=iso-8859-1''Gr%FC; foo*1*=%DFe"), [pair("foo*", "Grüße")]);
        assert_eq!(join("a/b; name=x; name*=utf-8'de'%C3%BC"), [pair("name", "x"), pair("name*", "ü")]);
        assert_eq!(join("a/b; foo*1=b; foo*2=c"), [pair("foo*1", "b"), pair("foo*2", "c")]);
        assert_eq!(
            join("a/b; foo*0=a; foo*2=c; food*0=d"),
            [pair("foo", "a"), pair("foo*2", "c"), pair("food", "d")]
        );
    }

    #[test]
    fn encoded_values_stay_encoded_when_they_are_joined() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let join = |value: &str| -> Vec<(String, String)> {
            let params = content_type(value).unwrap().2;
            joined(&params, Form::Encoded).into_iter().map(|p| (p.name, p.value)).collect()
        };
        for (value, expected) in [
            ("a/b; name*0=long; name*1=er.pdf", &[pair("name", "longer.pdf")][..]),
            ("a/b; n*0*=utf-8''one%20; n*1*=two.pdf", &[pair("n*", "utf-8''one%20two.pdf")]),
            ("a/b; n*1=b.pdf; n*0=a; x=y", &[pair("n", "ab.pdf"), pair("x", "y")]),
            ("a/b; n*0=\"a \\\"b\"; n*1=\"c; d.pdf\"", &[pair("n", "a \"bc; d.pdf")]),
            ("a/b; n*0*=utf-8''%C3%BC; n*1=b.pdf", &[pair("n*", "utf-8''%C3%BCb.pdf")]),
            ("a/b; n*0*=utf-8''a; n*1=\"100% (b)\"", &[pair("n*", "utf-8''a100%25%20%28b%29")]),
            ("a/b; n*0=a; n*1*=%20b", &[pair("n*", "''a%20b")]),
            ("a/b; n*=utf-8''one%20two.pdf", &[pair("n*", "utf-8''one%20two.pdf")]),
            ("a/b; n=plain; n*0=a; n*1=b", &[pair("n", "plain"), pair("n", "ab")]),
            ("a/b; n*0=a; n*2=c", &[pair("n", "a"), pair("n*2", "c")]),
            ("a/b; n*1=b", &[pair("n*1", "b")]),
            ("a/b; n*0=a; n*0=x; n*1=b", &[pair("n", "ab"), pair("n*0", "x")]),
            ("a/b; n*0=a; n*+1=b; n*x=c", &[pair("n", "a"), pair("n*+1", "b"), pair("n*x", "c")]),
            ("a/b; n*0=a; n*99999999999999999999=b", &[pair("n", "a"), pair("n*99999999999999999999", "b")]),
        ] {
            assert_eq!(join(value), expected, "{value}");
        }
        let many: String = (0..limits::MIME_PARAMETERS + 50).rev().map(|n| format!("; n*{n}=x")).collect();
        let found = join(&format!("a/b{many}"));
        assert!(found.len() <= limits::MIME_PARAMETERS);
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
