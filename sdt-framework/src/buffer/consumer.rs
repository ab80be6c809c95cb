//! Consumers: those for whom probes are enabled and records are kept.

use core::fmt;
use core::num::NonZeroU32;

use crate::arena::{Arena, Owned};
use crate::buffer::ring::{Ring, Word};
use crate::host::{Host, Mutex};
use crate::program::tracing::Tracing;
use crate::providers::Own;
use crate::rights::Rights;
use crate::sync::{AtomicCount, AtomicU32, AtomicUsize, Ordering, UnsafeCell};

/// An open consumer. Numbers start at 1; that of a closed consumer is not given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(NonZeroU32);

impl ConsumerId {
    /// The consumer with this number; `None` for 0.
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Its number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// One CPU's records for one consumer.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) ring: Ring,
    /// How many of its drops have been reported. The reader's.
    pub(crate) reported: AtomicCount,
}

/// All CPUs' buffers of one consumer.
pub(crate) type Buffers = &'static [Buffer];

/// Makes buffers of so many words for so many CPUs; `None` when there is no room.
pub(crate) fn allocate(arena: &mut Arena, cpus: usize, words: usize) -> Option<Buffers> {
    let all = arena.slice(words.checked_mul(cpus)?, |_| Word::new())?;
    let all: &'static [Word] = all.leak();
    let ring = |cpu| {
        let words = all.get(cpu * words..(cpu + 1) * words).unwrap_or_default();
        Buffer { ring: Ring::new(words), reported: AtomicCount::new(0) }
    };
    match arena.slice(cpus, ring) {
        Some(buffers) => Some(buffers.leak()),
        None => {
            // SAFETY: leaked above, and there are no rings.
            unsafe { Owned::reclaim(all) }.into_iter().for_each(|words| arena.free(words));
            None
        }
    }
}

/// Gives back what `allocate` returned.
///
/// # Safety
/// Nobody uses them any more.
pub(crate) unsafe fn free(arena: &mut Arena, buffers: Buffers) {
    // The rings have the words between them, in order.
    let words = buffers.iter().map(|buffer| buffer.ring.words().len()).sum();
    if let Some(first) = buffers.first() {
        let all = core::ptr::slice_from_raw_parts(first.ring.words().as_ptr(), words);
        // SAFETY: that is what `allocate` made; the caller vouches for the rest.
        unsafe { Owned::reclaim(all) }.into_iter().for_each(|words| arena.free(words));
    }
    // SAFETY: as above.
    unsafe { Owned::reclaim(buffers) }.into_iter().for_each(|buffers| arena.free(buffers));
}

/// What a consumer does (`DTRACE_ACTIVITY_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Activity {
    /// It has not gone yet.
    Inactive,
    /// `dtrace:::BEGIN` fires.
    Warmup,
    Active,
    /// A program has asked for the end.
    Draining,
    /// `dtrace:::END` fires.
    Cooldown,
    Stopped,
    /// It was given up.
    Killed,
}

impl Activity {
    pub(crate) const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Inactive,
            1 => Self::Warmup,
            2 => Self::Active,
            3 => Self::Draining,
            4 => Self::Cooldown,
            5 => Self::Stopped,
            _ => Self::Killed,
        }
    }
}

/// Room for one consumer.
pub(crate) struct Consumer<H: Host> {
    /// Its number, 0 when closed. Changed with the framework locked only.
    number: AtomicU32,
    /// What it may do. Changed with the framework locked.
    rights: AtomicU32,
    /// An [`Activity`]. Read in probe context, where programs that end the run change it.
    pub(crate) activity: AtomicU32,
    /// Bytes of a buffer that it is to have. Used with the framework locked only.
    pub(crate) size: AtomicUsize,
    /// For the writers: set before it first goes.
    buffers: UnsafeCell<Option<Buffers>>,
    /// What its programs have, likewise.
    tracing: UnsafeCell<Option<&'static Tracing>>,
    /// The same for the reader, who has this lock.
    pub(crate) reader: Mutex<H, Option<Buffers>>,
}

// SAFETY: `buffers` and `tracing` are written when nobody reads them, see `give` and `take`.
unsafe impl<H: Host> Sync for Consumer<H> {}

impl<H: Host> fmt::Debug for Consumer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("number", &self.number).finish_non_exhaustive()
    }
}

