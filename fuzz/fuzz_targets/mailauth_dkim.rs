#![no_main]

#[path = "../../crates/mailauth/tests/fuzz/mailauth_dkim.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz_mailauth_dkim(data));
