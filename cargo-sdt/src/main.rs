//! `cargo sdt`: for authors of kernel modules with SDT probes.

use std::process::ExitCode;

fn main() -> ExitCode {
    cargo_sdt::main()
}
