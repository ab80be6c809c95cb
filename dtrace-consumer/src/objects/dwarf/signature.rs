//! The parameters and the result of a function.

use std::rc::Rc;

use gimli::{AttributeValue, EntriesRaw, Expression, Operation, UnitOffset};

use super::{Debug, ORIGINS, Part as Section, Result, Unit};
use crate::signature::{At, Frame, Parameter, Part, Place, Signature};

/// The maximum number of parameters of a function that are read.
const PARAMETERS: usize = 256;
/// The maximum number of operations in an expression.
const OPERATIONS: usize = 64;

const SHARED: &str = "several functions have this address in the debug information";
const DAMAGED: &str = "its debug information is damaged, or too large";
const MISSING: &str = "the file has no debug information of it: compile it with -g";

/// The attributes of an entry of a function, a parameter or a type.
#[derive(Default)]
pub(super) struct Entry {
    pub name: Option<AttributeValue<Section>>,
    pub linkage_name: Option<AttributeValue<Section>>,
    pub ty: Option<AttributeValue<Section>>,
    /// The abstract instance of an inlined function, or of a parameter of one.
    pub origin: Option<AttributeValue<Section>>,
    pub specification: Option<AttributeValue<Section>>,
    pub location: Option<AttributeValue<Section>>,
    pub frame: Option<AttributeValue<Section>>,
    pub has_constant: bool,
    pub is_altered: bool,
    pub size: Option<u64>,
    pub encoding: Option<gimli::DwAte>,
    /// The offset of a member.
    pub offset: Option<u64>,
    pub is_bit_field: bool,
    /// Whether the offset of a member has to be computed.
    pub is_computed: bool,
    /// Whether it is a static member.
    pub is_external: bool,
    /// Whether it only mentions a type that is defined elsewhere.
    pub is_declaration: bool,
    /// The number of elements in a dimension of an array.
    pub count: Option<u64>,
    /// The discriminant of a variant; `None` if it has all other values.
    pub discriminant: Option<u64>,
}

/// A place in the debug information.
pub(super) type Reference = (Rc<Unit>, UnitOffset);

/// An entry below another one.
pub(super) struct Child {
    pub tag: gimli::DwTag,
    pub at: UnitOffset,
    pub entry: Entry,
}

