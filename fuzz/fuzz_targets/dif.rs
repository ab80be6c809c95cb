//! See `sdt_fuzz::dif`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::dif::run(input));
