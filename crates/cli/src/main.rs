//! The `sealpost` binary.

fn main() {}
