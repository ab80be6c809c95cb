//! What probes there are, and what can be said of one.

use core::ffi::CStr;
use core::fmt;

use dtrace_abi::glob;
use dtrace_abi::name::Name;
use dtrace_abi::spec::Spec;
use sdt_core::ops::{
    ARG_NONE, ArgDesc, Attribute, FUNCTION_NAME_LEN, MODULE_NAME_LEN, PROBE_NAME_LEN,
    PROVIDER_NAME_LEN, Privileges, ProbeId, ProviderAttr,
};

use crate::context::ProbeContext;
use crate::dtrace::Dtrace;
use crate::ecb::BATCH;
use crate::host::Host;
use crate::registry::provider::{index, number};
use crate::registry::tables::Tables;
use crate::rights::Rights;

/// How many arguments a provider is asked for at most (libdtrace's `_dtrace_argmax`).
const MAX_ARGS: i32 = 32;

/// A probe as it is listed: its number and its four names.
#[derive(Clone, Debug)]
pub struct ProbeInfo {
    id: ProbeId,
    provider: Name<PROVIDER_NAME_LEN>,
    module: Name<MODULE_NAME_LEN>,
    function: Name<FUNCTION_NAME_LEN>,
    name: Name<PROBE_NAME_LEN>,
}

impl ProbeInfo {
    /// Its number.
    pub const fn id(&self) -> ProbeId {
        self.id
    }

    /// Provider name.
    pub fn provider(&self) -> &CStr {
        self.provider.as_c_str()
    }

    /// Module name.
    pub fn module(&self) -> &CStr {
        self.module.as_c_str()
    }

    /// Function name.
    pub fn function(&self) -> &CStr {
        self.function.as_c_str()
    }

    /// Probe name.
    pub fn name(&self) -> &CStr {
        self.name.as_c_str()
    }
}

/// `provider:module:function:name`
impl fmt::Display for ProbeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, module, function, name, .. } = self;
        write!(f, "{provider}:{module}:{function}:{name}")
    }
}

/// What `dtrace -l -v` shows of a probe beside its names and its arguments' types.
#[derive(Clone, Debug)]
pub struct Detail {
    /// The probe.
    pub info: ProbeInfo,
    /// Stability of the probe's description: in each part the weakest of the provider's attributes for
    /// those of the four names that are not empty and hold no pattern, as libdtrace's `dt_probe_info`
    /// computes it.
    pub probe: Attribute,
    /// Stability of its arguments.
    pub args: Attribute,
    /// Stability of its provider, part by part.
    pub provider: ProviderAttr,
    /// Who may use its provider.
    pub privileges: Privileges,
}

fn stability(attr: &ProviderAttr, info: &ProbeInfo) -> Attribute {
    let parts =
        [(info.module(), attr.module), (info.function(), attr.function), (info.name(), attr.name)];
    parts
        .into_iter()
        .filter(|(name, _)| !name.is_empty() && !glob::is_glob(name.to_bytes()))
        .fold(attr.provider, |all, (_, part)| all.min(part))
}

/// A probe's number and names.
pub(crate) fn info(tables: &Tables, at: usize) -> Option<ProbeInfo> {
    let (probe, provider) = tables.probe(at)?;
    Some(ProbeInfo {
        id: ProbeId::new(number(at))?,
        provider: *provider.name,
        module: probe.names.module,
        function: probe.names.function,
        name: probe.names.name,
    })
}

/// # Which probes there are
///
/// Of all providers, for whoever lists them.
impl<H: Host> Dtrace<H> {
    /// Calls `f` for every probe that the description matches, in order of number, and returns how many
    /// there were. Providers are asked to provide what they have for the description first. No lock is
    /// held while `f` runs: probes may come and go meanwhile.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn for_each_probe(
        &self,
        spec: &Spec,
        mut f: impl FnMut(&ProbeInfo),
    ) -> Result<u32, ProbeContext> {
        self.provide(&spec.desc())?;
        let (mut count, mut from) = (0, 0);
        loop {
            let found = {
                let tables = self.tables.lock();
                let to = tables.probes_used().min(from + BATCH);
                let at = (from..to).find(|&at| tables.matches(at, spec));
                if at.is_none() && to == tables.probes_used() {
                    return Ok(count);
                }
                from = at.map_or(to, |at| at + 1);
                at.and_then(|at| info(&tables, at))
            };
            if let Some(info) = found {
                f(&info);
                count += 1;
            }
        }
    }

    /// A probe's names and stability, if it exists. None in [probe context](ProbeContext).
    pub fn describe(&self, id: ProbeId) -> Option<Detail> {
        self.need_thread().ok()?;
        let tables = self.tables.lock();
        let info = info(&tables, index(id))?;
        let (_, provider) = tables.probe(index(id))?;
        let (attr, privileges) = (provider.attr, provider.privileges);
        Some(Detail {
            probe: stability(&attr, &info),
            args: attr.args,
            provider: attr,
            privileges,
            info,
        })
    }

    /// The type of one argument of a probe, from 0, as its provider's `getargdesc` tells it; `None` past the last, when the
    /// provider has no such op, and if the probe is not there for who has these rights.
    pub(crate) fn arg_desc_for(&self, id: ProbeId, ndx: i32, rights: Rights) -> Option<ArgDesc> {
        self.need_thread().ok()?;
        let tables = self.tables.lock();
        if !tables.permits(index(id), rights) {
            return None;
        }
        let (probe, provider) = tables.probe(index(id))?;
        let getargdesc = provider.ops.getargdesc?;
        let mut desc = ArgDesc::request(id, ndx);
        // SAFETY: the op was declared sound at registration; the description is ours to fill.
        unsafe { getargdesc(provider.arg.0, id.get(), probe.parg.0, &mut desc) };
        (desc.ndx != ARG_NONE).then_some(desc)
    }

    /// The types of all arguments of a probe, in order; as libdtrace does, it asks for at most 32. None in
    /// [probe context](ProbeContext).
    pub fn arg_descs(&self, id: ProbeId) -> impl Iterator<Item = ArgDesc> {
        (0..MAX_ARGS).map_while(move |ndx| self.arg_desc_for(id, ndx, Rights::ALL))
    }
}
