//! Without the feature `functions`, a trace sends no functions.

use std::cell::Cell;
use std::rc::Rc;

use dtrace_compiler::declared::Declarations;
use dtrace_compiler::surroundings::Description;

use super::Arguments;
use crate::client::{Client, ClientError, Probe};
use crate::objects::Objects;

/// No functions.
#[derive(Debug, Default)]
pub(super) struct KnownFunctions;

impl KnownFunctions {
    #[expect(clippy::unused_self, clippy::needless_pass_by_value)]
    pub(super) fn set_process(&self, _: u32, _: Rc<Objects>) {}

    #[expect(clippy::unused_self, clippy::unnecessary_wraps)]
    pub(super) const fn send(
        &self,
        _: &mut Client,
        _: &Description,
        _: &Cell<bool>,
    ) -> Result<(), ClientError> {
        Ok(())
    }

    #[expect(clippy::unused_self, clippy::unnecessary_wraps)]
    pub(super) const fn send_new(&self, _: &mut Client) -> Result<(), ClientError> {
        Ok(())
    }

    #[expect(clippy::unused_self)]
    pub(super) const fn note_typed(&self, _: &Description, _: &[Arguments]) {}

    #[expect(clippy::unused_self)]
    pub(super) const fn has(&self, _: &Probe) -> bool {
        false
    }

    #[expect(clippy::unused_self)]
    pub(super) const fn arguments(&self, _: &Probe) -> Option<Arguments> {
        None
    }

    #[expect(clippy::unused_self)]
    pub(super) const fn declarations(&self, _: &str) -> Option<Declarations> {
        None
    }

    #[expect(clippy::unused_self)]
    pub(super) const fn complaints(&self) -> Vec<String> {
        Vec::new()
    }
}
