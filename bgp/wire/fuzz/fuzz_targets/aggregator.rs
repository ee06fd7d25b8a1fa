#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| flock_bgp_wire_fuzz::run("aggregator", data));
