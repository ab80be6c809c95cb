//! See `sdt_fuzz::framework`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::framework::run(input));
