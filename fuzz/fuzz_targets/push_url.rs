#![no_main]

#[path = "../../crates/push/tests/fuzz/pushes.rs"]
#[allow(dead_code, reason = "there are three targets in it")]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz_push_url(data));
