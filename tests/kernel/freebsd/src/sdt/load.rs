//! Creates the providers and probes of a file that has been loaded.

use core::ffi::{CStr, c_void};

use sdt_core::ops::{Framework as _, Privileges, ProviderAttr};
use sdt_framework::Host;

use super::records::{Content, Records};
use super::{Machdep, Probe, Provider, Sdt, layout, names, ops};
use crate::file_info::FileInfo;
use crate::{Generation, Release};
use stand_in_base::printf;

impl<H: Host, M: Machdep> Sdt<H, M> {
    /// Creates the providers and probes of a file that has been loaded (`sdt_kld_load`). Its records have been
    /// [checked](Self::check).
    pub fn kld_load(&'static self, file: &FileInfo, records: Records, release: Release) {
        // Fails only inside another call of `providing` on this CPU, and then the outer call enables the probes.
        let _ = self.framework.providing(|| self.load(file, records, release));
    }

    fn load(&'static self, file: &FileInfo, records: Records, release: Release) {
        for provider in &records.providers {
            self.create_provider(&provider.name);
            let declared = (file.id, provider.address, provider.name.clone());
            self.providers.lock().declared.push(declared);
        }
        for probe in records.probes {
            match probe.content {
                Ok(content) => self.create_probe(file, probe.address, content, release),
                Err(version) => {
                    let expected = layout::Probe::of(release.generation()).size;
                    let address = printf::pointer(probe.address);
                    self.machdep.print(format_args!(
                        "ignoring probe {address}, version {version} expected {expected}"
                    ));
                    // FreeBSD still writes `sdtp_lf` and the list heads of the ignored record, at the offsets of its own layout.
                    // If the record is shorter, these writes are beyond its end.
                    self.probes.lock().all.insert(probe.address, Probe::ignored(file.id));
                }
            }
        }
        let mut probes = self.probes.lock();
        for (probe, argtype) in records.argtypes {
            if let Some(probe) = probes.all.get_mut(&probe) {
                probe.argtypes.push((file.id, argtype));
            }
        }
        for (probe, tracepoint) in records.tracepoints {
            let Some(probe) = probes.all.get_mut(&probe) else { continue };
            if tracepoint.is_valid(self.machdep.machine()) {
                probe.tracepoints.push((file.id, tracepoint));
                continue;
            }
            let names = probe.content.as_ref().map(|content| content.names(&probe.provider));
            self.machdep.print(format_args!(
                "invalid tracepoint {}->{} for {}",
                printf::pointer(tracepoint.patchpoint),
                printf::pointer(tracepoint.target),
                names.as_deref().unwrap_or("a probe that is ignored"),
            ));
        }
    }

    /// Creates a provider, or adds a reference to an existing one (`sdt_create_provider`). FreeBSD does not check names or
    /// limits; here, [`check`](Self::check) has checked the names.
    fn create_provider(&'static self, name: &CStr) {
        let mut providers = self.providers.lock();
        if let Some(provider) = providers.list.iter_mut().find(|other| *other.name == *name) {
            provider.references += 1;
            return;
        }
        let ops = ops::table::<H, M>();
        let this = (&raw const *self).cast_mut().cast::<c_void>();
        let (attr, privileges) = (ProviderAttr::SDT, Privileges::USER);
        // SAFETY: `ops::table` returns ops whose argument is a pointer to a static `Self`, and `this` is such a pointer.
        match unsafe { self.framework.register(name, &attr, privileges, &ops, this) } {
            Ok(id) => providers.list.push(Provider { name: name.into(), id, references: 1 }),
            Err(error) => self.machdep.print(format_args!(
                "WARNING: failed to register provider '{}': {error}",
                name.to_string_lossy()
            )),
        }
    }

    /// Creates the probe of a record (`sdt_create_probe`).
    fn create_probe(&self, file: &FileInfo, address: u64, content: Content, release: Release) {
        let providers = self.providers.lock();
        let provider = providers.name(&Records::default(), content.provider).unwrap_or_default();
        let names = content.names(&provider);
        let probe = Probe {
            provider: provider.clone(),
            content: Some(content.clone()),
            ..Probe::ignored(file.id)
        };
        self.probes.lock().all.entry(address).or_insert(probe);
        let registered = providers.list.iter().find(|registered| registered.name == provider);
        let Some(Provider { id, .. }) = registered else { return };
        let module = names::module(&content.module, &file.name);
        let function = names::function(&content.function);
        let name = names::probe(&content.name);
        let known = self.framework.probe_lookup(*id, &module, &function, &name);
        if known.is_some() {
            // A second record with the same names creates no probe.
            return;
        }
        // A stack trace leaves out the frame of `sdt_probe`. On 15, it also leaves out the frame of a lock function, so that it
        // begins with the function that acquires the lock.
        let lockstat =
            release.generation() == Generation::Patched && provider.as_c_str() == c"lockstat";
        let aframes = if lockstat { 2 } else { 1 };
        let record = address as *mut c_void;
        // SAFETY: the provider is registered; the ops look the record up and do not follow the pointer.
        match unsafe {
            self.framework.probe_create(*id, &module, &function, &name, aframes, record)
        } {
            Ok(created) => {
                if let Some(probe) = self.probes.lock().all.get_mut(&address) {
                    probe.created = Some(created);
                }
            }
            Err(error) => self
                .machdep
                .print(format_args!("WARNING: failed to create probe '{names}': {error}")),
        }
    }
}
