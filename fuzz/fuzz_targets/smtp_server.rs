#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealpost_smtp::fuzz::fuzz_server(data));
