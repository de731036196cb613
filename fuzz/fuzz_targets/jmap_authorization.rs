#![no_main]

#[path = "../../crates/jmap-session/tests/fuzz/authorization.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz_authorization(data));
