//! Replays the fuzz corpus.

use sealpost_http::fuzz::{fuzz_http_fields, fuzz_websocket_frames};
use sealpost_testkit::corpus::replay_variants;

#[test]
fn fields() {
    replay_variants(env!("CARGO_MANIFEST_DIR"), "http_fields", fuzz_http_fields);
}

#[test]
fn frames() {
    replay_variants(env!("CARGO_MANIFEST_DIR"), "websocket_frames", fuzz_websocket_frames);
}
