//! How the text of sites changes while every CPU executes it.
//!
//! A site's text is a *head*, which always changes in one store, and a *tail* behind it (none on
//! aarch64). The rule that makes it safe: **the tail changes only while every CPU sees a breakpoint in
//! the head.** So a CPU fetches the nop, the jump, or a breakpoint, and never a mixture.
//!
//! | from | to | stores, `/` where all CPUs are synchronised |
//! |---|---|---|
//! | nop | trap | head: breakpoint / |
//! | trap | jump | tail of the jump / head of the jump / |
//! | jump | trap | head: breakpoint / tail of the nop / |
//! | trap | nop | head of the nop / |
//!
//! Where there is no tail, every change is one store and one synchronisation. Elsewhere all other changes go through trap,
//! in which the site works already, or still. The synchronisation
//! behind a breakpoint is what "every CPU sees" rests on; the one behind a tail keeps a CPU from
//! pairing the new head with an old tail; the last one is for the caller, who may then rely on the change.
//! One synchronisation serves all sites of a probe, or of a batch of them that go the same way.

use crate::encode::{Code, Encoding};
use crate::patch::Patcher;

/// What a site does when it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Nop,
    /// A breakpoint exception, whose handler goes on in the cold block.
    Trap,
    /// A jump to the cold block.
    Jump,
}

/// A site as this module sees it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Address of the site.
    pub patchpoint: usize,
    /// Address of its cold block.
    pub target: usize,
}

/// Text that sites are in, and how it is changed.
pub struct Text<'a> {
    /// What the architecture's sites hold.
    pub encoding: &'a Encoding,
    /// How the host writes it.
    pub patcher: &'a dyn Patcher,
}

impl core::fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Text").field("encoding", &self.encoding).finish_non_exhaustive()
    }
}

impl Text<'_> {
    /// What the site does now, read from its text.
    ///
    /// # Safety
    /// There is a site at the place, and nobody else is changing it.
    pub unsafe fn state(&self, place: Place) -> State {
        let (head, _) = self.encoding.split(&self.encoding.nop);
        // SAFETY: by contract.
        if unsafe { self.holds(place, head) } {
            State::Nop
        // SAFETY: by contract.
        } else if unsafe { self.holds(place, self.encoding.breakpoint.as_bytes()) } {
            State::Trap
        } else {
            State::Jump
        }
    }

    /// Whether the site is not yet at `goal`, or as near as it can come to it.
    ///
    /// # Safety
    /// As [`state`](Self::state).
    pub(super) unsafe fn has_to_change(&self, place: Place, goal: State) -> bool {
        // SAFETY: by contract.
        unsafe { self.state(place) != self.goal(place, goal) }
    }

    /// Brings all `sites` to `goal`; a site whose cold block is out of a jump's reach to
    /// [`State::Trap`] instead of [`State::Jump`].
    ///
    /// # Safety
    /// There is a site at each place, in one of the states, and nobody else is changing it.
    pub unsafe fn bring(&self, sites: impl Iterator<Item = Place> + Clone, goal: State) {
        // SAFETY: by contract, here and below.
        unsafe {
            if self.encoding.split(&self.encoding.nop).1.is_empty() {
                // The whole instruction is one store, whatever it becomes.
                let all = sites.filter(|&place| self.has_to_change(place, goal));
                self.each(all, |place| self.set_head(place, &self.whole(place, goal)));
                return;
            }
            // Every change begins or ends in trap, so first whatever is neither there nor where it should be goes there.
            let astray = sites.clone().filter(|&place| {
                self.state(place) != State::Trap && self.has_to_change(place, goal)
            });
            if self.each(astray, |place| {
                let from = self.state(place);
                self.store(place, 0, self.encoding.breakpoint.as_bytes());
                from == State::Jump
            }) {
                let trapped = sites.clone().filter(|&place| self.state(place) == State::Trap);
                self.each(trapped, |place| self.set_tail(place, &self.encoding.nop));
            }
            let trapped = sites.filter(|&place| self.state(place) == State::Trap);
            match goal {
                State::Trap => {}
                State::Nop => {
                    self.each(trapped, |place| self.set_head(place, &self.encoding.nop));
                }
                State::Jump => {
                    let jumps = trapped.filter_map(|place| {
                        Some((place, (self.encoding.jump)(place.patchpoint, place.target).ok()?))
                    });
                    self.each(jumps.clone(), |(place, jump)| self.set_tail(place, &jump));
                    self.each(jumps, |(place, jump)| self.set_head(place, &jump));
                }
            }
        }
    }

    /// The instruction that brings a site to `goal`, where a site is one store long.
    fn whole(&self, place: Place, goal: State) -> Code {
        match goal {
            State::Nop => self.encoding.nop,
            State::Trap => self.encoding.breakpoint,
            State::Jump => (self.encoding.jump)(place.patchpoint, place.target)
                .unwrap_or(self.encoding.breakpoint),
        }
    }

    /// The state the site can reach.
    fn goal(&self, place: Place, goal: State) -> State {
        let unreachable = || (self.encoding.jump)(place.patchpoint, place.target).is_err();
        if goal == State::Jump && unreachable() { State::Trap } else { goal }
    }

    /// Does `step` for each, then synchronises if there was any. Returns whether any step said so.
    fn each<T>(&self, items: impl Iterator<Item = T>, mut step: impl FnMut(T) -> bool) -> bool {
        let (mut any, mut said) = (false, false);
        for item in items {
            said |= step(item);
            any = true;
        }
        if any {
            self.patcher.synchronise();
        }
        said
    }

    /// # Safety
    /// As [`bring`](Self::bring).
    unsafe fn set_head(&self, place: Place, code: &Code) -> bool {
        // SAFETY: by contract.
        unsafe { self.store(place, 0, self.encoding.split(code).0) };
        true
    }

    /// # Safety
    /// As [`bring`](Self::bring); every CPU sees a breakpoint at the place.
    unsafe fn set_tail(&self, place: Place, code: &Code) -> bool {
        let (head, tail) = self.encoding.split(code);
        // SAFETY: by contract.
        unsafe { self.store(place, head.len(), tail) };
        true
    }

    /// # Safety
    /// As [`bring`](Self::bring).
    unsafe fn store(&self, place: Place, offset: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            // SAFETY: by contract bytes of a site, in the order the table above gives.
            unsafe { self.patcher.store(place.patchpoint + offset, bytes) };
        }
    }

    /// # Safety
    /// As [`state`](Self::state).
    unsafe fn holds(&self, place: Place, code: &[u8]) -> bool {
        code.iter().enumerate().all(|(i, &byte)| {
            let at = core::ptr::with_exposed_provenance::<u8>(place.patchpoint + i);
            // SAFETY: by contract text. Volatile, because it changes behind the compiler's back.
            unsafe { at.read_volatile() == byte }
        })
    }
}
