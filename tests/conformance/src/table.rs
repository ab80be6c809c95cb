//! The costs of a site in C and in Rust: compares each function of `c/functions.c` and `probes/src/functions.rs` with
//! the same function without its probe.

use std::fmt;

use cargo_sdt::internal::arch::Arch;
use harness::zig::Zig;

use crate::code::{self, Size};
use crate::layout::layouts;
use crate::records::sites;
use crate::sources::{Rust, c};
use crate::unit::Unit;

/// Most arguments of a probe.
const MOST_ARGUMENTS: usize = 6;

/// The cost of the site of one function.
#[derive(Clone, Debug)]
pub struct Row {
    /// `leaf`, or `calls`.
    pub kind: &'static str,
    /// The number of arguments of its probe.
    pub arguments: usize,
    /// In C.
    pub c: Cost,
    /// In Rust.
    pub rust: Cost,
    /// The number of instructions that set up and remove the frame of the Rust function without the probe. All functions of a
    /// kernel module have a frame, for stack traces and for fbt.
    pub frame: i64,
}

/// The code that a site adds to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Instructions on the hot path, without those of the frame.
    pub instructions: i64,
    /// The number of additional instructions on the hot path that set up and remove the frame. It is negative if the compiler
    /// moves the frame into the cold code; then fbt cannot trace the function.
    pub frame: i64,
    /// Bytes on the hot path.
    pub bytes: i64,
    /// Bytes that are run only while the probe is enabled.
    pub cold_bytes: i64,
}

/// All rows for one architecture, of FreeBSD 15.
///
/// # Errors
/// The C code does not compile, or a function cannot be decoded.
pub fn rows(zig: &Zig, arch: Arch, rust: &Rust) -> anyhow::Result<Vec<Row>> {
    let layouts = layouts(&c(zig, arch, "layouts.c", &["-g"])?)?;
    let c_probed = Unit::parse(&c(zig, arch, "functions.c", &[])?)?;
    let c_plain = Unit::parse(&c(zig, arch, "functions.c", &["-UKDTRACE_HOOKS"])?)?;
    let rust = Unit::parse(&rust.probes)?;
    let size = |unit: &Unit, name: &str| -> anyhow::Result<Size> {
        let function = unit.function(name)?;
        let sites = sites(unit, &layouts)?.into_iter();
        let sites = sites.filter(|site| function.contains(site.patchpoint));
        let sites: Vec<_> = sites.map(|site| (site.patchpoint, site.target)).collect();
        code::size(unit, function, &sites)
    };
    let mut rows = Vec::new();
    for kind in ["leaf", "calls"] {
        for arguments in 0..=MOST_ARGUMENTS {
            let name = format!("{kind}_{arguments}");
            let plain = size(&rust, &format!("plain_{name}"))?;
            rows.push(Row {
                kind,
                arguments,
                c: Cost::of(size(&c_plain, &name)?, size(&c_probed, &name)?),
                rust: Cost::of(plain, size(&rust, &name)?),
                frame: plain.frame_instructions,
            });
        }
    }
    Ok(rows)
}

impl Cost {
    fn of(plain: Size, probed: Size) -> Self {
        Self {
            instructions: (probed.hot_instructions - probed.frame_instructions)
                - (plain.hot_instructions - plain.frame_instructions),
            frame: probed.frame_instructions - plain.frame_instructions,
            bytes: probed.hot_bytes - plain.hot_bytes,
            cold_bytes: probed.cold_bytes - plain.cold_bytes,
        }
    }
}

/// The rows of one architecture, to be printed.
#[derive(Debug)]
pub struct Table {
    /// The architecture.
    pub arch: Arch,
    /// Its rows.
    pub rows: Vec<Row>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["instr.", "frame", "bytes", "cold bytes"];
        writeln!(f, "{:<10}{:>9}{:>20}{:>38}", self.arch, "frame", "C", "Rust")?;
        write!(f, "{:<10}{:>9}", "", "has")?;
        for _ in 0..2 {
            write!(f, "  {:>8}{:>8}{:>8}{:>12}", header[0], header[1], header[2], header[3])?;
        }
        writeln!(f)?;
        for Row { kind, arguments, c, rust, frame: has } in &self.rows {
            write!(f, "{kind:<6} {arguments:<3}{has:>9}")?;
            for Cost { instructions, frame, bytes, cold_bytes } in [c, rust] {
                write!(f, "  {instructions:>+8}{frame:>+8}{bytes:>+8}{cold_bytes:>12}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
