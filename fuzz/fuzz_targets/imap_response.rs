#![no_main]

#[allow(dead_code, reason = "the file has the other target too")]
#[path = "../../crates/imap/tests/fuzz/imap.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz_response(data));
