#![no_main]

#[path = "../../crates/server/src/listener/proxy/fuzz.rs"]
mod fuzz;
#[path = "../../crates/server/src/listener/proxy/header.rs"]
mod header;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::fuzz_proxy_header(data));
