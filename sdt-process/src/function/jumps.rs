//! Replaces breakpoints by jumps, and jumps by the original text.
//!
//! The framework stores a breakpoint at each site that it enables, and the original byte at each that it disables. At the end of such a
//! batch ([`settle`](Jumps::settle)), this module replaces the breakpoints by jumps, where the windows allow it:
//!
//! | step | stored, for all windows of the batch | then every thread sees |
//! |---|---|---|
//! | 1 | a breakpoint at each instruction that begins in the first five bytes | breakpoints, or instructions that began before |
//! | 2 | breakpoints in the other of these bytes: the jump's displacement | the same: no thread executes these bytes |
//! | 3 | the first byte of the jump | a jump, or a breakpoint |
//!
//! The way back has the same steps in the opposite order. After each step, all threads execute a synchronising instruction. A thread that hits one of
//! these breakpoints continues in the detour ([`continuation`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{io, ptr};

use dtrace_abi::function;

use super::area::{self, BREAKPOINT, JUMP, JUMP_CODE};
use super::detour::{self, HEADER, Header, NONE};
use super::images;
use crate::text_access::{Access, site_bytes};

/// The largest size of a window: four bytes of a jump, and the longest instruction.
const LARGEST: usize = JUMP - 1 + function::MAX_LEN;

/// The text at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Unchanged.
    Original,
    /// There is a breakpoint at the site.
    Breakpoint,
    /// Some of the first bytes of the window are changed: a change is under way, or a step of it has failed.
    Changed,
    /// The window begins with a jump.
    Jump,
}

/// A site that a consumer has sent.
#[derive(Clone, Copy, Debug)]
struct Site {
    /// The address of the window, and its size.
    start: usize,
    length: u8,
    /// The original first bytes of the window.
    original: [u8; JUMP],
    /// The first byte of the site's instruction.
    first: u8,
    state: State,
    /// Whether the framework wants a breakpoint.
    is_enabled: bool,
    /// Whether the site may jump.
    may_jump: bool,
    /// Whether a consumer knows that the jump cannot be removed now.
    is_reported: bool,
}

impl Site {
    fn window(&self) -> Range<usize> {
        self.start..self.start + usize::from(self.length)
    }

    /// The bytes that the jump overwrites, or would overwrite.
    fn jump(&self) -> Range<usize> {
        self.start..self.start + JUMP
    }

    /// Returns whether the text at the window's beginning is not that of the site's state.
    fn has_to_change(&self) -> bool {
        match self.state {
            State::Original => false,
            State::Breakpoint => self.is_enabled && self.may_jump,
            State::Changed => true,
            State::Jump => !self.is_enabled || !self.may_jump,
        }
    }

    fn is_changed(&self) -> bool {
        matches!(self.state, State::Changed | State::Jump)
    }
}

/// A step of a change.
#[derive(Clone, Copy)]
enum Step {
    /// The first byte of the window.
    First,
    /// The bytes at which instructions begin.
    Beginnings,
    /// The bytes at which no instruction begins.
    Others,
}

/// The sites of functions that consumers have sent.
#[derive(Debug)]
pub(super) struct Jumps {
    /// The address of the thunk; `None` if no site jumps.
    thunk: Option<usize>,
    sites: Mutex<Sites>,
}

#[derive(Debug, Default)]
struct Sites {
    /// By address.
    all: BTreeMap<usize, Site>,
    /// The addresses of sites that may have to change.
    open: BTreeSet<usize>,
    /// The windows that have a detour, by address: size, and offset of the site.
    detours: BTreeMap<usize, (u8, u8)>,
}

/// Stores bytes at an address.
type Store<'s> = &'s dyn Fn(usize, &[u8]) -> io::Result<()>;

impl Jumps {
    pub(super) fn new(thunk: Option<usize>) -> Self {
        Self { thunk, sites: Mutex::default() }
    }

