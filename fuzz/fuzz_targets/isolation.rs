//! See `sdt_fuzz::isolation`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::isolation::run(input));
