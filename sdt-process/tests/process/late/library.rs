//! A library that the subject loads while it is traced. The tests compile it with and without `other`.

/// Returns a multiple of a number.
#[cfg(not(other))]
#[unsafe(no_mangle)]
pub extern "C" fn run(n: u64) -> u64 {
    std::hint::black_box(n) * 2
}

/// Returns another multiple of a number. The caller passes the number twice.
#[cfg(other)]
#[unsafe(no_mangle)]
pub extern "C" fn run(first: u32, n: u64) -> u64 {
    std::hint::black_box(n) * 2 + u64::from(first)
}
