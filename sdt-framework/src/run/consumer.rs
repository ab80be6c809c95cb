//! The data of consumers that probe context uses.

use core::num::NonZeroU32;

use super::own::Own;
use super::state::RunState;
use crate::base::rights::Rights;
use crate::base::sync::{AtomicU32, Ordering, UnsafeCell};
use crate::machine::Access;

/// The number of an open consumer, from 1. Numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(NonZeroU32);

impl ConsumerId {
    /// Returns the id with this number; `None` for 0.
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// The activity of a consumer (`DTRACE_ACTIVITY_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Activity {
    /// It has not started yet.
    Inactive,
    /// `dtrace:::BEGIN` fires.
    Warmup,
    Active,
    /// A program has asked for the end.
    Draining,
    /// `dtrace:::END` fires.
    Cooldown,
    Stopped,
    /// It timed out.
    Killed,
}

impl Activity {
    const fn from_number(number: u32) -> Self {
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

/// An entry of the table of consumers.
#[derive(Debug)]
pub(crate) struct Consumer {
    /// Its number, 0 when closed. Changed with the framework locked only.
    number: AtomicU32,
    /// Its rights. Changed with the framework locked.
    rights: AtomicU32,
    /// An [`Activity`]. Read in probe context, where programs that end the run change it.
    activity: AtomicU32,
    /// The state of its run: set before it first starts.
    state: UnsafeCell<Option<&'static RunState>>,
}

// SAFETY: `give_state` writes `state` only while no CPU reads it; all other fields are atomic.
unsafe impl Sync for Consumer {}

impl Consumer {
    /// Creates an entry without a consumer.
    pub(crate) fn closed() -> Self {
        Self {
            number: AtomicU32::new(0),
            rights: AtomicU32::new(Rights::NONE.to_word()),
            activity: AtomicU32::new(Activity::Inactive as u32),
            state: UnsafeCell::new(None),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.number.load(Ordering::Acquire) != 0
    }

    pub(crate) fn is(&self, id: ConsumerId) -> bool {
        self.number.load(Ordering::Acquire) == id.get()
    }

    /// Opens this entry for a new consumer. Called with the framework locked.
    pub(crate) fn open(&self, id: ConsumerId, rights: Rights) {
        self.restrict(rights);
        self.set_activity(Activity::Inactive);
        self.number.store(id.get(), Ordering::Release);
    }

    /// Sets the rights. With the framework locked.
    pub(crate) fn restrict(&self, rights: Rights) {
        self.rights.store(rights.to_word(), Ordering::Relaxed);
    }

    /// Closes the consumer. Called with the framework locked.
    pub(crate) fn close(&self) {
        self.number.store(0, Ordering::Release);
    }

    /// Returns the rights. Called in probe context, or with the framework locked.
    pub(crate) fn rights(&self) -> Rights {
        Rights::from_word(self.rights.load(Ordering::Relaxed))
    }

    /// Returns the access rights of the consumer's programs at a hit of a probe that it may use.
    pub(crate) fn access(&self) -> Access {
        let rights = self.rights();
        Access {
            kernel: rights.kernel(),
            args: true,
            process: rights.process(),
            control: rights.process() && rights.destructive(),
        }
    }

    /// Returns whether the consumer's clauses run at a hit: `own` is the probe of the provider `dtrace` that fires, or
    /// `None` for any other probe. Probe context. Acquire, with the Release of `set_activity`: the state of the run is
    /// visible.
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

    /// Returns the state of the run. Called in probe context after [`takes`](Self::takes) has returned true, or with
    /// the framework locked.
    pub(crate) fn state(&self) -> Option<&'static RunState> {
        // SAFETY: `give_state` changes the state only while the consumer is stopped, after every CPU has left probe
        // context, and with the framework locked. So no thread writes it now.
        self.state.with(|state| unsafe { *state })
    }

    /// Sets the state of its run.
    ///
    /// # Safety
    /// The consumer has stopped, and every CPU has been outside of probe context since. The framework is locked.
    pub(crate) unsafe fn give_state(&self, state: Option<&'static RunState>) {
        // SAFETY: no CPU uses the state, by the contract of this function.
        self.state.with_mut(|cell| unsafe { *cell = state });
    }

    pub(crate) fn activity(&self) -> Activity {
        Activity::from_number(self.activity.load(Ordering::Acquire))
    }

    /// Returns the location of the activity's number.
    pub(crate) const fn activity_word(&self) -> &AtomicU32 {
        &self.activity
    }

    pub(crate) fn set_activity(&self, activity: Activity) {
        self.activity.store(activity as u32, Ordering::Release);
    }

    /// Changes the activity from `from` to `to`; does nothing if the current activity is not `from`.
    pub(crate) fn change_activity(&self, from: Activity, to: Activity) {
        let (from, to) = (from as u32, to as u32);
        let _ = self.activity.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Ends the run, as D's `exit()` does. Returns `false` if the run has already ended. Probe context.
    #[cold]
    pub(crate) fn exit(&self) -> bool {
        let next = |now| match Activity::from_number(now) {
            Activity::Warmup | Activity::Active => Some(Activity::Draining as u32),
            Activity::Cooldown => Some(now),
            Activity::Inactive | Activity::Draining | Activity::Stopped | Activity::Killed => None,
        };
        self.activity.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use sdt_core::ops::Privileges;

    use super::*;

    #[test]
    fn rights_become_access() {
        let access = |rights| {
            let consumer = Consumer::closed();
            consumer.restrict(rights);
            consumer.access()
        };
        assert_eq!(access(Rights::ALL), Access::ALL);
        let user = access(Rights::new(Privileges::USER));
        assert!(user.process && user.args && !user.kernel && !user.control);
        assert!(access(Rights::new(Privileges::USER).with_destructive()).control);
    }
}