    fn sites(&self) -> MutexGuard<'_, Sites> {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a site. Its text is unchanged. Without a window, or if one consumer has sent it without, the site does not jump. Returns whether
    /// [`settle`](Self::settle) has to remove a jump now.
    pub(super) fn offer(
        &self,
        address: usize,
        code: &[u8],
        window: Option<function::Window>,
    ) -> bool {
        let mut sites = self.sites();
        let Some(&first) = code.first() else { return false };
        if sites.all.contains_key(&address) {
            return window.is_none() && sites.keep_breakpoint(address);
        }
        let around = window.map_or([0, 0], |of| [of.before, of.after].map(usize::from));
        let length = around[0] + code.len() + around[1];
        let start = address.wrapping_sub(around[0]);
        let is_possible = self.thunk.is_some()
            && window.is_some()
            && (JUMP..=LARGEST).contains(&length)
            && images::allow(start, length)
            && !sdt_core::trap::overlaps(start, length);
        let new = Site {
            start: if is_possible { start } else { address },
            length: if is_possible { length as u8 } else { code.len().min(LARGEST) as u8 },
            original: [0; JUMP],
            first,
            state: State::Original,
            is_enabled: false,
            may_jump: is_possible,
            is_reported: false,
        };
        let may_jump = is_possible && sites.are_apart(&new.window());
        let ends_jump = sites.keep_breakpoints_around(address);
        sites.all.insert(address, Site { may_jump, ..new });
        ends_jump
    }

    /// Forgets a site whose text is unchanged.
    pub(super) fn withdraw(&self, address: usize) {
        let mut sites = self.sites();
        if sites.all.get(&address).is_some_and(|site| site.state == State::Original) {
            sites.all.remove(&address);
        }
    }

    /// Returns whether the text of a site has, or may have, a jump: that of the site, or another one that overwrites its first byte.
    pub(super) fn holds(&self, address: usize) -> bool {
        let sites = self.sites();
        let is_changed = sites.all.get(&address).is_some_and(Site::is_changed);
        is_changed || sites.changed_at(address..address + 1).next().is_some()
    }

    /// Replaces the bytes that a jump has, or may have, overwritten by the original ones, in a copy of the text at this address.
    pub(super) fn restore(&self, address: usize, text: &mut [u8]) {
        for site in self.sites().changed_at(address..address + text.len()) {
            for (at, original) in site.jump().zip(site.original) {
                if let Some(byte) = at.checked_sub(address).and_then(|offset| text.get_mut(offset))
                {
                    *byte = original;
                }
            }
        }
    }

    /// Stores the first byte of a site: a breakpoint, or the original one. If there is a jump, of this site or of one around it, the byte is
    /// changed by [`settle`](Self::settle).
    pub(super) fn store(&self, address: usize, bytes: &[u8], store: Store<'_>) -> io::Result<()> {
        let mut sites = self.sites();
        let is_overwritten = sites.changed_at(address..address + 1).next().is_some();
        let Some(site) = sites.all.get_mut(&address) else { return store(address, bytes) };
        site.is_enabled = bytes.first() == Some(&BREAKPOINT);
        site.is_reported = false;
        if !site.is_changed() {
            if !is_overwritten {
                store(address, bytes)?;
            }
            site.state = if site.is_enabled { State::Breakpoint } else { State::Original };
        }
        sites.open.insert(address);
        Ok(())
    }

    /// Returns the number of jumps that [`settle`](Self::settle) has to remove, without those that an earlier call has returned.
    pub(super) fn report(&self) -> usize {
        let mut sites = self.sites();
        let Sites { all, open, .. } = &mut *sites;
        let mut count = 0;
        for address in &*open {
            if let Some(site) = all.get_mut(address)
                && site.is_changed()
                && site.has_to_change()
                && !site.is_reported
            {
                site.is_reported = true;
                count += 1;
            }
        }
        count
    }

    /// Returns the number of sites that [`settle`](Self::settle) may have to change.
    pub(super) fn open(&self) -> usize {
        self.sites().open.len()
    }

    /// Changes the text of all sites that were enabled or disabled since the last call. `synchronise` makes all threads execute a
    /// synchronising instruction.
    pub(super) fn settle(
        &self,
        access: &Access,
        synchronise: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut sites = self.sites();
        // SAFETY: the bytes are those of a step of the change, or of a detour before a jump leads to it.
        let store = |address, bytes: &[u8]| unsafe { access.write(address, bytes) };
        let open = std::mem::take(&mut sites.open);
        let (mut back, mut forth) = (Vec::new(), Vec::new());
        for address in open {
            let Some(site) = sites.all.get(&address).copied() else { continue };
            if !site.has_to_change() {
                continue;
            }
            if !site.is_enabled || !site.may_jump {
                back.push(address);
            } else if self.prepare(&mut sites, address, &store).unwrap_or(false) {
                forth.push(address);
            } else if let Some(site) = sites.all.get_mut(&address) {
                site.may_jump = false;
            }
        }
        let done = sites
            .change(
                &back,
                [Step::First, Step::Others, Step::Beginnings],
                false,
                &store,
                synchronise,
            )
            .and_then(|()| {
                let steps = [Step::Beginnings, Step::Others, Step::First];
                sites.change(&forth, steps, true, &store, synchronise)
            });
        if done.is_err() {
            sites.open.extend(back.iter().chain(&forth));
        }
        done
    }

