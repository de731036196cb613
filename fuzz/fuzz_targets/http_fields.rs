#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealpost_http::fuzz::fuzz_http_fields(data));
