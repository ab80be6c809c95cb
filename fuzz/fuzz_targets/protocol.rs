//! See `sdt_fuzz::protocol`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sdt_fuzz::protocol::run(input));
