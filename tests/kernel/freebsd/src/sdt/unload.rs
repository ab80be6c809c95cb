//! Removes the probes and providers of a file that is about to be unloaded, or prevents the unload.

use sdt_framework::Host;

use super::{Machdep, Providers, Sdt, names};
use crate::file_info::FileInfo;

impl<H: Host, M: Machdep> Sdt<H, M> {
    /// Handles the event `kld_unload_try`: a file is about to be unloaded. Returns `false` if DTrace or SDT prevents that. As on
    /// FreeBSD, the probes of the file may have been destroyed even then; they do not come back until the file is loaded again.
    ///
    /// First, DTrace refuses if a probe of the file is enabled; otherwise it destroys all probes with the file's module name.
    /// Then SDT unlinks the argument types and tracepoints of the file, and unregisters the providers that are in no other set.
    /// DTrace refuses to unregister a provider while a consumer is open.
    pub fn kld_unload_try(&self, file: &FileInfo) -> bool {
        if self.is_enabled(file.id) {
            self.machdep.print(format_args!(
                "kldunload: attempt to unload module that has DTrace probes enabled"
            ));
            return false;
        }
        // This fails if a probe with the module name is still enabled: a probe of a provider that the file registers itself.
        // FreeBSD then destroys no probe, and leaves them to that provider.
        let _ = self.framework.destroy_module(&names::of_file(&file.name));
        self.unlink(file.id) && self.unload_providers(file.id)
    }

    /// Returns whether probes of a file are enabled (`nenabled` in its `struct linker_file`).
    fn is_enabled(&self, file: u32) -> bool {
        self.probes.lock().all.values().any(|probe| probe.file == file && probe.enabled)
    }

    /// Unlinks the argument types and tracepoints of a file (`sdt_kld_unload_probes`). Returns whether the file's probes have no
    /// argument types and tracepoints of other files.
    fn unlink(&self, file: u32) -> bool {
        let mut probes = self.probes.lock();
        for probe in probes.all.values_mut() {
            probe.argtypes.retain(|&(of, _)| of != file);
            probe.tracepoints.retain(|&(of, _)| of != file);
        }
        let mut own = probes.all.values().filter(|probe| probe.file == file);
        own.all(|probe| probe.argtypes.is_empty() && probe.tracepoints.is_empty())
    }

    /// Drops the file's references to providers, and unregisters providers without references (`sdt_kld_unload_providers`).
    /// Returns `false` if DTrace refuses.
    fn unload_providers(&self, file: u32) -> bool {
        let Providers { list, declared } = &mut *self.providers.lock();
        for (_, _, name) in declared.iter().filter(|&&(of, ..)| of == file) {
            let Some(at) = list.iter().position(|provider| provider.name == *name) else {
                continue;
            };
            if list[at].references > 1 {
                list[at].references -= 1;
                continue;
            }
            if self.framework.unregister(list[at].id).is_err() {
                return false;
            }
            list.remove(at);
        }
        true
    }

    /// Removes the records of a file that has been unloaded.
    pub fn kld_unload(&self, file: &FileInfo) {
        self.providers.lock().declared.retain(|&(of, ..)| of != file.id);
        self.probes.lock().all.retain(|_, probe| probe.file != file.id);
    }
}
