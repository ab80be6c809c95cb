//! See `sdt_fuzz::krtld`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::krtld::run(input));