    /// Makes the detour of a site, unless it exists. Returns `false` if the site cannot jump.
    ///
    /// # Errors
    /// The memory for detours cannot be written.
    fn prepare(&self, sites: &mut Sites, address: usize, store: Store<'_>) -> io::Result<bool> {
        let (Some(thunk), Some(site)) = (self.thunk, sites.all.get(&address).copied()) else {
            return Ok(false);
        };
        let offset = address - site.start;
        let known = (site.length, offset as u8);
        let mut bytes = site_bytes(site.start, site.length.into());
        if site.state == State::Breakpoint
            && let Some(byte) = bytes.get_mut(offset)
        {
            *byte = site.first;
        }
        match sites.detours.get(&site.start) {
            Some(of) if *of != known => return Ok(false),
            Some(_) => {}
            None => {
                let near = site.start.saturating_sub(JUMP - 1)..site.start + JUMP;
                if sites.detours.range(near).next().is_some() {
                    return Ok(false);
                }
                let window = detour::Window { start: site.start, site: offset, bytes: &bytes };
                if !make_detour(window, thunk, store)? {
                    return Ok(false);
                }
                sites.detours.insert(site.start, known);
            }
        }
        if site.state == State::Breakpoint
            && let Some(site) = sites.all.get_mut(&address)
            && let Some(first) = bytes.first_chunk()
        {
            site.original = *first;
        }
        Ok(true)
    }
}

/// Makes the detour of a window, and the landing that leads to it. Returns `false` if that is not possible.
fn make_detour(window: detour::Window<'_>, thunk: usize, store: Store<'_>) -> io::Result<bool> {
    let Some(area) = images::text_at(window.start).and_then(area::make) else { return Ok(false) };
    let Some(at) = area.room(detour::LARGEST) else { return Ok(false) };
    let Some(code) = detour::build(window, thunk, at) else { return Ok(false) };
    let landing = area::landing(window.start);
    let Some(jump) = detour::jump(landing, at + HEADER) else { return Ok(false) };
    store(at, &code)?;
    store(landing, &jump)?;
    area.take(code.len());
    Ok(true)
}

impl Sites {
    /// Makes a site jump no more. Returns whether it jumps now.
    fn keep_breakpoint(&mut self, address: usize) -> bool {
        let Some(site) = self.all.get_mut(&address) else { return false };
        (site.may_jump, site.is_reported) = (false, false);
        self.open.insert(address);
        site.is_changed()
    }

    /// Makes all sites jump no more whose window contains an address. Returns whether one of them jumps now.
    fn keep_breakpoints_around(&mut self, address: usize) -> bool {
        let near = address.saturating_sub(LARGEST)..address + LARGEST;
        let around = self.all.range(near);
        let around = around.filter(|(_, site)| {
            (site.may_jump || site.is_changed()) && site.window().contains(&address)
        });
        let around: Vec<_> = around.map(|(other, _)| *other).collect();
        around.into_iter().filter(|other| self.keep_breakpoint(*other)).count() > 0
    }

    /// Returns the sites whose jump has, or may have, overwritten bytes of this range.
    fn changed_at(&self, range: Range<usize>) -> impl Iterator<Item = &Site> {
        let near = range.start.saturating_sub(LARGEST)..range.end + LARGEST;
        let overlaps = move |site: &&Site| {
            let jump = site.jump();
            site.is_changed() && jump.start < range.end && range.start < jump.end
        };
        self.all.range(near).map(|(_, site)| site).filter(overlaps)
    }

