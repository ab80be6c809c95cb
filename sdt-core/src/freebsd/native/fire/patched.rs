//! FreeBSD 15: the kernel patches sites.

unsafe extern "C" {
    // sys/kern/kern_sdt.c, main. Probe context. Declared without its arguments: `call_from` passes them.
    //
    // `sdt_probe`, for up to five, is the same with a 0 for the sixth. It would pass its arguments on by a call
    // on amd64, where that makes one more, and so be an artificial frame that this one is not.
    fn sdt_probe6();
}

/// The kernel's function for a hit. Probe context.
pub(super) fn function() -> *const () {
    sdt_probe6 as *const ()
}
