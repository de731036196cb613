//! HTML to text, streaming: for search and preview, not for display.
//!
//! Tags and comments are dropped, and so are script and style with their contents; character
//! references are decoded, `alt` texts kept. Runs of white space are one space, blocks begin a
//! line. Text that is not visible but searched for goes elsewhere ([`HtmlSink::aside`]): the title,
//! and the targets of links. No tree is built and nothing is recursed into, so nesting costs
//! nothing; buffers are bounded by the names below.

mod element;
mod entity;

use element::{Attribute, Raw, is_block};
use entity::Number;
pub use entity::decode_references;

/// Longest tag or attribute name that is recognized; longer ones do not matter.
const NAME_BYTES: usize = 32;
/// Receives the text of HTML, in order, in pieces cut anywhere.
pub trait HtmlSink {
    /// A piece of the visible text.
    fn text(&mut self, piece: &str);
    /// A piece of the title or of the target of a link; a line end follows each.
    fn aside(&mut self, piece: &str);
}

/// The text alone.
impl HtmlSink for String {
    fn text(&mut self, piece: &str) {
        self.push_str(piece);
    }

    fn aside(&mut self, _: &str) {}
}

/// Turns one HTML text that arrives in pieces into plain text.
#[derive(Debug, Default)]
pub struct HtmlText {
    state: State,
    gap: Gap,
    started: bool,
    /// The name of the tag or attribute, or the reference, that is being read.
    name: String,
    closing: bool,
    /// Inside an element whose content has no tags: waits for its closing tag.
    raw: Option<Raw>,
    /// The value of an attribute that is kept.
    value: Option<(Attribute, String)>,
    /// The tag is that of a link.
    link: bool,
}

