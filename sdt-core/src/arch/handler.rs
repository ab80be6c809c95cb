//! The check of the breakpoint handler on architectures that have none.

use core::fmt;

/// The faults that the check can find: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerFault {}

impl fmt::Display for HandlerFault {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// Returns `Ok`: on this architecture there is nothing to check.
pub const fn check_handler() -> Result<(), HandlerFault> {
    Ok(())
}
