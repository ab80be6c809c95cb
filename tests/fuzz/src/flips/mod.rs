//! Real modules, changed at random. The stand-in kernel's loaders load the modules that pass the check, or refuse them
//! as the real ones would. A module that would make a real kernel panic must not pass, and a loaded module is compared
//! with the unchanged one.

mod change;
mod meaning;

use std::collections::BTreeMap;
use std::fmt;

use cargo_sdt::internal::check::{self, Against};
pub use stand_in_freebsd::loader::Machine;

use crate::edit::{FREEBSD, ILLUMOS};
use crate::{krtld, loader};
pub use meaning::Difference;
use meaning::Meaning;

/// The kernel that a module is for.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// FreeBSD, of a machine and a major release.
    FreeBsd(Machine, u32),
    /// illumos.
    Illumos,
}

/// A module that is changed.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name in messages.
    pub name: String,
    /// The kernel that it is for.
    pub kind: Kind,
    /// Its file.
    pub file: Vec<u8>,
}

/// The modules that are kept for fuzzing, which have no seal.
pub fn subjects() -> Vec<Subject> {
    let subject =
        |name: &str, kind, file: &[u8]| Subject { name: name.into(), kind, file: file.to_vec() };
    let freebsd = ["FreeBSD, x86_64", "FreeBSD, aarch64", "FreeBSD, riscv64"];
    let freebsd = freebsd.into_iter().zip(FREEBSD);
    let freebsd =
        freebsd.map(|(name, &(machine, file))| subject(name, Kind::FreeBsd(machine, 15), file));
    let illumos = ["illumos", "illumos, own provider", "illumos, companion", "illumos, in C"];
    let illumos = illumos.into_iter().zip(ILLUMOS);
    let illumos = illumos.map(|(name, &(_, file))| subject(name, Kind::Illumos, file));
    freebsd.chain(illumos).collect()
}

/// The results for the changed modules.
#[derive(Debug, Default)]
pub struct Tally {
    /// Number of changed modules.
    pub changes: usize,
    /// Number of changed modules that the check passed.
    pub passed: usize,
    /// Number of changed modules that would have made a real kernel panic, passed or not.
    pub dangerous: usize,
    /// The changes of modules that the check passed, and that the kernel does not load as they were.
    pub different: BTreeMap<Difference, Vec<String>>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { changes, passed, dangerous, different } = self;
        write!(f, "{changes} changes: {dangerous} would have panicked; {passed} passed the check")?;
        different.iter().try_for_each(|(what, all)| write!(f, ", {what:?}: {}", all.len()))
    }
}

impl Subject {
    /// Makes `changes` copies of the module with one change each, and judges them.
    ///
    /// # Panics
    /// The check or the loader refuses the module without a change.
    pub fn run(&self, seed: u64, changes: usize) -> Tally {
        assert_eq!(self.loads(&self.file), Ok(()), "{}", self.name);
        assert!(self.passes(&self.file), "{}", self.name);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tally = Tally::default();
        while tally.changes < changes {
            let mut file = self.file.clone();
            let what = change::change(&mut random, &mut file);
            if file == self.file {
                continue;
            }
            tally.changes += 1;
            let loaded = self.loads(&file);
            let panics = matches!(&loaded, Err((_, true)));
            tally.dangerous += usize::from(panics);
            if !self.passes(&file) {
                continue;
            }
            tally.passed += 1;
            let different = match loaded {
                Ok(()) => Meaning::difference(self.kind, &self.file, &file),
                Err((said, true)) => Some((Difference::Panic, said)),
                // A kernel refuses it, too.
                Err((_, false)) => None,
            };
            if let Some((difference, at)) = different {
                tally.different.entry(difference).or_default().push(format!("{what}: {at}"));
            }
        }
        tally
    }

    fn passes(&self, file: &[u8]) -> bool {
        match self.kind {
            Kind::FreeBsd(..) => check::freebsd_module(file, Against::default()).is_ok(),
            Kind::Illumos => check::illumos_module(file, Against::default()).is_ok(),
        }
    }

    /// Loads a file into a kernel of its own. The error is the reason, and whether the real kernel would have panicked.
    fn loads(&self, file: &[u8]) -> Result<(), (String, bool)> {
        match self.kind {
            Kind::FreeBsd(machine, major) => loader::load_alone(machine, major, file)
                .map_err(|refusal| (refusal.to_string(), refusal.would_have_panicked())),
            Kind::Illumos => krtld::load_alone(file)
                .map_err(|refusal| (refusal.to_string(), refusal.would_have_panicked())),
        }
    }
}
