//! Tests at one site whether any of several probes is enabled.
//!
//! A group is a record among the probes of its provider. Its name lists its members: the name of each, followed by a comma. So
//! all records of the same members are one group, as all records of one name are one probe. The framework has no groups: this
//! crate enables a group with each of its members.

use core::ffi::CStr;

/// Returns whether a record of that name is a group. Names of probes contain no comma.
pub(crate) fn is_group(name: &CStr) -> bool {
    name.to_bytes().ends_with(b",")
}

/// Returns whether the probe of that name is a member of the group.
pub(crate) fn means(group: &CStr, probe: &CStr) -> bool {
    group.to_bytes().split(|&byte| byte == b',').any(|name| name == probe.to_bytes())
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
