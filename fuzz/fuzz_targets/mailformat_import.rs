#![no_main]

#[allow(dead_code, reason = "the file has the other target too")]
#[path = "../../crates/mailformat/tests/fuzz/mailformat.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let directory = std::env::temp_dir().join(format!("sealpost-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    target::fuzz_import(data, &directory);
});
