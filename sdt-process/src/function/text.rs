//! The text that consumers may trace, and the stores to it.

use std::ffi::{CStr, CString};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sdt_core::ops::FrameworkError;
use sdt_core::patch::{Patcher, machine};
use sdt_framework::{Dtrace, FunctionText, Window};

use super::jumps::Jumps;
use super::{frame, hit, images, thunk};
use crate::breakpoint;
use crate::image::Image;
use crate::refused::Refused;
use crate::slots::Slots;
use crate::text::{self, Text};
use crate::text_access::{Access, synchronise_threads};
use crate::threads;

/// The text of this process, of which consumers may trace functions.
#[derive(Debug)]
struct Traced {
    build_id: Vec<u8>,
    bias: usize,
    provider: CString,
    handlers: [u64; 2],
    stores: &'static Stores,
}

/// Lets consumers trace functions of this process, with room for this number of sites.
///
/// # Errors
/// See [`Dtrace::register_functions`].
pub(crate) fn register(
    dtrace: &'static Dtrace<Slots>,
    text: Text,
    sites: usize,
) -> Result<(), FrameworkError> {
    let here = frame::thunk();
    let own = images::loaded().into_iter().find(|object| object.contains(here, 1));
    let Some(own) = own else { return Err(FrameworkError::Invalid) };
    let provider = CString::new(format!("pid{}", std::process::id()));
    let thunk = if text.jumps() { thunk::address() } else { None };
    let handlers = [breakpoint::on_trap as *const (), hit::record as *const ()];
    let traced = Traced {
        build_id: own.build_id,
        bias: Image::here().bias(),
        provider: provider.map_err(|_| FrameworkError::Invalid)?,
        handlers: handlers.map(|handler| handler as usize as u64),
        stores: Box::leak(Box::new(Stores { jumps: Jumps::new(thunk), text })),
    };
    dtrace.register_functions(Box::leak(Box::new(traced)), sites)?;
    hit::set_framework(dtrace);
    breakpoint::set_other(hit::handle);
    Ok(())
}

// SAFETY: `is_traceable` is true only for text of objects that `images` keeps loaded, and only this crate changes that
// text. `excluded` rejects all functions that the handler may call before it has recorded that the thread is in a hit.
// The thunk runs with the handler installed. `divert` leaves `FREE` bytes below the interrupted stack pointer. `sync`
// waits for all handlers that search the table of sites, which `handlers` counts, and for all hits, which hold slots.
unsafe impl FunctionText for Traced {
    fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    fn slide(&self) -> u64 {
        self.bias as u64
    }

    fn slide_of(&self, build_id: &[u8]) -> Option<u64> {
        if let Some(bias) = images::bias(build_id) {
            return Some(bias as u64);
        }
        // Reading the file makes system calls that a sandbox may forbid.
        self.stores.is_proved().then(|| images::trace(build_id))?.map(|bias| bias as u64)
    }

    fn provider(&self) -> &CStr {
        &self.provider
    }

    fn is_traceable(&self, address: u64, length: usize) -> bool {
        images::allow(address as usize, length)
    }

    fn free_stack(&self) -> u64 {
        frame::FREE as u64
    }

    fn handlers(&self) -> &[u64] {
        &self.handlers
    }

    fn offer(&self, address: u64, code: &[u8], window: Option<Window>) -> bool {
        self.stores.jumps.offer(address as usize, code, window)
    }

    fn restore(&self, address: u64, text: &mut [u8]) {
        self.stores.jumps.restore(address as usize, text);
    }

    fn holds_jump(&self, address: u64) -> bool {
        self.stores.jumps.holds(address as usize)
    }

    fn withdraw(&self, address: u64) {
        self.stores.jumps.withdraw(address as usize);
    }

    fn patcher(&self) -> &'static dyn Patcher {
        self.stores
    }
}

/// The time for which a proof that text can be changed is valid, so that a change of many functions needs few proofs.
const VALID: Duration = Duration::from_millis(100);

/// The number of stores of a batch after which breakpoints become jumps, before the end of the batch: until then, each of them that a thread
/// hits raises a signal.
const CHUNK: usize = 256;

