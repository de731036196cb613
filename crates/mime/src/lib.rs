//! One-pass MIME scanner: structure, envelope, searchable text and preview from bytes as they arrive.
