//! Relocations: `do_reloc_krtld` of `usr/src/uts/intel/amd64/krtld/doreloc.c`.

/// The number of types in krtld's table, which is the first number after it (`R_AMD64_NUM`).
const NUM: u32 = 43;

/// A relocation whose symbol has been resolved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relocation {
    /// `R_AMD64_*`.
    pub(super) kind: u32,
    /// Address of the field.
    pub(super) place: u64,
    /// The symbol's address.
    pub(super) symbol: u64,
    /// The constant to add.
    pub(super) addend: i64,
    /// Address of the section.
    pub(super) base: u64,
}

/// Why a relocation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// krtld reports that it does not support the type.
    NotSupported,
    /// The value does not fit into the field.
    Fit(u64),
    /// krtld would apply the relocation incorrectly, without a message.
    Unsound(&'static str),
}

/// Returns whether a symbol is one of the two functions whose calls krtld replaces by nops, like calls of probes, to store
/// instructions there later.
pub(super) fn is_hot_inline(symbol: &str) -> bool {
    matches!(symbol, "smap_enable" | "smap_disable")
}

/// Checks the type as `do_relocate` does before it reads the symbol: it refuses types 19 to 23 as thread-local, and types outside
/// of its table. (krtld's own check accepts type 43, the first after the table, but then refuses it because of the bytes there.)
pub(super) fn check(kind: u32) -> Result<(), ()> {
    if kind >= NUM || (19..=23).contains(&kind) { Err(()) } else { Ok(()) }
}

/// Applies one relocation. `rest` is the memory from the start of the field to the end of its section.
pub(super) fn apply(relocation: &Relocation, rest: &mut [u8]) -> Result<(), Wrong> {
    let Relocation { kind, place, symbol, addend, base } = *relocation;
    let value = symbol.wrapping_add_signed(addend);
    match kind {
        1 | 6 => add64(rest, value),
        8 => add64(rest, base.wrapping_add_signed(addend)),
        24 => add64(rest, value.wrapping_sub(place)),
        10 if value >> 32 != 0 || value >> 31 != 0 => Err(Wrong::Fit(value)),
        10 => add32(rest, value),
        2 | 11 => {
            let value = if kind == 2 { value.wrapping_sub(place) } else { value };
            if i32::try_from(value.cast_signed()).is_err() {
                return Err(Wrong::Fit(value));
            }
            add32(rest, value)
        }
        4 => {
            let value = value.wrapping_sub(place);
            if i32::try_from(value.cast_signed()).is_err() {
                return Err(Wrong::Unsound("a call out of reach, whose distance is cut off"));
            }
            add32(rest, value)
        }
        3 | 5 | 7 | 27..=31 | 34..=40 => Err(Wrong::NotSupported),
        9 | 25 | 26 | 41 | 42 => {
            Err(Wrong::Unsound("a relocation through the global offset table, which is not there"))
        }
        _ => Err(Wrong::Unsound("a relocation that krtld does in a way of its own")),
    }
}

/// Adds `value` to an 8-byte field, as krtld does, instead of replacing the field.
fn add64(rest: &mut [u8], value: u64) -> Result<(), Wrong> {
    let field = rest.first_chunk_mut().ok_or(OUTSIDE)?;
    *field = u64::from_le_bytes(*field).wrapping_add(value).to_le_bytes();
    Ok(())
}

fn add32(rest: &mut [u8], value: u64) -> Result<(), Wrong> {
    let field = rest.first_chunk_mut().ok_or(OUTSIDE)?;
    *field = u32::from_le_bytes(*field).wrapping_add(value as u32).to_le_bytes();
    Ok(())
}

const OUTSIDE: Wrong = Wrong::Unsound("a relocation that reaches past the end of its section");

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: u64 = 0xffff_ffff_c000_0000;

    fn done(kind: u32, symbol: u64, addend: i64, field: [u8; 8]) -> Result<[u8; 8], Wrong> {
        let mut field = field;
        let relocation = Relocation { kind, place: KERNEL, symbol, addend, base: KERNEL };
        apply(&relocation, &mut field).map(|()| field)
    }

    #[test]
    fn fields_are_added_to() {
        let of = u64::to_le_bytes;
        assert_eq!(done(1, KERNEL, 8, of(0x10)), Ok(of(KERNEL + 0x18)));
        assert_eq!(done(4, KERNEL + 0x100, -4, of(0)), Ok(of(0xfc)));
        assert_eq!(done(2, KERNEL - 4, -4, of(0)), Ok(of(0xffff_fff8)));
        assert_eq!(done(11, KERNEL, 4, of(0)), Ok(of(0xc000_0004)));
        assert_eq!(done(24, KERNEL + 8, 0, of(0)), Ok(of(8)));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(done(10, KERNEL, 0, [0; 8]), Err(Wrong::Fit(KERNEL)));
        assert_eq!(done(10, 0x8000_0000, 0, [0; 8]), Err(Wrong::Fit(0x8000_0000)));
        assert_eq!(done(11, 0x8000_0000, 0, [0; 8]), Err(Wrong::Fit(0x8000_0000)));
        assert!(done(2, 0, 0, [0; 8]).is_ok());
        assert!(matches!(done(4, 1 << 40, 0, [0; 8]), Err(Wrong::Unsound(_))));
        assert!(
            apply(&Relocation { kind: 1, place: 0, symbol: 0, addend: 0, base: 0 }, &mut [0; 7])
                .is_err()
        );
    }

    #[test]
    fn types_are_told_apart() {
        for kind in [19, 23, 43, 44, 255] {
            assert_eq!(check(kind), Err(()), "{kind}");
        }
        for kind in [0, 1, 9, 18, 24, 41, 42] {
            assert_eq!(check(kind), Ok(()), "{kind}");
        }
        for kind in [3, 5, 7, 27, 31, 34, 40] {
            assert_eq!(done(kind, 0, 0, [0; 8]), Err(Wrong::NotSupported), "{kind}");
        }
        for kind in [9, 12, 16, 25, 26, 32, 33, 41, 42] {
            assert!(matches!(done(kind, 0, 0, [0; 8]), Err(Wrong::Unsound(_))), "{kind}");
        }
    }
}
