//! The signatures of functions, from the debug information of a file.

use std::path::Path;
use std::rc::Rc;

use dtrace_compiler::declared::Declarations;

use super::dwarf::Debug;
use super::image::{self, Image, Parts, Unread};
use super::meter::Meter;
use super::part::Metered;
use super::text::TextFile;
use super::{Objects, debug_file};
use crate::budget::Budget;
use crate::signature::{Signature, StructNames};

const NONE: &str = "the file has no debug information: compile it with -g, and do not strip it";
const COMPRESSED: &str = "the debug information of the file cannot be decompressed: link it with --compress-debug-sections=zlib, or without this option";
const LIMITED: &str = "its debug information takes too long to read, or is too large";
const LARGE: &str =
    "its debug information is too large for the memory: -x memory=SIZE raises the limit";

/// The debug information of a file, for the signatures of its functions.
#[derive(Debug)]
pub(crate) struct Signatures {
    debug: Debug,
    meter: Rc<Meter>,
}

impl Signatures {
    /// Reads the debug information of a file with this build ID. Structs have these names.
    ///
    /// # Errors
    /// The reason.
    pub fn of_file(
        path: &Path,
        build_id: &[u8],
        names: &Rc<StructNames>,
    ) -> Result<Self, &'static str> {
        let budget = Budget::default();
        let image = image::of_file(path, &budget, Parts::Signatures).map_err(reason)?;
        if image.build_id() != Some(build_id) {
            return Err("the file has changed");
        }
        Self::new(image, &Rc::new(Meter::new(&budget)), names)
    }

    fn new(image: Image, meter: &Rc<Meter>, names: &Rc<StructNames>) -> Result<Self, &'static str> {
        let is_compressed = image.debug_section(gimli::SectionId::DebugInfo.name()).is_none();
        meter.begin();
        let file = Rc::new(Metered { image, meter: meter.clone() });
        let mut debug = Debug::new(&file).ok_or(if is_compressed { COMPRESSED } else { NONE })?;
        debug.name_structs(names);
        Ok(Self { debug, meter: meter.clone() })
    }

    /// Returns the signature of the function that begins at an address in the file.
    ///
    /// # Errors
    /// The reason.
    pub fn at(&self, address: u64) -> Result<Signature, &'static str> {
        self.meter.begin();
        let found = self.debug.signature_at(address);
        if self.meter.exceeded().is_some() {
            return Err(LIMITED);
        }
        let signature = found?;
        // The caller keeps it.
        match self.meter.keep(signature.bytes()) {
            true => Ok(signature),
            false => Err(LARGE),
        }
    }

    /// Returns the declarations of a struct or union that is the target of an argument, by its name in D, and of those in it; `None` if there is none, or if
    /// it takes too long to read.
    pub fn declarations(&self, name: &str) -> Option<Declarations> {
        self.meter.begin();
        self.debug.declarations(name)
    }
}

impl Objects {
    /// Reads the debug information of a file, or of its separate debug file. Structs have these names.
    ///
    /// # Errors
    /// The reason.
    pub(crate) fn signatures(
        &self,
        file: &TextFile,
        names: &Rc<StructNames>,
    ) -> Result<Signatures, &'static str> {
        let (mapping, parts) = (&file.mapping, Parts::Signatures);
        let read = image::read(&self.process, mapping, self.meter.limits(), parts);
        let image = read.map_err(reason)?;
        let limits = (self.meter.limits(), &self.debug_files);
        let separate = match image.has_names() {
            (_, true) => None,
            _ => debug_file::read(&self.process, mapping, &image, limits, parts),
        };
        let image = separate.and_then(Result::ok).unwrap_or(image);
        self.meter.keep_file(image.charged());
        Signatures::new(image, &self.meter, names)
    }
}

const fn reason(why: Unread) -> &'static str {
    match why {
        Unread::Other => "the file cannot be read for its debug information",
        Unread::TooLarge => LARGE,
        Unread::Waits => "its file system does not answer",
    }
}

#[cfg(test)]
mod tests {
    mod structs;

