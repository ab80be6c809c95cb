//! Formats applied to data.

use dtrace_abi::action::Action;

use crate::render::aggregate::distribution;
use crate::render::aggregate::entry::Entry;
use crate::render::data::argument::Argument;
use crate::render::data::bits::{self, float, signed, u64_of, unsigned, until_zero};
use crate::render::data::bytes::escaped;
use crate::render::data::cprintf::Spec;
use crate::render::data::error::{LONGEST, RenderError, Result};
use crate::render::data::format::{Conversion, Format, Kind, Piece};
use crate::render::data::place::Place;
use crate::render::data::time;
use crate::render::data::view::View;

impl Conversion {
    /// Returns the number of data that the conversion consumes.
    fn takes(&self) -> usize {
        if self.kind == Kind::Percent {
            return 0;
        }
        usize::from(self.width_argument)
            + usize::from(self.precision_argument)
            + usize::from(!self.aggregation)
    }
}

impl Format {
    /// Returns the number of data that the format consumes.
    pub fn takes(&self) -> usize {
        let conversions = self.pieces.iter().map(|piece| match piece {
            Piece::Text(_) => 0,
            Piece::Conversion(conversion) => conversion.takes(),
        });
        conversions.sum()
    }

    /// Writes the format with its data. Each `%@` shows the next one of `values`; when none is left, it shows the last
    /// one again.
    ///
    /// # Errors
    ///
    /// Data are missing, or not of a size that their conversion has.
    pub fn show(
        &self,
        out: &mut Vec<u8>,
        view: &View<'_>,
        arguments: &[Argument<'_>],
        values: &[&Entry],
    ) -> Result {
        let mut arguments = arguments.iter();
        let mut next = || some(arguments.next());
        let mut values = values.iter().peekable();
        let mut value = None;
        let begin = out.len();
        for piece in &self.pieces {
            if out.len() - begin > LONGEST {
                return Err(RenderError::Long);
            }
            let conversion = match piece {
                Piece::Text(text) => {
                    out.extend_from_slice(text);
                    continue;
                }
                Piece::Conversion(Conversion { kind: Kind::Percent, .. }) => {
                    out.push(b'%');
                    continue;
                }
                Piece::Conversion(conversion) => conversion,
            };
            let mut place = FieldLayout { spec: conversion.spec, indent: None };
            if conversion.width_argument {
                place.width(integer(next()?)?);
            } else if conversion.spec.left {
                place.indent = Some(conversion.spec.width);
            }
            if conversion.precision_argument {
                place.spec.precision = usize::try_from(integer(next()?)?).unwrap_or(0);
            }
            if conversion.aggregation {
                value = values.next().or(value);
                let value = value.ok_or(RenderError::Mismatch)?;
                show_value(out, view, conversion.kind, place, value)?;
            } else {
                convert(out, view, conversion.kind, place, next()?)?;
            }
        }
        Ok(())
    }
}

/// The layout of a conversion. For a stack, a width on the left is an indentation.
#[derive(Clone, Copy)]
struct FieldLayout {
    spec: Spec,
    indent: Option<usize>,
}

impl FieldLayout {
    /// Applies a width from the data; a negative width aligns left.
    fn width(&mut self, width: i32) {
        let columns = width.unsigned_abs() as usize;
        if width < 0 || self.spec.left {
            self.indent = Some(columns);
        }
        self.spec.left |= width < 0;
        self.spec.width = columns;
    }
}

/// Returns a width or precision from the data, as C's `int`.
fn integer(argument: &Argument<'_>) -> Result<i32> {
    some(signed(argument.data)).map(|value| value as i32)
}

/// Returns a value that the format needs, or an error. `ok_or` would create the error each time, which takes longer
/// than a conversion.
fn some<T>(value: Option<T>) -> Result<T> {
    match value {
        Some(value) => Ok(value),
        None => Err(RenderError::Mismatch),
    }
}

/// Writes the value of an aggregation: a number by the conversion, a distribution as always.
fn show_value(
    out: &mut Vec<u8>,
    view: &View<'_>,
    kind: Kind,
    place: FieldLayout,
    entry: &Entry,
) -> Result {
    match entry.number() {
        Some(number) => {
            let data = number.to_le_bytes();
            convert(out, view, kind, place, &Argument::value(&data))
        }
        None => distribution::show(out, view, entry),
    }
}

fn convert(
    out: &mut Vec<u8>,
    view: &View<'_>,
    kind: Kind,
    place: FieldLayout,
    argument: &Argument<'_>,
) -> Result {
    let FieldLayout { spec, indent } = place;
    let data = argument.data;
    let number = || some(unsigned(data));
    let string = |out: &mut Vec<u8>, text: &str| spec.string(out, text.as_bytes());
    if let Action::Mod | Action::Umod = argument.action
        && let Some(module) = Place::read(argument.action, argument.argument, data)
    {
        string(out, &module.names(view).concat());
        return Ok(());
    }
    match kind {
        Kind::Signed => spec.signed(out, some(signed(data))?),
        Kind::Unsigned => spec.unsigned(out, number()?),
        Kind::Octal => spec.octal(out, number()?),
        Kind::Hex(upper) => spec.hex(out, number()?, upper),
        Kind::Char if view.terminal => spec.string(out, &view.data(&[number()? as u8])),
        Kind::Char => spec.char(out, number()? as u8),
        Kind::WideChar => {
            let char = char::from_u32(number()? as u32).ok_or(RenderError::Mismatch)?;
            spec.string(out, &view.data(char.encode_utf8(&mut [0; 4]).as_bytes()));
        }
        Kind::EscapedChar => spec.string(out, &escaped(&[number()? as u8])),
        Kind::Str => spec.string(out, &view.data(until_zero(data))),
        Kind::EscapedStr => spec.string(out, &escaped(data)),
        Kind::WideStr => {
            let chars = data.chunks_exact(4).map(|char| u32::from_le_bytes(bits::array(char)));
            let chars = chars.take_while(|&char| char != 0);
            let chars =
                chars.map(|char| char::from_u32(char).unwrap_or(char::REPLACEMENT_CHARACTER));
            spec.string(out, &view.data(chars.collect::<String>().as_bytes()));
        }
        Kind::Float(style, upper) => {
            let value = float(data).ok_or(RenderError::Mismatch)?;
            spec.float(out, value, style, upper);
        }
        Kind::Address => string(out, &view.names().address(number()?)),
        Kind::UserAddress => {
            let (pid, address) = match data.len() {
                16 => (u64_of(data), u64_of(&data[8..])),
                _ => (0, number()?),
            };
            string(out, &view.names().user_address(pid, address));
        }
        Kind::Stack => {
            let stack = Place::read(argument.action, argument.argument, data);
            let stack = stack.ok_or(RenderError::Mismatch)?;
            let spec = if spec.left { Spec { width: 0, ..spec } } else { spec };
            let indent = indent.unwrap_or(0).min(crate::render::data::cprintf::COLUMNS);
            stack.show_frames(out, view, indent, spec);
        }
        Kind::Port => {
            let port = number()? as u16;
            let service = view.symbols.service(port);
            string(out, &service.unwrap_or_else(|| port.to_string()));
        }
        Kind::Internet => {
            let address = String::from_utf8_lossy(until_zero(data));
            match view.symbols.host(&address) {
                Some(host) => string(out, &host),
                None => spec.string(out, &view.data(address.as_bytes())),
            }
        }
        Kind::Time => string(out, &time::plain(number()?, view.zone)),
        Kind::Time822 => string(out, &time::rfc822(number()?, view.zone)),
        // `%%` takes no datum and was handled above.
        Kind::Percent => {}
    }
    Ok(())
}
