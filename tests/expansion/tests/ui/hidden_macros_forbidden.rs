//! Who calls what the macros expand to writes `unsafe`, which can be forbidden. (That lint comes when all else is right.)
#![forbid(unsafe_code)]

use sdt_core::__private::Sound;
use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

sdt_provider!(open);

static FAKE: [usize; 16] = [0x41; 16];

fn main() {
    sdt_core::__sdt_call!(unsafe { Sound::promised() }, 0, FAKE, "", []);
    sdt_core::__sdt_site!(unsafe { Sound::promised() }, FAKE, "", {});
    sdt_core::__sdt_asm!(unsafe { Sound::promised() }, ("ud2",));

    // Not these.
    sdt_probe!(open::cheap, 1);
    sdt_probe!(open::costly, u64::from(1u32));
    _ = sdt_enabled!(open::cheap);
}
