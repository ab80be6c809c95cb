//! Tests of `src/check/freebsd/sites.rs`.

use super::*;

#[test]
fn the_kernel_takes_less_than_jumps_can_do() {
    assert_eq!(kernels_reach(Arch::X86_64), 1 << 31);
    assert_eq!(kernels_reach(Arch::Aarch64), 1 << 26);
    assert_eq!(kernels_reach(Arch::Riscv64), 1 << 19);
}