impl Debug {
    /// Returns the description of the function that begins at an address.
    ///
    /// # Errors
    /// The reason: there is none, or several functions begin there.
    pub fn signature_at(&self, address: u64) -> std::result::Result<Signature, &'static str> {
        let mut found: Option<Signature> = None;
        for start in self.code.find(address) {
            let Ok(unit) = self.unit_at(start) else { continue };
            let Ok(functions) = self.functions(&unit) else { continue };
            // Another function at the same address has the same code.
            for at in functions.find(address).map(UnitOffset) {
                match self.signature(&unit, at, address) {
                    Ok(None) => {}
                    Ok(Some(_)) if found.is_some() => return Err(SHARED),
                    Ok(Some(signature)) => found = Some(signature),
                    Err(_) => return Err(DAMAGED),
                }
            }
        }
        found.ok_or(MISSING)
    }

    fn signature(
        &self,
        unit: &Rc<Unit>,
        at: UnitOffset,
        address: u64,
    ) -> Result<Option<Signature>> {
        if !self.begins(unit, at, address)? {
            return Ok(None);
        }
        let (entry, own) = self.parameters(unit, at)?;
        let mut signature = Signature {
            symbol: self.name(unit, at)?,
            frame: entry.frame.as_ref().and_then(|of| self.frame(unit, of)),
            is_altered: entry.is_altered,
            ..Signature::default()
        };
        let mut result = entry.ty.as_ref().map(|ty| (unit.clone(), ty.clone()));
        let origin = entry.origin.as_ref().map(|of| self.refer(unit, of)).transpose()?.flatten();
        // The abstract instance has all parameters; the function itself has only locations.
        let mut all: Vec<(Option<Entry>, Rc<Unit>, Entry)> = Vec::new();
        match &origin {
            None => all.extend(own.into_iter().map(|of| (None, unit.clone(), of.entry))),
            Some((of, at)) => {
                let (abstracted, parameters) = self.parameters(of, *at)?;
                let ty = self.result_of(of, abstracted)?;
                result = result.or(ty);
                let mut own: Vec<_> = own.into_iter().map(Some).collect();
                for parameter in parameters {
                    let is_same = |child: &Child| {
                        let origin = child.entry.origin.as_ref();
                        let origin = origin.and_then(|to| self.refer(unit, to).ok().flatten());
                        origin.is_some_and(|(in_unit, at)| {
                            in_unit.start == of.start && at == parameter.at
                        })
                    };
                    let found = own.iter_mut().find(|child| child.as_ref().is_some_and(is_same));
                    let found = found.and_then(Option::take).map(|child| child.entry);
                    all.push((found, of.clone(), parameter.entry));
                }
            }
        }
        if origin.is_none() && result.is_none() {
            result = self.result_of(unit, entry)?;
        }
        for (concrete, of, entry) in all {
            let place = match (&concrete, origin.is_some()) {
                (Some(concrete), _) => self.place_of(unit, concrete, address),
                (None, false) => self.place_of(unit, &entry, address),
                (None, true) => Place::Missing,
            };
            let name = entry.name.map(|name| self.text(&of.unit, name)).transpose()?;
            let ty = match &entry.ty {
                Some(ty) => self.type_of(&of, ty).map_err(|_| "its type cannot be read"),
                None => Err("the debug information has no type of it"),
            };
            signature.parameters.push(Parameter { name: name.unwrap_or_default(), ty, place });
        }
        signature.result = result.map(|(of, ty)| self.type_of(&of, &ty)).transpose()?;
        Ok(Some(signature))
    }

    /// Returns the type of a function's result, which may be that of its declaration.
    fn result_of(
        &self,
        unit: &Rc<Unit>,
        entry: Entry,
    ) -> Result<Option<(Rc<Unit>, AttributeValue<Section>)>> {
        let (mut unit, mut entry) = (unit.clone(), entry);
        for _ in 0..ORIGINS {
            if let Some(ty) = entry.ty {
                return Ok(Some((unit, ty)));
            }
            let next = entry.specification.map(|of| self.refer(&unit, &of)).transpose()?.flatten();
            let Some((of, at)) = next else { break };
            entry = self.entry_at(&of, at)?.1;
            unit = of;
        }
        Ok(None)
    }

    /// Returns whether a function begins at an address, and not only contains it.
    fn begins(&self, unit: &Rc<Unit>, at: UnitOffset, address: u64) -> Result<bool> {
        let mut entries = unit.unit.entries_raw(Some(at))?;
        let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(false) };
        let attributes = self.attributes(&mut entries, abbreviation)?;
        let mut begins = false;
        self.each_range(&unit.unit, &attributes, |begin, _| {
            begins |= begin == address;
            !begins
        })?;
        Ok(begins)
    }

    /// Reads an entry.
    pub(super) fn entry_at(&self, unit: &Unit, at: UnitOffset) -> Result<(gimli::DwTag, Entry)> {
        let mut entries = unit.unit.entries_raw(Some(at))?;
        let abbreviation = entries.read_abbreviation()?.ok_or(gimli::Error::Io)?;
        Ok((abbreviation.tag(), self.entry(&mut entries, abbreviation)?))
    }

    fn entry(
        &self,
        entries: &mut EntriesRaw<'_, Section>,
        abbreviation: &gimli::Abbreviation,
    ) -> Result<Entry> {
        self.count(abbreviation)?;
        let mut found = Entry::default();
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec)?;
            let (value, number) = (attribute.value(), attribute.udata_value());
            match attribute.name() {
                gimli::DW_AT_name => found.name = Some(value),
                gimli::DW_AT_linkage_name => found.linkage_name = Some(value),
                gimli::DW_AT_type => found.ty = Some(value),
                gimli::DW_AT_abstract_origin => found.origin = Some(value),
                gimli::DW_AT_specification => found.specification = Some(value),
                gimli::DW_AT_location => found.location = Some(value),
                gimli::DW_AT_frame_base => found.frame = Some(value),
                gimli::DW_AT_const_value => found.has_constant = true,
                gimli::DW_AT_calling_convention => {
                    found.is_altered =
                        matches!(value, AttributeValue::CallingConvention(gimli::DW_CC_nocall));
                }
                gimli::DW_AT_byte_size => found.size = number,
                gimli::DW_AT_encoding => {
                    if let AttributeValue::Encoding(encoding) = value {
                        found.encoding = Some(encoding);
                    }
                }
                gimli::DW_AT_data_member_location => {
                    found.offset = number;
                    found.is_computed = number.is_none();
                }
                gimli::DW_AT_bit_size | gimli::DW_AT_data_bit_offset => found.is_bit_field = true,
                gimli::DW_AT_external => found.is_external = true,
                gimli::DW_AT_declaration => found.is_declaration = true,
                gimli::DW_AT_count => found.count = number,
                gimli::DW_AT_upper_bound => {
                    found.count = number.and_then(|last| last.checked_add(1));
                }
                // A value that is no number of 64 bits is not 0.
                gimli::DW_AT_discr_value => found.discriminant = Some(number.unwrap_or(u64::MAX)),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Returns a function and its parameters.
    fn parameters(&self, unit: &Unit, at: UnitOffset) -> Result<(Entry, Vec<Child>)> {
        let is_parameter = |tag| tag == gimli::DW_TAG_formal_parameter;
        self.children(unit, at, PARAMETERS, is_parameter)
    }

    /// Returns an entry, and the entries directly below it that have a wanted tag.
    pub(super) fn children(
        &self,
        unit: &Unit,
        at: UnitOffset,
        most: usize,
        is_wanted: impl Fn(gimli::DwTag) -> bool,
    ) -> Result<(Entry, Vec<Child>)> {
        let mut entries = unit.unit.entries_raw(Some(at))?;
        let abbreviation = entries.read_abbreviation()?.ok_or(gimli::Error::Io)?;
        let parent = self.entry(&mut entries, abbreviation)?;
        let mut children = Vec::new();
        let has_children = abbreviation.has_children();
        loop {
            let (at, depth) = (entries.next_offset(), entries.next_depth());
            if !has_children || depth <= 0 || entries.is_empty() {
                break;
            }
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            let tag = abbreviation.tag();
            if depth > 1 || !is_wanted(tag) {
                self.skip(&mut entries, abbreviation)?;
                continue;
            }
            if children.len() == most {
                return Err(gimli::Error::Io);
            }
            let entry = self.entry(&mut entries, abbreviation)?;
            children.push(Child { tag, at, entry });
        }
        Ok((parent, children))
    }

    /// Returns the location of a parameter at an address.
    fn place_of(&self, unit: &Rc<Unit>, entry: &Entry, address: u64) -> Place {
        if entry.has_constant {
            return Place::Constant;
        }
        let Some(location) = entry.location.clone() else { return Place::Missing };
        let expression = match location {
            AttributeValue::Exprloc(expression) => Ok(Some(expression)),
            list => self.listed(unit, list, address),
        };
        match expression {
            Ok(Some(expression)) => self.place_in(unit, expression).unwrap_or(Place::Other),
            Ok(None) => Place::Missing,
            Err(_) => Place::Other,
        }
    }

    /// Returns the expression of a list that is valid at an address.
    fn listed(
        &self,
        unit: &Rc<Unit>,
        list: AttributeValue<Section>,
        address: u64,
    ) -> Result<Option<Expression<Section>>> {
        let Some(mut list) = self.dwarf.attr_locations(&unit.unit, list)? else { return Ok(None) };
        while let Some(of) = list.next()? {
            if of.range.begin <= address && address < of.range.end {
                return Ok(Some(of.data));
            }
        }
        Ok(None)
    }

    /// Returns the location that an expression describes.
    fn place_in(&self, unit: &Rc<Unit>, expression: Expression<Section>) -> Result<Place> {
        let encoding = unit.unit.header.encoding();
        let mut operations = Vec::new();
        for operation in expression.operations(encoding) {
            if operations.len() == OPERATIONS {
                return Ok(Place::Other);
            }
            operations.push(operation?);
        }
        Ok(place(&operations, |expression| {
            let mut inner = Expression(expression.clone()).operations(encoding);
            match (inner.next(), inner.next()) {
                (Ok(Some(Operation::Register { register })), Ok(None)) => Some(register.0),
                _ => None,
            }
        }))
    }

    fn frame(&self, unit: &Rc<Unit>, value: &AttributeValue<Section>) -> Option<Frame> {
        let AttributeValue::Exprloc(expression) = value else { return None };
        let mut operations = expression.clone().operations(unit.unit.header.encoding());
        let frame = match operations.next().ok()?? {
            Operation::Register { register } => Frame::Register(register.0, 0),
            Operation::RegisterOffset { register, offset, .. } => {
                Frame::Register(register.0, offset)
            }
            Operation::CallFrameCFA => Frame::Call,
            _ => return None,
        };
        operations.next().ok()?.is_none().then_some(frame)
    }
}

