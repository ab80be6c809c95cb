//! ET_DYN, for arm64 and riscv: a shared object, as `sys/conf/kmod.mk` makes it.
//!
//! The kernel's loader (`sys/kern/link_elf.c`) accepts at most four segments and finds a set by the symbols of its
//! bounds, in the dynamic symbol table or in the full one; it does not read sections.

use std::path::Path;

use super::PAGE;
use crate::arch::Arch;
use crate::link::{LIMIT, LinkError, Sets, place_sets, read, write};
use crate::process;
use crate::toolchain::Lld;

/// All symbols except the bounds of the kernel's sets are local to the module: another module cannot resolve to, for
/// example, a symbol of `core`, and the linker can remove unused code.
const VERSIONS: &str = "{ global: __start_set_*; __stop_set_*; local: *; };\n";

/// Links a library into a module. The names of temporary files start with `stem`.
pub(super) fn link(
    lld: &Lld,
    arch: Arch,
    library: &Path,
    sets: &Sets,
    stem: &Path,
) -> Result<Vec<u8>, LinkError> {
    let (script, versions) = (stem.with_extension("ld"), stem.with_extension("map"));
    let linked = stem.with_extension("so");
    write(&script, &script_for(sets))?;
    write(&versions, VERSIONS)?;
    let mut command = lld.command();
    command.args(["-m", arch.lld_emulation(), "-shared", "--fatal-warnings"]);
    command.args(["-z", "notext", "-z", "norelro", "-z", "nostart-stop-gc"]);
    command.args(["-z", &format!("max-page-size={PAGE}"), "-z", "separate-loadable-segments"]);
    command.args(["--hash-style=both", "--gc-sections", "--no-relax"]);
    // The names of functions are kept for the kernel's debugger; the names of local labels are removed.
    command.args(["--strip-debug", "--discard-locals"]);
    command.arg("--version-script").arg(&versions).arg("-T").arg(&script);
    command.arg("--whole-archive").arg(library).arg("-o").arg(&linked);
    process::run(&mut command, LIMIT)?;
    read(&linked)
}

/// Returns the script: headers and constants, code, data, each in a segment and on pages of its own. The headers are
/// first, because the loader reads them from the first page and requires them in the first segment.
fn script_for(sets: &Sets) -> String {
    let mut script = String::from(
        "PHDRS\n{\n  constants PT_LOAD FILEHDR PHDRS FLAGS(4);\n  text PT_LOAD FLAGS(5);\n  \
         data PT_LOAD FLAGS(6);\n  dynamic PT_DYNAMIC FLAGS(6);\n}\n\
         SECTIONS\n{\n  . = SIZEOF_HEADERS;\n",
    );
    let new_page = format!("  . = ALIGN({PAGE});\n");
    script.push_str("  .dynsym : { *(.dynsym) } :constants\n");
    for name in [".hash", ".gnu.hash", ".dynstr", ".rela.dyn", ".rela.plt"] {
        script.push_str(&format!("  {name} : {{ *({name}) }}\n"));
    }
    script.push_str("  .rodata : { *(.rodata .rodata.* .srodata .srodata.*) }\n");
    place_sets(&mut script, sets, false);
    script.push_str(&new_page);
    script.push_str("  .text : { *(.text .text.*) } :text\n  .plt : { *(.plt) }\n");
    script.push_str(&new_page);
    script.push_str("  .data : { *(.data .data.* .sdata .sdata.*) } :data\n");
    place_sets(&mut script, sets, true);
    script.push_str("  .got : { *(.got) }\n  .got.plt : { *(.got.plt) }\n");
    script.push_str("  .dynamic : { *(.dynamic) } :data :dynamic\n");
    script.push_str("  .bss : { *(.sbss .sbss.* .bss .bss.* COMMON) } :data\n");
    // The kernel does not use unwind tables.
    script.push_str("  /DISCARD/ : { *(.eh_frame .eh_frame_hdr .comment .llvm_addrsig) }\n");
    script.push_str("  /DISCARD/ : { *(.note.GNU-stack .riscv.attributes) }\n}\n");
    script
}

#[cfg(test)]
#[path = "../../../tests/unit/link/freebsd/shared.rs"]
mod tests;
