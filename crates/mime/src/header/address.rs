//! Address lists (RFC 5322 §3.4, obsolete forms of §4.4) as IMAP's ENVELOPE wants them (RFC 3501 §7.4.2).
//!
//! Names keep their encoded-words. `user@host (Full Name)`, older than display names, gives its comment as the name.

use sealpost_base::limits;

use crate::envelope::Address;

/// The addresses and group marks in `value`, at most `limits::ENVELOPE_ADDRESSES`; the flag tells that there were more.
pub fn parse_list(value: &str) -> (Vec<Address>, bool) {
    let mut parser = Parser { rest: value, found: Vec::new(), in_group: false };
    parser.list();
    let more = parser.found.len() > limits::ENVELOPE_ADDRESSES;
    parser.found.truncate(limits::ENVELOPE_ADDRESSES);
    (parser.found, more)
}

struct Parser<'a> {
    rest: &'a str,
    found: Vec<Address>,
    in_group: bool,
}

/// The words before a delimiter, in the two ways they may be meant.
#[derive(Default)]
struct Words {
    /// As a display name: words with one space between them, quotes removed.
    phrase: String,
    /// As an addr-spec: everything but white space and comments.
    spec: Spec,
    /// The last comment.
    comment: Option<String>,
    /// There was anything at all.
    any: bool,
}

/// An addr-spec while it is read: split at the last `@` outside of quotes.
#[derive(Default)]
struct Spec {
    text: String,
    at: Option<usize>,
}

impl Spec {
    fn into_parts(self) -> (String, String) {
        match self.at {
            Some(at) => (self.text[..at].to_owned(), self.text[at + 1..].to_owned()),
            None => (self.text, String::new()),
        }
    }
}

impl Parser<'_> {
    fn list(&mut self) {
        while self.found.len() <= limits::ENVELOPE_ADDRESSES {
            let words = self.words("<,;:");
            match self.next() {
                // A group does not nest (RFC 5322 §3.4), and an address with a colon behind its `@` starts none.
                Some(':') if !self.in_group && words.any && words.spec.at.is_none() => {
                    self.found.push(Address::group_start(words.phrase));
                    self.in_group = true;
                }
                Some('<') => self.angle(words),
                Some(':') => {}
                delimiter => {
                    self.plain(words);
                    match delimiter {
                        Some(';') => self.end_group(),
                        None => break,
                        _ => {}
                    }
                }
            }
        }
        self.end_group();
    }

    fn end_group(&mut self) {
        if std::mem::take(&mut self.in_group) {
            self.found.push(Address::group_end());
        }
    }

    /// An addr-spec without angle brackets.
    fn plain(&mut self, words: Words) {
        if !words.any {
            return;
        }
        let (mailbox, host) = words.spec.into_parts();
        self.found.push(Address { name: words.comment, adl: None, mailbox: Some(mailbox), host: Some(host) });
    }

    /// What follows `<`: an optional route, an addr-spec, `>`; then everything up to the next delimiter is passed over.
    fn angle(&mut self, name: Words) {
        let mut words = self.words(">:");
        let mut adl = None;
        // obs-route (RFC 5322 §4.4): `<@a,@b:user@host>`.
        if self.rest.starts_with(':') && words.spec.text.starts_with('@') {
            self.next();
            adl = Some(words.spec.text);
            words = self.words(">");
        }
        self.next();
        let after = self.words(",;<");
        if self.rest.starts_with(',') {
            self.next();
        }
        let comment = name.comment.or(after.comment);
        let name = Some(name.phrase).filter(|n| !n.is_empty()).or(comment);
        let (mailbox, host) = words.spec.into_parts();
        self.found.push(Address { name, adl, mailbox: Some(mailbox), host: Some(host) });
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    /// Reads words up to one of the delimiters, which is left, or to the end.
    fn words(&mut self, delimiters: &str) -> Words {
        let mut words = Words::default();
        let mut space = false;
        while let Some(c) = self.rest.chars().next() {
            if delimiters.contains(c) {
                break;
            }
            self.next();
            match c {
                '(' => words.comment = Some(self.comment()).filter(|c| !c.is_empty()).or(words.comment),
                c if c.is_whitespace() => space = true,
                '"' => {
                    let quoted = self.quoted();
                    words.add(&quoted, std::mem::take(&mut space));
                }
                '[' => {
                    let literal = self.domain_literal();
                    words.add(&literal, std::mem::take(&mut space));
                }
                c => {
                    if c == '@' {
                        words.spec.at = Some(words.spec.text.len());
                    }
                    words.add(c.encode_utf8(&mut [0; 4]), std::mem::take(&mut space));
                }
            }
        }
        words
    }

    /// The rest of a quoted-string, unquoted; one that is never closed goes to the end.
    fn quoted(&mut self) -> String {
        let mut text = String::new();
        while let Some(c) = self.next() {
            match c {
                '"' => break,
                '\\' => text.extend(self.next()),
                c => text.push(c),
            }
        }
        text
    }

    /// The rest of a comment; nested parentheses are kept and counted.
    fn comment(&mut self) -> String {
        let mut text = String::new();
        let mut depth = 1usize;
        while let Some(c) = self.next() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                '\\' => {
                    text.extend(self.next());
                    continue;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
            text.push(c);
        }
        text.trim().to_owned()
    }

    /// A domain-literal, brackets included.
    fn domain_literal(&mut self) -> String {
        let mut text = String::from("[");
        while let Some(c) = self.rest.chars().next() {
            // Not closed: the delimiters of the list count again.
            if matches!(c, ',' | '>' | ';') {
                break;
            }
            self.next();
            text.push(c);
            if c == ']' {
                break;
            }
        }
        text
    }
}

