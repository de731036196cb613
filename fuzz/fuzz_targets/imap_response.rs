#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealpost_imap::fuzz::fuzz_response(data));
