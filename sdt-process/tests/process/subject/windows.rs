//! Functions in assembly whose first and last instructions a jump overwrites, and code that jumps between these instructions.

use std::arch::{global_asm, is_x86_feature_detected};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A function in assembly.
macro_rules! function {
    ($name:literal, $($line:literal),+ $(,)?) => {
        global_asm!(
            concat!(".pushsection .text.subject_windows, \"ax\", @progbits"),
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            $($line,)+
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
        );
    };
}

// Twice `rdi`. The jump at the entry overwrites three instructions. Behind the return there is padding.
function!(
    "subject_steps",
    "push rbx",
    "mov rbx, rdi",
    "lea rax, [rbx + rbx]",
    "pop rbx",
    "ret",
    ".size subject_steps, . - subject_steps",
    ".balign 16",
);
// The same, as a thread continues that was interrupted after the first or after the second instruction.
function!("subject_steps_second", "push rbx", "jmp subject_steps + 1");
function!("subject_steps_third", "push rbx", "mov rbx, rdi", "jmp subject_steps + 4");
// Twice `rdi`. The next function follows at once, so the jump at the return overwrites the instructions before it.
function!(
    "subject_back",
    "lea rax, [rdi + rdi]",
    "push rbx",
    "mov rbx, rdi",
    "mov rcx, rbx",
    "pop rbx",
    "ret"
);
// The same, from the last instruction but one: at 11 of 13 bytes.
function!("subject_back_last", "lea rax, [rdi + rdi]", "push rbx", "jmp subject_back + 11");
// Twice `rdi`, with an address relative to the instruction in the window.
function!(
    "subject_relative",
    "lea rax, [rip + 5f]",
    "mov rax, [rax]",
    "imul rax, rdi",
    "ret",
    ".size subject_relative, . - subject_relative",
    ".balign 8",
    "5:",
    ".quad 2",
);
// Twice `rdi`, by a call in the window.
function!("subject_call", "push rax", "call subject_steps", "pop rcx", "ret", ".balign 16");
// Twice `rdi`, by a jump to another function.
function!("subject_tail", "mov rax, rdi", "lea rdi, [rdi + rdi]", "jmp subject_same");
function!("subject_same", "mov rax, rdi", "ret", ".balign 16");
// Twice `rdi`, by a jump to a function of another image.
function!("subject_through", "lea rdi, [rdi + rdi]", "jmp [rip + labs@GOTPCREL]");
// Twice `rdi`, by a loop that begins two bytes behind the entry. A jump there would be a breakpoint in each round.
function!(
    "subject_loop",
    "xor eax, eax",
    "2:",
    "add rax, 2",
    "sub rdi, 1",
    "ja 2b",
    "ret",
    ".size subject_loop, . - subject_loop",
    ".skip 4, 0xcc",
);
// Nothing. All of its registers are those of the caller.
function!("subject_kept", ".byte 0x0f, 0x1f, 0x44, 0, 0", "ret", ".balign 16");

// Loads the vector registers, masks, general registers and flags from the buffer at `rdi`, calls `subject_kept`, and stores them behind what
// it has loaded. `rsi` is 0 for `xmm`, 1 for `ymm`, 2 for `zmm` and masks.
function!(
    "subject_keep",
    "push rbx",
    "push rbp",
    "sub rsp, 8",
    "mov rbx, rdi",
    "mov rbp, rsi",
    "cmp ebp, 1",
    "je 3f",
    "ja 4f",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movups xmm\\n, [rbx + 64 * \\n]",
    ".endr",
    "jmp 5f",
    "3:",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "vmovups ymm\\n, [rbx + 64 * \\n]",
    ".endr",
    "jmp 5f",
    "4:",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "vmovups zmm\\n, [rbx + 64 * \\n]",
    ".endr",
    ".irp n,0,1,2,3,4,5,6,7",
    "kmovq k\\n, [rbx + 2048 + 8 * \\n]",
    ".endr",
    "5:",
    "mov rcx, [rbx + 2112]",
    "mov rdx, [rbx + 2120]",
    "mov rsi, [rbx + 2128]",
    "mov rdi, [rbx + 2136]",
    "mov r8, [rbx + 2144]",
    "mov r9, [rbx + 2152]",
    "mov r10, [rbx + 2160]",
    "mov r11, [rbx + 2168]",
    "mov rax, [rbx + 2176]",
    "push qword ptr [rbx + 2184]",
    "popfq",
    "call subject_kept",
    "pushfq",
    "cld",
    "pop qword ptr [rbx + 2192 + 2184]",
    "mov [rbx + 2192 + 2176], rax",
    "mov [rbx + 2192 + 2168], r11",
    "mov [rbx + 2192 + 2160], r10",
    "mov [rbx + 2192 + 2152], r9",
    "mov [rbx + 2192 + 2144], r8",
    "mov [rbx + 2192 + 2136], rdi",
    "mov [rbx + 2192 + 2128], rsi",
    "mov [rbx + 2192 + 2120], rdx",
    "mov [rbx + 2192 + 2112], rcx",
    "cmp ebp, 1",
    "je 3f",
    "ja 4f",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movups [rbx + 2192 + 64 * \\n], xmm\\n",
    ".endr",
    "jmp 5f",
    "3:",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "vmovups [rbx + 2192 + 64 * \\n], ymm\\n",
    ".endr",
    "vzeroupper",
    "jmp 5f",
    "4:",
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "vmovups [rbx + 2192 + 64 * \\n], zmm\\n",
    ".endr",
    ".irp n,0,1,2,3,4,5,6,7",
    "kmovq [rbx + 2192 + 2048 + 8 * \\n], k\\n",
    ".endr",
    "vzeroupper",
    "5:",
    "add rsp, 8",
    "pop rbp",
    "pop rbx",
    "ret",
);

