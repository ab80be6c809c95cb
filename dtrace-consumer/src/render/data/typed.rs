//! `print()`: data by their type, in the form of FreeBSD's dt_print.c, which is `::print -tn` of mdb(1).

use std::io::Write as _;

use dtrace_compiler::types::{Type, TypeId};

use crate::render::data::bits::{signed, u64_of, unsigned};
use crate::render::data::cprintf::{FloatStyle, Spec};
use crate::render::data::error::LONGEST;
use crate::render::data::view::View;

/// Writes data of a type.
pub(in crate::render) fn show(out: &mut Vec<u8>, view: &View<'_>, ty: TypeId, data: &[u8]) {
    let mut printer = Printer { out, view, data, depth: 0, nest: 0 };
    printer.visit("", ty, 0, 0);
    printer.close(0);
}

/// A member of the data that `print` shows.
pub(in crate::render) struct Member {
    /// Its name; empty for the data as a whole.
    pub name: String,
    /// Its type's name.
    pub type_name: String,
    /// Its type.
    pub ty: TypeId,
    /// Its value; `None` for a struct.
    pub value: Option<String>,
}

/// Returns the data of a type as a whole, and all their members, also those of inner structs.
pub(in crate::render) fn members(view: &View<'_>, ty: TypeId, data: &[u8]) -> Vec<Member> {
    let (mut members, mut bytes) = (Vec::new(), 0);
    gather(view, data, "", (ty, 0), &mut members, &mut bytes);
    members
}

fn gather(
    view: &View<'_>,
    data: &[u8],
    name: &str,
    (ty, offset): (TypeId, u64),
    to: &mut Vec<Member>,
    bytes: &mut usize,
) {
    // A kernel declares types, so nested members and names are limited.
    if to.len() > MEMBERS || *bytes > LONGEST {
        return;
    }
    let types = view.types;
    let resolved = types.get(types.resolve(ty));
    let value = (!matches!(resolved, Type::Record { .. })).then(|| {
        let mut out = Vec::new();
        let mut printer = Printer { out: &mut out, view, data, depth: 0, nest: 0 };
        printer.value(ty, offset);
        String::from_utf8_lossy(&out).into_owned()
    });
    let type_name = types.name(ty);
    *bytes += name.len() + type_name.len() + value.as_ref().map_or(0, String::len);
    to.push(Member { name: name.into(), type_name, ty, value });
    if let Type::Record { members, .. } = resolved {
        for member in members {
            let place = (member.ty, offset.saturating_add(member.offset));
            gather(view, data, member.name.as_deref().unwrap_or(""), place, to, bytes);
        }
    }
}

struct Printer<'a> {
    out: &'a mut Vec<u8>,
    view: &'a View<'a>,
    data: &'a [u8],
    /// The number of structs around the last member.
    depth: usize,
    /// The indentation of the enclosing arrays, in levels.
    nest: usize,
}

/// The maximum number of members of one value that are shown.
const MEMBERS: usize = 1 << 16;

/// The columns of one level of indentation.
const LEVEL: usize = 4;

