//! FreeBSD 15: the kernel patches sites.

unsafe extern "C" {
    // sys/kern/kern_sdt.c, main. Probe context. Declared without its arguments: `call_from` passes them.
    //
    // `sdt_probe`, for up to five, is the same with a 0 for the sixth. On amd64 it forwards its arguments by another
    // call, which would add an artificial frame.
    fn sdt_probe6();
}

/// Returns the kernel's function for a hit. Probe context.
pub(super) fn function() -> *const () {
    sdt_probe6 as *const ()
}
