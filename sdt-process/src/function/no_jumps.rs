//! Architectures on which no site jumps: all sites are breakpoints, which the framework stores and removes.

use std::io;

use dtrace_abi::function::Window;

use crate::text_access::Access;

/// The sites of functions that consumers have sent: nothing about them is kept.
#[derive(Debug)]
pub(super) struct Jumps;

impl Jumps {
    pub(super) const fn new(_thunk: Option<usize>) -> Self {
        Self
    }

    /// Returns whether [`settle`](Self::settle) has to remove a jump.
    pub(super) const fn offer(
        &self,
        _address: usize,
        _code: &[u8],
        _window: Option<Window>,
    ) -> bool {
        false
    }

    pub(super) const fn withdraw(&self, _address: usize) {}

    pub(super) const fn holds(&self, _address: usize) -> bool {
        false
    }

    pub(super) const fn restore(&self, _address: usize, _text: &mut [u8]) {}

    /// Stores the first bytes of a site.
    pub(super) fn store(
        &self,
        address: usize,
        bytes: &[u8],
        store: &dyn Fn(usize, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        store(address, bytes)
    }

    pub(super) const fn report(&self) -> usize {
        0
    }

    pub(super) const fn open(&self) -> usize {
        0
    }

    pub(super) const fn settle(
        &self,
        _access: &Access,
        _synchronise: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the address of the thunk that jumps lead to: there is none.
pub(super) const fn address() -> Option<usize> {
    None
}

/// Returns the address at which a thread continues that has hit a breakpoint of a jump: there is none.
pub(super) const fn continuation(_address: usize) -> Option<usize> {
    None
}
