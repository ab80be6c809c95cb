//! Reads a section that no linker loads, as FreeBSD reads a file's CTF on demand (`link_elf_ctf_get`, `sys/kern/kern_ctf.c`).

use alloc::vec::Vec;

use object_core::LittleEndian as LE;
use object_core::read::elf::ElfFile64;
use object_core::read::{Object as _, ObjectSection as _};

/// Returns the contents of all sections named `name`, in the order of the section table; an empty list if the file is not an ELF
/// file.
pub fn section<'a>(data: &'a [u8], name: &[u8]) -> Vec<&'a [u8]> {
    let Ok(file) = ElfFile64::<LE>::parse(data) else { return Vec::new() };
    let named = file.sections().filter(|section| section.name_bytes() == Ok(name));
    named.filter_map(|section| section.data().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_names() {
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(section(&this, b".shstrtab").len(), 1);
        assert_eq!(section(&this, b".nosuch").len(), 0);
        assert_eq!(section(b"nothing", b".text").len(), 0);
        let cut = &this[..this.len() / 2];
        assert_eq!(section(cut, b".shstrtab").len(), 0);
    }
}
