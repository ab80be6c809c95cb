//! Whether functions keep a frame pointer, by the unwind tables of their file.

use std::rc::Rc;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameOffset, Register, RegisterRule,
    UnwindContext, UnwindSection as _,
};

use super::image::UNWIND;
use super::part::{Metered, Part};

/// The frame pointers of architectures: the machine in the header of ELF, and the number of the register (System V ABI x86-64,
/// figure 3.36; Arm IHI 0057, section 4.1; RISC-V psABI, "DWARF Register Numbers").
const POINTERS: [(u16, Register); 3] =
    [(X86_64, Register(6)), (183, Register(29)), (243, Register(8))];
const X86_64: u16 = 62;

/// The unwind tables of a file.
#[derive(Debug)]
pub(super) struct Unwind {
    tables: EhFrame<Part>,
    bases: BaseAddresses,
    machine: u16,
    pointer: Register,
    /// The addresses of functions and the offsets of their tables, in the order of the addresses.
    functions: Vec<(u64, usize)>,
}

impl Unwind {
    /// Reads the addresses of the functions that the tables describe; `None` without tables, or for another architecture.
    pub fn new(file: &Rc<Metered>) -> Option<Self> {
        let Metered { image, meter } = &**file;
        let machine = image.machine()?;
        let (_, pointer) = *POINTERS.iter().find(|(of, _)| *of == machine)?;
        let section = image.sections.iter().find(|of| of.name == UNWIND && !of.is_compressed)?;
        let tables = EhFrame::from(Part::new(file, section.bytes.clone()));
        let bases = BaseAddresses::default().set_eh_frame(section.address);
        let mut functions = Vec::new();
        let mut entries = tables.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(entry) = entry else { continue };
            // A damaged table is skipped.
            let Ok(entry) = entry.parse(EhFrame::cie_from_offset) else { continue };
            if !meter.keep(2 * size_of::<(u64, usize)>() as u64) {
                break;
            }
            functions.push((entry.initial_address(), entry.offset()));
        }
        functions.sort_unstable();
        Some(Self { tables, bases, machine, pointer, functions })
    }

    /// Returns whether the function at an address of the file keeps a frame pointer. `None` if the tables do not contain this, or
    /// if the function has no caller.
    pub fn keeps_frame_pointer(&self, address: u64) -> Option<bool> {
        let before = self.functions.partition_point(|(start, _)| *start <= address);
        let (_, offset) = *self.functions.get(before.checked_sub(1)?)?;
        let offset = EhFrameOffset(offset);
        let entry = self.tables.fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset);
        let entry = entry.ok().filter(|entry| entry.contains(address))?;
        let returns = entry.cie().return_address_register();
        let mut context = UnwindContext::new();
        let mut rows = entry.rows(&self.tables, &self.bases, &mut context).ok()?;
        let mut saves = false;
        while let Some(row) = rows.next_row().ok()? {
            match row.cfa() {
                CfaRule::RegisterAndOffset { register, .. } if *register == self.pointer => {
                    return Some(true);
                }
                CfaRule::RegisterAndOffset { .. } => {}
                CfaRule::Expression(_) => return None,
            }
            if matches!(row.register(returns), Some(RegisterRule::Undefined)) {
                return None;
            }
            saves |= row.register(self.pointer).is_some();
        }
        // Compilers for x86_64 describe a frame with a frame pointer relative to it. Elsewhere, a function that saves the register may
        // also set it.
        let is_known = !saves || self.machine == X86_64;
        is_known.then_some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::super::image::{self, Parts};
    use super::super::meter::Meter;
    use super::super::symbols;
    use super::*;
    use crate::budget::Budget;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Returns whether `outer` of a program that is compiled with these options, and its first function, keep a frame pointer.
    fn compiled(options: &[&str]) -> [Option<bool>; 2] {
        let folder = tempfile::tempdir().unwrap();
        let [source, program] = ["main.rs", "main"].map(|name| folder.path().join(name));
        let text = "use std::hint::black_box;\n\
            #[inline(never)]\n\
            fn outer(from: u64) -> u64 { println!(\"{from}\"); black_box(from) + 1 }\n\
            fn main() { black_box(outer(black_box(1))); }\n";
        std::fs::write(&source, text).unwrap();
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut compiler = std::process::Command::new(rustc);
        compiler.args(["-Copt-level=1", "-o"]).arg(&program).arg(&source).args(options);
        assert!(compiler.status().unwrap().success());

        let budget = Budget::default();
        let meter = Rc::new(Meter::new(&budget));
        meter.begin();
        let file = |parts| {
            let image = image::of_file(&program, &budget, parts).unwrap();
            Rc::new(Metered { image, meter: meter.clone() })
        };
        let names = file(Parts::Names);
        let functions = symbols::read(&names.image, &meter);
        let unwind = Unwind::new(&file(Parts::Unwind)).unwrap();
        assert_eq!(meter.exceeded(), None);
        ["outer", "_start"].map(|wanted| {
            let is = |name: &str| name == wanted || name.contains(&format!("5{wanted}"));
            let found = functions.iter().find(|of| is(&of.name(&names.image))).unwrap();
            unwind.keeps_frame_pointer(found.address + 4)
        })
    }

    #[test]
    fn functions_with_and_without_a_frame_pointer_differ() {
        let without = cfg!(target_arch = "x86_64").then_some(false);
        assert_eq!(compiled(&["-Cforce-frame-pointers=no"])[0], without);
        // The first function has no caller.
        assert_eq!(compiled(&["-Cforce-frame-pointers=yes"]), [Some(true), None]);
    }

    proptest! {
        /// Damaged tables end with an answer, within the steps.
        #[test]
        fn damaged_tables_are_read(
            damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..200),
            address in any::<u64>(),
        ) {
            let budget = Budget::default();
            let own = std::path::Path::new("/proc/self/exe");
            let mut image = image::of_file(own, &budget, Parts::Unwind).unwrap();
            let section = image.sections.iter().find(|of| of.name == UNWIND).unwrap();
            let range = section.bytes.start..section.bytes.end.min(section.bytes.start + 4096);
            for (at, byte) in damage {
                image.bytes[range.start + at.index(range.len())] = byte;
            }
            let meter = Rc::new(Meter::with_steps(&budget, 1 << 16));
            meter.begin();
            let unwind = Unwind::new(&Rc::new(Metered { image, meter: meter.clone() })).unwrap();
            let known: Vec<_> = unwind.functions.iter().take(64).map(|(start, _)| *start).collect();
            for address in known.into_iter().chain([address]) {
                meter.begin();
                unwind.keeps_frame_pointer(address);
            }
        }
    }
}
