//! The provider once it is registered, and batches of changes.

use core::sync::atomic::Ordering;

use sdt_core::ops::ProviderId;

use super::arch;
use super::sites::Sites;
use super::text::FunctionText;
use crate::base::sync::{AtomicBool, AtomicUsize};

/// The provider.
pub(crate) struct Functions {
    /// Whether a thread registers the provider, or has registered it.
    pub(super) is_claimed: AtomicBool,
    pub(super) table: spin::Once<Table>,
    /// The number of threads that change many probes, and synchronise all CPUs afterwards.
    batches: AtomicUsize,
    /// The number of stores to text.
    stores: AtomicUsize,
}

/// The provider, once it is registered.
pub(super) struct Table {
    pub(super) provider: ProviderId,
    pub(super) text: &'static dyn FunctionText,
    pub(super) sites: Sites,
}

impl Functions {
    pub(crate) const fn new() -> Self {
        Self {
            is_claimed: AtomicBool::new(false),
            table: spin::Once::new(),
            batches: AtomicUsize::new(0),
            stores: AtomicUsize::new(0),
        }
    }

    /// Returns the provider, if it is registered. On other architectures there is none, and the compiler leaves out the code that
    /// would use it. Probe context.
    #[inline]
    pub(super) fn get(&self) -> Option<&Table> {
        if arch::IS_SUPPORTED { self.table.get() } else { None }
    }

    /// Runs `change`, and then makes all CPUs execute the text that it changed.
    pub(crate) fn batch<R>(&self, change: impl FnOnce() -> R) -> R {
        self.batches.fetch_add(1, Ordering::AcqRel);
        let before = self.stores.load(Ordering::Acquire);
        let result = change();
        self.batches.fetch_sub(1, Ordering::AcqRel);
        if self.stores.load(Ordering::Acquire) != before {
            self.synchronise();
        }
        result
    }

    /// Notes that text has changed; makes all CPUs execute it, unless a thread does so at the end of its batch.
    pub(super) fn stored(&self) {
        self.stores.fetch_add(1, Ordering::AcqRel);
        if self.batches.load(Ordering::Acquire) == 0 {
            self.synchronise();
        }
    }

    fn synchronise(&self) {
        if let Some(table) = self.get() {
            table.text.patcher().synchronise();
        }
    }
}
