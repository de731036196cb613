//! The elements and attributes that matter for text.

use sealpost_base::limits;

/// Bytes of an `alt` text that are kept.
const ALT_BYTES: usize = 512;

/// Elements that begin a line of their own.
const BLOCKS: [&str; 35] = [
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

/// Whether the element of that name begins a line of its own.
pub(super) fn is_block(name: &str) -> bool {
    BLOCKS.contains(&name)
}

/// Elements whose content has no tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raw {
    Script,
    Style,
    /// Text with references.
    Title,
}

impl Raw {
    /// The element of that name, if it is one of these.
    pub(super) fn of(name: &str) -> Option<Raw> {
        match name {
            "script" => Some(Raw::Script),
            "style" => Some(Raw::Style),
            "title" => Some(Raw::Title),
            _ => None,
        }
    }
}

/// Attributes whose value is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attribute {
    Alt,
    Href,
}

impl Attribute {
    /// Bytes of the value that are kept.
    pub(super) fn bytes(self) -> usize {
        match self {
            Attribute::Alt => ALT_BYTES,
            Attribute::Href => limits::LINK_BYTES,
        }
    }
}
