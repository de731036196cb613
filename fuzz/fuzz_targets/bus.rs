#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealpost_server::fuzz::fuzz_bus(data));
