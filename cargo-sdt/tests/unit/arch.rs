//! Tests of `src/arch.rs`.

use super::*;

#[test]
fn command_lines_take_both_names() {
    for arch in Arch::ALL {
        for name in [arch.name(), arch.freebsd_name()] {
            assert_eq!(Arch::from_str(name, false), Ok(arch), "{name}");
        }
        assert_eq!(arch.to_possible_value().unwrap().get_name(), arch.to_string());
    }
    assert_eq!(Arch::value_variants(), Arch::ALL);
}

#[test]
fn machines_are_told_apart() {
    for arch in Arch::ALL {
        assert_eq!(Arch::of_machine(arch.machine()), Some(arch));
    }
    assert_eq!(Arch::of_machine(elf::EM_386), None);
}
