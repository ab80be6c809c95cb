//! What all records have in common.

use std::ops::Range;

use crate::check::finding::Findings;
use crate::check::freebsd::Problem;
use crate::check::image::{Image, Section, Target};

/// A record: structure members are found by their offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a, 'data> {
    image: &'a Image<'data>,
    at: Target,
}

impl<'a, 'data> Record<'a, 'data> {
    pub(super) fn new(image: &'a Image<'data>, at: Target) -> Self {
        Self { image, at }
    }

    fn home(&self) -> &'a Section<'data> {
        self.image.section_of(self.at)
    }

    pub(super) fn report(&self, member: u64, problem: Problem, findings: &mut Findings) {
        findings.offset(&self.home().name, self.at.offset.wrapping_add(member), problem);
    }

    /// The place of the record, for texts.
    pub(super) fn place(&self) -> String {
        format!("that at {}+{:#x}", self.home().name, self.at.offset)
    }

    /// Whether the record is all there, where the kernel can write to it.
    pub(super) fn is_sound(&self, what: &'static str, size: u64, findings: &mut Findings) -> bool {
        if !self.home().is_writable() {
            let section = self.home().name.clone();
            let problem = Problem::WrongMemory { what, section, expected: "writable" };
            self.report(0, problem, findings);
        }
        let whole = self.home().bytes(self.at.offset, size).is_some();
        if !whole {
            self.report(0, Problem::RecordOutside { what, size }, findings);
        }
        whole
    }

    /// Reports members that are not 0.
    pub(super) fn check_zero(
        &self,
        what: &'static str,
        members: Range<u64>,
        findings: &mut Findings,
    ) {
        let place = self.at.offset + members.start..self.at.offset + members.end;
        let bytes = self.home().bytes(place.start, place.end - place.start).unwrap_or_default();
        let relocated = self.home().relocations.range(place).next().is_some();
        if relocated || bytes.iter().any(|&byte| byte != 0) {
            self.report(members.start, Problem::NotZero(what), findings);
        }
    }

    pub(super) fn number(&self, member: u64) -> Option<u32> {
        self.home().u32(self.at.offset.wrapping_add(member))
    }

    pub(super) fn address(&self, member: u64) -> Option<Target> {
        self.image.address(self.home(), self.at.offset.wrapping_add(member))
    }

    /// The kernel's symbol that a member points to.
    pub(super) fn import(&self, member: u64) -> Option<&'a str> {
        self.image.import(self.home(), self.at.offset.wrapping_add(member))
    }

    pub(super) fn is_null(&self, member: u64) -> bool {
        let at = self.at.offset.wrapping_add(member);
        self.home().u64(at) == Some(0) && !self.home().relocations.contains_key(&at)
    }

    /// The NUL-terminated string that a member points to.
    pub(super) fn string(&self, member: u64) -> Option<String> {
        self.image.string(self.address(member)?)
    }
}
