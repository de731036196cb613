#![no_main]

#[path = "../../crates/dns/tests/fuzz/dns_answers.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz_dns_answers(data));
