//! What an architecture can tell of the breakpoint handler: nothing here.

use core::fmt;

/// There is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerFault {}

impl fmt::Display for HandlerFault {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// Finds none.
pub const fn check_handler() -> Result<(), HandlerFault> {
    Ok(())
}
