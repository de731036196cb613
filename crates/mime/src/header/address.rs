//! Address lists (RFC 5322 §3.4, obsolete forms of §4.4) in the form of IMAP's ENVELOPE (RFC 3501
//! §7.4.2).
//!
//! Names keep their encoded-words. `user@host (Full Name)`, older than display names, uses its
//! comment as the name.

use sealpost_base::limits;

use crate::envelope::Address;

/// The addresses and group marks in `value`, at most `limits::ENVELOPE_ADDRESSES`; the flag is set
/// if there were more.
pub fn parse_list(value: &str) -> (Vec<Address>, bool) {
    let mut parser = Parser { rest: value, found: Vec::new(), in_group: false, comment: None };
    parser.list();
    let more = parser.found.len() > limits::ENVELOPE_ADDRESSES;
    parser.found.truncate(limits::ENVELOPE_ADDRESSES);
    (parser.found, more)
}

struct Parser<'a> {
    rest: &'a str,
    found: Vec<Address>,
    in_group: bool,
    /// The first comment, for a field without anything else.
    comment: Option<String>,
}

/// The words before a delimiter, in their two possible meanings.
#[derive(Default)]
struct Words {
    /// As a display name: words with one space between them, quotes removed.
    phrase: String,
    /// As addr-specs: separated by white space, except around the dots and the `@` of an address.
    specs: Vec<Spec>,
    /// The last comment.
    comment: Option<String>,
}

/// An addr-spec while it is read: split at the last `@` outside of quotes.
#[derive(Default)]
struct Spec {
    text: String,
    at: Option<usize>,
    /// It ends with a separate dot.
    dot: bool,
}

impl Spec {
    fn into_parts(self) -> (String, String) {
        match self.at {
            Some(at) => (self.text[..at].to_owned(), self.text[at + 1..].to_owned()),
            None => (self.text, String::new()),
        }
    }

    /// Whether text after white space belongs to it (RFC 5322 §4.4, obs-local-part and obs-domain).
    fn goes_on(&self, next: &str) -> bool {
        let ended = self.dot || self.text.ends_with('@') || (self.at.is_some() && self.text.ends_with('.'));
        ended || next == "@" || next == "."
    }
}

