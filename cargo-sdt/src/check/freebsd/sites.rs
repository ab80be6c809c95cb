//! Site records: {probe, patchpoint, target, link}, each site a nop with its cold block in reach of a jump.
//!
//! Those of the kernel's sdt (`struct sdt_tracepoint` of `sys/sys/sdt.h`) are the same, but for what it takes.

use super::sets::{TRACEPOINTS, whole};
use crate::arch::Arch;
use crate::check::finding::{self, Findings};
use crate::check::freebsd::Problem;
use crate::check::functions::Functions;
use crate::check::image::{Home, Image, Section};

/// The set of sites of the provider route.
pub(crate) const SITES: &str = "sdt_sites";
/// The table of bounds.
const BOUNDS: &str = "__sdt_bounds";
const RECORD: u64 = 32;
const PATCHPOINT: u64 = 8;
const TARGET: u64 = 16;
const LINK: u64 = 24;
/// The nops of amd64's sites in C: `nopw (%rax,%rax)`, and in newer versions five `nop`.
const NOPS: [[u8; 5]; 2] = [[0x66, 0x0f, 0x1f, 0x04, 0x00], [0x90; 5]];

/// Who patches the sites of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patcher {
    /// The module itself (`sdt_core::patch`).
    Module,
    /// The kernel's sdt (`sys/*/*/sdt_machdep.c`).
    Kernel,
}

/// Checks the sites and returns how many there are.
pub(crate) fn check(image: &Image<'_>, functions: &Functions<'_>, findings: &mut Findings) -> u64 {
    let own = image.named(SITES).map(|section| (section, Patcher::Module));
    let kernels = image.named(TRACEPOINTS).map(|section| (section, Patcher::Kernel));
    let mut count = 0;
    for (section, patcher) in own.chain(kernels) {
        // C's tracepoints are not aligned, which amd64 does not mind.
        let free = patcher == Patcher::Kernel && image.arch == Arch::X86_64;
        if !whole(section, "site records", RECORD, if free { 1 } else { 8 }, findings) {
            continue;
        }
        count += section.size / RECORD;
        for offset in section.elements(RECORD as usize) {
            record(image, functions, section, offset, patcher, findings);
        }
    }
    bounds(image, findings);
    count
}

/// A shared object goes by the addresses in its table of bounds (`sdt-core`'s `record/set.rs`); in a relocatable file
/// the loader gives them by the section's name.
fn bounds(image: &Image<'_>, findings: &mut Findings) {
    let Some(sites) = image.named(SITES).next() else { return };
    let Some(table) = image.all_symbols().find(|symbol| symbol.name == BOUNDS) else { return };
    let Home::Section(home) = table.home else { return };
    let home = &image.sections[home];
    for (symbol, word, expected) in [
        ("__start_sdt_sites", 0, sites.address),
        ("__stop_sdt_sites", 8, sites.address.wrapping_add(sites.size)),
    ] {
        let at = table.value.wrapping_add(word);
        let relative = home.relocations.get(&at).filter(|of| image.is_relative(of));
        if relative.is_some_and(|of| of.addend.cast_unsigned() != expected) {
            let problem =
                finding::Problem::Bound { symbol: symbol.into(), found: "somewhere else" };
            findings.offset(&home.name, at, problem);
        }
    }
}

fn record(
    image: &Image<'_>,
    functions: &Functions<'_>,
    section: &Section<'_>,
    at: u64,
    patcher: Patcher,
    findings: &mut Findings,
) {
    let mut wrong = |offset, problem| findings.offset(&section.name, at + offset, problem);
    match image.address(section, at).map(|probe| image.section_of(probe)) {
        None => wrong(0, Problem::NotAddress("the site's probe")),
        Some(home) if !home.is_writable() => wrong(
            0,
            Problem::WrongMemory {
                what: "the site's probe",
                section: home.name.clone(),
                expected: "writable",
            },
        ),
        Some(_) => {}
    }
    if section.u64(at + LINK) != Some(0) || section.relocations.contains_key(&(at + LINK)) {
        wrong(LINK, Problem::LinkNotZero);
    }
    let Some(site) = image.address(section, at + PATCHPOINT) else {
        return wrong(PATCHPOINT, Problem::NotAddress("the site"));
    };
    let text = image.section_of(site);
    if !text.is_code() {
        let problem = Problem::WrongMemory {
            what: "the site",
            section: text.name.clone(),
            expected: "executable",
        };
        return wrong(PATCHPOINT, problem);
    }
    let encoding = image.arch.encoding();
    let nop = encoding.nop.as_bytes();
    let rest = text.data.iter().skip(site.offset as usize);
    let found: Vec<u8> = rest.take(nop.len()).copied().collect();
    let relocated = text.relocations.range(site.offset..site.offset + nop.len() as u64).next();
    // The kernel patches these as well.
    let nops = patcher == Patcher::Kernel
        && image.arch == Arch::X86_64
        && NOPS.iter().any(|nops| found == *nops);
    if (found != nop && !nops) || relocated.is_some() {
        wrong(PATCHPOINT, Problem::NotNop { found: hex(&found), nop: hex(nop) });
    }
    let Some(target) = image.address(section, at + TARGET) else {
        return wrong(TARGET, Problem::NotAddress("the site's cold block"));
    };
    let unreachable = |reason: &str| Problem::Unreachable(reason.into());
    if target.section != site.section {
        return wrong(TARGET, unreachable("are in different sections"));
    }
    if (site.offset..site.offset + nop.len() as u64).contains(&target.offset) {
        wrong(TARGET, unreachable("overlap"));
    }
    if functions.is_inside_instruction(image.arch, text.data, (target.section, target.offset)) {
        wrong(TARGET, unreachable("do not fit, as the block begins inside of an instruction"));
    }
    let distance = target.offset.abs_diff(site.offset);
    let reach = kernels_reach(image.arch);
    if patcher == Patcher::Kernel && distance > reach {
        let reason = format!("are {distance} bytes apart, of which FreeBSD's sdt takes {reach}");
        return wrong(TARGET, unreachable(&reason));
    }
    let address = |offset: u64| text.address.wrapping_add(offset) as usize;
    if let Err(error) = (encoding.jump)(address(site.offset), address(target.offset)) {
        wrong(TARGET, unreachable(&format!("are out of reach, as {error}")));
    }
}

/// Most bytes from a site to its cold block that `sdt_tracepoint_valid` takes, either way: on some architectures
/// half of what the jump can do.
fn kernels_reach(arch: Arch) -> u64 {
    let jump = arch.encoding().reach as u64;
    match arch {
        Arch::X86_64 => jump,
        Arch::Aarch64 | Arch::Riscv64 => jump / 2,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_less_than_jumps_can_do() {
        assert_eq!(kernels_reach(Arch::X86_64), 1 << 31);
        assert_eq!(kernels_reach(Arch::Aarch64), 1 << 26);
        assert_eq!(kernels_reach(Arch::Riscv64), 1 << 19);
    }
}
