//! See `sdt_fuzz::records`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::records::run(input));
