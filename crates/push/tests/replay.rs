//! Every input a fuzzer kept, and neighbours of each, through the fuzz entry points.

#[path = "fuzz/pushes.rs"]
mod pushes;

use sealpost_testkit::corpus;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn urls() {
    corpus::replay_variants(CRATE, "push_url", pushes::fuzz_push_url);
}

#[test]
fn replies() {
    corpus::replay_variants(CRATE, "push_reply", pushes::fuzz_push_reply);
}

#[test]
fn stored() {
    corpus::replay_variants(CRATE, "push_stored", pushes::fuzz_push_stored);
}
