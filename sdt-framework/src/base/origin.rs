//! The provider of a probe, as probe context uses it.

use core::ffi::{c_int, c_void};

use sdt_core::ops::{GetArgVal, ProviderOps};

use super::names::{Names, ProviderName};

/// The type of the ops `suspend` and `resume`.
pub(crate) type Notify = unsafe extern "C" fn(*mut c_void, u32, *mut c_void);

/// The type of the op `usermode`.
type UserMode = unsafe extern "C" fn(*mut c_void, u32, *mut c_void) -> c_int;

/// The ops of a probe's provider that are called when probes fire and when a debugger stops the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) getargval: Option<GetArgVal>,
    pub(crate) usermode: Option<UserMode>,
    pub(crate) suspend: Option<Notify>,
    pub(crate) resume: Option<Notify>,
    pub(crate) arg: *mut c_void,
    pub(crate) parg: *mut c_void,
    pub(crate) aframes: u32,
    names: Option<(*const u8, usize, *const Names)>,
}

impl Origin {
    pub(crate) const NONE: Self = Self {
        getargval: None,
        usermode: None,
        suspend: None,
        resume: None,
        arg: core::ptr::null_mut(),
        parg: core::ptr::null_mut(),
        aframes: 0,
        names: None,
    };

    pub(crate) fn new(
        ops: &ProviderOps,
        arg: *mut c_void,
        parg: *mut c_void,
        aframes: u32,
        names: Option<(&'static ProviderName, &'static Names)>,
    ) -> Self {
        Self {
            getargval: ops.getargval,
            usermode: ops.usermode,
            suspend: ops.suspend,
            resume: ops.resume,
            arg,
            parg,
            aframes,
            names: names.map(|(provider, names)| {
                let provider = provider.to_bytes();
                (provider.as_ptr(), provider.len(), core::ptr::from_ref(names))
            }),
        }
    }

    /// Returns provider, module, function and name. Probe context.
    ///
    /// # Safety
    /// The probe was live in this probe context, and the names are used in it only.
    pub(crate) unsafe fn names<'a>(&self) -> [&'a [u8]; 4] {
        let Some((provider, length, names)) = self.names else { return [&[]; 4] };
        // SAFETY: the names are overwritten only after the probe is retracted and every CPU has left probe context (`Host::sync`).
        let (provider, names) = unsafe { (core::slice::from_raw_parts(provider, length), &*names) };
        let [module, function, name] = names.texts();
        [provider, module, function, name]
    }

    /// Returns an argument that the hit does not contain; 0 if the provider has no `getargval`. Probe context.
    ///
    /// # Safety
    /// The provider is registered.
    pub(crate) unsafe fn arg_value(&self, id: u32, argno: c_int) -> u64 {
        match self.getargval {
            // SAFETY: the safety contract of `register` allows calling the op in probe context with these pointers.
            Some(op) => unsafe { op(self.arg, id, self.parg, argno, self.aframes as c_int) },
            None => 0,
        }
    }

    /// Returns whether this hit was in user mode; false if the provider has no `usermode`. Probe context.
    ///
    /// # Safety
    /// The provider is registered.
    pub(crate) unsafe fn is_usermode(&self, id: u32) -> bool {
        // SAFETY: the safety contract of `register` allows calling the op in probe context with these pointers.
        self.usermode.is_some_and(|op| unsafe { op(self.arg, id, self.parg) } != 0)
    }
}
