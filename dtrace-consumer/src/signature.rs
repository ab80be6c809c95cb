//! The parameters and the result of a function, as debug information describes them.

use std::cell::RefCell;
use std::collections::HashMap;

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signature {
    /// Its symbol, if the debug information has it.
    pub symbol: Option<String>,
    /// Where its frame begins, to which [`At::Frame`] is relative.
    pub frame: Option<Frame>,
    /// In their order.
    pub parameters: Vec<Parameter>,
    /// The type of the result; `None` if it has none.
    pub result: Option<Type>,
    /// Whether the compiler has changed the calling convention (`DW_CC_nocall`), so that the result may be missing.
    pub is_altered: bool,
}

impl Signature {
    /// Returns its size in memory, in bytes.
    pub fn bytes(&self) -> u64 {
        let types = self.parameters.iter().filter_map(|of| of.ty.as_ref().ok()).chain(&self.result);
        let types = types.map(|ty| {
            let words = ty.words.as_ref().map_or(0, |words| size_of::<Word>() * words.len());
            words + ty.name.len()
        });
        let parameters = self.parameters.iter().map(|of| {
            let parts = match &of.place {
                Place::Parts(parts) => size_of::<Part>() * parts.len(),
                _ => 0,
            };
            size_of::<Parameter>() + of.name.len() + parts
        });
        let symbol = self.symbol.as_ref().map_or(0, String::len);
        let all = size_of::<Self>() + symbol + types.chain(parameters).sum::<usize>();
        all as u64
    }
}

/// The address to which the slots of a function's variables are relative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The value of a register (in DWARF's numbering), and an offset.
    Register(u16, i64),
    /// The stack pointer before the call: the canonical frame address.
    Call,
}

/// A formal parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its type, or why it is unknown.
    pub ty: Result<Type, &'static str>,
    /// Its location when the function begins.
    pub place: Place,
}

/// The location of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Its parts, in their order, without gaps.
    Parts(Vec<Part>),
    /// The memory at the address in a register (in DWARF's numbering).
    Memory(u16),
    /// The compiler replaced it by a constant.
    Constant,
    /// The debug information has none for the first instruction.
    Missing,
    /// An expression that is not evaluated here.
    Other,
}

/// A part of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// In bytes; `None` for the whole parameter.
    pub size: Option<u64>,
    pub at: At,
}

/// The location of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The low bytes of a register (in DWARF's numbering), and which of their bits are those of the part; its others are 0.
    Register(u16, u64),
    /// Memory at an offset in the frame.
    Frame(i64),
    /// The compiler removed it, or it is a constant.
    Nowhere,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    /// Its name in the source, for messages.
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// Its values that D can represent, in the order of their offsets; or why there are none.
    pub words: Result<Vec<Word>, &'static str>,
    /// Whether it is text or bytes: an address and a length.
    pub is_text: bool,
}

/// A number or a pointer in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// In bytes, from the beginning of the value.
    pub offset: u64,
    /// In bytes.
    pub size: u64,
    /// The type in D.
    pub c_type: String,
    /// Whether it has the values 0 and 1 only: `bool`, or an enum of two constants. The other bits of its byte are 0, also in a
    /// register (rustc and clang pass it as a zero-extended `i1`).
    pub is_flag: bool,
}

/// The most bytes of a path in the name of a struct.
const LONGEST: usize = 256;

/// The names in D of the structs and unions of a kernel or a process.
#[derive(Debug, Default)]
pub(crate) struct StructNames(RefCell<HashMap<String, Vec<u64>>>);

impl StructNames {
    /// Returns the name of a struct with this path in the source. Structs of one path with different layouts have different names;
    /// `layout` is a hash of the members.
    pub fn name(&self, path: &str, layout: u64) -> String {
        let name = spelled(path);
        let mut all = self.0.borrow_mut();
        let known = all.entry(name.clone()).or_default();
        let index = known.iter().position(|of| *of == layout).unwrap_or_else(|| {
            known.push(layout);
            known.len() - 1
        });
        if index == 0 { name } else { format!("{name}#{}", index + 1) }
    }
}

/// Returns a path as the name of a type: without blanks, stars and accents, which separate names and modules in D.
fn spelled(path: &str) -> String {
    let path = path.replace(", ", ",").replace('*', "ptr_");
    let end = path.floor_char_boundary(LONGEST);
    let name = path[..end].replace([' ', '`'], "_");
    if end < path.len() { format!("{name}..") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_structs_are_words() {
        let names = StructNames::default();
        assert_eq!(names.name("shop::Order", 1), "shop::Order");
        assert_eq!(names.name("shop::Order", 2), "shop::Order#2");
        assert_eq!(names.name("shop::Order", 1), "shop::Order");
        assert_eq!(names.name("Map<u8, *const dyn A>", 1), "Map<u8,ptr_const_dyn_A>");
        let long = names.name(&"é".repeat(LONGEST), 1);
        assert_eq!(long, format!("{}..", "é".repeat(LONGEST / 2)));
    }
}
