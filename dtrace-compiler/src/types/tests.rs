use dtrace_abi::dif::CtfKind;

use super::*;

fn record(types: &mut Types, members: &[(&str, TypeId)]) -> TypeId {
    let id = types.add(Type::Record { union: false, tag: None, members: Vec::new(), size: 0 });
    for (name, ty) in members {
        types.add_member(id, Some((*name).into()), *ty);
    }
    id
}

#[test]
fn names_are_those_of_c() {
    let mut types = Types::new(256);
    for name in ["int *", "unsigned long long", "char **", "string", "size_t"] {
        let id = types.lookup(name).unwrap();
        assert_eq!(types.name(id), name);
    }
    let char = types.lookup("char").unwrap();
    let array = types.array(char, 4);
    assert_eq!(types.name(array), "char [4]");
    let pointers = types.lookup("char *").unwrap();
    let array = types.array(pointers, 2);
    assert_eq!(types.name(array), "char *[2]");
    let forward = types.forward(CtfKind::Struct, "s");
    let pointer = types.pointer(forward);
    assert_eq!(types.name(pointer), "struct s *");
    assert_eq!(types.lookup("const char *"), types.lookup("char*"));
    assert_eq!(types.lookup("nosuch"), None);
}

/// Offsets of members on a real FreeBSD: a struct ends with its last member.
#[test]
fn members_stand_where_libctf_puts_them() {
    let mut types = Types::new(256);
    let (char, int, long) = (
        types.lookup("char").unwrap(),
        types.lookup("int").unwrap(),
        types.lookup("long").unwrap(),
    );
    let id = record(&mut types, &[("a", char), ("b", int), ("c", long), ("d", char)]);
    let offset = |types: &Types, name| types.member(id, name).unwrap().offset / 8;
    assert_eq!(["a", "b", "c", "d"].map(|name| offset(&types, name)), [0, 4, 8, 16]);
    assert_eq!(types.size(id), 17);

    let mut bits =
        |bits, signed| types.add(Type::Int { name: "int".into(), bits, signed, char: false });
    let (three, five, forty) = (bits(3, true), bits(5, false), bits(40, false));
    assert!(types.is_bit_field(three) && types.is_bit_field(forty) && !types.is_bit_field(int));
    let id = record(&mut types, &[("a", three), ("b", five), ("e", forty)]);
    assert_eq!(types.member(id, "b").unwrap().offset, 8);
    assert_eq!(types.member(id, "e").unwrap().offset, 64);
    assert_eq!(types.size(id), 16);
}

#[test]
fn strings_are_arrays_of_characters() {
    let types = Types::new(512);
    let string = types.special().string;
    assert_eq!((types.size(string), types.kind(string)), (512, CtfKind::Array));
    assert_eq!(types.size(types.special().void), 0);
}

#[test]
fn compatibility_is_by_form() {
    let mut types = Types::new(256);
    let mut compatible = |a: &str, b: &str| {
        let (a, b) = (types.lookup(a).unwrap(), types.lookup(b).unwrap());
        types.compatible(a, b)
    };
    assert!(compatible("long", "long long") && compatible("int8_t *", "char *"));
    assert!(!compatible("int *", "char *") && !compatible("int", "unsigned"));
    assert!(!compatible("char", "uint8_t"));
}
