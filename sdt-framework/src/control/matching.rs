//! Matching a description in portions, so that the framework's lock is not held for long.

use dtrace_abi::spec::Spec;

use crate::base::host::Host;
use crate::control::Control;
use crate::control::error::ConsumerError;
use crate::control::tables::Tables;

/// The number of probes that are compared while the framework is locked once.
pub(crate) const BATCH: usize = 64;

impl<H: Host> Control<H> {
    /// Calls `f` for every probe that a description matches, with the framework locked. If more than [`BATCH`] probes can
    /// match, the lock is released after each batch.
    pub(crate) fn for_each_match(
        &self,
        spec: &Spec,
        mut f: impl FnMut(&mut Tables, usize) -> Result<(), ConsumerError>,
    ) -> Result<(), ConsumerError> {
        {
            let mut tables = self.tables.lock();
            let few =
                tables.registry.candidates(spec).filter(|candidates| candidates.len() <= BATCH);
            if let Some(few) = few {
                let few: heapless::Vec<usize, BATCH> = few.iter().take(BATCH).collect();
                for at in few {
                    if tables.registry.matches(at, spec) {
                        f(&mut tables, at)?;
                    }
                }
                return Ok(());
            }
        }
        let mut from = 0;
        loop {
            let mut tables = self.tables.lock();
            let to = tables.registry.probes_used().min(from + BATCH);
            for at in from..to {
                if tables.registry.matches(at, spec) {
                    f(&mut tables, at)?;
                }
            }
            if to == tables.registry.probes_used() {
                return Ok(());
            }
            from = to;
        }
    }
}
