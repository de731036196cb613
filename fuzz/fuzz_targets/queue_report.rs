#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealpost_queue::fuzz::fuzz_report(data));
