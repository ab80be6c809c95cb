//! What the macros expand to is not for safe code, by whatever name it can be reached.

static FAKE: [usize; 16] = [0x41; 16];

fn main() {
    sdt_core::__sdt_arch!(@call 0, FAKE, "", []);
    sdt_core::__sdt_site!(@site FAKE, "", {});
    sdt_core::__sdt_asm!(("ud2",));
}
