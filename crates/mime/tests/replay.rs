//! Replays the stored inputs of the fuzz targets, `tests/corpus/TARGET/*`, on any toolchain.

#[path = "fuzz/mime_scanner.rs"]
mod mime_scanner;
#[path = "fuzz/mime_stored.rs"]
mod mime_stored;
#[path = "fuzz/mime_traced.rs"]
mod mime_traced;

use sealpost_testkit::corpus::replay;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn mime_scanner() {
    replay(CRATE, "mime_scanner", mime_scanner::fuzz_mime_scanner);
}

#[test]
fn mime_stored() {
    replay(CRATE, "mime_stored", mime_stored::fuzz_mime_stored);
}

#[test]
fn mime_traced() {
    replay(CRATE, "mime_traced", mime_traced::fuzz_mime_traced);
}
