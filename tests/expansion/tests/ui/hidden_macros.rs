//! What the macros expand to is not for safe code, by whatever name it can be reached.

static FAKE: [usize; 16] = [0x41; 16];

sdt_core::__sdt_into_probes! { pub WRONG = [0x41usize; 11] }

fn main() {
    sdt_core::__sdt_call!((), 0, FAKE, "", []);
    sdt_core::__sdt_call!(sdt_core::__private::Sound::promised(), 0, FAKE, "", []);
    sdt_core::__sdt_site!(sdt_core::__private::Sound::promised(), FAKE, "", {});
    sdt_core::__sdt_asm!(sdt_core::__private::Sound::promised(), ("ud2",));
}
