//! HTML to text, streaming: for search and preview, not for display.
//!
//! Tags and comments are dropped, script and style with all they hold; character references are decoded, `alt` texts kept.
//! Runs of white space are one space, blocks begin a line. No tree is built and nothing is recursed into, so nesting costs
//! nothing; every buffer is a few dozen bytes.

mod entity;

pub use entity::decode_references;

/// Longest tag name, attribute name or character reference that is told apart; a longer one is none that matters.
const NAME_BYTES: usize = 32;
/// Bytes of an `alt` text that are kept.
const ALT_BYTES: usize = 512;

/// Elements that begin a line of their own.
const BLOCKS: [&str; 36] = [
    "p",
    "div",
    "br",
    "tr",
    "li",
    "ul",
    "ol",
    "dl",
    "dt",
    "dd",
    "table",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "blockquote",
    "pre",
    "hr",
    "section",
    "article",
    "header",
    "footer",
    "title",
    "body",
    "center",
    "form",
    "figure",
    "address",
    "caption",
    "head",
    "html",
    "main",
    "nav",
    "aside",
];

/// Turns one HTML text that arrives in pieces into plain text.
#[derive(Debug, Default)]
pub struct HtmlText {
    state: State,
    gap: Gap,
    started: bool,
    /// The name of the tag or attribute, or the reference, that is being read.
    name: String,
    closing: bool,
    /// Inside an element whose content is not text: wait for its closing tag.
    raw: Option<&'static str>,
    alt: Option<String>,
}

/// What separates the next visible character from the last one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After `&`.
    Reference,
    /// After `<`.
    Open,
    TagName,
    /// Inside a tag, between attributes.
    Tag,
    AttributeName,
    /// After an attribute name and `=`.
    Value,
    /// Inside a value; the quote that ends it, or none.
    Inside(Option<char>),
    /// `<!…>` or `<?…>`, with the number of dashes seen at its start.
    Declaration(u8),
    /// `<!-- … -->`, with the number of dashes just seen.
    Comment(u8),
}

impl HtmlText {
    /// Appends the text of the next piece.
    pub fn push(&mut self, piece: &str, out: &mut String) {
        let mut rest = piece;
        while !rest.is_empty() {
            if self.state == State::Text {
                let plain =
                    rest.bytes().position(|b| matches!(b, b'<' | b'&' | b' ' | b'\t' | b'\n' | b'\r' | 0x0c));
                let (run, more) = rest.split_at(plain.unwrap_or(rest.len()));
                if !run.is_empty() && self.raw.is_none() {
                    self.visible(run, out);
                }
                rest = more;
            }
            let Some(c) = rest.chars().next() else { return };
            rest = &rest[c.len_utf8()..];
            self.step(c, out);
        }
    }

    /// Ends the text; a reference that was cut short is shown as it is.
    pub fn finish(mut self, out: &mut String) {
        if self.state == State::Reference {
            self.reference(out);
        }
    }

    /// Puts out visible text, after the gap that separates it.
    fn visible(&mut self, text: &str, out: &mut String) {
        match std::mem::take(&mut self.gap) {
            _ if !self.started => {}
            Gap::None => {}
            Gap::Space => out.push(' '),
            Gap::Line => out.push('\n'),
        }
        self.started = true;
        out.push_str(text);
    }

    fn widen(&mut self, gap: Gap) {
        self.gap = self.gap.max(gap);
    }

