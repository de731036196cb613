#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealpost_mailformat::fuzz::fuzz_mbox(data));
