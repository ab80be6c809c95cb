//! See `sdt_fuzz::compiler`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::compiler::run(input));
