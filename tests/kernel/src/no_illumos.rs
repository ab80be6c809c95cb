//! Machines that illumos is not there for.

use sdt_protocol::{Refusal, Reply, Request};
use stand_in_freebsd::errno::EINVAL;

/// The answer to a request; `None` for one that this is nothing to.
pub(crate) fn answer(request: &Request) -> Option<Result<Reply, Refusal>> {
    let message = "illumos is not there for this machine".into();
    matches!(request, Request::Illumos { .. }).then_some(Err(Refusal { errno: EINVAL, message }))
}

/// Executes an image as illumos does, if this kernel is illumos's; says whether it is.
pub(crate) fn execute(_pid: u32, _path: &core::ffi::CStr) -> bool {
    false
}
