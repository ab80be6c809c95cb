//! Lists and describes probes.

use core::ffi::CStr;
use core::fmt;

use dtrace_abi::glob;
use dtrace_abi::name::Name;
use sdt_core::ops::{
    ARG_NONE, ArgDesc, Attribute, FUNCTION_NAME_LEN, MODULE_NAME_LEN, PROBE_NAME_LEN,
    PROVIDER_NAME_LEN, Privileges, ProbeId, ProviderAttr,
};

use super::tables::{Registry, index, number};

/// The number and the names of a probe, as `dtrace -l` lists them.
#[derive(Clone, Debug)]
pub struct ProbeInfo {
    id: ProbeId,
    provider: Name<PROVIDER_NAME_LEN>,
    module: Name<MODULE_NAME_LEN>,
    function: Name<FUNCTION_NAME_LEN>,
    name: Name<PROBE_NAME_LEN>,
}

impl ProbeInfo {
    /// Returns the number.
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

/// The details of a probe in `dtrace -l -v`, except its names and the types of its arguments.
#[derive(Clone, Debug)]
pub struct Detail {
    /// The probe.
    pub info: ProbeInfo,
    /// Stability of the probe's description. Each part is the weakest of the provider's attributes for those of the
    /// four names that are neither empty nor patterns, as libdtrace's `dt_probe_info` computes it.
    pub probe: Attribute,
    /// Stability of its arguments.
    pub args: Attribute,
    /// Stability of its provider, part by part.
    pub provider: ProviderAttr,
    /// The privileges that its provider requires.
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

impl<E: Copy + 'static> Registry<E> {
    /// The number and names of the probe at an index.
    pub(crate) fn info(&self, at: usize) -> Option<ProbeInfo> {
        let (probe, provider) = self.probe(at)?;
        let [module, function, name] = self.texts(&probe);
        Some(ProbeInfo {
            id: ProbeId::new(number(at))?,
            provider: provider.source.name,
            module: Name::cut(module),
            function: Name::cut(function),
            name: Name::cut(name),
        })
    }

    /// Returns the names, stability and privileges of the probe at an index.
    pub(crate) fn describe(&self, at: usize) -> Option<Detail> {
        let info = self.info(at)?;
        let (_, provider) = self.probe(at)?;
        let (attr, privileges) = (provider.attr, provider.privileges);
        let probe = stability(&attr, &info);
        Some(Detail { probe, args: attr.args, provider: attr, privileges, info })
    }

    /// Returns the type of an argument of a probe, counted from 0, from the provider's `getargdesc`. Returns `None`
    /// after the last argument, or if the provider has no such op.
    pub(crate) fn arg_desc(&self, id: ProbeId, ndx: i32) -> Option<ArgDesc> {
        let (probe, provider) = self.probe(index(id))?;
        let getargdesc = provider.source.ops.getargdesc?;
        let mut desc = ArgDesc::request(id, ndx);
        // SAFETY: the op is sound by the contract of `register`; the description is a local that the op fills in.
        unsafe { getargdesc(provider.source.arg, id.get(), probe.parg, &mut desc) };
        (desc.ndx != ARG_NONE).then_some(desc)
    }
}
