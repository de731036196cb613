#![no_main]

#[path = "../../crates/server/src/bus/fuzz.rs"]
mod fuzz;
#[allow(dead_code, reason = "the rest is what this end says")]
#[path = "../../crates/server/src/bus/protocol.rs"]
mod protocol;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::fuzz_bus(data));
