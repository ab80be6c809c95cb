//! Changes the text of sites while every CPU executes it.
//!
//! A site's text is a *head*, which always changes in one store, and a *tail* behind it (none on
//! aarch64). The rule that makes a change safe: **the tail changes only while every CPU sees a breakpoint in
//! the head.** So a CPU fetches the nop, the jump, or a breakpoint, and never a mixture.
//!
//! | from | to | stores, `/` where all CPUs are synchronised |
//! |---|---|---|
//! | nop | trap | head: breakpoint / |
//! | trap | jump | tail of the jump / head of the jump / |
//! | jump | trap | head: breakpoint / tail of the nop / |
//! | trap | nop | head of the nop / |
//!
//! Without a tail, every change is one store and one synchronisation. With a tail, a change between nop and jump passes through
//! the state trap, in which an enabled site also fires. The synchronisation behind a breakpoint establishes that every CPU sees
//! it; the one behind a tail keeps a CPU from pairing the new head with an old tail; after the last one the caller may rely on
//! the change. One synchronisation serves all sites of a batch that change in the same way.

use dtrace_abi::site::{Code, Encoding};

use super::patcher::Patcher;

/// The state of a site: the instruction that a CPU executes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The site does nothing: the probe is disabled.
    Nop,
    /// It raises a breakpoint exception, whose handler resumes in the cold block.
    Trap,
    /// It jumps to the cold block.
    Jump,
}

/// The two addresses of a site.
#[derive(Clone, Copy, Debug)]
pub struct Tracepoint {
    /// The address of the site.
    pub patchpoint: usize,
    /// The address of its cold block.
    pub target: usize,
}

/// The instructions of the sites, and the functions of the host that write to text.
pub struct Text<'a> {
    /// The instructions that a site can contain.
    pub encoding: &'a Encoding,
    /// The host's functions that write to text.
    pub patcher: &'a dyn Patcher,
}

impl core::fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Text").field("encoding", &self.encoding).finish_non_exhaustive()
    }
}

