//! See `sdt_fuzz::check`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::check::run(input));
