//! Each emulated instruction of x86_64 leaves the same registers, flags and stack as this processor.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::arch::global_asm;
use std::sync::Mutex;

use dtrace_abi::function::Stack;
use dtrace_abi::function::x86_64::{Instruction, Operand, Operation, Registers, decode};
use proptest::prelude::*;

// `sdt_test_execute(registers, code)` loads all registers, executes the code, and stores all registers. The code ends with a
// jump to `sdt_test_landing`. No register is free meanwhile, so addresses are in memory.
global_asm!(
    ".pushsection .data.sdt_test, \"aw\"",
    ".balign 8",
    "10: .quad 0", // the registers
    "11: .quad 0", // the code
    "12: .quad 0", // our stack pointer
    "13: .quad 0", // `rax` meanwhile
    ".popsection",
    ".global sdt_test_execute",
    "sdt_test_execute:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rip + 10b], rdi",
    "mov [rip + 11b], rsi",
    "mov [rip + 12b], rsp",
    "push qword ptr [rdi + 136]",
    "popfq",
    "mov rax, [rdi]",
    "mov rcx, [rdi + 8]",
    "mov rdx, [rdi + 16]",
    "mov rbx, [rdi + 24]",
    "mov rsp, [rdi + 32]",
    "mov rbp, [rdi + 40]",
    "mov rsi, [rdi + 48]",
    "mov r8, [rdi + 64]",
    "mov r9, [rdi + 72]",
    "mov r10, [rdi + 80]",
    "mov r11, [rdi + 88]",
    "mov r12, [rdi + 96]",
    "mov r13, [rdi + 104]",
    "mov r14, [rdi + 112]",
    "mov r15, [rdi + 120]",
    "mov rdi, [rdi + 56]",
    "jmp [rip + 11b]",
    ".global sdt_test_landing",
    "sdt_test_landing:",
    "mov [rip + 13b], rax",
    "mov rax, [rip + 10b]",
    "mov [rax + 8], rcx",
    "mov rcx, [rip + 13b]",
    "mov [rax], rcx",
    "mov [rax + 16], rdx",
    "mov [rax + 24], rbx",
    "mov [rax + 32], rsp",
    "mov [rax + 40], rbp",
    "mov [rax + 48], rsi",
    "mov [rax + 56], rdi",
    "mov [rax + 64], r8",
    "mov [rax + 72], r9",
    "mov [rax + 80], r10",
    "mov [rax + 88], r11",
    "mov [rax + 96], r12",
    "mov [rax + 104], r13",
    "mov [rax + 112], r14",
    "mov [rax + 120], r15",
    "mov rsp, [rip + 12b]",
    "pushfq",
    "pop [rax + 136]",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
);

unsafe extern "C" {
    fn sdt_test_execute(registers: *mut [u64; 18], code: *const u8);
    fn sdt_test_landing();
}

/// The size of the text and of the stack, in bytes.
const SIZE: usize = 4096;
/// The offset of the instruction in the text.
const START: usize = 2048;
/// The flags that arithmetic sets.
const FLAGS: u64 = 0x8d5;
/// The flags that are always set in a process: reserved, and interrupts.
const ALWAYS: u64 = 0x202;

/// Text that can be executed, and a stack. One test at a time uses them.
struct Arena {
    text: *mut u8,
    stack: *mut u8,
}

// SAFETY: only this value refers to the pages, and the mutex of `ARENA` lets one thread at a time use them.
unsafe impl Send for Arena {}

static ARENA: Mutex<Option<Arena>> = Mutex::new(None);

impl Arena {
    fn new() -> Self {
        // Low addresses, so that text is within the reach of all relative jumps.
        let map = || {
            // SAFETY: maps fresh memory.
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    SIZE,
                    libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            assert_ne!(at, libc::MAP_FAILED);
            at.cast::<u8>()
        };
        Self { text: map(), stack: map() }
    }