    /// Returns whether the window of a new site neither overlaps the window of another site that jumps or may jump, nor contains another site.
    fn are_apart(&self, window: &Range<usize>) -> bool {
        let near = window.start.saturating_sub(LARGEST)..window.end + LARGEST;
        self.all.range(near).all(|(other, site)| {
            let theirs = site.window();
            let overlaps = window.start < theirs.end && theirs.start < window.end;
            let can_jump = site.may_jump || site.is_changed();
            !(window.contains(other) || overlaps && can_jump)
        })
    }

    /// Changes the text of these sites, in three steps.
    fn change(
        &mut self,
        addresses: &[usize],
        steps: [Step; 3],
        to_jump: bool,
        store: Store<'_>,
        synchronise: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        if addresses.is_empty() {
            return Ok(());
        }
        for step in steps {
            for address in addresses {
                let Some(site) = self.all.get_mut(address) else { continue };
                site.state = State::Changed;
                let site = *site;
                let is_breakpoint = |at| self.all.get(&at).is_some_and(|other| other.is_enabled);
                site.store(*address, step, to_jump, &is_breakpoint, store)?;
            }
            synchronise()?;
        }
        for address in addresses {
            let Some(site) = self.all.get_mut(address) else { continue };
            site.state = match (to_jump, site.is_enabled) {
                (true, _) => State::Jump,
                (false, true) => State::Breakpoint,
                (false, false) => State::Original,
            };
        }
        Ok(())
    }
}

impl Site {
    /// Stores the bytes of a step. `is_breakpoint` returns whether there is an enabled site at an address.
    fn store(
        &self,
        address: usize,
        step: Step,
        to_jump: bool,
        is_breakpoint: &dyn Fn(usize) -> bool,
        store: Store<'_>,
    ) -> io::Result<()> {
        let Some(detour) = Detour::of(self.start) else { return Ok(()) };
        let own = if to_jump || self.is_enabled { BREAKPOINT } else { self.first };
        for (offset, (original, copy)) in self.original.iter().zip(detour.header.copies).enumerate()
        {
            let byte = match (step, copy == NONE) {
                (Step::First, _) if offset != 0 => continue,
                (Step::First, _) if to_jump => JUMP_CODE[0],
                (Step::First, _) => BREAKPOINT,
                (Step::Beginnings, true) | (Step::Others, false) => continue,
                _ if self.start + offset == address => own,
                _ if to_jump || is_breakpoint(self.start + offset) => BREAKPOINT,
                _ => *original,
            };
            store(self.start + offset, &[byte])?;
        }
        if matches!(step, Step::Beginnings) && address - self.start >= JUMP {
            store(address, &[own])?;
        }
        Ok(())
    }
}

/// The detour of a window.
struct Detour {
    /// The address of its code.
    code: usize,
    header: Header,
}

impl Detour {
    /// Returns the detour of the window with this address. Async-signal-safe.
    fn of(start: usize) -> Option<Self> {
        let area = area::of(start)?;
        let landing = area::landing(start);
        let byte = |offset: usize| {
            // SAFETY: the landing is in the area, which stays mapped. Volatile, as the compiler does not see the stores.
            unsafe { ptr::with_exposed_provenance::<u8>(landing + offset).read_volatile() }
        };
        let [jump, distance @ ..]: [u8; JUMP] = std::array::from_fn(byte);
        if jump != JUMP_CODE[0] {
            return None;
        }
        let code = (landing + JUMP).wrapping_add_signed(i32::from_le_bytes(distance) as isize);
        let at = code.checked_sub(HEADER).filter(|at| area.may_be_detour(&(*at..code)))?;
        // SAFETY: the bytes are aligned and in the area, which stays mapped. If there is a landing, they are the header of its detour, which
        // `make_detour` has stored before the landing. Otherwise the comparison below rejects them.
        let header = unsafe { ptr::with_exposed_provenance::<Header>(at).read_volatile() };
        (header.start == start as u64).then_some(Self { code, header })
    }
}

/// Returns the address at which a thread continues that has hit a breakpoint at this address: the copy of the instruction that a jump
/// overwrites, or has overwritten. Async-signal-safe.
pub(super) fn continuation(address: usize) -> Option<usize> {
    (0..JUMP).find_map(|offset| {
        let detour = Detour::of(address.checked_sub(offset)?)?;
        let copy = detour.header.copies[offset];
        (copy != NONE).then(|| detour.code + usize::from(copy))
    })
}