/// The separator between the next visible character and the last one.
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
    /// After `&`, and letters and digits after it.
    Reference,
    /// After `&#`.
    Hash,
    /// After `&#x`; the letter as written.
    HashX(char),
    /// After digits of a number.
    Number(Number),
    /// After `<`.
    Open,
    TagName,
    /// Inside a tag, between attributes.
    Tag,
    AttributeName,
    /// After an attribute name and white space.
    AfterName,
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
    pub fn push(&mut self, piece: &str, out: &mut impl HtmlSink) {
        let mut rest = piece;
        while !rest.is_empty() {
            if self.state == State::Text {
                let plain =
                    rest.bytes().position(|b| matches!(b, b'<' | b'&' | b' ' | b'\t' | b'\n' | b'\r' | 0x0c));
                let (run, more) = rest.split_at(plain.unwrap_or(rest.len()));
                self.visible(run, out);
                rest = more;
            }
            let Some(c) = rest.chars().next() else { return };
            rest = &rest[c.len_utf8()..];
            self.step(c, out);
        }
    }

    /// Ends the text; an incomplete reference is kept as written.
    pub fn finish(mut self, out: &mut impl HtmlSink) {
        self.end_reference(None, out);
        if self.raw == Some(Raw::Title) {
            out.aside("\n");
        }
    }

    /// Emits text, after the gap that separates it.
    fn visible(&mut self, text: &str, out: &mut impl HtmlSink) {
        if text.is_empty() {
            return;
        }
        match self.raw {
            Some(Raw::Script | Raw::Style) => {}
            Some(Raw::Title) => out.aside(text),
            None => {
                match std::mem::take(&mut self.gap) {
                    _ if !self.started => {}
                    Gap::None => {}
                    Gap::Space => out.text(" "),
                    Gap::Line => out.text("\n"),
                }
                self.started = true;
                out.text(text);
            }
        }
    }

    /// White space between words.
    fn space(&mut self, out: &mut impl HtmlSink) {
        match self.raw {
            Some(Raw::Title) => out.aside(" "),
            _ => self.widen(Gap::Space),
        }
    }

    fn widen(&mut self, gap: Gap) {
        self.gap = self.gap.max(gap);
    }

    fn step(&mut self, c: char, out: &mut impl HtmlSink) {
        use State::*;
        self.state = match self.state {
            Text => match c {
                '<' => Open,
                '&' if matches!(self.raw, None | Some(Raw::Title)) => {
                    self.name.clear();
                    Reference
                }
                _ => {
                    self.space(out);
                    Text
                }
            },
            Reference if c == '#' && self.name.is_empty() => Hash,
            Reference if c.is_ascii_alphanumeric() && self.name.len() < entity::NAME_BYTES => {
                self.name.push(c);
                Reference
            }
            Hash if matches!(c, 'x' | 'X') => HashX(c),
            Hash | HashX(_) | Number(_) => {
                let number = match self.state {
                    Number(number) => number,
                    state => entity::Number::new(state != Hash),
                };
                match number.with(c) {
                    Some(number) => Number(number),
                    None => return self.end_reference(Some(c), out),
                }
            }
            Reference => return self.end_reference(Some(c), out),
            Open => return self.open(c, out),
            TagName if c.is_ascii_alphanumeric() => {
                self.note(c);
                TagName
            }
            TagName => return self.tag_named(c, out),
            Tag => return self.inside_tag(c),
            AttributeName | AfterName if c == '=' => Value,
            AttributeName | AfterName if c.is_ascii_whitespace() => AfterName,
            AttributeName if matches!(c, '>' | '/') => return self.inside_tag(c),
            AfterName => return self.inside_tag(c),
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

    /// Processes a character that ended something and is text itself.
    fn again(&mut self, c: char, out: &mut impl HtmlSink) {
        if matches!(c, '<' | '&') || c.is_ascii_whitespace() {
            self.step(c, out);
        } else {
            self.visible(c.encode_utf8(&mut [0; 4]), out);
        }
    }

    /// A reference ends, before `c` or at the end: emits its characters, or its own text.
    fn end_reference(&mut self, c: Option<char>, out: &mut impl HtmlSink) {
        let state = std::mem::take(&mut self.state);
        let name = std::mem::take(&mut self.name);
        let semicolon = c == Some(';');
        let mut taken = false;
        match state {
            State::Reference => match entity::with_semicolon(&name).filter(|_| semicolon) {
                Some(signs) => {
                    self.signs(signs, out);
                    taken = true;
                }
                None => match entity::without_semicolon(&name) {
                    Some((length, signs)) => {
                        self.signs(signs, out);
                        self.visible(&name[length..], out);
                    }
                    None => {
                        self.visible("&", out);
                        self.visible(&name, out);
                    }
                },
            },
            State::Hash => self.visible("&#", out),
            State::HashX(x) => {
                self.visible("&#", out);
                self.visible(x.encode_utf8(&mut [0; 4]), out);
            }
            State::Number(number) => {
                self.signs((number.sign(), None), out);
                taken = semicolon;
            }
            state => self.state = state,
        }
        self.name = name;
        self.name.clear();
        if let Some(c) = c.filter(|_| !taken) {
            self.again(c, out);
        }
    }

    fn signs(&mut self, (first, second): entity::Signs, out: &mut impl HtmlSink) {
        for c in [Some(first), second].into_iter().flatten() {
            if c.is_ascii_whitespace() {
                self.space(out);
            } else {
                self.visible(c.encode_utf8(&mut [0; 4]), out);
            }
        }
    }

    fn open(&mut self, c: char, out: &mut impl HtmlSink) {
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
                self.visible("<", out);
                return self.again(c, out);
            }
        };
    }

    /// The name of the tag is known; `c` ended it.
    fn tag_named(&mut self, c: char, out: &mut impl HtmlSink) {
        let name = self.name.as_str();
        let raw = Raw::of(name);
        match self.raw {
            Some(inside) if raw == Some(inside) => {
                self.raw = None;
                if inside == Raw::Title {
                    out.aside("\n");
                }
            }
            // Inside these, all but their own closing tag is content.
            Some(_) => {
                self.state = State::Text;
                let tag = format!("</{name}");
                self.visible(&tag, out);
                return self.again(c, out);
            }
            None => {
                self.link = matches!(name, "a" | "area");
                match name {
                    "td" | "th" | "img" | "input" | "option" => self.widen(Gap::Space),
                    _ if is_block(name) => self.widen(Gap::Line),
                    _ if !self.closing => self.raw = raw,
                    _ => {}
                }
            }
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
        let attribute = match self.name.as_str() {
            "alt" => Some(Attribute::Alt),
            "href" if self.link => Some(Attribute::Href),
            _ => None,
        };
        self.value = attribute.filter(|_| self.raw.is_none()).map(|attribute| (attribute, String::new()));
    }

    fn in_value(&mut self, c: char) {
        if let Some((attribute, value)) = &mut self.value
            && value.len() < attribute.bytes()
        {
            value.push(c);
        }
    }

    fn end_value(&mut self, out: &mut impl HtmlSink) {
        match self.value.take() {
            Some((Attribute::Alt, value)) => {
                for word in decode_references(&value).split_whitespace() {
                    self.widen(Gap::Space);
                    self.visible(word, out);
                }
                self.widen(Gap::Space);
            }
            Some((Attribute::Href, value)) if !value.trim().is_empty() => {
                // White space in a URL is not part of it (URL standard §4.4): programs break long
                // ones.
                decode_references(&value).split_whitespace().for_each(|piece| out.aside(piece));
                out.aside("\n");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
