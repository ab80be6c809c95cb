//! Runtime providers: for an interpreter or a filter engine, whose probes depend on the programs that it loads.
//!
//! ```
//! use sdt_core::arg::Value;
//! use sdt_core::ops::{Privileges, ProviderAttr};
//! use sdt_core::runtime::{OpenError, Provider, Slot, arg, pair};
//!
//! static PROBES: [Slot; 8] = [const { Slot::new() }; 8];
//! static SCRIPT: Provider = Provider::new(&PROBES);
//!
//! // Once the image is attached. It is not attached in this example.
//! let opened = SCRIPT.open(c"script", &ProviderAttr::SDT, Privileges::USER);
//! assert_eq!(opened, Err(OpenError::NotAttached));
//! # fn load() -> Result<(), Box<dyn core::error::Error>> {
//! // As the script is loaded: `script::main:lookup`, with types for `args[]`.
//! let [text, length] = pair::<&str>();
//! let lookup = SCRIPT.add(c"main", c"lookup", &[arg::<i64>(), text, length])?;
//!
//! // As it runs.
//! if lookup.is_enabled() {
//!     let [key, length] = "key".words();
//!     lookup.fire(&[42, key, length])?;
//! }
//!
//! // As it is unloaded.
//! lookup.remove()?;
//! SCRIPT.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # What this is
//!
//! Runtime providers work on every framework: with DTrace of FreeBSD and illumos through `dtrace_register`, with `sdt-framework`
//! directly. All memory is in statics that the caller provides, one [`Slot`] for each probe that can exist at a time. Nothing is
//! patched: the test of whether such a probe is enabled is a load.
//!
//! # Providers with rules
//!
//! A provider implements [`Rules`] if it creates probes on demand of consumers, or if it must switch something on when
//! a probe is enabled.
//!
//! # What it is not
//!
//! For probes that are known when the image is compiled, use `sdt_probe!`: it costs a nop, and the compiler checks its arguments.
//! Here arguments are words, and only their number is checked when the probe fires.
//!
//! # Concurrency
//!
//! Only one thread at a time can open or close a provider, or add or remove a probe of it. A second thread does not
//! wait, but gets `InProgress`. While the process forks, all of them wait ([`Standstill`](crate::attach::Standstill)).
//! Probes fire at any time. A [`Probe`] keeps its slot: while it exists, its probe may be removed, but the slot gets no
//! other probe. So a hit belongs to that probe, or is an error.
//!
//! While a consumer is tracing, FreeBSD and illumos enable existing probes only. They enable probes that are added
//! later when the next provider registers or the next module is loaded. `sdt-framework` enables them at once.

mod error;
mod image;
mod ops;
mod rules;
mod saved;
mod slot;

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::fmt;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

pub use error::{AddError, CloseError, FireError, InProgress, OpenError, RemoveError};
pub(crate) use image::{invalidate_all, register_all, unregister_all};
pub use rules::Rules;
pub use slot::Slot;

use crate::arg::{ArgType, Argument, Borrows};
use crate::atomic::AtomicBool;
use crate::ops::{
    ARGS, Framework, FrameworkError, Name, PROVIDER_NAME_LEN, Privileges, ProbeDesc, ProviderAttr,
    ProviderId,
};
use crate::record::PROVIDERS;
use crate::route::attachment::{self, Attachment, Change};
use crate::route::changes::{self, Begun};
use saved::Saved;
use slot::{Names, State};

/// Returns the type of an argument of one word: `arg::<u32>()`.
pub const fn arg<A: Argument<Words = [u64; 1]>>() -> &'static ArgType {
    &A::TYPES[0]
}

/// Returns the types of an argument of two words, such as `&str` or a slice: `let [text, length] = pair::<&str>()`.
/// Each word counts as an argument. Pass the value's [`words`](crate::arg::Value::words) to `fire`.
pub const fn pair<A: Argument<Words = [u64; 2]>>() -> [&'static ArgType; 2] {
    [&A::TYPES[0], &A::TYPES[1]]
}

/// A runtime provider. A `static` with slots for its probes.
pub struct Provider {
    slots: &'static [Slot],
    rules: Option<&'static dyn Rules>,
    /// Whether a thread is opening or closing it, or adding or removing a probe.
    changing: AtomicBool,
    /// Whether it is open.
    is_open: AtomicBool,
    /// Whether the provider belongs to the image: `open` was called, not `open_with`. Only the thread with the right to
    /// change the provider writes it, and only while the provider is not registered, or the image is attached to the
    /// framework in which the provider was opened.
    is_of_image: AtomicBool,
    /// The framework's id; 0 while it is not registered.
    id: AtomicUsize,
    /// The arguments of `open`. Written while the provider is not open and all slots are free.
    opened: UnsafeCell<Option<Opened>>,
    /// The next runtime provider of the image.
    next: AtomicPtr<Provider>,
}

