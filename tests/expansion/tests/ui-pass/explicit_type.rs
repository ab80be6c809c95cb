//! An explicit C type, a translated type, and both, for values of one word; a translated type also for values of two.

use core::ffi::{CStr, c_void};
use core::ptr::NonNull;

use sdt_core::arg::{Argument, CType};
use sdt_core::{sdt_probe, sdt_provider};

/// A type of another crate, which does not name it in C.
pub struct Proc(u32);

#[derive(CType)]
#[repr(C)]
pub struct Bio {
    length: u32,
}

#[derive(Clone, Copy, Argument)]
pub struct Port(u16);

#[derive(Clone, Copy, Argument)]
#[c_name = "enum side"]
pub enum Side {
    Left,
}

sdt_provider! {
    typed {
        fn both(proc: &Proc as "struct proc *" => "psinfo_t *");
        fn explicit(
            reference: &Proc as "struct proc *",
            exclusive: &mut Proc as "proc_t *",
            pointer: *const Proc as "struct proc *",
            nonnull: NonNull<Proc> as "struct proc *",
            maybe: Option<&Proc> as "struct proc *",
            opaque: *mut c_void as "struct proc *",
            number: u32 as "pid_t",
            newtype: Port as "in_port_t",
        );
        fn translated(
            bio: &Bio => "bufinfo_t *",
            maybe: Option<&Bio> => "bufinfo_t *",
            number: u64 => "string",
            text: &CStr => "string",
            side: Side => "enum hand",
        );
        fn two_words(text: &str => "string", bytes: &[u8] => "char *");
    }
}

fn types(probe: &sdt_core::Probe) -> Vec<String> {
    let shown = |of: &sdt_core::arg::ArgType| {
        let translated = of.translated.as_ref().map(|to| format!(" => {}", to.as_str()));
        format!("{}{}", of.native.as_str(), translated.unwrap_or_default())
    };
    probe.args().unwrap().map(shown).collect()
}

fn main() {
    let (proc, mut other, bio) = (Proc(1), Proc(2), Bio { length: 2 });
    sdt_probe!(typed::both, &proc);
    let pointer = NonNull::from(&proc);
    let opaque = (&raw mut other).cast();
    sdt_probe!(
        typed::explicit,
        &proc,
        &mut other,
        &raw const proc,
        pointer,
        None,
        opaque,
        7,
        Port(443)
    );
    sdt_probe!(typed::translated, &bio, Some(&bio), bio.length.into(), c"text", Side::Left);
    sdt_probe!(typed::two_words, "text", b"bytes");

    assert_eq!(types(&typed::both), ["struct proc * => psinfo_t *"]);
    assert_eq!(
        types(&typed::explicit),
        [
            "struct proc *",
            "proc_t *",
            "struct proc *",
            "struct proc *",
            "struct proc *",
            "struct proc *",
            "pid_t",
            "in_port_t"
        ]
    );
    assert_eq!(
        types(&typed::translated),
        [
            "struct bio * => bufinfo_t *",
            "struct bio * => bufinfo_t *",
            "uint64_t => string",
            "char * => string",
            "enum side => enum hand"
        ]
    );
    // The type of the second word does not change.
    assert_eq!(
        types(&typed::two_words),
        ["char * => string", "size_t => size_t", "uint8_t * => char *", "size_t => size_t"]
    );
}
