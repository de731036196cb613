#![no_main]

#[path = "../../crates/jmap-session/tests/fuzz/emails.rs"]
#[allow(dead_code, reason = "there are other targets in it")]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz_blob_id(data));
