//! Records: C structures in a module, whose members are found by their offsets.

use std::fmt::Display;
use std::ops::Range;

use super::elf::{Elf, Section, Symbol, Target};
use super::rules::Rule;
use crate::arch::ModuleKind;

/// A record at an offset of a section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a, 'data> {
    pub(super) elf: &'a Elf<'data>,
    pub(super) home: &'a Section<'data>,
    pub(super) offset: u64,
}

impl<'a, 'data> Record<'a, 'data> {
    pub(super) fn new(elf: &'a Elf<'data>, at: Target) -> Self {
        Self { elf, home: elf.section_of(at), offset: at.offset }
    }

    fn at(&self, member: u64) -> u64 {
        self.offset.wrapping_add(member)
    }

    /// Adds a finding about a member.
    pub(super) fn report(&self, member: u64, rule: Rule, details: &[&dyn Display]) {
        self.elf.findings.offset(&self.home.name, self.at(member), rule, details);
    }

    /// Returns whether all bytes of the record are in the file; reports it, if they are not.
    pub(super) fn is_whole(&self, what: &str, size: u64) -> bool {
        let whole = self.home.bytes(self.offset, size).is_some();
        if !whole {
            self.report(0, Rule::RecordOutside, &[&size, &what]);
        }
        whole
    }

    /// Returns whether the address of the record will be aligned for pointers.
    pub(super) fn is_aligned(&self) -> bool {
        let placed = self.elf.arch.module_kind() == ModuleKind::Shared;
        let address = self.home.address.wrapping_add(self.offset);
        address.is_multiple_of(8) && (placed || self.home.align.is_multiple_of(8))
    }

    /// Returns whether the record is complete and the kernel can write to it. Reports a violation.
    pub(super) fn is_sound(&self, what: &str, size: u64) -> bool {
        if !self.home.is_writable() {
            let details: [&dyn Display; 3] = [&what, &self.home.name, &"writable"];
            self.report(0, Rule::WrongMemory, &details);
        }
        self.is_whole(what, size)
    }

    /// Reports members that are not 0.
    pub(super) fn check_zero(&self, what: &str, members: Range<u64>) {
        let range = self.at(members.start)..self.at(members.end);
        let bytes = self.home.bytes(range.start, members.end - members.start).unwrap_or_default();
        let relocated = !self.home.relocations_in(range).is_empty();
        if relocated || bytes.iter().any(|&byte| byte != 0) {
            self.report(members.start, Rule::NotZero, &[&what]);
        }
    }

    pub(super) fn u32(&self, member: u64) -> Option<u32> {
        self.home.u32(self.at(member))
    }

    pub(super) fn u64(&self, member: u64) -> Option<u64> {
        self.home.u64(self.at(member))
    }

    pub(super) fn is_relocated(&self, member: u64) -> bool {
        self.home.relocation(self.at(member)).is_some()
    }

    /// Returns whether a pointer will be 0: no relocation changes any of its bytes.
    pub(super) fn is_null(&self, member: u64) -> bool {
        let at = self.at(member);
        let overlapping = at.saturating_sub(7)..at.saturating_add(8);
        self.u64(member) == Some(0) && self.home.relocations_in(overlapping).is_empty()
    }

    /// Returns the place to which a member points.
    pub(super) fn address(&self, member: u64) -> Option<Target> {
        self.elf.address(self.home, self.at(member))
    }

    /// Returns the record to which a member points.
    pub(super) fn record(&self, member: u64) -> Option<Self> {
        Some(Self::new(self.elf, self.address(member)?))
    }

    /// Returns the string to which a member points.
    pub(super) fn string(&self, member: u64) -> Option<String> {
        self.elf.string(self.address(member)?)
    }

    /// Returns the undefined symbol whose address a member will hold.
    pub(super) fn import(&self, member: u64) -> Option<&'a Symbol> {
        self.elf.import(self.home, self.at(member))
    }

    /// Returns whether a member points to something in the module or to a symbol that is certain to exist.
    pub(super) fn points(&self, member: u64) -> bool {
        self.address(member).is_some() || self.import(member).is_some_and(|of| !of.is_weak())
    }
}
