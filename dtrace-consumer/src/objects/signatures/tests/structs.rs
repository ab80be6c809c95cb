//! Layouts of structs behind pointers, of honest and of hostile files.

use std::collections::HashMap;

use dtrace_compiler::declared::{Declarations, Struct};

use super::*;

/// Entries of types that refer to each other by labels.
#[derive(Clone, Default)]
struct Entries {
    bytes: Vec<u8>,
    labels: HashMap<&'static str, u32>,
    references: Vec<(usize, &'static str)>,
}

impl Entries {
    /// Begins with a pointer to the type with this label.
    fn pointer(to: &'static str) -> Self {
        Self::default().put(&[7]).to(to)
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    fn label(mut self, label: &'static str) -> Self {
        self.labels.insert(label, TYPE + self.bytes.len() as u32);
        self
    }

    fn to(mut self, label: &'static str) -> Self {
        self.references.push((self.bytes.len(), label));
        self.put(&[0; 4])
    }

    /// Adds an abbreviation with a name and a number below 128.
    fn named(self, abbreviation: u8, name: &str, number: u8) -> Self {
        self.put(&[abbreviation]).put(name.as_bytes()).put(&[0, number])
    }

    fn member(self, name: &str, to: &'static str, offset: u8) -> Self {
        self.put(&[10]).put(name.as_bytes()).put(&[0]).to(to).put(&[offset])
    }

    fn end(self) -> Self {
        self.put(&[0])
    }

    fn finish(mut self) -> Vec<u8> {
        for (at, label) in &self.references {
            self.bytes[*at..at + 4].copy_from_slice(&self.labels[label].to_le_bytes());
        }
        self.bytes
    }
}

/// An order in a namespace, with members of all kinds.
fn order() -> Vec<u8> {
    Entries::pointer("order")
        .put(b"\x11shop\0")
        .label("order")
        .named(9, "Order<*const u8, i8>", 64)
        .member("low", "number", 4)
        .member("next", "pointer", 8)
        .member("table", "table", 16)
        .member("choice", "choice", 32)
        .member("nothing", "nothing", 40)
        .put(b"\x12bits\0")
        .to("number")
        .put(&[40, 3])
        .member("both", "union", 44)
        .member("outside", "number", 62)
        .member("no name", "number", 48)
        .end()
        .label("nothing")
        .named(9, "Nothing", 0)
        .end()
        .label("choice")
        .named(9, "Choice", 8)
        .put(&[13])
        .member("", "number", 0)
        .put(&[14, 1])
        .member("Some", "some", 0)
        .end()
        .put(&[15])
        .member("None", "none", 0)
        .end()
        .end()
        .label("some")
        .named(9, "Some", 8)
        .member("__0", "number", 4)
        .end()
        .label("none")
        .named(9, "None", 8)
        .end()
        .end()
        .end()
        .label("number")
        .put(&[6, 0x07, 4])
        .label("pointer")
        .put(&[7])
        .to("order")
        .label("table")
        .put(&[11])
        .to("number")
        .put(&[12, 2, 12, 2])
        .end()
        .label("union")
        .named(16, "both", 4)
        .member("whole", "number", 0)
        .member("shifted", "number", 2)
        .end()
        .finish()
}

/// Returns the type of the parameter, and the declarations of the struct to which it points.
fn declared(signatures: &Signatures) -> Option<(String, Declarations)> {
    let signature = signatures.at(ADDRESS).ok()?;
    let ty = signature.parameters.into_iter().next()?.ty.ok()?;
    let word = ty.words.ok()?.into_iter().next()?;
    let declarations = signatures.declarations(word.c_type.strip_suffix(" *")?)?;
    Some((word.c_type, declarations))
}

fn shown(of: &Struct) -> Vec<String> {
    let fields = of.fields.iter().map(|field| {
        let counts: String = field.dimensions.iter().map(|count| format!("[{count}]")).collect();
        format!("{} {}{counts}: {} at {}", field.name, field.c_type, field.size, field.offset)
    });
    fields.chain(of.missing.iter().map(|(name, why)| format!("{name}: {why}"))).collect()
}

#[test]
fn structs_behind_pointers_have_members() {
    let signatures = signatures(&order(), 1 << 20);
    let (name, all) = declared(&signatures).unwrap();
    let order = "struct shop::Order<ptr_const_u8,i8>";
    assert_eq!(name, format!("{order} *"));
    let of = |name: &str| all.structs.iter().find(|of| of.name == name).unwrap();
    let expected = [
        "low uint32_t: 4 at 4",
        &format!("next {order} *: 8 at 8"),
        "table uint32_t[2][2]: 16 at 16",
        "choice struct shop::Choice: 8 at 32",
        "both union both: 4 at 44",
        "nothing: it has no data, or its size is unknown",
        "bits: it is a bit-field",
        "outside: it overlaps another member",
    ];
    assert_eq!(shown(of(order)), expected);
    assert_eq!(of(order).size, 64);
    let expected = ["whole uint32_t: 4 at 0", "shifted: it overlaps another member"];
    assert_eq!(shown(of("union both")), expected);
    assert_eq!(shown(of("struct shop::Choice")), [" union shop::Choice::{variants}: 8 at 0"]);
    let expected =
        [" struct shop::Choice::{discriminant}: 4 at 0", "Some struct shop::Choice::Some: 8 at 0"];
    assert_eq!(shown(of("union shop::Choice::{variants}")), expected);
    assert_eq!(shown(of("struct shop::Choice::Some")), ["__0 uint32_t: 4 at 4"]);
    assert_eq!(signatures.declarations("struct shop::Order"), None);
}

/// Two structs of one name have different names in D, unless their layouts are equal.
#[test]
fn structs_of_one_path_are_compared() {
    let types = Entries::pointer("first")
        .label("first")
        .named(9, "item", 24)
        .member("other", "to second", 0)
        .member("same", "to third", 8)
        .member("last", "to fourth", 16)
        .end()
        .label("second")
        .named(9, "item", 8)
        .member("number", "number", 0)
        .end()
        .label("third")
        .named(9, "item", 8)
        .member("number", "number", 4)
        .end()
        .label("fourth")
        .named(9, "item", 8)
        .member("number", "number", 0)
        .end()
        .label("number")
        .put(&[6, 0x07, 4]);
    let types = [("to second", "second"), ("to third", "third"), ("to fourth", "fourth")]
        .into_iter()
        .fold(types, |types, (label, to)| types.label(label).put(&[7]).to(to));
    let signatures = signatures(&types.finish(), 1 << 20);
    let (name, all) = declared(&signatures).unwrap();
    assert_eq!(name, "struct item *");
    let expected = [
        "other struct item#2 *: 8 at 0",
        "same struct item#3 *: 8 at 8",
        "last struct item#2 *: 8 at 16",
    ];
    assert_eq!(shown(&all.structs[0]), expected);
    let third = signatures.declarations("struct item#3").unwrap();
    assert_eq!(shown(&third.structs[0]), ["number uint32_t: 4 at 4"]);
}

/// Two enums of one name and size, whose variants are in different places.
#[test]
fn enums_of_one_path_are_compared() {
    let choice = |entries: Entries, label, some: &'static str| {
        entries
            .label(label)
            .named(9, "Choice", 16)
            .put(&[13])
            .member("", "number", 0)
            .put(&[14, 1])
            .member("Some", some, 0)
            .end()
            .end()
            .end()
    };
    let some = |entries: Entries, label, offset| {
        entries.label(label).named(9, "Some", 16).member("__0", "number", offset).end()
    };
    let types = Entries::pointer("first")
        .label("first")
        .named(9, "all", 24)
        .member("one", "to one", 0)
        .member("two", "to two", 8)
        .member("same", "to same", 16)
        .end();
    let types = choice(choice(choice(types, "one", "at 4"), "two", "at 8"), "same", "also at 4");
    let types = some(some(some(types, "at 4", 4), "at 8", 8), "also at 4", 4);
    let types = [("to one", "one"), ("to two", "two"), ("to same", "same")]
        .into_iter()
        .fold(types, |types, (label, to)| types.label(label).put(&[7]).to(to));
    let types = types.label("number").put(&[6, 0x07, 4]);
    let signatures = signatures(&types.finish(), 1 << 20);
    let (_, all) = declared(&signatures).unwrap();
    let expected = [
        "one struct Choice *: 8 at 0",
        "two struct Choice#2 *: 8 at 8",
        "same struct Choice *: 8 at 16",
    ];
    assert_eq!(shown(&all.structs[0]), expected);
    let second = signatures.declarations("struct Choice#2").unwrap();
    let some = second.structs.iter().find(|of| of.name == "struct Choice#2::Some").unwrap();
    assert_eq!(shown(some), ["__0 uint32_t: 4 at 8"]);
}

/// A struct that contains itself, one that is too large, and one without a name.
#[test]
fn impossible_structs_have_no_members() {
    let circle = Entries::pointer("s").label("s").named(9, "s", 8).member("s", "s", 0).end();
    let signatures_of = |types: Entries| signatures(&types.finish(), 1 << 20);
    let (_, all) = declared(&signatures_of(circle)).unwrap();
    assert_eq!(all.structs.len(), 1);
    assert_eq!(words(&[&[7][..], &reference(TYPE + 5), &[4, 8, 0]].concat()).unwrap(), ["void *"]);
    let large = Entries::pointer("s").label("s").put(b"\x09s\0\xff\xff\xff\xff\x7f").end();
    assert_eq!(words(&large.finish()).unwrap(), ["void *"]);
    let array = Entries::pointer("s")
        .label("s")
        .named(9, "s", 8)
        .member("all", "array", 0)
        .end()
        .label("array")
        .put(&[11])
        .to("array")
        .put(&[12, 1])
        .end();
    let (_, all) = declared(&signatures_of(array)).unwrap();
    let expected = ["all: it has no data, or its size is unknown"];
    assert_eq!(shown(&all.structs[0]), expected);
}

/// Every third bit of the types is inverted. The reader neither panics, nor exceeds its limits, nor returns structs whose fields are
/// outside of them.
#[test]
fn changed_types_are_read_or_refused() {
    let types = order();
    let (mut read, mut refused) = (0, 0);
    for bit in (0..8 * types.len()).step_by(3) {
        let mut types = types.clone();
        types[bit / 8] ^= 1 << (bit % 8);
        let signatures = signatures(&types, 1 << 20);
        let Some((_, all)) = declared(&signatures) else {
            refused += 1;
            continue;
        };
        read += 1;
        for of in &all.structs {
            for field in &of.fields {
                assert!(field.offset + field.size <= of.size, "{bit}: {of:?}");
            }
        }
    }
    assert!(read > 300 && refused > 30, "{read} {refused}");
}
