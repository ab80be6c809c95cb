//! See `sdt_fuzz::server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::server::run(input));
