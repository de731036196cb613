//! Replays the stored inputs of the fuzz targets, `tests/corpus/TARGET/*`, on any toolchain.

#[path = "fuzz/mime_scanner.rs"]
mod mime_scanner;
#[path = "fuzz/mime_stored.rs"]
mod mime_stored;

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
