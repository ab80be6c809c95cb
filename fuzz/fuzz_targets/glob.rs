//! See `sdt_fuzz::glob`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::glob::run(input));