impl<H: Host> Consumer<H> {
    /// A closed consumer.
    pub(crate) fn closed() -> Self {
        Self {
            number: AtomicU32::new(0),
            rights: AtomicU32::new(Rights::NONE.to_word()),
            activity: AtomicU32::new(Activity::Inactive as u32),
            size: AtomicUsize::new(0),
            buffers: UnsafeCell::new(None),
            tracing: UnsafeCell::new(None),
            reader: Mutex::<H, _>::new(None),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.number.load(Ordering::Acquire) != 0
    }

    pub(crate) fn is(&self, id: ConsumerId) -> bool {
        self.number.load(Ordering::Acquire) == id.get()
    }

    /// With the framework locked.
    pub(crate) fn open(&self, id: ConsumerId, size: usize, rights: Rights) {
        self.rights.store(rights.to_word(), Ordering::Relaxed);
        self.size.store(size, Ordering::Relaxed);
        self.turn(Activity::Inactive);
        self.number.store(id.get(), Ordering::Release);
    }

    /// From here on it may do this much. With the framework locked.
    pub(crate) fn restrict(&self, rights: Rights) {
        self.rights.store(rights.to_word(), Ordering::Relaxed);
    }

    /// With the framework locked. Readers find it closed.
    pub(crate) fn close(&self) {
        self.number.store(0, Ordering::Release);
    }

    /// What it may do. Probe context, or with the framework locked.
    pub(crate) fn rights(&self) -> Rights {
        Rights::from_word(self.rights.load(Ordering::Relaxed))
    }

    /// Whether a hit is something to it: of one of `dtrace`'s probes, or of any other. Probe context. Acquire, with the
    /// Release of `turn`: what it has is there.
    pub(crate) fn takes(&self, own: Option<Own>) -> bool {
        let activity = self.activity();
        match own {
            None => activity == Activity::Active,
            Some(Own::Begin) => activity == Activity::Warmup,
            Some(Own::End) => activity == Activity::Cooldown,
            Some(Own::Error) => {
                !matches!(activity, Activity::Inactive | Activity::Stopped | Activity::Killed)
            }
        }
    }

    /// Where records are written. Probe context, and it [takes](Self::takes) the hit.
    pub(crate) fn buffers(&self) -> Option<Buffers> {
        // SAFETY: nobody writes to it before this consumer has stopped, and this CPU has since left probe
        // context.
        self.buffers.with(|buffers| unsafe { *buffers })
    }

    /// What its programs have. Probe context, and it [takes](Self::takes) the hit; or with the framework locked.
    pub(crate) fn tracing(&self) -> Option<&'static Tracing> {
        // SAFETY: as above; who writes to it has the framework locked.
        self.tracing.with(|tracing| unsafe { *tracing })
    }

    pub(crate) fn activity(&self) -> Activity {
        Activity::from_number(self.activity.load(Ordering::Acquire))
    }

    /// From here on it does that.
    pub(crate) fn turn(&self, activity: Activity) {
        self.activity.store(activity as u32, Ordering::Release);
    }

    /// From here on it does that, if it does what it is said to do.
    pub(crate) fn turn_from(&self, from: Activity, to: Activity) {
        let (from, to) = (from as u32, to as u32);
        let _ = self.activity.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Gives it what its programs have.
    ///
    /// # Safety
    /// As `give`.
    pub(crate) unsafe fn give_tracing(&self, tracing: Option<&'static Tracing>) {
        // SAFETY: no CPU looks at it, by the contract above.
        self.tracing.with_mut(|cell| unsafe { *cell = tracing });
    }

    /// Gives it buffers, if it has none.
    ///
    /// # Safety
    /// It is not going, and since it was last every CPU has been outside probe context. The framework is
    /// locked.
    pub(crate) unsafe fn give(&self, buffers: Buffers) {
        // SAFETY: no CPU looks at it, by the contract above.
        self.buffers.with_mut(|cell| unsafe { *cell = Some(buffers) });
        *self.reader.lock() = Some(buffers);
    }

    /// Takes its buffers away. Nobody uses them then.
    ///
    /// # Safety
    /// As `give`.
    pub(crate) unsafe fn take(&self) -> Option<Buffers> {
        // SAFETY: no CPU looks at it, by the contract above.
        self.buffers.with_mut(|cell| unsafe { *cell = None });
        // Who is reading just now finishes first.
        self.reader.lock().take()
    }

    /// Whether it has buffers. With the framework locked.
    pub(crate) fn has_buffers(&self) -> bool {
        // SAFETY: who writes to it has the framework locked.
        self.buffers.with(|buffers| unsafe { (*buffers).is_some() })
    }
}
