//! Search snippets (RFC 8621 §5): where emails have what a filter looks for.

mod get;
mod mark;
mod terms;

pub(crate) use get::get;