/// The arguments with which a provider was opened.
struct Opened {
    name: Name<PROVIDER_NAME_LEN>,
    attr: ProviderAttr,
    privileges: Privileges,
    within: Within,
}

/// The framework with which a provider is registered, and the module part of its probes' descriptions.
#[derive(Clone, Copy)]
struct Within {
    framework: &'static dyn Framework,
    module: &'static CStr,
}

impl Within {
    fn of(attachment: &'static Attachment) -> Self {
        Self { framework: attachment.framework, module: attachment.module }
    }
}

// SAFETY: only the thread that has `changing` writes to the cell, in `open`, when no other thread can read it: see `opened`.
unsafe impl Sync for Provider {}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("slots", &self.slots.len())
            .field("is_open", &self.is_open())
            .finish_non_exhaustive()
    }
}

/// The right to change a provider, which one thread has at a time.
struct Changing<'p> {
    provider: &'p Provider,
    _begun: Begun<'static>,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.provider.changing.store(false, Ordering::Release);
    }
}

impl Provider {
    /// Returns a provider that is not open, with room for one probe in each slot. No other provider can use the slots: if two
    /// providers have the same slots, only the first one that is opened can be opened.
    pub const fn new(slots: &'static [Slot]) -> Self {
        Self::made(slots, None)
    }

    /// Returns a provider with [`Rules`].
    pub const fn ruled(slots: &'static [Slot], rules: &'static dyn Rules) -> Self {
        Self::made(slots, Some(rules))
    }

