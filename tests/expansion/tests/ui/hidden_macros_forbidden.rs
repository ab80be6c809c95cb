//! Calls of the hidden macros need `unsafe`, which a crate can forbid. (The lint is reported if there is no other error.)
#![forbid(unsafe_code)]

use sdt_core::__private::Promise;
use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

sdt_provider!(open);

static FAKE: [usize; 16] = [0x41; 16];

fn main() {
    const __SDT_PROMISE: Promise = unsafe { Promise::made() };
    sdt_core::__sdt_arch!(@call 0, FAKE, "", []);
    sdt_core::__sdt_site!(@site FAKE, "", {});
    sdt_core::__sdt_asm!(("ud2",));

    // These uses need no `unsafe`.
    sdt_probe!(open::cheap, 1);
    sdt_probe!(open::costly, u64::from(1u32));
    _ = sdt_enabled!(open::cheap);
}
