//! See `sdt_fuzz::loader`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::loader::run(input));
