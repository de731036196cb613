//! Every input a fuzzer kept, and neighbours of each, through the fuzz entry point.

#[path = "fuzz/authorization.rs"]
mod fuzz;

use sealpost_testkit::corpus;

#[test]
fn authorization() {
    corpus::replay_variants(env!("CARGO_MANIFEST_DIR"), "jmap_authorization", fuzz::fuzz_authorization);
}
