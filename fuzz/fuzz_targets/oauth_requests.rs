#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealpost_oauth::fuzz::fuzz_oauth_requests(data));
