//! Prints how many records of each kind this program finds in its own linker sets.

use codegen_sets::{first, fourth, second, third};
use sdt_core::__private::record;

fn main() {
    let tables = [&first::FUNCTIONS, &second::FUNCTIONS, &third::FUNCTIONS, &fourth::FUNCTIONS];
    // Calls every function, so that the linker keeps all of them.
    let sum = tables.into_iter().flatten().fold(0, |sum: u64, f| sum.wrapping_add(f(sum)));
    // SAFETY: this program attaches nothing.
    let sites = unsafe { record::sites() }.expect("whole records");
    // Each record contains the address of a nop, and no two records contain the same one.
    let mut patchpoints: Vec<_> = sites.iter().map(|site| site.patchpoint()).collect();
    patchpoints.sort_unstable();
    patchpoints.dedup();
    let nops = patchpoints.iter().filter(|address| {
        // SAFETY: the address is in this program's text, which is readable. If it is not, this program crashes, which is a
        // failure of the test.
        unsafe { *(**address as *const [u8; 5]) == sdt_core::site::ENCODING.nop.as_bytes() }
    });
    let known =
        |site: &&record::Site| record::PROBES.iter().any(|p| std::ptr::eq(p, site.record()));
    println!("providers {}", record::PROVIDERS.len());
    println!("probes {}", record::PROBES.len());
    println!("sites {}", sites.len());
    println!("nops {}", nops.count());
    println!("sites of known probes {}", sites.iter().filter(known).count());
    println!("argument lists {}", record::arg_lists().expect("whole records").len());
    println!("sum {sum}");
}