    /// Writes the instruction, a jump to the landing at each target of the instruction, and `ud2` elsewhere.
    fn lay(&self, code: &[u8], targets: &[usize]) {
        let landing = (sdt_test_landing as *const () as u64).to_le_bytes();
        let jump: Vec<u8> = [&[0xff, 0x25, 0, 0, 0, 0][..], &landing].concat();
        let mut text: Vec<u8> = [0x0f, 0x0b].repeat(SIZE / 2);
        for &at in targets.iter().chain([&(START + code.len())]) {
            text[at..at + jump.len()].copy_from_slice(&jump);
        }
        text[START..START + code.len()].copy_from_slice(code);
        // SAFETY: the text is mapped, writable, and no thread executes it.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), self.text, SIZE) };
    }
}

/// The stack of the emulator, and a word of the text that it may load.
struct Memory {
    base: u64,
    bytes: Vec<u8>,
    word: (u64, u64),
}

impl Stack for Memory {
    fn load(&mut self, address: u64) -> u64 {
        if address == self.word.0 {
            return self.word.1;
        }
        let at = (address - self.base) as usize;
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    fn store(&mut self, address: u64, value: u64) {
        let at = (address - self.base) as usize;
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

/// Executes and emulates an instruction, and compares.
fn compare(code: &[u8], mut registers: [u64; 16], flags: u64, contents: &[u64]) {
    let decoded = decode(code).unwrap_or_else(|| panic!("{code:02x?} is not emulated"));
    assert_eq!(usize::from(decoded.length), code.len(), "{code:02x?}");
    let mut guard = ARENA.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let arena = guard.get_or_insert_with(Arena::new);
    let (text, base) = (arena.text as u64, arena.stack as u64);
    let next = START + code.len();
    // Where the instruction continues.
    let target = match decoded.instruction {
        Instruction::Call(distance) | Instruction::Jump(distance) => {
            next.wrapping_add_signed(distance as isize)
        }
        _ => START / 2,
    };
    arena.lay(code, &[target]);
    let word = match decoded.instruction {
        Instruction::JumpThrough(distance) => {
            let place = next.wrapping_add_signed(distance as isize);
            let to = text + target as u64;
            // SAFETY: `code` puts the word into the text, which is mapped and writable.
            unsafe { arena.text.add(place).cast::<u64>().write_unaligned(to) };
            (text + place as u64, to)
        }
        _ => (0, 0),
    };
    let mut bytes: Vec<u8> = contents.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(SIZE, 0x5a);
    let (top, frame) = (SIZE / 2, SIZE / 2 + 256);
    registers[4] = base + top as u64;
    match decoded.instruction {
        Instruction::Leave => registers[5] = base + frame as u64,
        Instruction::JumpRegister(to) => registers[usize::from(to.number())] = text + target as u64,
        Instruction::Return(_) => {
            let back = text + target as u64;
            bytes[top..top + 8].copy_from_slice(&back.to_le_bytes());
        }
        _ => {}
    }
    if let Instruction::JumpRegister(to) = decoded.instruction
        && to.number() == 4
    {
        // A jump to the address in the stack pointer would execute the stack.
        return;
    }
    // SAFETY: the stack is mapped and writable, and no other thread uses it.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), arena.stack, SIZE) };
    let rflags = flags & FLAGS | ALWAYS;
    let mut real = [0; 18];
    real[..16].copy_from_slice(&registers);
    real[17] = rflags;
    // SAFETY: the text is an instruction that accesses nothing but registers and the stack, and continues at the landing.
    unsafe { sdt_test_execute(&raw mut real, arena.text.add(START)) };

    let rip = text + START as u64;
    let mut ours = Registers { general: registers, rip, rflags };
    let before = bytes.clone();
    let mut memory = Memory { base, bytes, word };
    decoded.emulate(&mut ours, &mut memory);
    let what = format!("{code:02x?} {decoded:?} of {registers:x?}, flags {flags:x}");
    assert_eq!(ours.general, real[..16], "{what}");
    // The manual leaves the auxiliary flag of logical operations undefined.
    let logical = matches!(
        decoded.instruction,
        Instruction::Arithmetic {
            operation: Operation::And | Operation::Or | Operation::Xor | Operation::Test,
            ..
        }
    );
    let compared = if logical { FLAGS & !0x10 } else { FLAGS } | ALWAYS;
    assert_eq!(ours.rflags & compared, real[17] & compared, "{what}");
    let is_jump = matches!(
        decoded.instruction,
        Instruction::Call(_)
            | Instruction::Jump(_)
            | Instruction::JumpRegister(_)
            | Instruction::JumpThrough(_)
            | Instruction::Return(_)
    );
    assert_eq!(ours.rip, text + if is_jump { target } else { next } as u64, "{what}");
    // SAFETY: the stack is mapped, and no other thread uses it.
    let after = unsafe { std::slice::from_raw_parts(arena.stack, SIZE) };
    assert_eq!(memory.bytes, after, "{what}");
    // `below_stack` covers all stores below the stack pointer: breakpoint handlers leave this space free.
    let changed = memory.bytes.iter().zip(&before).position(|(now, before)| now != before);
    let below = top - changed.unwrap_or(top).min(top);
    assert!(below as u64 <= decoded.below_stack(), "{what}");
    if let Instruction::Push(Operand::Register(_)) = decoded.instruction {
        assert_eq!(decoded.below_stack(), 8);
    }
}

/// The encodings of all instructions that the decoder accepts.
fn code() -> impl Strategy<Value = Vec<u8>> {
    let rex = prop_oneof![Just(None), (0x40..0x50u8).prop_map(Some)];
    let opcodes = prop_oneof![
        // Two operands of ModRM.
        prop::sample::select(vec![
            0x00, 0x01, 0x02, 0x03, 0x08, 0x09, 0x0a, 0x0b, 0x20, 0x21, 0x22, 0x23, 0x28, 0x29,
            0x2a, 0x2b, 0x30, 0x31, 0x32, 0x33, 0x38, 0x39, 0x3a, 0x3b, 0x63, 0x80, 0x81, 0x83,
            0x84, 0x85, 0x88, 0x89, 0x8a, 0x8b, 0x8d, 0xc7, 0xf6, 0xf7, 0xff,
        ]),
        // Constants and the accumulator.
        prop::sample::select(vec![
            0x04, 0x05, 0x0c, 0x0d, 0x24, 0x25, 0x2c, 0x2d, 0x34, 0x35, 0x3c, 0x3d, 0xa8, 0xa9,
            0x68, 0x6a, 0x90, 0xc9, 0xc3, 0xe8, 0xe9, 0xeb,
        ]),
        0x50..0x60u8,
        0xb8..0xc0u8,
    ];
    let two = (rex.clone(), prop::sample::select(vec![0x1f, 0xb6, 0xb7, 0xbe, 0xbf]));
    let one = (rex, opcodes).prop_map(|(rex, opcode)| (rex, vec![opcode]));
    let two = two.prop_map(|(rex, opcode)| (rex, vec![0x0f, opcode]));
    let special = prop_oneof![
        Just(vec![0xf3, 0x0f, 0x1e, 0xfa]),
        Just(vec![0xf3, 0xc3]),
        Just(vec![0x66, 0x90]),
        Just(vec![0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]),
        (0..64u16).prop_map(|n| [&[0xc2][..], &(8 * n).to_le_bytes()].concat()),
    ];
    let tail = prop::collection::vec(any::<u8>(), 12);
    let general = (prop_oneof![one, two], tail).prop_filter_map(
        "an instruction of the list",
        |((rex, opcode), tail)| {
            let mut bytes: Vec<u8> = rex.into_iter().chain(opcode.clone()).chain(tail).collect();
            let at = usize::from(rex.is_some()) + 1;
            match opcode[..] {
                // The text has room for targets near the instruction.
                [0xe8 | 0xe9] => {
                    let distance = i32::from(bytes[at]) * 4 + 64;
                    bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
                }
                [0xff] if bytes[at] & 0xc7 == 5 => {
                    let distance = i32::from(bytes[at + 1]) * 4 + 64;
                    bytes[at + 1..at + 5].copy_from_slice(&distance.to_le_bytes());
                }
                [0xeb] => bytes[at] = bytes[at] & 0x3f | 0x20,
                _ => {}
            }
            let length = usize::from(decode(&bytes)?.length);
            bytes.truncate(length);
            Some(bytes)
        },
    );
    prop_oneof![12 => general, 1 => special]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, max_global_rejects: 1_000_000, ..ProptestConfig::default() })]

