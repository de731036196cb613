//! Search snippets (RFC 8621 §5): where an email matches a filter.

mod get;
mod mark;
mod terms;

pub(crate) use get::get;