impl Text<'_> {
    /// Returns the current state of a site, read from its text.
    ///
    /// # Safety
    /// `site` is a site of this image, and no other thread is changing its text.
    pub unsafe fn state(&self, site: Tracepoint) -> State {
        let (head, _) = self.encoding.split(&self.encoding.nop);
        // SAFETY: by the contract of this function, the patchpoint is readable text of a site, and a head is no longer
        // than a site.
        if unsafe { self.contains(site, head) } {
            State::Nop
        // SAFETY: as for the nop.
        } else if unsafe { self.contains(site, self.encoding.breakpoint.as_bytes()) } {
            State::Trap
        } else {
            State::Jump
        }
    }

    /// Returns whether [`bring`](Self::bring) would change the site.
    ///
    /// # Safety
    /// That of [`state`](Self::state).
    pub(super) unsafe fn has_to_change(&self, site: Tracepoint, goal: State) -> bool {
        // SAFETY: the caller's contract is that of `state`.
        unsafe { self.state(site) != self.reachable(site, goal) }
    }

    /// Changes all `sites` to the state `goal`. If `goal` is [`State::Jump`], a site whose cold block is out of a jump's reach is
    /// changed to [`State::Trap`].
    ///
    /// # Safety
    /// Each of `sites` is a site of this image that contains the nop, the breakpoint or its jump. No other thread is
    /// changing any of them.
    pub unsafe fn bring(&self, sites: impl Iterator<Item = Tracepoint> + Clone, goal: State) {
        if self.encoding.split(&self.encoding.nop).1.is_empty() {
            // SAFETY: the contract of `replace` is that of this function, and the nop has no tail.
            unsafe { self.replace(sites, goal) };
            return;
        }
        // SAFETY: the contract of `trap` is that of this function.
        unsafe { self.trap(sites.clone(), goal) };
        // SAFETY: each item is a site of this image, and only this thread changes its text, by the contract of this
        // function.
        let trapped = sites.filter(|&site| unsafe { self.state(site) } == State::Trap);
        match goal {
            State::Trap => {}
            State::Nop => self.each(trapped, |site| {
                // SAFETY: `trap` has left the tail of the nop behind every breakpoint, so the head completes the nop.
                unsafe { self.set_head(site, &self.encoding.nop) };
            }),
            State::Jump => {
                let jumps = trapped.filter_map(|site| Some((site, self.jump(site)?)));
                self.each(jumps.clone(), |(site, jump)| {
                    // SAFETY: the site is in `trapped`, and every CPU sees its breakpoint: `trap` or an earlier change
                    // has synchronised all CPUs behind it.
                    unsafe { self.set_tail(site, &jump) };
                });
                // SAFETY: `each` has synchronised all CPUs behind the tail of the jump, so the head completes it.
                self.each(jumps, |(site, jump)| unsafe { self.set_head(site, &jump) });
            }
        }
    }

    /// Changes sites that have no tail: each by one store of the whole instruction.
    ///
    /// # Safety
    /// That of [`bring`](Self::bring); sites have no tail.
    unsafe fn replace(&self, sites: impl Iterator<Item = Tracepoint> + Clone, goal: State) {
        // SAFETY: each item is a site of this image, and only this thread changes its text, by the contract of this
        // function.
        let all = sites.filter(|&site| unsafe { self.has_to_change(site, goal) });
        self.each(all, |site| {
            let code = match goal {
                State::Nop => self.encoding.nop,
                State::Trap => self.encoding.breakpoint,
                State::Jump => self.jump(site).unwrap_or(self.encoding.breakpoint),
            };
            // SAFETY: `site` is one of `sites`. It has no tail, so the head is the whole instruction.
            unsafe { self.set_head(site, &code) };
        });
    }

    /// Puts a breakpoint into every site that has to change on its way to `goal`, and the tail of the nop behind it.
    ///
    /// Afterwards every CPU sees these breakpoints.
    ///
    /// # Safety
    /// That of [`bring`](Self::bring).
    unsafe fn trap(&self, sites: impl Iterator<Item = Tracepoint> + Clone, goal: State) {
        // SAFETY: each item is a site of this image, and only this thread changes its text, by the contract of this
        // function.
        let untrapped = sites.clone().filter(|&site| unsafe {
            self.state(site) != State::Trap && self.has_to_change(site, goal)
        });
        let mut any_jumped = false;
        self.each(untrapped, |site| {
            // SAFETY: `site` is one of `sites`, and only this thread changes its text, by the contract of this
            // function.
            any_jumped |= unsafe { self.state(site) } == State::Jump;
            // SAFETY: the caller passes a site. A breakpoint is complete without a tail, so it may replace any head.
            unsafe { self.store(site, 0, self.encoding.breakpoint.as_bytes()) };
        });
        if any_jumped {
            // SAFETY: each item is a site of this image, and only this thread changes its text, by the contract of this
            // function.
            let trapped = sites.filter(|&site| unsafe { self.state(site) } == State::Trap);
            self.each(trapped, |site| {
                // SAFETY: every CPU sees the breakpoint of the site: `each` above has synchronised all CPUs.
                unsafe { self.set_tail(site, &self.encoding.nop) };
            });
        }
    }

    /// Returns the jump to the site's cold block if the cold block is within reach.
    fn jump(&self, site: Tracepoint) -> Option<Code> {
        (self.encoding.jump)(site.patchpoint, site.target).ok()
    }

    /// Returns `goal`, or [`State::Trap`] if `goal` is a jump and the cold block is out of reach.
    fn reachable(&self, site: Tracepoint, goal: State) -> State {
        if goal == State::Jump && self.jump(site).is_none() { State::Trap } else { goal }
    }

    /// Runs `step` for each item, then synchronises all CPUs if there was an item.
    fn each<T>(&self, items: impl Iterator<Item = T>, mut step: impl FnMut(T)) {
        let mut any = false;
        for item in items {
            step(item);
            any = true;
        }
        if any {
            self.patcher.synchronise();
        }
    }

    /// Stores the head of `code`.
    ///
    /// # Safety
    /// That of [`bring`](Self::bring); the tail of the site is that of `code` for every CPU.
    unsafe fn set_head(&self, site: Tracepoint, code: &Code) {
        // SAFETY: the head lies within the site.
        unsafe { self.store(site, 0, self.encoding.split(code).0) };
    }

    /// Stores the tail of `code`.
    ///
    /// # Safety
    /// That of [`bring`](Self::bring); every CPU sees a breakpoint in the head of the site.
    unsafe fn set_tail(&self, site: Tracepoint, code: &Code) {
        let (head, tail) = self.encoding.split(code);
        // SAFETY: the tail lies within the site, and no CPU fetches it while the head is a breakpoint.
        unsafe { self.store(site, head.len(), tail) };
    }

    /// Stores `bytes` at `offset` within the site.
    ///
    /// # Safety
    /// That of [`bring`](Self::bring); the bytes lie within the site, and together with the rest of its text they are
    /// an instruction of the encoding for every CPU.
    unsafe fn store(&self, site: Tracepoint, offset: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            // SAFETY: bytes of a site of this image, by the contract of this function.
            unsafe { self.patcher.store(site.patchpoint + offset, bytes) };
        }
    }

    /// Returns whether the text at the site begins with `code`.
    ///
    /// # Safety
    /// That of [`state`](Self::state); `code` is no longer than a site.
    unsafe fn contains(&self, site: Tracepoint, code: &[u8]) -> bool {
        code.iter().enumerate().all(|(i, &byte)| {
            let at = core::ptr::with_exposed_provenance::<u8>(site.patchpoint + i);
            // SAFETY: a byte of the site's text, which is readable. Volatile, because the text changes without the
            // compiler's knowledge.
            unsafe { at.read_volatile() == byte }
        })
    }
}