    const fn made(slots: &'static [Slot], rules: Option<&'static dyn Rules>) -> Self {
        Self {
            slots,
            rules,
            changing: AtomicBool::new(false),
            is_open: AtomicBool::new(false),
            is_of_image: AtomicBool::new(false),
            id: AtomicUsize::new(0),
            opened: UnsafeCell::new(None),
            next: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Registers the provider with the framework that the image is [attached](crate::attach::attach) to. It has no probes yet.
    ///
    /// Then it belongs to the image: `detach` unregisters it with the image's other providers, and is refused while a
    /// probe of it is enabled. May sleep; not in probe context.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing has changed.
    pub fn open(
        &'static self,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
    ) -> Result<(), OpenError> {
        let changing = self.change().ok_or(OpenError::InProgress)?;
        let image = Change::begin().ok_or(OpenError::InProgress)?;
        let attachment = image.attached().ok_or(OpenError::NotAttached)?;
        if image::has(name) {
            return Err(OpenError::Twice);
        }
        let within = Within::of(attachment);
        // SAFETY: `detach` of the image unregisters it before the image is unloaded.
        unsafe { self.open_in(within, name, attr, privileges) }?;
        image::add(self);
        self.is_of_image.store(true, Ordering::Relaxed);
        drop((image, changing));
        self.provide(None);
        Ok(())
    }

    /// Registers the provider with a framework, in an image that is not attached or to another one. `module` is the module
    /// part of its probes' descriptions.
    ///
    /// May sleep; not in probe context.
    ///
    /// # Safety
    /// The image stays until [`close`](Self::close) has succeeded.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing has changed.
    pub unsafe fn open_with(
        &'static self,
        framework: &'static dyn Framework,
        module: &'static CStr,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
    ) -> Result<(), OpenError> {
        let changing = self.change().ok_or(OpenError::InProgress)?;
        // SAFETY: the image stays until `close` has succeeded, by the contract of this function.
        unsafe { self.open_in(Within { framework, module }, name, attr, privileges) }?;
        drop(changing);
        self.provide(None);
        Ok(())
    }

    /// # Safety
    /// As [`open_with`](Self::open_with); the caller has the right to change it.
    unsafe fn open_in(
        &'static self,
        within: Within,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
    ) -> Result<(), OpenError> {
        if self.is_open() {
            return Err(OpenError::Open);
        }
        if !self.slots.iter().all(|slot| slot.belongs_to(core::ptr::from_ref(self).cast())) {
            return Err(OpenError::Shared);
        }
        if !self.slots.iter().all(Slot::is_free) {
            return Err(OpenError::Held);
        }
        let name = Name::new(name.to_bytes()).ok_or(OpenError::LongName)?;
        if name.as_c_str().to_str().is_ok_and(crate::reserved::is_reserved) {
            return Err(OpenError::Taken);
        }
        let opened = Opened { name, attr: *attr, privileges, within };
        // SAFETY: the provider is not open and all its slots are free, so no other thread reads the cell; this thread has
        // the right to change the provider, so no other thread writes.
        unsafe { *self.opened.get() = Some(opened) };
        // SAFETY: the image stays, by the contract of this function; the provider is not open, so it is not registered.
        unsafe { self.register() }?;
        self.is_open.store(true, Ordering::Release);
        Ok(())
    }

    /// Registers the provider with the arguments of `open`, and creates its probes, except those for which the framework has
    /// no room.
    ///
    /// # Safety
    /// As [`open_with`](Self::open_with); and it is not registered.
    unsafe fn register(&'static self) -> Result<(), FrameworkError> {
        let (Some(opened), Some(Within { framework, .. })) = (self.opened(), self.within()) else {
            return Err(FrameworkError::NotFound);
        };
        let ops = ops::table(framework);
        let arg = core::ptr::from_ref(self).cast_mut().cast();
        let (name, attr) = (opened.name.as_c_str(), &opened.attr);
        // SAFETY: `arg` is the address of a static `Provider`, which these ops take, and the image with the ops stays by the
        // contract of this function.
        let id = unsafe { framework.register(name, attr, opened.privileges, &ops, arg) }?;
        self.id.store(id.get(), Ordering::Release);
        // Ordered with the fence of `add`: either `add` finds the id, or this function finds its probe.
        fence(Ordering::SeqCst);
        self.list();
        Ok(())
    }

    /// Unregisters the provider, if it is registered. Its probes stay, but the framework destroys its own entries for them.
    fn unregister(&self) -> Result<(), FrameworkError> {
        let (Some(id), Some(within)) = (self.id(), self.within()) else { return Ok(()) };
        // SAFETY: a provider with an id is registered.
        unsafe { within.framework.unregister(id) }?;
        self.id.store(0, Ordering::Release);
        // The framework may not have called `destroy` for each.
        self.slots.iter().for_each(Slot::destroyed);
        Ok(())
    }

    /// Unregisters the provider: all of its probes are removed. It can be opened again after every [`Probe`] of it was
    /// dropped. May sleep; not in probe context.
    ///
    /// # Errors
    /// See [`CloseError`]; nothing has changed.
    pub fn close(&'static self) -> Result<(), CloseError> {
        let _changing = self.change().ok_or(CloseError::InProgress)?;
        if !self.is_open() {
            return Err(CloseError::NotOpen);
        }
        let is_of_image = self.is_of_image.load(Ordering::Relaxed);
        let image = is_of_image.then(Change::begin);
        if matches!(image, Some(None)) {
            return Err(CloseError::InProgress);
        }
        self.unregister()?;
        self.is_open.store(false, Ordering::Release);
        if is_of_image {
            image::remove(self);
            self.is_of_image.store(false, Ordering::Relaxed);
        }
        self.slots.iter().for_each(Slot::remove);
        Ok(())
    }

    /// Adds a probe `name` in `function`, with arguments of these types: [`arg`], [`pair`]. The function may be one of
    /// the interpreted program, or empty. DTrace accepts any text, except control characters. May sleep; not in probe
    /// context.
    ///
    /// # Errors
    /// See [`AddError`]; nothing has changed.
    pub fn add(
        &'static self,
        function: &CStr,
        name: &CStr,
        args: &[&'static ArgType],
    ) -> Result<Probe, AddError> {
        let _changing = self.change().ok_or(AddError::InProgress)?;
        if !self.is_open() {
            return Err(AddError::NotOpen);
        }
        if args.len() > ARGS {
            return Err(AddError::Arguments { given: args.len(), most: ARGS });
        }
        if name.is_empty() {
            return Err(AddError::NoName);
        }
        if [function, name].iter().any(|of| of.to_bytes().iter().any(u8::is_ascii_control)) {
            return Err(AddError::BadName);
        }
        let names = Names::new(function, name).ok_or(AddError::LongName)?;
        if self.slots.iter().any(|slot| slot.is(&names)) {
            return Err(AddError::Twice);
        }
        let slot = self.slots.iter().find(|slot| slot.is_free()).ok_or(AddError::NoSlot)?;
        // SAFETY: the slot is free, and no other thread takes a slot, because this one has the right to change the
        // provider.
        unsafe { slot.take(names, args) };
        let probe = Probe { provider: self, slot };
        // Ordered with the fence of `register`, which a thread that attaches the image may be running.
        fence(Ordering::SeqCst);
        if self.id().is_none() {
            // The image is detached. Attaching it creates the probe in the framework.
            return Ok(probe);
        }
        match self.create(slot) {
            // If the state is no longer `Wanted`, another thread has taken over the creation of the probe.
            Err(error) if slot.turn(State::Wanted, State::Gone) => Err(AddError::Framework(error)),
            _ => Ok(probe),
        }
    }

    /// Returns the probe with these names, if it exists. Any thread may call this, but not in probe context.
    ///
    /// # Errors
    /// [`InProgress`].
    pub fn find(&'static self, function: &CStr, name: &CStr) -> Result<Option<Probe>, InProgress> {
        let _changing = self.change().ok_or(InProgress)?;
        let Some(names) = Names::new(function, name) else { return Ok(None) };
        Ok(self.slots.iter().find(|slot| slot.is(&names)).map(|slot| self.probe(slot)))
    }

    /// Returns the name with which it was opened; `None` if it never was, or if another thread is changing it.
    pub fn name(&self) -> Option<Name<PROVIDER_NAME_LEN>> {
        let _changing = self.change()?;
        self.opened().map(|opened| opened.name)
    }

    /// Returns whether it is open.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Returns the number of free slots.
    pub fn room(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_free()).count()
    }

    /// Returns a new handle of a probe. Its slot is not free, and the calling thread has the right to change the provider, has
    /// another handle, or was called by the framework for this probe.
    fn probe(&'static self, slot: &'static Slot) -> Probe {
        slot.retain();
        Probe { provider: self, slot }
    }

    fn change(&self) -> Option<Changing<'_>> {
        let begun = changes::begin();
        let is_ours = !self.changing.swap(true, Ordering::Acquire);
        is_ours.then(|| Changing { provider: self, _begun: begun })
    }

    fn id(&self) -> Option<ProviderId> {
        Some(self.id.load(Ordering::Acquire)).filter(|id| *id != 0).map(ProviderId::new)
    }

    /// Returns the arguments of `open`. The calling thread has the right to change the provider, has a probe of it, or was
    /// called by the framework.
    fn opened(&self) -> Option<&Opened> {
        // SAFETY: `open` writes to the cell only while the provider is not registered and has no probe, so no other thread
        // that may call this exists.
        unsafe { &*self.opened.get() }.as_ref()
    }

    /// Returns the framework with which it is registered, or will be: a provider that belongs to the image uses the
    /// image's framework. The caller's contract is that of [`opened`](Self::opened).
    fn within(&self) -> Option<Within> {
        if self.is_of_image.load(Ordering::Relaxed) {
            attachment::current().map(Within::of)
        } else {
            self.opened().map(|opened| opened.within)
        }
    }

    /// Lets the provider's rules add probes for a description.
    fn provide(&'static self, wanted: Option<&ProbeDesc>) {
        if let Some(rules) = self.rules.filter(|_| self.is_open()) {
            rules.provide(self, wanted);
        }
    }

    /// Creates the probes that the framework does not have yet. If the framework has no room for a probe, this is repeated
    /// whenever the framework looks for probes.
    fn list(&'static self) {
        for slot in self.slots {
            let _ = self.create(slot);
        }
    }

    /// Creates a probe in the framework, if it is wanted, does not exist and is not being created.
    fn create(&'static self, slot: &'static Slot) -> Result<(), FrameworkError> {
        // Repeats this if the framework has destroyed it meanwhile, because another thread removed a probe.
        while let (Some(id), Some(Within { framework, module })) = (self.id(), self.within())
            && slot.turn(State::Wanted, State::Creating)
        {
            let names = slot.names();
            let (function, name) = (names.function.as_c_str(), names.name.as_c_str());
            let parg = core::ptr::from_ref(slot).cast_mut().cast();
            // SAFETY: the provider is registered, and its ops expect the address of a slot as `parg`.
            let created =
                unsafe { framework.probe_create(id, module, function, name, AFRAMES, parg) };
            if let Err(error) = created {
                slot.turn(State::Creating, State::Wanted);
                return Err(error);
            }
            if slot.turn(State::Creating, State::Listed) {
                // The slot no longer belongs to this thread: another thread may be creating the probe now.
                return Ok(());
            }
            slot.turn(State::Lost, State::Wanted);
        }
        Ok(())
    }

    /// Removes a probe from the framework. The framework can only destroy all probes of a provider that are not
    /// enabled, so the others are created again.
    fn remove(&'static self, slot: &'static Slot) -> Result<(), RemoveError> {
        let _changing = self.change().ok_or(RemoveError::InProgress)?;
        if slot.is_enabled() {
            return Err(RemoveError::Enabled);
        }
        // Another thread may be creating it, so the state may have changed if the exchange fails.
        loop {
            match slot.state() {
                State::Wanted if slot.turn(State::Wanted, State::Gone) => return Ok(()),
                // In this state `destroy` marks it as removed, and no thread creates it again.
                State::Listed if slot.turn(State::Listed, State::Leaving) => break,
                State::Wanted | State::Listed => {}
                State::Creating | State::Lost | State::Leaving => {
                    return Err(RemoveError::InProgress);
                }
                State::Free | State::Gone => return Err(RemoveError::Removed),
            }
        }
        if let (Some(id), Some(within)) = (self.id(), self.within()) {
            // SAFETY: a provider with an id is registered.
            unsafe { within.framework.condense(id) };
            self.list();
        }
        if slot.turn(State::Leaving, State::Listed) {
            // A consumer enabled it meanwhile.
            return Err(RemoveError::Enabled);
        }
        Ok(())
    }
}

/// The number of frames between [`Framework::hit`] and the function that fires: that of [`Probe::fire`].
const AFRAMES: u32 = 1;

/// A handle of a probe of a [`Provider`], which may have been removed. The slot becomes free when the probe was removed
/// and its last handle is dropped. If the handle of a probe that was not removed is dropped, the probe stays, and
/// [`find`](Provider::find) finds it.
pub struct Probe {
    provider: &'static Provider,
    slot: &'static Slot,
}

impl Probe {
    /// Returns whether the probe is enabled: one load. Any context, probe context too.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.slot.is_enabled()
    }

