//! Replays the fuzzing corpus: every input that once was interesting stays harmless.

use sealpost_oauth::fuzz::fuzz_oauth_requests;
use sealpost_testkit::corpus::replay_variants;

#[test]
fn requests() {
    replay_variants(env!("CARGO_MANIFEST_DIR"), "oauth_requests", fuzz_oauth_requests);
}
