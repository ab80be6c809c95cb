//! See `sdt_fuzz::secure`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::secure::run(input));
