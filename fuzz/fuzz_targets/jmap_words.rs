#![no_main]

#[allow(dead_code, reason = "the file has the other targets too")]
#[path = "../../crates/jmap/tests/fuzz/jmap.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz_words(data));
