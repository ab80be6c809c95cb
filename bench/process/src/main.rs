//! Measures the cost of a hit in a process that `sdt-process` traces.
//!
//! `cargo xtask bench --process` runs it. The program measures children of itself, and with `--beside FILE` those of another build of
//! it, in turn: one round of the one, one round of the other. The table has the median of all rounds. A second table is about records
//! on their way to a file, and further ones show other tools, where the machine has them.

#[cfg(target_os = "linux")]
mod beside;
#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod records;
#[cfg(target_os = "linux")]
mod rows;

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    child::run()
}

#[cfg(not(target_os = "linux"))]
fn main() -> anyhow::Result<()> {
    anyhow::bail!("the benchmark is for Linux")
}
