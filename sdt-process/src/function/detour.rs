//! The code that records a hit of a site that jumps, and executes the instructions that the jump has overwritten.
//!
//! | part | |
//! |---|---|
//! | [`Header`] | describes the window |
//! | copies of the instructions before the site | in the window of a return: those of the epilogue |
//! | the call of the [thunk](super::thunk) | records the hit; preserves all registers |
//! | copies of the site's instruction and of those after it | with distances adjusted |
//! | a jump to the end of the window | |
//!
//! A detour is not changed and not freed once it exists: threads may be in it at any time.

use dtrace_abi::function::x86_64::{Decoded, Instruction, decode, movable};

use super::area::{self, BREAKPOINT, JUMP, JUMP_CODE};

/// The number of bytes below the stack pointer that belong to the interrupted function (System V ABI, 3.2.2).
pub(super) const RED_ZONE: usize = 128;

/// The largest size of a detour.
pub(super) const LARGEST: usize = 192;

/// The beginning of a detour.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// The address of the site.
    site: u64,
    /// The address of the thunk.
    thunk: u64,
    /// The address of the window.
    pub(super) start: u64,
    /// The offsets in the code of the copies of the instructions at the first bytes of the window; [`NONE`] where no instruction begins.
    pub(super) copies: [u8; 8],
}

/// No instruction begins at this byte.
pub(super) const NONE: u8 = u8::MAX;
/// The size of the header.
pub(super) const HEADER: usize = size_of::<Header>();
const _: () = assert!(align_of::<Header>() <= area::DETOUR);

/// A window: whole instructions, of which one is a site.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window<'b> {
    pub(super) start: usize,
    /// The offset of the site.
    pub(super) site: usize,
    /// The original bytes.
    pub(super) bytes: &'b [u8],
}

/// Builds the detour of a window for this address. Returns `None` if an instruction cannot be executed elsewhere.
pub(super) fn build(window: Window<'_>, thunk: usize, address: usize) -> Option<Vec<u8>> {
    let Window { start, site, bytes } = window;
    let mut code = Code { bytes: Vec::new(), address: address + HEADER };
    let mut copies = [NONE; 8];
    let (mut at, mut has_left, mut has_recorded) = (0, false, false);
    while at < bytes.len() {
        if let Some(copy) = copies.get_mut(at) {
            *copy = u8::try_from(code.bytes.len()).ok()?;
        }
        if at == site {
            has_recorded = true;
            code.record(address)?;
        }
        let rest = bytes.get(at..)?;
        let decoded = decode(rest);
        let (length, copy) = match decoded {
            _ if has_left => (padding(rest, decoded)?, Copy::Same),
            Some(Decoded { instruction, length }) if at == site && leaves(instruction) => {
                has_left = true;
                (length, Copy::of(instruction))
            }
            // The call returns to the original text, which must not be in the window.
            Some(Decoded { instruction: of @ Instruction::Call(_), length })
                if at + usize::from(length) == bytes.len() =>
            {
                (length, Copy::of(of))
            }
            _ => (movable(rest)?.length, Copy::Same),
        };
        let instruction = rest.get(..length.into())?;
        let original = start + at;
        let end = original + instruction.len();
        match copy {
            Copy::Same => code.copy(instruction, original)?,
            Copy::Jump(distance) => code.jump(end.wrapping_add_signed(distance as isize))?,
            Copy::Through(distance) => code.through(end.wrapping_add_signed(distance as isize))?,
            Copy::Call(distance) => code.call(end, end.wrapping_add_signed(distance as isize))?,
        }
        at += instruction.len();
    }
    if !has_recorded || at != bytes.len() {
        return None;
    }
    code.jump(start + at)?;
    let header =
        Header { site: (start + site) as u64, thunk: thunk as u64, start: start as u64, copies };
    Some([header.bytes(), code.bytes].concat())
}

/// Returns whether an instruction leaves the function and does not come back.
const fn leaves(of: Instruction) -> bool {
    use Instruction::{Jump, JumpRegister, JumpThrough, Return};
    matches!(of, Jump(_) | JumpRegister(_) | JumpThrough(_) | Return(_))
}

/// Returns the length of the padding at the beginning of these bytes: a nop, or a breakpoint.
fn padding(bytes: &[u8], decoded: Option<Decoded>) -> Option<u8> {
    match decoded {
        Some(Decoded { instruction: Instruction::Nop, length }) => Some(length),
        _ => (bytes.first() == Some(&BREAKPOINT)).then_some(1),
    }
}

