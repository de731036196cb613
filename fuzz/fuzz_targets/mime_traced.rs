#![no_main]

#[path = "../../crates/mime/tests/fuzz/mime_traced.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz_mime_traced(data));