impl Printer<'_> {
    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn indent(&mut self, levels: usize) {
        self.out.resize(self.out.len() + levels * LEVEL, b' ');
    }

    /// Writes the closing braces of the structs that ended since the last member.
    fn close(&mut self, depth: usize) {
        for level in (depth + 1..=self.depth).rev() {
            self.indent(level + self.nest - 1);
            self.put(if level == depth + 1 { "}" } else { "}\n" });
        }
    }

    /// Returns the bytes of a value. Bytes that are not in the record are left out.
    fn bytes(&self, offset: u64, size: u64) -> &[u8] {
        let begin = usize::try_from(offset / 8).unwrap_or(usize::MAX).min(self.data.len());
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(self.data.len() - begin);
        &self.data[begin..begin + size]
    }

    /// Writes a value, then all of its members.
    fn visit(&mut self, name: &str, ty: TypeId, offset: u64, depth: usize) {
        // The types come from the kernel, so the output is limited.
        if self.out.len() > LONGEST {
            return;
        }
        self.member(name, ty, offset, depth);
        let types = self.view.types;
        if let Type::Record { members, .. } = types.get(types.resolve(ty)) {
            for member in members {
                let name = member.name.as_deref().unwrap_or("");
                self.visit(name, member.ty, offset.saturating_add(member.offset), depth + 1);
            }
        }
    }

    fn member(&mut self, name: &str, ty: TypeId, offset: u64, depth: usize) {
        self.close(depth);
        if depth < self.depth {
            self.put("\n");
        }
        self.depth = depth;
        let types = self.view.types;
        let resolved = types.get(types.resolve(ty));
        let element = self.nest != 0 && depth == 0;
        let brief = element && !matches!(resolved, Type::Record { .. });
        if !brief {
            if element {
                self.put("\n");
            }
            self.indent(self.depth + self.nest);
            let type_name = types.name(ty);
            self.put(&type_name);
            if !name.is_empty() {
                if !type_name.ends_with(['*', ' ']) {
                    self.put(" ");
                }
                self.put(name);
                if let Type::Int { bits, .. } = resolved
                    && (!bits.is_multiple_of(8)
                        || !offset.is_multiple_of(8)
                        || u64::from(bits / 8) != types.size(ty))
                {
                    let _ = write!(self.out, " :{bits}");
                }
                self.put(" =");
            }
            self.put(" ");
        }
        self.value(ty, offset);
        if !brief {
            self.put("\n");
        }
    }

    fn value(&mut self, ty: TypeId, offset: u64) {
        let types = self.view.types;
        let ty = types.resolve(ty);
        let size = types.size(ty);
        match types.get(ty) {
            Type::Int { bits, signed, char, .. } => self.int(*bits, *signed && *char, offset),
            Type::Float { .. } => self.float(offset, size),
            Type::Pointer(to) => {
                let address = u64_of(self.bytes(offset, size));
                let function = matches!(types.get(types.resolve(*to)), Type::Function);
                match self.view.symbols.symbol(address) {
                    Some(_) if function => {
                        let name = self.view.names().symbol(address);
                        self.put(&name);
                    }
                    _ => self.hex(address),
                }
            }
            Type::Function => self.hex(u64_of(self.bytes(offset, 8))),
            Type::Array(of, count) => self.array(*of, *count, offset),
            Type::Record { .. } => self.put("{"),
            Type::Enum { values, .. } => {
                let value = signed(self.bytes(offset, size)).unwrap_or(0);
                match values.iter().find(|(_, number)| i64::from(*number) == value) {
                    Some((name, _)) => self.put(name),
                    None => {
                        let _ = write!(self.out, "{value}");
                    }
                }
            }
            Type::Forward(..) => self.put("<forward decl>"),
            // Typedefs were resolved.
            Type::Typedef(..) => {}
        }
    }

    fn hex(&mut self, value: u64) {
        Spec { alternate: true, ..Spec::default() }.hex(self.out, value, false);
    }

    fn int(&mut self, bits: u32, char: bool, offset: u64) {
        let size = u64::from(bits / 8);
        if !bits.is_multiple_of(8) || size > 8 || !size.is_power_of_two() {
            let value = u64_of(self.bytes(offset, bits.div_ceil(8).into()));
            let mask = 1_u64.checked_shl(bits).map_or(u64::MAX, |bit| bit - 1);
            return self.hex((value >> (offset % 8)) & mask);
        }
        let bytes = self.bytes(offset, size);
        if !(char && bits == 8) {
            let value = unsigned(bytes).unwrap_or(0);
            return self.hex(value);
        }
        // A negative character is sign-extended before it is shown in octal, as in C.
        let byte = bytes.first().copied().unwrap_or(0);
        let _ = match byte {
            b' '..=b'~' => write!(self.out, "'{}'", char::from(byte)),
            0 => write!(self.out, "'\\0'"),
            _ => write!(self.out, "'\\{:03o}'", i32::from(byte as i8)),
        };
    }

    fn float(&mut self, offset: u64, size: u64) {
        let bytes = self.bytes(offset, size);
        let (value, precision) =
            (crate::render::data::bits::float(bytes), if size == 16 { 16 } else { 7 });
        let Some(value) = value else { return self.put("<unknown encoding>") };
        let spec = Spec { plus: true, precision, ..Spec::default() };
        spec.float(self.out, value, FloatStyle::Exponent, size == 16);
    }

    fn array(&mut self, of: TypeId, count: u32, offset: u64) {
        let types = self.view.types;
        let size = types.size(of);
        let all = self.bytes(offset, size.saturating_mul(count.into()));
        if let Type::Int { bits: 8, signed: true, char: true, .. } = types.get(types.resolve(of)) {
            let text = crate::render::data::bits::until_zero(all);
            let is_shown = |text: &str| !text.chars().any(char::is_control);
            if text.len() < all.len() && std::str::from_utf8(text).is_ok_and(is_shown) {
                // A single string is printed without brackets.
                let (open, close) = if self.depth == 0 { ("\"", "\"") } else { ("[ \"", "\" ]") };
                let text = text.to_vec();
                self.put(open);
                self.out.extend_from_slice(&self.view.data(&text));
                return self.put(close);
            }
        }
        let records = matches!(types.get(types.resolve(of)), Type::Record { .. });
        // Elements whose bytes are not in the record are not shown.
        let there = (all.len() as u64).checked_div(size).unwrap_or(0);
        let elements = all.chunks_exact(usize::try_from(size).unwrap_or(1).max(1));
        let elements: Vec<Vec<u8>> = elements.map(<[u8]>::to_vec).collect();
        self.put("[ ");
        for (index, element) in (1..=there).zip(&elements) {
            let nest = self.nest + self.depth + 1;
            let (out, view) = (&mut *self.out, self.view);
            let mut inner = Printer { out, view, data: element, depth: 0, nest };
            inner.visit("", of, 0, 0);
            inner.close(0);
            if index < there {
                self.put(", ");
            } else if records {
                self.put("\n");
            }
        }
        if records {
            self.indent(self.depth + self.nest);
        } else {
            self.put(" ");
        }
        self.put("]");
    }
}
