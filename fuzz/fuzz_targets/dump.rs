//! See `sdt_fuzz::dump`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::dump::run(input));
