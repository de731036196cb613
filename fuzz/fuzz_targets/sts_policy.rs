#![no_main]

#[path = "../../crates/delivery/tests/fuzz/sts_policy.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz_sts_policy(data));
