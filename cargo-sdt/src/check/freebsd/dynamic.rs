//! The dynamic section of a shared object: its tables are the sections that are made for them, and the hash table
//! leads to every symbol that others are to find (`link_elf_lookup_symbol` of `sys/kern/link_elf.c`).

use object::elf;

use crate::arch::ModuleKind;
use crate::check::finding::Findings;
use crate::check::freebsd::Problem;
use crate::check::image::{Home, Image};

/// Where a table is and how long, by tags, and the section that holds it.
const TABLES: [(elf::DynamicTag, Option<elf::DynamicTag>, &str, &str); 7] = [
    (elf::DT_HASH, None, "DT_HASH", ".hash"),
    (elf::DT_SYMTAB, None, "DT_SYMTAB", ".dynsym"),
    (elf::DT_STRTAB, Some(elf::DT_STRSZ), "DT_STRTAB", ".dynstr"),
    (elf::DT_RELA, Some(elf::DT_RELASZ), "DT_RELA", ".rela.dyn"),
    (elf::DT_JMPREL, Some(elf::DT_PLTRELSZ), "DT_JMPREL", ".rela.plt"),
    (elf::DT_INIT_ARRAY, Some(elf::DT_INIT_ARRAYSZ), "DT_INIT_ARRAY", ".init_array"),
    (elf::DT_FINI_ARRAY, Some(elf::DT_FINI_ARRAYSZ), "DT_FINI_ARRAY", ".fini_array"),
];

pub(crate) fn check(image: &Image<'_>, findings: &mut Findings) {
    if image.arch.module_kind() == ModuleKind::Relocatable {
        return;
    }
    for (table, size, name, section) in TABLES {
        let other = Problem::OtherTable { table: name, section };
        let found = image.named(section).next();
        match (image.dynamic.get(table), found) {
            (Some(address), Some(of)) => {
                let size = size.map(|tag| image.dynamic.get(tag).unwrap_or_default());
                if address != of.address || size.is_some_and(|size| size != of.size) {
                    findings.file(other);
                }
            }
            // What there is of functions to call, and of relocations, has a table.
            (None, Some(of)) if of.size != 0 => findings.file(other),
            // Its functions would be called, wherever they are.
            (Some(_), None) if matches!(table, elf::DT_INIT_ARRAY | elf::DT_FINI_ARRAY) => {
                findings.file(other);
            }
            _ => {}
        }
    }
    if let Some(reason) = hash_table(image) {
        findings.file(Problem::HashTable(reason));
    }
}

/// What is wrong with the hash table: its chains have to end, and to have every global symbol that is defined.
fn hash_table(image: &Image<'_>) -> Option<&'static str> {
    // One that is not there has been reported.
    let table = image.hash.as_ref()?;
    if table.buckets.is_empty() {
        return Some("has no buckets");
    }
    for (index, symbol) in image.symbols.iter().enumerate().skip(1) {
        if symbol.home == Home::Undefined || symbol.binding == elf::STB_LOCAL {
            continue;
        }
        let bucket = elf::hash(symbol.name.as_bytes()) as usize % table.buckets.len();
        let chain = table.chain(bucket);
        if !chain.clone().take(table.chains.len()).any(|found| found == index) {
            return Some("does not lead to every symbol that the module defines");
        }
    }
    let endless =
        |bucket| table.chain(bucket).take(table.chains.len() + 1).count() > table.chains.len();
    if (0..table.buckets.len()).any(endless) {
        return Some("has a chain that goes round in circles");
    }
    let outside = |&index: &u32| index as usize >= table.chains.len();
    if table.buckets.iter().chain(&table.chains).any(outside) {
        return Some("names a symbol that is not there");
    }
    None
}