/// The way in which an instruction is copied.
#[derive(Clone, Copy)]
enum Copy {
    /// With the same bytes, except a distance.
    Same,
    /// A jump over this distance.
    Jump(i32),
    /// A call over this distance.
    Call(i32),
    /// A jump to the address in memory at this distance.
    Through(i32),
}

impl Copy {
    const fn of(instruction: Instruction) -> Self {
        match instruction {
            Instruction::Jump(distance) => Self::Jump(distance),
            Instruction::Call(distance) => Self::Call(distance),
            Instruction::JumpThrough(distance) => Self::Through(distance),
            _ => Self::Same,
        }
    }
}

/// Returns a jump from one address to another.
pub(super) fn jump(from: usize, to: usize) -> Option<[u8; JUMP]> {
    let distance = to.wrapping_sub(from + JUMP).cast_signed();
    let [one, two, three, four] = i32::try_from(distance).ok()?.to_le_bytes();
    Some([JUMP_CODE[0], one, two, three, four])
}

impl Header {
    fn bytes(&self) -> Vec<u8> {
        let Self { site, thunk, start, copies } = self;
        [site, thunk, start]
            .into_iter()
            .flat_map(|word| word.to_le_bytes())
            .chain(*copies)
            .collect()
    }
}

/// The code of a detour while it is built.
struct Code {
    bytes: Vec<u8>,
    /// The address of the first byte.
    address: usize,
}

impl Code {
    /// Returns the address behind the bytes, if `more` bytes follow.
    const fn behind(&self, more: usize) -> usize {
        self.address + self.bytes.len() + more
    }

    fn distance(&self, to: usize, more: usize) -> Option<[u8; 4]> {
        let distance = to.wrapping_sub(self.behind(more)).cast_signed();
        i32::try_from(distance).ok().map(i32::to_le_bytes)
    }

    fn jump(&mut self, to: usize) -> Option<()> {
        self.bytes.extend(jump(self.behind(0), to)?);
        Some(())
    }

    /// Jumps to the address in memory at an address.
    fn through(&mut self, place: usize) -> Option<()> {
        let distance = self.distance(place, 6)?;
        self.bytes.extend([0xff, 0x25]);
        self.bytes.extend(distance);
        Some(())
    }

    /// Calls a function that returns to the original text.
    fn call(&mut self, back: usize, to: usize) -> Option<()> {
        let [low, high] = [back as u32, (back >> 32) as u32].map(u32::to_le_bytes);
        // lea -8(%rsp), %rsp; movl $low, (%rsp); movl $high, 4(%rsp)
        self.bytes.extend([0x48, 0x8d, 0x64, 0x24, 0xf8, 0xc7, 0x04, 0x24]);
        self.bytes.extend(low);
        self.bytes.extend([0xc7, 0x44, 0x24, 0x04]);
        self.bytes.extend(high);
        self.jump(to)
    }

    /// Calls the thunk, with the address of the site on the stack, below the red zone. Both addresses are in the header.
    fn record(&mut self, header: usize) -> Option<()> {
        // lea -128(%rsp), %rsp
        self.bytes.extend([0x48, 0x8d, 0x64, 0x24, 0x80]);
        // push site(%rip)
        let site = self.distance(header, 6)?;
        self.bytes.extend([0xff, 0x35]);
        self.bytes.extend(site);
        // call *thunk(%rip)
        let thunk = self.distance(header + size_of::<u64>(), 6)?;
        self.bytes.extend([0xff, 0x15]);
        self.bytes.extend(thunk);
        // lea 136(%rsp), %rsp
        self.bytes.extend([0x48, 0x8d, 0xa4, 0x24]);
        self.bytes.extend((RED_ZONE as u32 + 8).to_le_bytes());
        Some(())
    }

    /// Copies an instruction, and adjusts the distance that is relative to its end.
    fn copy(&mut self, instruction: &[u8], original: usize) -> Option<()> {
        let here = self.bytes.len();
        let moved_by = original.wrapping_sub(self.behind(0)).cast_signed();
        self.bytes.extend(instruction);
        if let Some(offset) = movable(instruction).and_then(|of| of.relative) {
            let at = here + usize::from(offset);
            let field = self.bytes.get_mut(at..at + 4)?;
            let distance = i32::from_le_bytes(field.try_into().ok()?);
            let distance =
                i32::try_from(isize::try_from(distance).ok()?.checked_add(moved_by)?).ok()?;
            field.copy_from_slice(&distance.to_le_bytes());
        }
        Some(())
    }
}