    use object::write::Object;
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};

    use super::*;
    use crate::signature::{At, Part, Place};

    /// The address of the function.
    const ADDRESS: u64 = 0x1000;
    /// The offset of the type of its parameter in the unit: behind the header, the unit, the function and its parameter.
    const TYPE: u32 = 11 + 17 + 17 + 7 + 1;

    // Abbreviations: number, tag, whether it has children, attributes with their forms (DWARF 4, section 7.5).
    const ABBREVIATIONS: &[u8] = &[
        1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0, // unit: low_pc, high_pc
        2, 0x2e, 1, 0x11, 0x01, 0x12, 0x07, 0, 0, // function: low_pc, high_pc
        3, 0x05, 0, 0x49, 0x13, 0x02, 0x18, 0, 0, // parameter: type, location
        4, 0x13, 1, 0x0b, 0x0b, 0, 0, // struct: byte_size
        5, 0x0d, 0, 0x49, 0x13, 0x38, 0x0b, 0, 0, // member: type, offset
        6, 0x24, 0, 0x3e, 0x0b, 0x0b, 0x0b, 0, 0, // number: encoding, byte_size
        7, 0x0f, 0, 0x49, 0x13, 0, 0, // pointer: type
        8, 0x16, 0, 0x49, 0x13, 0, 0, // typedef: type
        9, 0x13, 1, 0x03, 0x08, 0x0b, 0x0f, 0, 0, // struct: name, byte_size
        10, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0f, 0, 0, // member: name, type, offset
        11, 0x01, 1, 0x49, 0x13, 0, 0, // array: type
        12, 0x21, 0, 0x37, 0x0f, 0, 0, // dimension: count
        13, 0x33, 1, 0, 0, // variants
        14, 0x19, 1, 0x16, 0x0f, 0, 0, // variant: discriminant
        15, 0x19, 1, 0, 0, // variant
        16, 0x17, 1, 0x03, 0x08, 0x0b, 0x0f, 0, 0, // union: name, byte_size
        17, 0x39, 1, 0x03, 0x08, 0, 0, // namespace: name
        18, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0f, 0x0d, 0x0f, 0,
        0, // bit-field: name, type, offset, bits
        0,
    ];

    fn reference(to: u32) -> [u8; 4] {
        to.to_le_bytes()
    }

    fn member(of: u32) -> Vec<u8> {
        [&[5][..], &reference(of), &[0]].concat()
    }

    /// Returns the debug information of a function with a parameter in `rdi`, whose type these entries are.
    fn signatures(types: &[u8], steps: u64) -> Signatures {
        let range = [ADDRESS.to_le_bytes(), 64_u64.to_le_bytes()].concat();
        let parameter = [&[3][..], &reference(TYPE), &[1, 0x55], &[0]].concat();
        let entries = [&[1][..], &range, &[2], &range, &parameter, types, &[0]].concat();
        let length = (entries.len() as u32 + 7).to_le_bytes();
        let info = [&length[..], &[4, 0, 0, 0, 0, 0, 8], &entries].concat();
        let mut file = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        for (name, bytes) in [(".debug_abbrev", ABBREVIATIONS), (".debug_info", &info)] {
            let section = file.add_section(Vec::new(), name.into(), SectionKind::Debug);
            file.append_section_data(section, bytes, 1);
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, file.write().unwrap()).unwrap();
        let budget = Budget::default();
        let image = image::of_file(&path, &budget, Parts::Signatures).unwrap();
        let meter = Rc::new(Meter::with_steps(&budget, steps));
        Signatures::new(image, &meter, &Rc::default()).unwrap()
    }

    /// Returns the values of the parameter's type.
    fn words(types: &[u8]) -> Result<Vec<String>, &'static str> {
        let signature = signatures(types, 1 << 20).at(ADDRESS)?;
        let [parameter] = &signature.parameters[..] else { panic!("{signature:?}") };
        let at = At::Register(5, u64::MAX);
        assert_eq!(parameter.place, Place::Parts(vec![Part { size: None, at }]));
        let words = parameter.ty.clone()?.words?;
        Ok(words.into_iter().map(|word| word.c_type).collect())
    }

    #[test]
    fn types_have_values() {
        let number = [6, 0x07, 4];
        assert_eq!(words(&number), Ok(vec!["uint32_t".to_owned()]));
        // A pointer to the type behind it.
        let pointer = [&[7][..], &reference(TYPE + 5), &number].concat();
        assert_eq!(words(&pointer), Ok(vec!["uint32_t *".to_owned()]));
        let of_number = [&[4, 4][..], &member(TYPE + 9), &[0], &number].concat();
        assert_eq!(words(&of_number), Ok(vec!["uint32_t".to_owned()]));
        let one = member(TYPE + 2 + 3 * 6 + 1);
        let three = [&[4, 4][..], &one, &one, &one, &[0], &number].concat();
        assert_eq!(words(&three), Err("its type has more than two values"));
    }

    #[test]
    fn types_in_a_circle_end() {
        let deep = Err("its type is nested too deeply");
        assert_eq!(words(&[&[4, 8][..], &member(TYPE), &[0]].concat()), deep);
        assert_eq!(words(&[&[8][..], &reference(TYPE)].concat()), deep);
        let pointers = words(&[&[7][..], &reference(TYPE)].concat()).unwrap();
        assert!(pointers[0].starts_with("void **") && pointers[0].len() < 64, "{pointers:?}");
        // A reference out of the unit, and one into the middle of an entry.
        for to in [u32::MAX, 0, TYPE + 1] {
            let found = words(&[&[8][..], &reference(to)].concat());
            assert_eq!(found, Err("its type cannot be read"), "{to:#x}");
        }
    }

    /// Structs of 100 members without data, in each other: 100 to the power of 8.
    #[test]
    fn work_has_a_limit() {
        let level = |index: u32| {
            let next = TYPE + 603 * (index + 1);
            [&[4, 0][..], &member(next).repeat(100), &[0]].concat()
        };
        let nested = [(0..8).flat_map(level).collect(), vec![4, 0, 0]].concat();
        let signatures = signatures(&nested, 1 << 20);
        let found = signatures.at(ADDRESS);
        let is_read = found.as_ref().is_ok_and(|of| of.parameters[0].ty.is_ok());
        assert!(!is_read, "{found:?}");
        assert_eq!(signatures.meter.exceeded(), Some(super::super::Exceeded::Steps));
        assert_eq!(signatures.at(ADDRESS).err(), Some(LIMITED));
    }

    #[test]
    fn only_the_function_at_the_address_is_described() {
        let signatures = signatures(&[6, 0x07, 4], 1 << 20);
        assert!(signatures.at(ADDRESS).is_ok());
        for other in [ADDRESS + 1, ADDRESS - 1, ADDRESS + 64, 0, u64::MAX] {
            let reason = "the file has no debug information of it: compile it with -g";
            assert_eq!(signatures.at(other), Err(reason), "{other:#x}");
        }
    }
}
