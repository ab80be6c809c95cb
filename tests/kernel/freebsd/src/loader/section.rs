//! A section that no linker loads, as FreeBSD's reads a file's CTF when somebody asks for it (`link_elf_ctf_get`,
//! sys/kern/kern_ctf.c).

use object_core::LittleEndian as LE;
use object_core::elf::{self, FileHeader64, SectionHeader64};
use object_core::read::ReadRef;

use super::elf::contents;

/// What a file holds of the sections of a name, in their order; of a file that is no ELF file nothing.
pub fn section<'a>(data: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let found = sections(data).unwrap_or_default();
    found.0.iter().enumerate().filter_map(move |(index, section)| {
        let names = found.1.get(section.sh_name.get(LE) as usize..)?;
        let end = names.iter().position(|&byte| byte == 0)?;
        (&names[..end] == name).then(|| contents(data, section, index).ok()).flatten()
    })
}

/// The table of sections, and their names.
fn sections(data: &[u8]) -> Option<(&[SectionHeader64<LE>], &[u8])> {
    let header = data.read_at::<FileHeader64<LE>>(0).ok()?;
    if header.e_ident.magic != elf::ELFMAG {
        return None;
    }
    let count = header.e_shnum.get(LE).into();
    let sections = data.read_slice_at(header.e_shoff.get(LE), count).ok()?;
    let names = usize::from(header.e_shstrndx.get(LE).0);
    Some((sections, contents(data, sections.get(names)?, names).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_names() {
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(section(&this, b".shstrtab").count(), 1);
        assert_eq!(section(&this, b".nosuch").count(), 0);
        assert_eq!(section(b"nothing", b".text").count(), 0);
        let cut = &this[..this.len() / 2];
        assert_eq!(section(cut, b".shstrtab").count(), 0);
    }
}
