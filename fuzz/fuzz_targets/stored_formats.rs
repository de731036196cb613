#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealpost_vault::fuzz::fuzz_object(data));
