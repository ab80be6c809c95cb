//! See `sdt_fuzz::render`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::render::run(input));