/// Returns the location that operations describe. `register_at_entry` returns the register whose value at the beginning of the function
/// an inner expression is.
fn place<R: gimli::Reader>(
    operations: &[Operation<R>],
    register_at_entry: impl Fn(&R) -> Option<u16>,
) -> Place {
    let mut parts = Vec::new();
    for piece in operations.split_inclusive(|of| matches!(of, Operation::Piece { .. })) {
        let (size, rest) = match piece {
            [rest @ .., Operation::Piece { size_in_bits, bit_offset: None }]
                if size_in_bits.is_multiple_of(8) =>
            {
                (Some(size_in_bits / 8), rest)
            }
            [.., Operation::Piece { .. }] => return Place::Other,
            rest => (None, rest),
        };
        let at = match rest {
            [Operation::Register { register }] => At::Register(register.0, u64::MAX),
            [
                Operation::RegisterOffset { register, offset: 0, .. },
                masks @ ..,
                Operation::StackValue,
            ] => match mask(masks) {
                Some(mask) => At::Register(register.0, mask),
                None => return Place::Other,
            },
            [Operation::EntryValue { expression }, Operation::StackValue] => {
                match register_at_entry(expression) {
                    Some(register) => At::Register(register, u64::MAX),
                    None => return Place::Other,
                }
            }
            [Operation::FrameOffset { offset }] => At::Frame(*offset),
            [Operation::RegisterOffset { register, offset: 0, .. }] if size.is_none() => {
                return Place::Memory(register.0);
            }
            [] => At::Nowhere,
            [.., Operation::StackValue | Operation::ImplicitValue { .. }]
                if rest.iter().all(is_constant) =>
            {
                At::Nowhere
            }
            _ => return Place::Other,
        };
        parts.push(Part { size, at });
    }
    match &parts[..] {
        [] => Place::Missing,
        [Part { size: None, at: At::Nowhere }] => Place::Constant,
        // Only a location without pieces has no sizes.
        all if all.len() > 1 && all.iter().any(|part| part.size.is_none()) => Place::Other,
        _ => Place::Parts(parts),
    }
}