/// The proof that text can be changed.
#[derive(Debug)]
struct Proof {
    access: Access,
    made: Instant,
    /// Whether a debugger traced a thread when the proof was made.
    is_debugged: bool,
}

static PROOF: Mutex<Option<Proof>> = Mutex::new(None);

fn proof() -> MutexGuard<'static, Option<Proof>> {
    PROOF.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a change of functions: drops the proof, and thereby closes the memory of the process for writing.
pub(crate) fn end_change() {
    *proof() = None;
}

/// Makes all threads execute a synchronising instruction.
fn synchronise_all() -> io::Result<()> {
    machine::synchronise_cpu();
    synchronise_threads()
}

/// The stores to text of functions.
#[derive(Debug)]
struct Stores {
    text: Text,
    jumps: Jumps,
}

impl Stores {
    /// Replaces breakpoints by jumps, and restores the text of disabled sites that jump. While a debugger is attached, it does neither: a
    /// debugger that deletes its breakpoint restores the byte that it has saved, which would be in the middle of a jump, or the first byte of one.
    fn settle(&self) -> io::Result<()> {
        if self.jumps.open() == 0 || !self.is_proved() {
            return Ok(());
        }
        match &*proof() {
            Some(proof) if proof.is_debugged => match self.jumps.report() {
                0 => Ok(()),
                sites => Err(io::Error::other(format!(
                    "a debugger is attached, so jumps stay at {sites} sites; detach it, and then trace any function"
                ))),
            },
            Some(proof) => self.jumps.settle(&proof.access, &synchronise_all),
            None => Ok(()),
        }
    }

    fn prove(&self) -> Result<Proof, Refused> {
        let access = self.text.prove()?;
        let mut is_debugged = false;
        let protected = threads::each(|_, status| {
            is_debugged |= threads::has_tracer(status);
            Ok(threads::has_shadow_stack(status).then_some(Refused::ShadowStack))
        });
        match protected.map_err(Refused::Unknown)? {
            Some(why) => Err(why),
            None => Ok(Proof { access, made: Instant::now(), is_debugged }),
        }
    }

    /// Returns whether text can be changed now. If not, the consumer gets the reason.
    fn is_proved(&self) -> bool {
        let mut proof = proof();
        if proof.as_ref().is_none_or(|proof| proof.made.elapsed() > VALID) {
            *proof = None;
            match self.prove() {
                Ok(new) => *proof = Some(new),
                Err(why) => text::refuse(format!("functions cannot be traced: {why}")),
            }
        }
        proof.is_some()
    }
}

// SAFETY: `store` stores exactly the bytes that it gets, by a single store: one byte on x86_64, and two or four aligned ones elsewhere.
// `synchronise` makes every thread of this process execute a synchronising instruction. Without a proof nothing is stored; the framework reads text again before it forgets a site.
unsafe impl Patcher for Stores {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        if let Some(Proof { access, is_debugged, .. }) = &*proof() {
            // SAFETY: the contract of this function is that of `Access::write`.
            let write = |address, bytes: &[u8]| unsafe { access.write(address, bytes) };
            let written = self.jumps.store(address, bytes, &write);
            let settled = written.and_then(|()| match *is_debugged || self.jumps.open() < CHUNK {
                true => Ok(()),
                false => {
                    synchronise_all().and_then(|()| self.jumps.settle(access, &synchronise_all))
                }
            });
            settled.unwrap_or_else(|error| {
                text::refuse(format!("functions cannot be traced: {error}"))
            });
        }
    }

    fn synchronise(&self) {
        let done = synchronise_all().and_then(|()| self.settle());
        done.unwrap_or_else(|error| text::refuse(format!("functions cannot be traced: {error}")));
        end_change();
    }

    fn is_writable(&self, address: usize, length: usize) -> bool {
        if !self.is_proved() {
            return false;
        }
        let proof = proof();
        let Some(Proof { access, .. }) = &*proof else { return false };
        let rewritten = access.rewrite(address, length);
        rewritten.map_err(|why| text::refuse(format!("functions cannot be traced: {why}"))).is_ok()
    }
}
