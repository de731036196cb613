//! Replays every input that fuzzing kept (`tests/corpus/{target}/`).

use sealpost_testkit::corpus;

fn replay(target: &str, run: fn(&[u8])) {
    corpus::replay(env!("CARGO_MANIFEST_DIR"), target, run);
}

#[test]
fn events() {
    replay("account_events", sealpost_account::fuzz::fuzz_events);
}

#[test]
fn checkpoint() {
    replay("account_checkpoint", sealpost_account::fuzz::fuzz_checkpoint);
}