/// Returns the bits that remain after operations that mask a value.
fn mask<R: gimli::Reader>(operations: &[Operation<R>]) -> Option<u64> {
    let (pairs, rest) = operations.as_chunks::<2>();
    let masks = pairs.iter().map(|pair| match pair {
        [Operation::UnsignedConstant { value }, Operation::And] => Some(*value),
        _ => None,
    });
    let all: Option<Vec<_>> = masks.collect();
    rest.is_empty().then(|| Some(all?.into_iter().fold(u64::MAX, |all, mask| all & mask)))?
}

fn is_constant<R: gimli::Reader>(operation: &Operation<R>) -> bool {
    matches!(
        operation,
        Operation::UnsignedConstant { .. }
            | Operation::SignedConstant { .. }
            | Operation::ImplicitValue { .. }
            | Operation::StackValue
    )
}

#[cfg(test)]
mod tests {
    use gimli::{Encoding, EndianSlice, Format, LittleEndian};

    use super::*;

    /// Returns the location that these bytes describe.
    fn parsed(bytes: &[u8]) -> Place {
        let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
        let expression = |bytes| Expression(EndianSlice::new(bytes, LittleEndian));
        let all: Vec<_> = expression(bytes).operations(encoding).map(Result::unwrap).collect();
        place(&all, |inner| match Expression(*inner).operations(encoding).next() {
            Ok(Some(Operation::Register { register })) => Some(register.0),
            _ => None,
        })
    }

    #[test]
    fn locations() {
        use gimli::constants::*;
        let (reg5, reg4, piece) = (DW_OP_reg5.0, DW_OP_reg4.0, DW_OP_piece.0);
        let value = DW_OP_stack_value.0;
        let register = |number| At::Register(number, u64::MAX);
        let whole = |at| Place::Parts(vec![Part { size: None, at }]);
        let two = |first, second| {
            let part = |at| Part { size: Some(8), at };
            Place::Parts(vec![part(first), part(second)])
        };
        for (bytes, expected) in [
            (&[reg5][..], whole(register(5))),
            (&[DW_OP_breg5.0, 0, value], whole(register(5))),
            // The value is not that of the register.
            (&[DW_OP_breg5.0, 1, value], Place::Other),
            (
                &[DW_OP_breg5.0, 0, DW_OP_lit3.0, DW_OP_and.0, DW_OP_lit1.0, DW_OP_and.0, value],
                whole(At::Register(5, 1)),
            ),
            (&[DW_OP_breg5.0, 0, DW_OP_lit1.0, DW_OP_shr.0, value], Place::Other),
            // In memory.
            (&[DW_OP_breg5.0, 0], Place::Memory(5)),
            (&[DW_OP_breg5.0, 8], Place::Other),
            (&[DW_OP_fbreg.0, 0x70], whole(At::Frame(-16))),
            (&[DW_OP_fbreg.0, 0x70, DW_OP_deref.0], Place::Other),
            (&[DW_OP_entry_value.0, 1, reg4, value], whole(register(4))),
            (&[reg5, piece, 8, reg4, piece, 8], two(register(5), register(4))),
            (&[piece, 8, reg4, piece, 8], two(At::Nowhere, register(4))),
            (&[reg5, piece, 8, DW_OP_lit3.0, value, piece, 8], two(register(5), At::Nowhere)),
            (&[reg5, piece, 8, reg4], Place::Other),
            (&[DW_OP_lit3.0, value], Place::Constant),
            (&[], Place::Missing),
        ] {
            assert_eq!(parsed(bytes), expected, "{bytes:x?}");
        }
    }
}
