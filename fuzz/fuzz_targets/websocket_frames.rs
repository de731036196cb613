#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sealpost_http::fuzz::fuzz_websocket_frames(data));