impl Words {
    fn add(&mut self, text: &str, space: bool) {
        if space && !self.phrase.is_empty() {
            self.phrase.push(' ');
        }
        self.phrase.push_str(text);
        self.spec.text.push_str(text);
        self.any = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name|adl|mailbox|host`, `-` for NIL.
    fn list(value: &str) -> Vec<String> {
        let show = |field: &Option<String>| field.clone().unwrap_or_else(|| "-".into());
        parse_list(value)
            .0
            .iter()
            .map(|a| [&a.name, &a.adl, &a.mailbox, &a.host].map(show).join("|"))
            .collect()
    }

    #[test]
    fn rfc_5322_appendix_a() {
        assert_eq!(list("John Doe <jdoe@machine.example>"), ["John Doe|-|jdoe|machine.example"]);
        assert_eq!(
            list("\"Joe Q. Public\" <john.q.public@example.com>"),
            ["Joe Q. Public|-|john.q.public|example.com"]
        );
        assert_eq!(
            list("Mary Smith <mary@x.test>, jdoe@example.org, Who? <one@y.test>"),
            ["Mary Smith|-|mary|x.test", "-|-|jdoe|example.org", "Who?|-|one|y.test"]
        );
        assert_eq!(
            list("<boss@nil.test>, \"Giant; \\\"Big\\\" Box\" <sysservices@example.net>"),
            ["-|-|boss|nil.test", "Giant; \"Big\" Box|-|sysservices|example.net"]
        );
        assert_eq!(
            list("A Group:Ed Jones <c@a.test>,joe@where.test,John <jdoe@one.test>;"),
            ["-|-|A Group|-", "Ed Jones|-|c|a.test", "-|-|joe|where.test", "John|-|jdoe|one.test", "-|-|-|-"]
        );
        assert_eq!(list("Undisclosed recipients:;"), ["-|-|Undisclosed recipients|-", "-|-|-|-"]);
        assert_eq!(
            list("Pete(A nice \\) chap) <pete(his account)@silly.test(his host)>"),
            ["Pete|-|pete|silly.test"]
        );
        assert_eq!(
            list(
                "A Group(Some people)\r\n     :Chris Jones <c@(Chris's host.)public.example>,\r\n         joe@example.org,\r\n  John <jdoe@one.test> (my dear friend); (the end of the group)"
            ),
            [
                "-|-|A Group|-",
                "Chris Jones|-|c|public.example",
                "-|-|joe|example.org",
                "John|-|jdoe|one.test",
                "-|-|-|-"
            ]
        );
        assert_eq!(
            list("Joe Q. Public <john.q.public@example.com>"),
            ["Joe Q. Public|-|john.q.public|example.com"]
        );
        assert_eq!(
            list("Mary Smith <@node.test,@x:mary@example.net>, , jdoe@test . example"),
            ["Mary Smith|@node.test,@x|mary|example.net", "-|-|jdoe|test.example"]
        );
    }

    #[test]
    fn old_and_broken_forms() {
        assert_eq!(list("user@host (Full Name)"), ["Full Name|-|user|host"]);
        assert_eq!(list("=?utf-8?q?a=2C_b?= <a@b>"), ["=?utf-8?q?a=2C_b?=|-|a|b"]);
        assert_eq!(list("root"), ["-|-|root|"]);
        assert_eq!(list("X <a@b:25>, c@d"), ["X|-|a|b", "-|-|c|d"]);
        assert_eq!(list("<>"), ["-|-||"]);
        assert_eq!(list("\"a@b\"@c"), ["-|-|a@b|c"]);
        assert_eq!(list("a@[127.0.0.1]"), ["-|-|a|[127.0.0.1]"]);
        assert_eq!(list("a@[IPv6:::1], b@c"), ["-|-|a|[IPv6:::1]", "-|-|b|c"]);
        assert_eq!(list("Bad <a@b, c@d"), ["Bad|-|a@b,c|d"]);
        assert_eq!(list("a@b c@d"), ["-|-|a@bc|d"]);
        assert_eq!(list(""), [""; 0]);
        assert_eq!(list(",, ;"), [""; 0]);
        assert_eq!(list("group: a@b"), ["-|-|group|-", "-|-|a|b", "-|-|-|-"]);
        assert_eq!(list("(only a comment)"), [""; 0]);
    }

    #[test]
    fn addresses_are_limited() {
        let (found, more) = parse_list(&"a@b,".repeat(limits::ENVELOPE_ADDRESSES + 1));
        assert!(more && found.len() == limits::ENVELOPE_ADDRESSES);
        let (found, more) = parse_list(&"a@b,".repeat(limits::ENVELOPE_ADDRESSES));
        assert!(!more && found.len() == limits::ENVELOPE_ADDRESSES);
    }
}
