#![no_main]

#[path = "../../crates/submission/tests/fuzz/submission_vacation.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz_submission_vacation(data));