unsafe extern "C" {
    safe fn subject_steps(n: u64) -> u64;
    safe fn subject_steps_second(n: u64) -> u64;
    safe fn subject_steps_third(n: u64) -> u64;
    safe fn subject_back(n: u64) -> u64;
    safe fn subject_back_last(n: u64) -> u64;
    safe fn subject_relative(n: u64) -> u64;
    safe fn subject_call(n: u64) -> u64;
    safe fn subject_tail(n: u64) -> u64;
    safe fn subject_through(n: u64) -> u64;
    safe fn subject_loop(n: u64) -> u64;
    fn subject_keep(buffer: *mut u8, width: u64);
}

/// All functions that return twice their argument.
const ALL: [extern "C" fn(u64) -> u64; 10] = [
    subject_steps,
    subject_steps_second,
    subject_steps_third,
    subject_back,
    subject_back_last,
    subject_relative,
    subject_call,
    subject_tail,
    subject_through,
    subject_loop,
];

/// Calls each of the functions with 1 to `times`. Returns the number of correct results.
pub(super) fn doubled(times: u64) -> usize {
    let calls = (1..=times).flat_map(|n| ALL.iter().map(move |function| (n, function(n))));
    calls.filter(|(n, result)| *result == 2 * n).count()
}

static DOUBLING: AtomicBool = AtomicBool::new(false);

/// Starts threads that call all functions until [`stop_doubling`], and return the number of wrong results.
pub(super) fn keep_doubling() -> Vec<thread::JoinHandle<u64>> {
    DOUBLING.store(true, Ordering::Release);
    let call = || {
        let mut wrong = 0;
        while DOUBLING.load(Ordering::Acquire) {
            wrong += 10 * 20 - doubled(20) as u64;
            wrong += 3 - kept(3);
        }
        wrong
    };
    (0..2).map(|_| thread::spawn(call)).collect()
}

pub(super) fn stop_doubling() {
    DOUBLING.store(false, Ordering::Release);
}

/// The size of the registers that `subject_keep` loads.
const LOADED: usize = 2192;
/// The place of the flags, and those that programs set: of arithmetic, and the direction.
const FLAGS: usize = 2184;
const SET: u64 = 0xcd5;

/// Calls `subject_keep` this often, with random registers of each width that this processor has. Returns how many calls kept all of
/// them.
pub(super) fn kept(times: u64) -> u64 {
    let mut widths = vec![0];
    if is_x86_feature_detected!("avx") {
        widths.push(1);
    }
    if is_x86_feature_detected!("avx512bw") {
        widths.push(2);
    }
    let mut state = 1_u64;
    let mut good = 0;
    for n in 0..times {
        let width = widths[n as usize % widths.len()];
        let mut buffer = vec![0_u8; 2 * LOADED];
        // Eight bytes at a time: this test is compiled without optimisation, and must spend its time in `subject_keep`.
        for eight in buffer[..LOADED].chunks_exact_mut(8) {
            // xorshift64*: all bits of the product are random.
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            eight.copy_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
        }
        let flags = u64::from_le_bytes(buffer[FLAGS..LOADED].try_into().unwrap());
        // Interrupts are on in programs, and bit 1 is always set.
        let flags = flags & SET | 0x202;
        buffer[FLAGS..LOADED].copy_from_slice(&flags.to_le_bytes());
        // The unused upper parts of narrower registers.
        for register in 0..32 {
            let used = [16, 32, 64][width as usize] * usize::from(register < 16 || width == 2);
            buffer[64 * register + used..64 * register + 64].fill(0);
        }
        if width != 2 {
            buffer[2048..2112].fill(0);
        }
        // SAFETY: the processor has registers of this width, and the buffer has room for both copies.
        unsafe { subject_keep(buffer.as_mut_ptr(), width) };
        good += u64::from(buffer[..LOADED] == buffer[LOADED..]);
    }
    good
}
