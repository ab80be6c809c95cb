//! Functions for hosts that are not kernel modules. They keep values in registers that kernels do not use, or in all registers.
//! Each also exists without its probe.

use core::arch::asm;

use dtrace_abi::site::Encoding;
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider!(hosts);

/// The encoding of sites on this target.
#[unsafe(no_mangle)]
static HOST_ENCODING: Encoding = sdt_core::site::ENCODING;

/// Slightly fewer than the registers that a function need not save.
const FLOATS: usize = 16;

/// The registers of aarch64, without the platform register, the frame pointer, the link register and one more.
const WORDS: usize = 27;

/// Hides a value from the optimiser.
#[inline(always)]
fn hide(mut word: u64) -> u64 {
    // SAFETY: does nothing.
    unsafe { asm!("/* {0} */", inout(reg) word, options(nomem, nostack, preserves_flags)) };
    word
}

macro_rules! functions {
    ($floats:literal $words:literal $(, $probe:ident)?) => {
        const _: () = {
            #[unsafe(export_name = $floats)]
            #[allow(unused_variables, reason = "for the probe only")]
            extern "C" fn floats(values: &mut [f64; FLOATS], n: u64) {
                let sums = values.map(|value| value * value);
                $($probe!(hosts::floats, n);)?
                *values = sums.map(|sum| sum + sum);
            }

            #[unsafe(export_name = $words)]
            extern "C" fn words(values: &mut [u64; WORDS]) {
                let [first, rest @ ..] = values.map(hide);
                $($probe!(hosts::words, first);)?
                let [second, rest @ ..] = rest.map(hide);
                values[..2].copy_from_slice(&[second, first]);
                values[2..].copy_from_slice(&rest);
            }
        };
    };
}

functions!("plain_host_floats" "plain_host_words");
functions!("host_floats" "host_words", sdt_probe);
