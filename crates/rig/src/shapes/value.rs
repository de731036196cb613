//! Values in the format of Rust's `Debug`, which the published trace uses.

use anyhow::{Context, Result, bail, ensure};

/// The deepest nesting of values.
const DEPTH: usize = 32;

/// One value of a log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `Inbox`, `22`, `2024-02-07`, and `REDACTED` in any form.
    Word(String),
    /// A quoted text.
    Text(String),
    /// `Since(2024-02-07)`.
    Call(String, Vec<Value>),
    /// `Fetch { uid: true }`.
    Fields(String, Vec<(String, Value)>),
    /// `[…]`, `[…]+` and `(…)`.
    List(Vec<Value>),
}

impl Value {
    /// Reads one line. The trace has one brace too many at the end of most lines.
    ///
    /// # Errors
    /// Where the line has another form.
    pub fn parse(line: &str) -> Result<Self> {
        let mut reader = Reader { rest: line.trim() };
        let value = reader.value(0).with_context(|| format!("before {:?}", shortened(reader.rest)))?;
        let rest = reader.rest.trim();
        ensure!(rest.is_empty() || rest == "}", "{:?} after the end", shortened(rest));
        Ok(value)
    }

    /// Its name: the word itself, or the part before the parentheses or braces.
    pub fn name(&self) -> &str {
        match self {
            Value::Word(name) | Value::Call(name, _) | Value::Fields(name, _) => name,
            Value::Text(_) | Value::List(_) => "",
        }
    }

    /// The field of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn field(&self, name: &str) -> Result<&Value> {
        let Value::Fields(_, fields) = self else { bail!("{} has no fields", self.name()) };
        let found = fields.iter().find(|(field, _)| field == name);
        Ok(&found.with_context(|| format!("{} has no {name}", self.name()))?.1)
    }

    /// The values inside parentheses or brackets.
    pub fn inside(&self) -> &[Value] {
        match self {
            Value::Call(_, inside) | Value::List(inside) => inside,
            _ => &[],
        }
    }

    /// The first text inside, at any depth: `Other(MailboxOther(Atom(AtomExt("Sent"))))` is `Sent`.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            Value::Word(_) => None,
            Value::Fields(_, fields) => fields.iter().find_map(|(_, value)| value.text()),
            Value::Call(_, inside) | Value::List(inside) => inside.iter().find_map(Value::text),
        }
    }
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value> {
        ensure!(depth < DEPTH, "nested too deep");
        if self.takes("/*") {
            let end = self.rest.find("*/").context("a comment without an end")?;
            self.rest = &self.rest[end + 2..];
            return Ok(Value::Word("REDACTED".into()));
        }
        if self.takes("\"") {
            return self.quoted();
        }
        if self.takes("[") {
            let list = self.until("]", depth)?;
            self.takes("+");
            return Ok(Value::List(list));
        }
        if self.takes("(") {
            return Ok(Value::List(self.until(")", depth)?));
        }
        let name = self.word();
        ensure!(!name.is_empty(), "no value");
        if self.takes("(") {
            return Ok(Value::Call(name, self.until(")", depth)?));
        }
        if self.takes("{") {
            return Ok(Value::Fields(name, self.fields(depth)?));
        }
        Ok(Value::Word(name))
    }

    fn fields(&mut self, depth: usize) -> Result<Vec<(String, Value)>> {
        let mut fields = Vec::new();
        while !self.takes("}") {
            let (name, rest) = self.rest.split_once(':').context("a field without a colon")?;
            let name = name.trim().to_owned();
            self.rest = rest;
            fields.push((name, self.value(depth + 1)?));
            self.takes(",");
        }
        Ok(fields)
    }

    fn until(&mut self, close: &str, depth: usize) -> Result<Vec<Value>> {
        let mut values = Vec::new();
        while !self.takes(close) {
            values.push(self.value(depth + 1)?);
            self.takes(",");
        }
        Ok(values)
    }

    fn quoted(&mut self) -> Result<Value> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(Value::Text(text));
                }
                '\\' => text.extend(chars.next().map(|(_, c)| c)),
                c => text.push(c),
            }
        }
        bail!("a text without its closing quote")
    }

    /// A name, a number, a date or a date with a time.
    fn word(&mut self) -> String {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_-:+.".contains(c)));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word.to_owned()
    }

    fn takes(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_form_of_the_trace() {
        assert_eq!(Value::parse("Noop ").unwrap(), Value::Word("Noop".into()));
        let value = Value::parse(
            r#"Append { mailbox: Other(MailboxOther(Atom(AtomExt("Se\"nt")))), flags: [Seen, Draft], date: Some(2024-02-14T14:12:35+01:00), message: REDACTED } }"#,
        )
        .unwrap();
        assert_eq!(value.name(), "Append");
        assert_eq!(value.field("mailbox").unwrap().text(), Some("Se\"nt"));
        assert_eq!(value.field("flags").unwrap().inside().len(), 2);
        assert_eq!(value.field("date").unwrap().inside()[0].name(), "2024-02-14T14:12:35+01:00");
        assert!(value.field("uid").is_err());
        let login =
            Value::parse("Login { username: Atom(AtomExt(\"R\")), password: /* REDACTED */ } }").unwrap();
        assert_eq!(login.field("password").unwrap().name(), "REDACTED");
    }

    #[test]
    fn refuses_truncated_and_deeply_nested_values() {
        for line in ["", "Fetch { uid", "Fetch { uid: [Flags", "X(\"a", "Noop x", "/* a", &"(".repeat(10_000)]
        {
            assert!(Value::parse(line).is_err(), "{line:.20}");
        }
    }
}
