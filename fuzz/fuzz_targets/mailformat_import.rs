#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let directory = std::env::temp_dir().join(format!("sealpost-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    sealpost_mailformat::fuzz::fuzz_import(data, &directory);
});
