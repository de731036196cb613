//! From the bytes of a text part to text: transfer encodings, charsets, HTML and format=flowed,
//! each a streaming decoder.
//!
//! Every decoder keeps a few bytes of state, takes pieces cut anywhere and gives the same result
//! however they were cut.

pub mod charset;
pub mod flowed;
pub mod html;
pub mod transfer;

pub use transfer::{Encoding, TransferDecoder};
