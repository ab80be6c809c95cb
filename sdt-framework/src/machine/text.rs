//! Texts that the kernel gives: they are read where they lie.

use dtrace_abi::dif::Builtin;

use super::address::{Place, Region};
use super::firing::Firing;
use crate::kernel::{Kernel, Text};

/// The number of names of a probe.
const NAMES: usize = 4;

/// The kernel's texts come behind the probe's four names.
const KERNEL: [Text; 5] =
    [Text::Execname, Text::Zonename, Text::Jailname, Text::Execargs, Text::Threadname];

/// The number of a variable's text.
pub(crate) const fn item(variable: Builtin) -> Option<u32> {
    Some(match variable {
        Builtin::Probeprov => 0,
        Builtin::Probemod => 1,
        Builtin::Probefunc => 2,
        Builtin::Probename => 3,
        Builtin::Execname => 4,
        Builtin::Zonename => 5,
        Builtin::Jailname => 6,
        Builtin::Execargs => 7,
        Builtin::Threadname => 8,
        _ => return None,
    })
}

impl<K: Kernel> Firing<'_, K> {
    /// The text with a number, if there is one that this consumer may see.
    pub(crate) fn text(&self, item: u32) -> Option<&[u8]> {
        let item = item as usize;
        let Some(kernel) = item.checked_sub(NAMES) else {
            return self.probe.names.names().get(item).copied();
        };
        let which = KERNEL.get(kernel)?;
        if self.access.process { self.kernel.text(*which) } else { None }
    }

    /// Returns its address; `None` if it does not exist.
    pub(crate) fn text_address(&self, item: u32) -> Option<u64> {
        self.text(item).map(|_| Place::start(Region::Text, item).address())
    }
}