    fn step(&mut self, c: char, out: &mut String) {
        use State::*;
        self.state = match self.state {
            Text => match c {
                '<' => Open,
                '&' if self.raw.is_none() => {
                    self.name.clear();
                    Reference
                }
                _ => {
                    self.widen(Gap::Space);
                    Text
                }
            },
            Reference if (c.is_ascii_alphanumeric() || c == '#') && self.name.len() < NAME_BYTES => {
                self.name.push(c);
                Reference
            }
            Reference => {
                self.reference(out);
                self.state = Text;
                if c != ';' || self.name.is_empty() {
                    self.again(c, out);
                }
                return;
            }
            Open => return self.open(c, out),
            TagName if c.is_ascii_alphanumeric() => {
                self.note(c);
                TagName
            }
            TagName => return self.tag_named(c, out),
            Tag => return self.inside_tag(c),
            AttributeName if c == '=' => Value,
            AttributeName if c.is_ascii_whitespace() || c == '>' || c == '/' => return self.inside_tag(c),
            AttributeName => {
                self.note(c);
                AttributeName
            }
            Value => match c {
                '"' | '\'' => {
                    self.begin_value();
                    Inside(Some(c))
                }
                '>' => return self.inside_tag(c),
                _ if c.is_ascii_whitespace() => Value,
                _ => {
                    self.begin_value();
                    self.in_value(c);
                    Inside(None)
                }
            },
            Inside(Some(quote)) if c == quote => {
                self.end_value(out);
                Tag
            }
            Inside(None) if c.is_ascii_whitespace() || c == '>' => {
                self.end_value(out);
                return self.inside_tag(c);
            }
            Inside(quote) => {
                self.in_value(c);
                Inside(quote)
            }
            Declaration(1) if c == '-' => Comment(2),
            Declaration(0) if c == '-' => Declaration(1),
            Declaration(_) => {
                if c == '>' {
                    Text
                } else {
                    Declaration(2)
                }
            }
            Comment(dashes) => match c {
                '>' if dashes >= 2 => Text,
                '-' => Comment((dashes + 1).min(2)),
                _ => Comment(0),
            },
        };
    }

    /// Takes a character that ended something and is text itself.
    fn again(&mut self, c: char, out: &mut String) {
        if matches!(c, '<' | '&') || c.is_ascii_whitespace() {
            self.step(c, out);
        } else if self.raw.is_none() {
            self.visible(c.encode_utf8(&mut [0; 4]), out);
        }
    }

    fn open(&mut self, c: char, out: &mut String) {
        self.name.clear();
        self.closing = false;
        self.state = match c {
            '/' => {
                self.closing = true;
                State::TagName
            }
            '!' if self.raw.is_none() => State::Declaration(0),
            '?' if self.raw.is_none() => State::Declaration(2),
            _ if c.is_ascii_alphabetic() && self.raw.is_none() => {
                self.note(c);
                State::TagName
            }
            _ => {
                self.state = State::Text;
                if self.raw.is_none() {
                    self.visible("<", out);
                }
                return self.again(c, out);
            }
        };
    }

    /// The name of the tag is known; `c` ended it.
    fn tag_named(&mut self, c: char, out: &mut String) {
        let name = self.name.as_str();
        match self.raw {
            Some(raw) if raw == name => self.raw = None,
            // Inside script and style everything but their own closing tag is code.
            Some(_) => {
                self.state = State::Text;
                return self.again(c, out);
            }
            None => match name {
                "script" if !self.closing => self.raw = Some("script"),
                "style" if !self.closing => self.raw = Some("style"),
                "td" | "th" | "img" | "input" | "option" => self.widen(Gap::Space),
                _ if BLOCKS.contains(&name) => self.widen(Gap::Line),
                _ => {}
            },
        }
        self.inside_tag(c);
    }

    fn inside_tag(&mut self, c: char) {
        self.state = match c {
            '>' => State::Text,
            '/' => State::Tag,
            _ if c.is_ascii_whitespace() => State::Tag,
            _ => {
                self.name.clear();
                self.note(c);
                State::AttributeName
            }
        };
    }

    fn note(&mut self, c: char) {
        if self.name.len() < NAME_BYTES {
            self.name.push(c.to_ascii_lowercase());
        }
    }

    fn begin_value(&mut self) {
        self.alt = (self.name == "alt" && self.raw.is_none()).then(String::new);
    }

    fn in_value(&mut self, c: char) {
        if let Some(alt) = &mut self.alt
            && alt.len() < ALT_BYTES
        {
            alt.push(c);
        }
    }

    fn end_value(&mut self, out: &mut String) {
        let Some(alt) = self.alt.take() else { return };
        for word in decode_references(&alt).split_whitespace() {
            self.widen(Gap::Space);
            self.visible(word, out);
        }
        self.widen(Gap::Space);
    }

    /// Shows the character that a reference stands for, or the reference itself.
    fn reference(&mut self, out: &mut String) {
        match entity::character(&self.name) {
            Some(c) if c.is_ascii_whitespace() => self.widen(Gap::Space),
            Some(c) => self.visible(c.encode_utf8(&mut [0; 4]), out),
            None => {
                let mut text = String::from("&");
                text.push_str(&self.name);
                // The `;` that ended an unknown reference is shown with it.
                self.name.clear();
                self.visible(&text, out);
            }
        }
    }
}

#[cfg(test)]
mod tests;
