//! Command and response parsers, over complete buffers.
