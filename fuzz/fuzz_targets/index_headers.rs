#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealpost_index::fuzz::fuzz_headers(data));
