#![no_main]

#[allow(dead_code, reason = "the file has the other target too")]
#[path = "../../crates/jmap/tests/fuzz/jmap.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz_card(data));