    /// Fires the probe with these arguments. If it is not enabled, this only checks the number of arguments. Test
    /// [`is_enabled`](Self::is_enabled) before you compute arguments.
    ///
    /// Anywhere, with interrupts off and any lock held, in probe context too. Takes no lock, allocates nothing. An
    /// address that is an argument must be valid until this returns.
    ///
    /// # Errors
    /// See [`FireError`].
    // Not inlined: `AFRAMES` counts its frame.
    #[inline(never)]
    pub fn fire(&self, args: &[u64]) -> Result<(), FireError> {
        if self.slot.state() == State::Gone {
            return Err(FireError::Removed);
        }
        let takes = self.slot.args().len();
        if args.len() != takes {
            return Err(FireError::Arguments { takes, given: args.len() });
        }
        if self.slot.is_enabled()
            && let Some(within) = self.provider.within()
        {
            let mut saved = Saved::new();
            for (word, arg) in saved.words().iter_mut().zip(args) {
                // Volatile, because the compiler otherwise calls memcpy, which can be traced itself.
                // SAFETY: the pointer comes from a reference.
                *word = unsafe { core::ptr::from_ref(arg).read_volatile() };
            }
            // SAFETY: only `enable` and `disable` of the ops table set the id, as `hit` demands.
            unsafe { within.framework.hit(self.slot.enabled_id(), saved.mark(), Borrows::NOTHING) };
        }
        Ok(())
    }

    /// Removes the probe. Other probes of the provider may get other ids. May sleep; not in probe context.
    ///
    /// # Errors
    /// See [`RemoveError`]; nothing has changed.
    pub fn remove(&self) -> Result<(), RemoveError> {
        self.provider.remove(self.slot)
    }

    /// Returns the function and the name.
    pub fn names(&self) -> (&CStr, &CStr) {
        let names = self.slot.names();
        (names.function.as_c_str(), names.name.as_c_str())
    }

    /// Returns the types of the arguments.
    pub fn args(&self) -> impl ExactSizeIterator<Item = &'static ArgType> {
        self.slot.args().iter().copied()
    }
}

impl Clone for Probe {
    fn clone(&self) -> Self {
        self.provider.probe(self.slot)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.slot.release();
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (function, name) = self.names();
        write!(f, "Probe({function:?}, {name:?}, {:?})", self.slot.state())
    }
}