impl Parser<'_> {
    fn list(&mut self) {
        while self.found.len() <= limits::ENVELOPE_ADDRESSES {
            let words = self.words("<,;:");
            match self.next() {
                // A group does not nest (RFC 5322 §3.4), and an address with a colon behind its `@`
                // starts none.
                Some(':') if !self.in_group && !words.is_empty() && !words.has_address() => {
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
        if self.found.is_empty() {
            self.found.extend(self.comment.take().map(Address::name_alone));
        }
    }

    fn end_group(&mut self) {
        if std::mem::take(&mut self.in_group) {
            self.found.push(Address::group_end());
        }
    }

    /// Words without angle brackets: addr-specs, and around them names whose brackets are missing.
    /// Several words without an address are a name alone.
    fn plain(&mut self, words: Words) {
        if words.is_empty() {
            return;
        }
        if !words.has_address() {
            match words.lone() {
                Ok(mailbox) => self.add(words.comment, None, (mailbox, String::new())),
                Err(phrase) => self.found.push(Address::name_alone(phrase)),
            }
            return;
        }
        let mut name = String::new();
        let mut comment = words.comment;
        for spec in words.specs {
            if spec.at.is_none() {
                push_word(&mut name, &spec.text);
            } else if self.found.len() <= limits::ENVELOPE_ADDRESSES {
                let name = Some(std::mem::take(&mut name)).filter(|name| !name.is_empty());
                self.add(name.or_else(|| comment.take()), None, spec.into_parts());
            }
        }
        if let Some(last) = self.found.last_mut().filter(|_| !name.is_empty()) {
            push_word(last.name.get_or_insert_default(), &name);
        }
    }

    /// The part after `<`: an optional route, an addr-spec, `>`; then everything up to the next
    /// delimiter is skipped.
    fn angle(&mut self, name: Words) {
        let mut words = self.words(">:");
        let mut adl = None;
        // obs-route (RFC 5322 §4.4): `<@a,@b:user@host>`.
        if self.rest.starts_with(':') && words.specs.first().is_some_and(|spec| spec.text.starts_with('@')) {
            self.next();
            adl = Some(words.specs.iter().map(|spec| spec.text.as_str()).collect());
            words = self.words(">");
        }
        self.next();
        let after = self.words(",;<");
        if self.rest.starts_with(',') {
            self.next();
        }
        let comment = name.comment.or(after.comment);
        let mut name = Some(name.phrase).filter(|n| !n.is_empty()).or(comment);
        if !words.has_address() {
            match words.lone() {
                Ok(mailbox) => self.add(name, adl, (mailbox, String::new())),
                Err(phrase) if name.is_none() => self.found.push(Address::name_alone(phrase)),
                Err(phrase) => self.add(name, adl, (phrase, String::new())),
            }
            return;
        }
        // Several: the bracket was not closed, or has words that are not part of an address.
        let mut inner = String::new();
        for mut spec in words.specs {
            spec.text.truncate(spec.text.trim_end_matches([',', ';']).len());
            if spec.at.is_none() {
                push_word(&mut inner, &spec.text);
            } else if self.found.len() <= limits::ENVELOPE_ADDRESSES {
                let inner = Some(std::mem::take(&mut inner)).filter(|inner| !inner.is_empty());
                self.add(name.take().or(inner), adl.take(), spec.into_parts());
            }
        }
    }

    fn add(&mut self, name: Option<String>, adl: Option<String>, (mailbox, host): (String, String)) {
        self.found.push(Address { name, adl, mailbox: Some(mailbox), host: Some(host) });
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    /// Reads words up to one of the delimiters, which is not consumed, or to the end.
    fn words(&mut self, delimiters: &str) -> Words {
        let mut words = Words::default();
        let mut space = false;
        while let Some(c) = self.rest.chars().next() {
            if delimiters.contains(c) {
                break;
            }
            match c {
                '(' => {
                    self.next();
                    let comment = self.comment();
                    if !comment.is_empty() {
                        self.comment.get_or_insert_with(|| comment.clone());
                        words.comment = Some(comment);
                    }
                }
                c if c.is_whitespace() => {
                    self.next();
                    space = true;
                }
                '"' => {
                    self.next();
                    let quoted = self.quoted();
                    words.add(&quoted, std::mem::take(&mut space));
                }
                '[' => {
                    self.next();
                    let literal = self.domain_literal();
                    words.add(&literal, std::mem::take(&mut space));
                }
                '@' | '.' => {
                    self.next();
                    words.add(if c == '@' { "@" } else { "." }, std::mem::take(&mut space));
                    if c == '@' {
                        words.note_at();
                    }
                }
                _ => {
                    let end = self
                        .rest
                        .find(|c: char| "(\"[@.".contains(c) || c.is_whitespace() || delimiters.contains(c));
                    let (atom, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                    self.rest = rest;
                    words.add(atom, std::mem::take(&mut space));
                }
            }
        }
        words
    }

    /// The rest of a quoted-string, unquoted; an unclosed one extends to the end.
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
            // Not closed: the delimiters of the list apply again.
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
        let alone = space && text == ".";
        match self.specs.last_mut().filter(|last| !space || last.goes_on(text)) {
            Some(last) => {
                last.text.push_str(text);
                last.dot = alone;
            }
            None => self.specs.push(Spec { text: text.to_owned(), at: None, dot: alone }),
        }
    }

    /// Records that the last character is an `@` outside of quotes.
    fn note_at(&mut self) {
        if let Some(last) = self.specs.last_mut() {
            last.at = Some(last.text.len() - 1);
        }
    }

    fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    fn has_address(&self) -> bool {
        self.specs.iter().any(|spec| spec.at.is_some())
    }

    /// One word without white space in it, which is a mailbox; else the phrase.
    fn lone(&self) -> Result<String, String> {
        match &self.specs[..] {
            [] => Ok(String::new()),
            [one] if !one.text.contains(char::is_whitespace) => Ok(one.text.clone()),
            _ => Err(self.phrase.clone()),
        }
    }
}

fn push_word(words: &mut String, word: &str) {
    if !words.is_empty() {
        words.push(' ');
    }
    words.push_str(word);
}

#[cfg(test)]
mod tests;
