//! Compares the encoders with the assembler in rustc, which supports all three architectures.

use std::fmt::Write;
use std::process::Command;

use dtrace_abi::site::{Code, Encoding, JumpError, aarch64, riscv64, x86_64};
use object::{Object, ObjectSection};

/// Returns the bytes of assembled lines, or `None` if the assembler refuses them.
fn assemble(target: &str, name: &str, lines: &str) -> Option<Vec<u8>> {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, object) = (dir.join(format!("{name}.rs")), dir.join(format!("{name}.o")));
    // Assembling needs no library of the target.
    let program = format!(
        "#![feature(no_core, lang_items, rustc_attrs)]\n#![no_core]\n#![crate_type = \"lib\"]\n\
         #![allow(internal_features)]\n#[lang = \"pointee_sized\"] trait PointeeSized {{}}\n\
         #[lang = \"meta_sized\"] trait MetaSized: PointeeSized {{}}\n\
         #[lang = \"sized\"] trait Sized: MetaSized {{}}\n\
         #[rustc_builtin_macro] macro_rules! global_asm {{ () => {{}} }}\n\
         global_asm!({:?}, options(raw));\n",
        format!(".pushsection .encoded,\"ax\"\n{lines}.popsection\n"),
    );
    std::fs::write(&source, program).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let output = Command::new(rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["--edition=2021", "--emit=obj", "-Cpanic=abort", "--target", target, "-o"])
        .args([&object, &source])
        .output()
        .unwrap();
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        let refused = ["out of range", "must be", "immediate", "misaligned", "encodable"];
        assert!(refused.iter().any(|reason| message.contains(reason)), "{message}");
        return None;
    }
    let bytes = std::fs::read(object).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    Some(file.section_by_name(".encoded").unwrap().data().unwrap().to_vec())
}

/// Compares jumps over all `distances` from an address in the middle of the space.
fn compare(
    target: &str,
    name: &str,
    line: fn(isize) -> String,
    jump: fn(usize, usize) -> Result<Code, JumpError>,
    distances: &[isize],
) {
    const FROM: usize = 0xffff_ffff_8000_0000;
    let mut lines = String::new();
    let mut expected = Vec::new();
    for &distance in distances {
        writeln!(lines, "{}", line(distance)).unwrap();
        expected.extend(jump(FROM, FROM.wrapping_add_signed(distance)).unwrap().as_bytes());
    }
    assert_eq!(assemble(target, name, &lines).expect("the assembler takes all of them"), expected);
}

/// Returns the distances to test: the powers of two within reach and their neighbours, forward and backward, and both ends of
/// the reach.
fn distances(step: isize, lowest: isize, highest: isize) -> Vec<isize> {
    let powers = (0..40).map(|bit| 1isize << bit).flat_map(|d| [d - step, d, d + step]);
    let both = powers.flat_map(|d| [d, -d]).chain([lowest, highest]);
    both.filter(|d| d % step == 0 && (lowest..=highest).contains(d)).collect()
}

/// Returns the bytes of the nop and of the breakpoint.
fn still(encoding: &Encoding) -> Vec<u8> {
    [encoding.nop.as_bytes(), encoding.breakpoint.as_bytes()].concat()
}

#[test]
fn x86_64_jumps() {
    let (lowest, highest) = (-(1 << 31) + 5, (1 << 31) + 4);
    let line = |d: isize| format!(".byte 0xe9\n.long {}", d - 5);
    compare("x86_64-unknown-none", "x86_far", line, x86_64::jump, &distances(1, lowest, highest));
    // Compares with the assembler's `jmp`, for distances at which the assembler does not use the two-byte form.
    let near: Vec<_> = (200..0x10000).step_by(997).flat_map(|d| [d, -d]).collect();
    let line = |d: isize| format!(".att_syntax\njmp . + ({d})\n.intel_syntax noprefix");
    compare("x86_64-unknown-none", "x86_near", line, x86_64::jump, &near);
    assert_eq!(
        assemble("x86_64-unknown-none", "x86_nop", ".nops 5\nint3\n").unwrap(),
        still(&x86_64::ENCODING),
    );
}

#[test]
fn aarch64_jumps() {
    let target = "aarch64-unknown-none";
    let (lowest, highest) = (-(1 << 27), (1 << 27) - 4);
    let line = |d: isize| format!("b #{d}");
    compare(target, "a64", line, aarch64::jump, &distances(4, lowest, highest));
    assert_eq!(
        assemble(target, "a64_nop", "nop\nbrk #0x40d\n").unwrap(),
        still(&aarch64::ENCODING),
    );
    for refused in [lowest - 4, highest + 4, 2] {
        assert_eq!(assemble(target, "a64_refused", &format!("b #{refused}\n")), None);
        assert!(
            aarch64::jump(0x4000_0000, 0x4000_0000_usize.wrapping_add_signed(refused)).is_err()
        );
    }
}

#[test]
fn riscv64_jumps() {
    let target = "riscv64gc-unknown-none-elf";
    let (lowest, highest) = (-(1 << 20), (1 << 20) - 2);
    let line = |d: isize| format!(".option norvc\njal x0, {d}");
    compare(target, "rv", line, riscv64::jump, &distances(2, lowest, highest));
    assert_eq!(
        assemble(target, "rv_nop", ".option norvc\nnop\n.option rvc\nc.ebreak\n").unwrap(),
        still(&riscv64::ENCODING),
    );
    assert_eq!(
        assemble("riscv64imac-unknown-none-elf", "rv_no_c", ".option norvc\nnop\nebreak\n")
            .unwrap(),
        still(&riscv64::ENCODING_WITHOUT_C),
    );
    for refused in [lowest - 2, highest + 2, 1] {
        let line = format!(".option norvc\njal x0, {refused}\n");
        assert_eq!(assemble(target, "rv_refused", &line), None);
        assert!(
            riscv64::jump(0x8000_0000, 0x8000_0000_usize.wrapping_add_signed(refused)).is_err()
        );
    }
}

#[test]
fn what_is_refused_is_named() {
    let reach = aarch64::jump(0x1000, 0x1000 + (1 << 27)).unwrap_err();
    assert_eq!(reach, JumpError::OutOfReach { distance: 1 << 27, reach: 1 << 27 });
    let odd = aarch64::jump(0x1000, 0x1002).unwrap_err();
    assert_eq!(odd.to_string(), "address 0x1002 is not a multiple of 4");
    assert!(riscv64::jump(0x1001, 0x2000).is_err());
    assert!(x86_64::jump(0, (1 << 31) + 5).is_err());
    assert!(x86_64::jump(0, (1 << 31) + 4).is_ok());
}