    #[test]
    fn as_this_processor(
        code in code(),
        registers in any::<[u64; 16]>(),
        small in any::<u16>(),
        flags in any::<u64>(),
        seed in any::<u64>(),
    ) {
        // Some registers are small, so that results are zero, and comparisons equal.
        let mut registers = registers;
        for (at, register) in registers.iter_mut().enumerate() {
            if small >> at & 1 != 0 {
                *register %= 3;
            }
        }
        let contents: Vec<_> =
            (1..=SIZE as u64 / 8).map(|word| seed.wrapping_mul(2 * word + 1)).collect();
        compare(&code, registers, flags, &contents);
    }
}

/// The instructions at which most functions begin and end.
#[test]
fn usual_ones() {
    let registers: [u64; 16] = std::array::from_fn(|at| 0x1111_1111_1111_1111 * at as u64);
    let contents: Vec<u64> = (0..SIZE as u64 / 8).collect();
    for code in [
        &[0x55][..],                              // push rbp
        &[0x41, 0x57],                            // push r15
        &[0x54],                                  // push rsp
        &[0x5c],                                  // pop rsp
        &[0x48, 0x83, 0xec, 0x28],                // sub rsp, 40
        &[0x48, 0x81, 0xec, 0x88, 0, 0, 0],       // sub rsp, 136
        &[0x48, 0x89, 0xe5],                      // mov rbp, rsp
        &[0x31, 0xc0],                            // xor eax, eax
        &[0x48, 0x8d, 0x05, 0x10, 0, 0, 0],       // lea rax, [rip + 16]
        &[0x4a, 0x8d, 0x44, 0xfb, 0x7f],          // lea rax, [rbx + 8*r15 + 127]
        &[0xc3],                                  // ret
        &[0xc2, 0x10, 0],                         // ret 16
        &[0xe9, 0x40, 0, 0, 0],                   // jmp
        &[0x48, 0x89, 0x7c, 0x24, 0xf8],          // mov [rsp - 8], rdi
        &[0x89, 0x7c, 0x24, 0x84],                // mov [rsp - 124], edi
        &[0x40, 0x88, 0x7c, 0x24, 0x80],          // mov [rsp - 128], dil
        &[0xc7, 0x44, 0x24, 0xf0, 1, 2, 3, 0x84], // mov dword ptr [rsp - 16], 0x84030201
        &[0xff, 0xe0],                            // jmp rax
        &[0xff, 0x25, 0x40, 0, 0, 0],             // jmp [rip + 64]
        &[0x41, 0xff, 0xe3],                      // jmp r11
    ] {
        compare(code, registers, 0, &contents);
        compare(code, registers, FLAGS, &contents);
    }
}

/// Memory outside of the red zone is not accessed.
#[test]
fn other_stores_are_not_emulated() {
    for code in [
        &[0x48, 0x89, 0x7c, 0x24, 0xff][..], // mov [rsp - 1], rdi
        &[0x48, 0x89, 0x3c, 0x24],           // mov [rsp], rdi
        &[0x48, 0x89, 0x7c, 0x24, 0x08],     // mov [rsp + 8], rdi
        &[0x48, 0x89, 0x7d, 0xf8],           // mov [rbp - 8], rdi
        &[0x48, 0x89, 0x7c, 0x04, 0xf8],     // mov [rsp + rax - 8], rdi
        &[0x49, 0x89, 0x7c, 0x24, 0xf8],     // mov [r12 - 8], rdi
        &[0x48, 0x89, 0xbc, 0x24, 0x7f, 0xff, 0xff, 0xff], // mov [rsp - 129], rdi
        &[0x48, 0x8b, 0x7c, 0x24, 0xf8],     // mov rdi, [rsp - 8]
        &[0x66, 0x89, 0x7c, 0x24, 0xf8],     // mov [rsp - 8], di
    ] {
        assert_eq!(decode(code), None, "{code:02x?}");
    }
}
