//! Whether any of several probes is enabled, at one site.
//!
//! A group is a record among the probes of its provider, whose name says which are meant: the name of each, with a comma behind
//! it. So all that name the same group are one, as all records of one probe are. The framework is told nothing of groups; one
//! is enabled as often as probes of it are.

use core::ffi::CStr;

/// Whether a record of that name is a group's: no probe's name has a comma.
pub(crate) fn is_group(name: &CStr) -> bool {
    name.to_bytes().ends_with(b",")
}

/// Whether a group means the probe of that name.
pub(crate) fn means(group: &CStr, probe: &CStr) -> bool {
    group.to_bytes().split(|&byte| byte == b',').any(|name| name == probe.to_bytes())
}

/// With semaphores, of which each probe has its own, each is asked.
#[cfg(sdt_stap)]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_enabled_group {
    ($sound:expr, $provider:path, $listed:literal, [$($each:expr),*]) => {
        $($each)||*
    };
}

/// The site of a group: its record, and the nop that is patched while a probe of it is enabled.
#[cfg(not(sdt_stap))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_enabled_group {
    ($sound:expr, $provider:path, $listed:literal, [$($each:expr),*]) => {{
        let mut enabled = false;
        $crate::__sdt_unless_off! {
            $crate::__sdt_into_probes! {
                __SDT_GROUP = $crate::__private::record::Probe::open(&$provider, $listed)
            }
            $crate::__sdt_site!($sound, __SDT_GROUP, "", { enabled = true; });
        }
        enabled
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_mean_whole_names() {
        let group = c"exec-success,exit,";
        assert!(is_group(group) && is_group(c"a,") && !is_group(c"exec-success"));
        assert!(means(group, c"exit") && means(group, c"exec-success"));
        assert!(!means(group, c"exec") && !means(group, c"xit") && !means(group, c"e,exit"));
    }
}
