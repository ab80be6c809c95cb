//! Texts of the kernel, which programs read without a copy.

use dtrace_abi::dif::Builtin;

use super::address::{ObjectAddress, Region};
use super::firing::Firing;
use crate::kernel::{Kernel, Text};

/// The number of names of a probe.
const NAMES: usize = 4;

/// The texts of the kernel. Their numbers follow those of the probe's four names.
const KERNEL: [Text; 5] =
    [Text::Execname, Text::Zonename, Text::Jailname, Text::Execargs, Text::Threadname];

/// Returns the number of the text of a built-in variable.
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
    /// Returns the text with a number, if it exists and the consumer may read it.
    pub(crate) fn text(&self, item: u32) -> Option<&[u8]> {
        let item = item as usize;
        let Some(kernel) = item.checked_sub(NAMES) else {
            return self.probe.names.name(item);
        };
        let which = KERNEL.get(kernel)?;
        if self.access.process { self.kernel.text(*which) } else { None }
    }

    /// Returns the address of the text with a number; `None` if it does not exist.
    pub(crate) fn text_address(&self, item: u32) -> Option<u64> {
        self.text(item).map(|_| ObjectAddress::start(Region::Text, item).address())
    }
}
