//! Replays every input of the fuzz corpus, and mutations of each, through the fuzz entry points.

#[path = "fuzz/emails.rs"]
mod emails;

use sealpost_testkit::corpus;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn blob_ids() {
    corpus::replay_variants(CRATE, "jmap_blob_id", emails::fuzz_blob_id);
}

#[test]
fn emails() {
    corpus::replay_variants(CRATE, "jmap_email", emails::fuzz_email);
}

#[test]
fn sending() {
    corpus::replay_variants(CRATE, "jmap_sending", emails::fuzz_sending);
}
