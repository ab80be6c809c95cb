//! The module as illumos loads it: fires everything on every exec, or as a driver when an instance of it is attached
//! or detached.

#[cfg(feature = "driver")]
mod driver {
    use core::ffi::c_int;

    use sdt_core::illumos::{DevInfo, DevOps, Module};
    use sdt_core::{illumos_module, sdt_probe};

    use crate::sdt_stress;

    illumos_module!(sdt_stress, STRESS, info = c"stress of probe sites", driver = OPS);

    static STRESS: Stress = Stress;

    static OPS: DevOps = DevOps::none().attach(attach).detach(detach);

    struct Stress;

    impl Module for Stress {}

    /// DDI_SUCCESS.
    const SUCCESS: c_int = 0;

    extern "C" fn attach(device: *mut DevInfo, _: c_int) -> c_int {
        sdt_probe!(sdt_stress::attach, device);
        SUCCESS
    }

    extern "C" fn detach(device: *mut DevInfo, _: c_int) -> c_int {
        sdt_probe!(sdt_stress::detach, device);
        SUCCESS
    }
}

#[cfg(not(feature = "driver"))]
mod misc {
    use core::ffi::CStr;
    use core::sync::atomic::{AtomicU64, Ordering};

    use illumos_execsw_hook::{Busy, deregister, register};
    use sdt_core::illumos::{Errno, Module};
    use sdt_core::illumos_module;

    illumos_module!(sdt_stress, STRESS, info = c"stress of probe sites");

    static STRESS: Stress = Stress;

    struct Stress;

    impl Module for Stress {
        fn load(&self) -> Result<(), Errno> {
            // SAFETY: `unload` fails unless it deregisters the handler.
            unsafe { register(before_exec) }.map_err(|Busy| Errno::EBUSY)
        }

        fn unload(&self) -> Result<(), Errno> {
            deregister().map_err(|Busy| Errno::EBUSY)
        }
    }

    fn before_exec(_: &CStr) {
        static EXECS: AtomicU64 = AtomicU64::new(0);
        crate::sdt_stress_fire(EXECS.fetch_add(1, Ordering::Relaxed) & 0xfff);
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    sdt_core::illumos::console::panic_kernel(info)
}
