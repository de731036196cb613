#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealpost_archive::fuzz::fuzz_archive_mbox(data));
