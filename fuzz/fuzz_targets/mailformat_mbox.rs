#![no_main]

#[allow(dead_code, reason = "the file has the other target too")]
#[path = "../../crates/mailformat/tests/fuzz/mailformat.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz_mbox(data));
