//! Safe code cannot call the hidden macros to which the macros expand, under any path.

static FAKE: [usize; 16] = [0x41; 16];

fn main() {
    sdt_core::__sdt_arch!(@call 0, FAKE, "", []);
    sdt_core::__sdt_site!(@site FAKE, "", {});
    sdt_core::__sdt_asm!(("ud2",));
}
