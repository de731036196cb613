//! Replays the fuzzing corpus: every input that once was interesting stays harmless.

use sealpost_smtp::fuzz::{fuzz_replies, fuzz_server};
use sealpost_testkit::corpus::{replay, replay_cuts};

#[test]
fn commands() {
    replay_cuts(env!("CARGO_MANIFEST_DIR"), "smtp_server", fuzz_server);
}

#[test]
fn replies() {
    replay(env!("CARGO_MANIFEST_DIR"), "smtp_replies", fuzz_replies);
}
