//! Tests of `src/link/seal.rs`.

use super::*;

/// A file with a section of some bytes, its contents only.
fn module() -> Vec<u8> {
    let mut object = object::write::Object::new(
        object::BinaryFormat::Elf,
        object::Architecture::X86_64,
        object::Endianness::Little,
    );
    let text = object.add_section(Vec::new(), b".text".to_vec(), object::SectionKind::Text);
    object.append_section_data(text, b"a module", 1);
    object.write().unwrap()
}

#[test]
fn every_change_of_a_sealed_file_breaks_the_seal() {
    let mut file = module();
    assert_eq!(Seal::of(&file), Seal::None);
    let contents = file.len();
    seal(&mut file);
    assert_eq!(Seal::of(&file), Seal::Whole);
    for at in 0..8 * file.len() {
        let mut changed = file.clone();
        changed[at / 8] ^= 1 << (at % 8);
        assert_eq!(Seal::of(&changed), Seal::Broken, "bit {at}");
    }
    for length in contents + 1..file.len() {
        assert_eq!(Seal::of(&file[..length]), Seal::Broken, "cut to {length}");
    }
    for more in [0, b'x'] {
        let longer = [&file[..], &[more]].concat();
        assert_eq!(Seal::of(&longer), Seal::Broken, "{more} behind it");
    }
    assert_eq!(Seal::of(&file[..contents]), Seal::None, "as strip leaves it");
    assert_eq!(Seal::of(b""), Seal::None);
}
