//! A file is unloaded: its probes and providers go, or keep it.

use sdt_framework::Host;

use super::{Machdep, Providers, Sdt, names};
use crate::file_info::FileInfo;

impl<H: Host, M: Machdep> Sdt<H, M> {
    /// A file is about to be unloaded (`kld_unload_try`): whether DTrace and SDT let it go. They may have taken
    /// away its probes even if not, as FreeBSD's do, and then they stay away.
    ///
    /// First DTrace: not while a probe of the file is enabled; or else all probes that carry its name are
    /// destroyed. Then SDT: argument types and tracepoints of the file are unlinked, and providers that are in
    /// no other set are unregistered, which DTrace refuses while any consumer is open.
    pub fn kld_unload_try(&self, file: &FileInfo) -> bool {
        if self.is_enabled(file.id) {
            self.machdep.print(format_args!(
                "kldunload: attempt to unload module that has DTrace probes enabled"
            ));
            return false;
        }
        // Only a probe of the file's own provider can still be enabled: FreeBSD then leaves all probes to that
        // provider.
        let _ = self.framework.destroy_module(&names::of_file(&file.name));
        self.unlink(file.id) && self.unload_providers(file.id)
    }

    /// Returns whether probes of a file are enabled (`nenabled` in its `struct linker_file`).
    fn is_enabled(&self, file: u32) -> bool {
        self.probes.lock().all.values().any(|probe| probe.file == file && probe.enabled)
    }

    /// `sdt_kld_unload_probes`: whether nothing of other files is linked to the file's records.
    fn unlink(&self, file: u32) -> bool {
        let mut probes = self.probes.lock();
        for probe in probes.all.values_mut() {
            probe.argtypes.retain(|&(of, _)| of != file);
            probe.tracepoints.retain(|&(of, _)| of != file);
        }
        let mut own = probes.all.values().filter(|probe| probe.file == file);
        own.all(|probe| probe.argtypes.is_empty() && probe.tracepoints.is_empty())
    }

    /// `sdt_kld_unload_providers`.
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

    /// A file is gone.
    pub fn kld_unload(&self, file: &FileInfo) {
        self.providers.lock().declared.retain(|&(of, ..)| of != file.id);
        self.probes.lock().all.retain(|_, probe| probe.file != file.id);
    }
}
