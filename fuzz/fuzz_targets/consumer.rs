//! See `sdt_fuzz::consumer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::consumer::run(input));
